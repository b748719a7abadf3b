internal import Synchronization

/// Combines the delays of many small commits into few pauses.
///
/// A commit owes a microsecond or two, and no system sleeps that briefly. So the debt accumulates, and the caller that
/// raises it to the minimum pauses. A pause lasts longer than requested; the excess is credited to the next commits.
///
/// Safe from any thread.
final class WritePace: Sendable {
  /// The debt in nanoseconds from which a pause is worth its system call.
  ///
  /// The slowest of ten thousand puts is one that pauses; short pauses keep its time below that of a disk write.
  private static let pauseMinimum: Int64 = 40_000
  /// The maximum that is credited after a long pause; more would allow a burst of writes.
  private static let creditMaximum: Int64 = 1_000_000
  /// The debt in nanoseconds, or a credit if negative.
  private let owed = Atomic<Int64>(0)

  func wait(_ nanoseconds: UInt64, _ clock: any EngineClock, _ stalls: StallMeter) {
    let delay = Int64(clamping: nanoseconds)
    let total = owed.wrappingAdd(delay, ordering: .relaxed).newValue
    guard total >= Self.pauseMinimum else { return }
    let mine = owed.exchange(0, ordering: .relaxed)
    if mine > 0 {
      let start = clock.now()
      clock.pause(UInt64(mine))
      let taken = Int64(clamping: clock.now() - start)
      stalls.add(UInt64(max(taken, 0)))
      owed.wrappingAdd(max(mine - taken, -Self.creditMaximum), ordering: .relaxed)
    } else {
      // The value is a credit that another thread was given in the meantime.
      owed.wrappingAdd(mine, ordering: .relaxed)
    }
  }
}
