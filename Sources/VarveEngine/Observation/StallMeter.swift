internal import Synchronization

/// The reason for which a writer waits.
public enum StallCause: String, Sendable, Hashable, Codable, CaseIterable {
  /// The maximum number of memtables waits to be flushed: the writer waits for a flush.
  case frozenMemTables
  /// Flushes and compactions are late, and the write controller slows writers down.
  case writeController
  /// The next segment of the log is not ready.
  case logSegment
}

/// Counts the waits of writers for one cause, and reports them to listeners.
///
/// Safe from any thread.
final class StallMeter: Sendable {
  let cause: StallCause
  private let clock: any EngineClock
  private let events: EventQueue
  private let count = Atomic<UInt64>(0)
  private let total = Atomic<UInt64>(0)
  private let waiting = Atomic<Int>(0)

  init(_ cause: StallCause, clock: any EngineClock, events: EventQueue) {
    self.cause = cause
    self.clock = clock
    self.events = events
  }

  /// Runs `body`, and counts it as a wait.
  func measure<R, E: Error>(_ body: () throws(E) -> R) throws(E) -> R {
    let start = clock.now()
    if waiting.wrappingAdd(1, ordering: .relaxed).oldValue == 0 { events.emit(.stallBegan(cause)) }
    defer {
      let now = clock.now()
      let taken = now > start ? now - start : 0
      add(taken)
      if waiting.wrappingSubtract(1, ordering: .relaxed).newValue == 0 {
        events.emit(.stallEnded(cause, nanoseconds: taken))
      }
    }
    return try body()
  }

  /// Counts a wait that the caller has timed.
  func add(_ nanoseconds: UInt64) {
    count.wrappingAdd(1, ordering: .relaxed)
    total.wrappingAdd(nanoseconds, ordering: .relaxed)
  }

  var stallCount: UInt64 { count.load(ordering: .relaxed) }
  var totalNanoseconds: UInt64 { total.load(ordering: .relaxed) }
}
