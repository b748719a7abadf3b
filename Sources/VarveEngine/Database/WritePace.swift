internal import Synchronization

/// Turns the delays of many small commits into few sleeps.
///
/// A commit owes a microsecond or two, and no system sleeps that short. So what is owed adds up, and
/// whoever makes it worth a sleep, sleeps it. Safe from any thread.
final class WritePace: Sendable {
  private static let sleepMinimum: UInt64 = 200_000
  private let owed = Atomic<UInt64>(0)

  func wait(_ nanoseconds: UInt64, _ clock: any EngineClock) {
    let total = owed.wrappingAdd(nanoseconds, ordering: .relaxed).newValue
    guard total >= Self.sleepMinimum else { return }
    let mine = owed.exchange(0, ordering: .relaxed)
    if mine > 0 { clock.sleep(mine) }
  }
}
