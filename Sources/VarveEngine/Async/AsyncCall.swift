internal import Synchronization

/// One call of a task, which a thread of the engine runs.
///
/// # States
///
/// ```
/// made ─▶ waiting ─▶ begun (the task is resumed with the result)
///   ╰────────┴─▶ canceled (the task is resumed with `.canceled`, and the call is never made)
/// ```
///
/// # Concurrency
/// The task, the thread and the caller that cancels synchronize by `state`. The task is resumed outside of its lock,
/// once.
final class AsyncCall<Value: Sendable>: QueuedCall {
  private typealias Continuation = CheckedContinuation<Result<Value, EngineError>, Never>

  private enum State {
    case made(@Sendable () throws(EngineError) -> Value)
    case waiting(@Sendable () throws(EngineError) -> Value, Continuation)
    case begun
    case canceled
  }

  private let state: Mutex<State>

  private init(_ body: @escaping @Sendable () throws(EngineError) -> Value) { state = Mutex(.made(body)) }

  /// Makes the call on one of the threads, and suspends the task meanwhile.
  ///
  /// Throws `.canceled`, without making the call, if the task is canceled before the call began, or if the engine
  /// closed.
  static func run(
    on threads: CallThreads, _ body: @escaping @Sendable () throws(EngineError) -> Value
  ) async throws(EngineError) -> Value {
    let call = AsyncCall(body)
    let result = await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        guard call.wait(continuation) else { return continuation.resume(returning: .failure(Self.canceledError)) }
        if !threads.submit(call) { call.cancel() }
      }
    } onCancel: {
      call.cancel()
    }
    return try result.get()
  }

  private static var canceledError: EngineError {
    EngineError(.canceled, "the call was canceled before it began: its task was canceled, or the engine was closed")
  }

  /// Stores the continuation. Returns false if the call was canceled already.
  private func wait(_ continuation: Continuation) -> Bool {
    state.withLock { state in
      guard case .made(let body) = state else { return false }
      state = .waiting(body, continuation)
      return true
    }
  }

  func run() {
    let taken = state.withLock { state -> (@Sendable () throws(EngineError) -> Value, Continuation)? in
      guard case .waiting(let body, let continuation) = state else { return nil }
      state = .begun
      return (body, continuation)
    }
    guard let (body, continuation) = taken else { return }
    let result: Result<Value, EngineError>
    do throws(EngineError) { result = .success(try body()) } catch { result = .failure(error) }
    continuation.resume(returning: result)
  }

  func cancel() {
    let continuation = state.withLock { state -> Continuation? in
      switch state {
      case .made:
        state = .canceled
        return nil
      case .waiting(_, let continuation):
        state = .canceled
        return continuation
      case .begun, .canceled: return nil
      }
    }
    continuation?.resume(returning: .failure(Self.canceledError))
  }
}
