internal import Synchronization

/// A call that waits for a thread.
protocol QueuedCall: AnyObject, Sendable {
  /// Makes the call, unless it was cancelled.
  func run()
  /// Cancels the call, unless it has begun.
  func cancel()
}

/// A bounded number of threads for calls that may block, on behalf of tasks that must not.
///
/// The threads are separate from the background executor, because a call may wait for a flush, and the flush must
/// find a thread. Threads are started as calls need them, and end with the engine.
///
/// # Concurrency
/// Safe from any thread. `state` is locked alone; calls run outside of the lock.
final class CallThreads: Sendable {
  private struct State {
    var calls: [(any QueuedCall)?] = []
    /// The index of the first of `calls` that waits.
    var front = 0
    var threads: [EngineThread] = []
    var idleCount = 0
    var isShutDown = false
    var startedCount = 0

    mutating func takeFirst() -> (any QueuedCall)? {
      guard front < calls.count else { return nil }
      defer {
        calls[front] = nil
        front += 1
        if front * 2 >= calls.count {
          calls.removeFirst(front)
          front = 0
        }
      }
      return calls[front]
    }
  }

  private let countMaximum: Int
  private let state = Mutex(State())
  /// A word that changes whenever a thread may have work to do.
  private let word = Futex()

  init(countMaximum: Int) { self.countMaximum = countMaximum }

  /// The number of threads started so far.
  var count: Int { state.withLock { $0.startedCount } }

  /// The number of calls that wait for a thread.
  var waitingCount: Int { state.withLock { $0.calls.count - $0.front } }

  private enum Submission {
    case refused, queued, unthreaded
  }

  /// Runs `call` on one of the threads when one is free, or, with `canRunHere`, on the caller's thread if the system
  /// can't start any. Returns false, and does nothing, after `shutDown`, and without a thread.
  func submit(_ call: any QueuedCall, canRunHere: Bool = true) -> Bool {
    let submission = state.withLock { state -> Submission in
      guard !state.isShutDown else { return .refused }
      let waiting = state.calls.count - state.front + 1
      if waiting > state.idleCount && state.startedCount < countMaximum {
        if let thread = EngineThread(ifPossible: "varve-call-\(state.startedCount + 1)", body: { [self] in run() }) {
          state.startedCount += 1
          state.threads.append(thread)
        } else if state.startedCount == 0 {
          return .unthreaded
        }
      }
      state.calls.append(call)
      return .queued
    }
    switch submission {
    case .refused: return false
    case .unthreaded:
      guard canRunHere else { return false }
      call.run()
    case .queued:
      word.increment()
      word.wake()
    }
    return true
  }

  private func run() {
    while true {
      let seen = word.load()
      let (call, isShutDown) = state.withLock { state in
        let call = state.takeFirst()
        if call == nil && !state.isShutDown { state.idleCount += 1 }
        return (call, state.isShutDown)
      }
      if let call {
        call.run()
        continue
      }
      if isShutDown { return }
      word.wait(while: seen)
      state.withLock { $0.idleCount -= 1 }
    }
  }

  /// Refuses new calls, cancels those that wait, and returns when those that have begun have ended. If one of the
  /// threads itself calls this, that thread ends when it returns.
  func shutDown() {
    let (threads, waiting) = state.withLock { state in
      state.isShutDown = true
      defer {
        state.threads = []
        state.calls = []
        state.front = 0
      }
      return (state.threads, state.calls)
    }
    for call in waiting { call?.cancel() }
    word.increment()
    word.wakeAll()
    for thread in threads { thread.joinUnlessCurrent() }
  }

  /// Refuses new calls, and leaves the threads to end by themselves.
  func endWithoutWaiting() {
    let threads = state.withLock { state in
      state.isShutDown = true
      defer { state.threads = [] }
      return state.threads
    }
    word.increment()
    word.wakeAll()
    for thread in threads { thread.detach() }
  }
}
