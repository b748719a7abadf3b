/// Who waits for the writer, in order of arrival.
///
/// Adding, taking the first, and taking one out of the middle cost the same however many wait, up to a binary search:
/// places are emptied, and closed up when half of them are empty.
struct WaiterLine {
  struct Waiter: Sendable {
    /// Larger than that of those before it.
    let number: UInt64
    let label: String?
    /// When someone else has to end its wait; nil where it looks after that itself.
    let deadline: ContinuousClock.Instant?
    /// Whether it is called when the writer is free, and then takes it; else it is handed the writer.
    var isCalled = false
    let wake: @Sendable (WriterQueue.Outcome) -> Void
  }

  private struct Place {
    let number: UInt64
    var waiter: Waiter?
  }

  private var places: [Place] = []
  /// Everything before it is empty.
  private var first = 0
  private(set) var count = 0
  /// How many places are kept, empty ones among them.
  var placeCount: Int { places.count }

  mutating func append(_ waiter: Waiter) {
    places.append(Place(number: waiter.number, waiter: waiter))
    count += 1
  }

  /// Puts back a waiter that was taken as the first.
  mutating func putBack(_ waiter: Waiter) {
    let place = Place(number: waiter.number, waiter: waiter)
    if first > 0 {
      first -= 1
      places[first] = place
    } else {
      places.insert(place, at: 0)
    }
    count += 1
  }

  mutating func popFirst() -> Waiter? {
    if count == 0 { return nil }
    defer { closeUp() }
    while first < places.count {
      first += 1
      if let waiter = take(first - 1) { return waiter }
    }
    return nil
  }

  /// Takes out the one with a number; nil where it is not there any more.
  mutating func remove(_ number: UInt64) -> Waiter? {
    defer { closeUp() }
    var low = first
    var high = places.count
    while low < high {
      let middle = low + (high - low) / 2
      if places[middle].number < number { low = middle + 1 } else { high = middle }
    }
    guard low < places.count, places[low].number == number else { return nil }
    return take(low)
  }

  /// Takes out those whose deadline has come.
  mutating func removeAll(dueAt now: ContinuousClock.Instant) -> [Waiter] {
    defer { closeUp() }
    var due: [Waiter] = []
    for index in places[first...].indices where places[index].waiter?.deadline.map({ $0 <= now }) == true {
      if let waiter = take(index) { due.append(waiter) }
    }
    return due
  }

  mutating func removeAll() -> [Waiter] {
    defer { self = WaiterLine() }
    return places[first...].compactMap(\.waiter)
  }

  /// The first deadline of those that wait.
  var earliestDeadline: ContinuousClock.Instant? { places[first...].lazy.compactMap(\.waiter?.deadline).min() }

  private mutating func take(_ index: Int) -> Waiter? {
    guard let waiter = places[index].waiter.take() else { return nil }
    count -= 1
    return waiter
  }

  private mutating func closeUp() {
    guard places.count > 32, count * 2 < places.count else { return }
    places = places[first...].filter { $0.waiter != nil }
    first = 0
  }
}
