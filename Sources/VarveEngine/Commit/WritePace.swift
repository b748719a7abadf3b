internal import Synchronization

/// Turns the delays of many small commits into few pauses.
///
/// A commit owes a microsecond or two, and no system sleeps that short. So what is owed adds up, and
/// whoever makes it worth a pause, takes it. A pause lasts longer than was asked for; what was too much is
/// credited to the next commits. Safe from any thread.
final class WritePace: Sendable {
  /// Nanoseconds from which a pause is worth its system call. The worst of ten thousand puts is one that
  /// pauses: short pauses keep that below what a write to a disk costs.
  private static let pauseMinimum: Int64 = 40_000
  /// After a long pause no more than this is credited, or writes would come in a burst.
  private static let creditMaximum: Int64 = 1_000_000
  /// Nanoseconds; negative: a credit.
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
      // A credit that another thread was given meanwhile.
      owed.wrappingAdd(mine, ordering: .relaxed)
    }
  }
}
