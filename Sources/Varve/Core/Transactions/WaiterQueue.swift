/// The callers that wait for the writer, in order of arrival.
///
/// Adding a waiter, removing the first, and removing one from the middle cost the same however many wait, except for a
/// binary search: locations are emptied, and compacted once more than half of them are empty.
struct WaiterQueue {
  struct Waiter: Sendable {
    /// The number of the waiter, which is higher than those of the waiters before it.
    let number: UInt64
    let label: String?
    /// The deadline at which the queue has to end the wait, or `nil` if the waiter handles its timeout itself.
    let deadline: ContinuousClock.Instant?
    /// Whether the waiter is called when the writer is free, and then acquires it; otherwise it is handed the writer.
    var isCalled = false
    let wake: @Sendable (WriterQueue.Outcome) -> Void
  }

  private struct Location {
    let number: UInt64
    var waiter: Waiter?
  }

  private var locations: [Location] = []
  /// The index before which all locations are empty.
  private var first = 0
  private(set) var count = 0
  /// The number of locations, including empty ones.
  var locationCount: Int { locations.count }

  mutating func append(_ waiter: Waiter) {
    locations.append(Location(number: waiter.number, waiter: waiter))
    count += 1
  }

  /// Puts back a waiter that was removed as the first.
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

  /// Removes and returns the waiter with a number, or returns `nil` if it is not in the queue any more.
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

  /// Removes and returns the waiters whose deadline has passed.
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

  /// The earliest deadline of the waiters.
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
