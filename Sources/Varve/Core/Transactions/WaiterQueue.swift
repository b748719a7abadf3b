/// Who waits for the writer, in order of arrival.
///
/// Adding, taking the first, and taking one out of the middle cost the same however many wait, up to a binary search:
/// places are emptied, and closed up when half of them are empty.
struct WaiterQueue {
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

  private struct Location {
    let number: UInt64
    var waiter: Waiter?
  }

  private var locations: [Location] = []
  /// Everything before it is empty.
  private var first = 0
  private(set) var count = 0
  /// How many places are kept, empty ones among them.
  var locationCount: Int { locations.count }

  mutating func append(_ waiter: Waiter) {
    locations.append(Location(number: waiter.number, waiter: waiter))
    count += 1
  }

  /// Puts back a waiter that was taken as the first.
  mutating func putBack(_ waiter: Waiter) {
    let location = Location(number: waiter.number, waiter: waiter)
    if first > 0 {
      first -= 1
      locations[first] = location
    } else {
      locations.insert(location, at: 0)
    }
    count += 1
  }

  mutating func popFirst() -> Waiter? {
    if count == 0 { return nil }
    defer { closeUp() }
    while first < locations.count {
      first += 1
      if let waiter = take(first - 1) { return waiter }
    }
    return nil
  }

  /// Takes out the one with a number; nil where it is not there any more.
  mutating func remove(_ number: UInt64) -> Waiter? {
    defer { closeUp() }
    var low = first
    var high = locations.count
    while low < high {
      let middle = low + (high - low) / 2
      if locations[middle].number < number { low = middle + 1 } else { high = middle }
    }
    guard low < locations.count, locations[low].number == number else { return nil }
    return take(low)
  }

  /// Takes out those whose deadline has come.
  mutating func removeAll(dueAt now: ContinuousClock.Instant) -> [Waiter] {
    defer { closeUp() }
    var due: [Waiter] = []
    for index in locations[first...].indices where locations[index].waiter?.deadline.map({ $0 <= now }) == true {
      if let waiter = take(index) { due.append(waiter) }
    }
    return due
  }

  mutating func removeAll() -> [Waiter] {
    defer { self = WaiterQueue() }
    return locations[first...].compactMap(\.waiter)
  }

  /// The first deadline of those that wait.
  var earliestDeadline: ContinuousClock.Instant? { locations[first...].lazy.compactMap(\.waiter?.deadline).min() }

  private mutating func take(_ index: Int) -> Waiter? {
    guard let waiter = locations[index].waiter.take() else { return nil }
    count -= 1
    return waiter
  }

  private mutating func closeUp() {
    guard locations.count > 32, count * 2 < locations.count else { return }
    locations = locations[first...].filter { $0.waiter != nil }
    first = 0
  }
}
