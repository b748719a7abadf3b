#if canImport(Darwin)
  internal import Darwin
#elseif canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#endif
internal import Synchronization

/// Turns the delays of many small commits into few sleeps.
///
/// A commit owes a microsecond or two, and no system sleeps that short. So what is owed adds up, and
/// whoever makes it worth a sleep, sleeps it. Safe from any thread.
final class WritePace: Sendable {
  private static let sleepMinimum: UInt64 = 200_000
  private let owed = Atomic<UInt64>(0)

  func wait(_ nanoseconds: UInt64) {
    let total = owed.wrappingAdd(nanoseconds, ordering: .relaxed).newValue
    guard total >= Self.sleepMinimum else { return }
    let mine = owed.exchange(0, ordering: .relaxed)
    guard mine > 0 else { return }
    var time = timespec()
    time.tv_sec = Int(mine / 1_000_000_000)
    time.tv_nsec = Int(mine % 1_000_000_000)
    unsafe _ = nanosleep(&time, nil)
  }
}
