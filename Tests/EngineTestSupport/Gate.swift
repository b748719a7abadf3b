internal import Synchronization

#if canImport(Darwin)
  internal import Darwin
#elseif canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#endif

/// A gate at which threads wait while it is shut. Tests use it to stop a thread at a chosen point.
///
/// The gate is open at first. Safe from any thread.
public final class Gate: Sendable {
  private let isShut = Atomic<Bool>(false)
  private let waiting = Atomic<Int>(0)

  /// Creates a gate that is open.
  public init() {}

  /// Shuts the gate: threads that reach it from now on wait.
  public func shut() { isShut.store(true, ordering: .sequentiallyConsistent) }

  /// Opens the gate and lets all waiting threads continue.
  public func open() { isShut.store(false, ordering: .sequentiallyConsistent) }

  /// Returns at once if the gate is open, and waits while it is shut.
  public func pass() {
    guard isShut.load(ordering: .sequentiallyConsistent) else { return }
    waiting.add(1, ordering: .sequentiallyConsistent)
    while isShut.load(ordering: .sequentiallyConsistent) { sched_yield() }
    waiting.subtract(1, ordering: .sequentiallyConsistent)
  }

  /// Waits like `pass()`, but suspends the caller's task.
  public func passSuspended() async {
    guard isShut.load(ordering: .sequentiallyConsistent) else { return }
    waiting.add(1, ordering: .sequentiallyConsistent)
    while isShut.load(ordering: .sequentiallyConsistent) { await Task.yield() }
    waiting.subtract(1, ordering: .sequentiallyConsistent)
  }

  /// The number of threads and tasks that wait at the gate.
  public var waitingCount: Int { waiting.load(ordering: .sequentiallyConsistent) }

  /// Returns once `count` threads wait at the same time.
  public func waitUntilHeld(_ count: Int = 1) { while waitingCount < count { sched_yield() } }
}
