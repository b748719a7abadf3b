internal import Dispatch
internal import Synchronization

#if canImport(Darwin)
  internal import Darwin
#elseif canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#endif

/// A gate at which threads and tasks wait while it is shut. Tests use it to stop a thread at a chosen point.
///
/// A thread that waits sleeps, so many of them take no processor from what a test does meanwhile. The gate is open at
/// first. Safe from any thread.
public final class Gate: Sendable {
  private enum Waiter {
    case thread(DispatchSemaphore)
    case task(CheckedContinuation<Void, Never>)

    func resume() {
      switch self {
      case .thread(let semaphore): semaphore.signal()
      case .task(let continuation): continuation.resume()
      }
    }
  }

  private struct State {
    var isShut = false
    var waiters: [Waiter] = []
    var permits = 0
    var passed = 0

    /// Adds a waiter unless the gate is open or has a permit. Returns whether the waiter has to wait.
    mutating func waits(_ waiter: Waiter) -> Bool {
      guard isShut else { return false }
      if permits > 0 {
        permits -= 1
        passed += 1
        return false
      }
      waiters.append(waiter)
      return true
    }
  }

  private let state = Mutex(State())

  /// Creates a gate that is open.
  public init() {}

  /// Shuts the gate: threads that reach it from now on wait.
  public func shut() { state.withLock { $0.isShut = true } }

  /// Opens the gate and lets all waiting threads continue.
  public func open() {
    let waiters = state.withLock { state in
      state.isShut = false
      defer { state.waiters = [] }
      return state.waiters
    }
    for waiter in waiters { waiter.resume() }
  }

  /// Lets one of those that wait continue, or the next one that comes, while the gate stays shut.
  public func letOnePass() {
    let first: Waiter? = state.withLock { state in
      guard !state.waiters.isEmpty else {
        state.permits += 1
        return nil
      }
      state.passed += 1
      return state.waiters.removeFirst()
    }
    first?.resume()
  }

  /// The number of threads and tasks that have continued although the gate was shut.
  public var passedCount: Int { state.withLock { $0.passed } }

  /// Returns at once if the gate is open, and waits while it is shut.
  @available(*, noasync, message: "it blocks a thread that other tests need: use passSuspended()")
  public func pass() {
    let semaphore = DispatchSemaphore(value: 0)
    if state.withLock({ $0.waits(.thread(semaphore)) }) { semaphore.wait() }
  }

  /// Waits like `pass()`, but suspends the caller's task.
  public func passSuspended() async {
    await withCheckedContinuation { continuation in
      if !state.withLock({ $0.waits(.task(continuation)) }) { continuation.resume() }
    }
  }

  /// The number of threads and tasks that wait at the gate.
  public var waitingCount: Int { state.withLock { $0.waiters.count } }

  /// Returns once `count` threads wait at the same time.
  @available(*, noasync, message: "it blocks a thread that other tests need: use the asynchronous form")
  public func waitUntilHeld(_ count: Int = 1) { while waitingCount < count { sched_yield() } }

  /// Returns once `count` threads and tasks wait at the same time.
  public func waitUntilHeld(_ count: Int = 1) async { while waitingCount < count { await Task.yield() } }
}
