internal import Synchronization

#if canImport(Darwin)
  internal import Darwin
#elseif canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#endif

/// A gate where threads wait while it is shut: how a test stops one at a point of its choice.
///
/// Open at first. Safe from any thread.
public final class Gate: Sendable {
  private let isShut = Atomic<Bool>(false)
  private let waiting = Atomic<Int>(0)

  /// A gate that is open.
  public init() {}

  /// From now on threads wait.
  public func shut() { isShut.store(true, ordering: .sequentiallyConsistent) }

  /// Lets all go on.
  public func open() { isShut.store(false, ordering: .sequentiallyConsistent) }

  /// Returns while the gate is open, and waits while it is shut.
  public func pass() {
    guard isShut.load(ordering: .sequentiallyConsistent) else { return }
    waiting.add(1, ordering: .sequentiallyConsistent)
    while isShut.load(ordering: .sequentiallyConsistent) { sched_yield() }
    waiting.subtract(1, ordering: .sequentiallyConsistent)
  }

  /// How many threads wait now.
  public var waitingCount: Int { waiting.load(ordering: .sequentiallyConsistent) }

  /// Returns when so many threads wait at the same time.
  public func waitUntilHeld(_ count: Int = 1) { while waitingCount < count { sched_yield() } }
}
