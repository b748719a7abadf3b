internal import Synchronization

/// An object that syncs the log for tasks: the engine.
protocol LogSyncer: AnyObject, Sendable {
  /// The thread that syncs the log for tasks. No other call runs on it, so no call delays a sync.
  var syncThread: CallThreads { get }
  /// Syncs the log; see `EngineCore.syncLog`.
  func syncLog(through position: LogPosition) throws(EngineError)
}

/// Tasks that wait until their commits are durable. One call on a thread of the engine syncs the log for all of them.
///
/// A task that comes while the log is being synced waits for the next sync, which begins as soon as that one has ended.
/// So eight tasks that commit with the durability `.power` share a sync, and the thread sleeps only when no task waits.
///
/// # Concurrency
/// Safe from any thread. Tasks are resumed outside of the lock, each of them once.
final class SyncWaiters: QueuedCall {
  fileprivate struct Waiter {
    let number: UInt64
    let position: LogPosition
    /// The engine, which the waiting tasks keep open.
    let engine: any LogSyncer
    let continuation: CheckedContinuation<EngineError?, Never>
  }

  fileprivate struct State {
    var waiters: [Waiter] = []
    var lastNumber: UInt64 = 0
    /// A Boolean value that indicates whether the call is queued or runs.
    var isQueued = false
    /// The numbers of tasks that were cancelled before they waited.
    var canceled: Set<UInt64> = []
  }

  private let state = Mutex(State())

  /// The number of tasks that wait for a sync that has not begun.
  var count: Int { state.withLock { $0.waiters.count } }

  /// Returns when the log is durable up to `position`.
  ///
  /// Throws `.outcomeUnknown` if the sync failed, and `.canceled` if the engine was closed before the sync began.
  func wait(through position: LogPosition, _ engine: any LogSyncer) async throws(EngineError) {
    let number = state.withLock { $0.takeNumber() }
    let error = await withCheckedContinuation { continuation in
      add(Waiter(number: number, position: position, engine: engine, continuation: continuation))
    }
    if let error { throw error }
  }

  /// Waits like `wait`, and throws `.canceled` also if the task is cancelled before the sync began.
  func waitUnlessCanceled(through position: LogPosition, _ engine: any LogSyncer) async throws(EngineError) {
    let number = state.withLock { $0.takeNumber() }
    let error = await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        add(Waiter(number: number, position: position, engine: engine, continuation: continuation))
      }
    } onCancel: {
      cancel(number)
    }
    state.withLock { _ = $0.canceled.remove(number) }
    if let error { throw error }
  }

  private static var canceledError: EngineError {
    EngineError(
      .canceled, "the wait was canceled before the sync began: its task was canceled, or the engine was closed")
  }

  private func add(_ waiter: Waiter) {
    let (isCanceled, isFirst) = state.withLock { state in
      if state.canceled.contains(waiter.number) { return (true, false) }
      state.waiters.append(waiter)
      defer { state.isQueued = true }
      return (false, !state.isQueued)
    }
    if isCanceled { return waiter.continuation.resume(returning: Self.canceledError) }
    if isFirst, !waiter.engine.syncThread.submit(self) { cancel() }
  }

  private func cancel(_ number: UInt64) {
    let waiter = state.withLock { state -> Waiter? in
      guard let index = state.waiters.firstIndex(where: { $0.number == number }) else {
        state.canceled.insert(number)
        return nil
      }
      return state.waiters.remove(at: index)
    }
    waiter?.continuation.resume(returning: Self.canceledError)
  }

  // MARK: - The call

  func run() {
    while true {
      let group = state.withLock { $0.takeGroup() }
      if group.isEmpty { return }
      Self.serve(group)
    }
  }

  private static func serve(_ group: [Waiter]) {
    guard let furthest = group.map(\.position).max() else { return }
    do throws(EngineError) {
      try group[0].engine.syncLog(through: furthest)
      for waiter in group { waiter.continuation.resume(returning: nil) }
    } catch {
      // Entries that are not durable were logged again where that was possible, so the other commits may be durable by
      // now.
      for waiter in group {
        waiter.continuation.resume(returning: waiter.position == furthest ? error : outcome(of: waiter))
      }
    }
  }

  private static func outcome(of waiter: Waiter) -> EngineError? {
    do throws(EngineError) {
      try waiter.engine.syncLog(through: waiter.position)
      return nil
    } catch {
      return error
    }
  }

  /// Ends all waits, because the engine is closed and no thread takes the call.
  func cancel() {
    let group = state.withLock { state in
      state.isQueued = false
      return state.takeGroup()
    }
    for waiter in group { waiter.continuation.resume(returning: Self.canceledError) }
  }
}

extension SyncWaiters.State {
  fileprivate mutating func takeNumber() -> UInt64 {
    lastNumber += 1
    return lastNumber
  }

  /// Returns all waiting tasks. The call ends if there are none.
  fileprivate mutating func takeGroup() -> [SyncWaiters.Waiter] {
    defer { waiters = [] }
    if waiters.isEmpty { isQueued = false }
    return waiters
  }
}
