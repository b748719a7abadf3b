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
  private let permits = Atomic<Int>(0)
  private let passed = Atomic<Int>(0)

  /// Creates a gate that is open.
  public init() {}

  /// Shuts the gate: threads that reach it from now on wait.
  public func shut() { isShut.store(true, ordering: .sequentiallyConsistent) }

  /// Opens the gate and lets all waiting threads continue.
  public func open() { isShut.store(false, ordering: .sequentiallyConsistent) }

  /// Lets one of those that wait continue, or the next one that comes, while the gate stays shut.
  public func letOnePass() { permits.add(1, ordering: .sequentiallyConsistent) }

  /// The number of threads and tasks that have continued although the gate was shut.
  public var passedCount: Int { passed.load(ordering: .sequentiallyConsistent) }

  /// Returns at once if the gate is open, and waits while it is shut.
  @available(*, noasync, message: "it blocks a thread that other tests need: use passSuspended()")
  public func pass() {
    guard isShut.load(ordering: .sequentiallyConsistent) else { return }
    waiting.add(1, ordering: .sequentiallyConsistent)
    var isPermitted = false
    while isShut.load(ordering: .sequentiallyConsistent), !isPermitted {
      sched_yield()
      isPermitted = takePermit()
    }
    end(isPermitted)
  }

  /// Waits like `pass()`, but suspends the caller's task.
  public func passSuspended() async {
    guard isShut.load(ordering: .sequentiallyConsistent) else { return }
    waiting.add(1, ordering: .sequentiallyConsistent)
    var isPermitted = false
    while isShut.load(ordering: .sequentiallyConsistent), !isPermitted {
      await Task.yield()
      isPermitted = takePermit()
    }
    end(isPermitted)
  }

  private func takePermit() -> Bool {
    let count = permits.load(ordering: .sequentiallyConsistent)
    guard count > 0 else { return false }
    return permits.compareExchange(expected: count, desired: count - 1, ordering: .sequentiallyConsistent).exchanged
  }

  /// Ends a wait. One that has continued alone is counted when it waits no more.
  private func end(_ isPermitted: Bool) {
    waiting.subtract(1, ordering: .sequentiallyConsistent)
    if isPermitted { passed.add(1, ordering: .sequentiallyConsistent) }
  }

  /// The number of threads and tasks that wait at the gate.
  public var waitingCount: Int { waiting.load(ordering: .sequentiallyConsistent) }

  /// Returns once `count` threads wait at the same time.
  @available(*, noasync, message: "it blocks a thread that other tests need: use the asynchronous form")
  public func waitUntilHeld(_ count: Int = 1) { while waitingCount < count { sched_yield() } }

  /// Returns once `count` threads and tasks wait at the same time.
  public func waitUntilHeld(_ count: Int = 1) async { while waitingCount < count { await Task.yield() } }
}
