internal import Synchronization

/// The callers that wait for the ends of tasks, and the last ends of tasks.
///
/// The code that commits the end of a task calls `notify` after the commit. A caller is added before it looks up its
/// task, so it either sees the end there or is notified. Safe from any thread.
final class TaskEnds: Sendable {
  private let waiters = Mutex<[TaskID: [EndWaiter]]>([:])
  private let recent = Mutex<[(id: TaskID, end: TaskEnd)]>([])

  /// The number of last ends that are known, if the ids of the tasks follow each other. An end takes the place of that
  /// of a task whose id has the same remainder.
  static let recentMaximum: UInt64 = 4_096

  /// Returns how a task has ended, if that is one of the last ends in this process.
  ///
  /// A task that was revived, and has not ended again, still has its first end here.
  func recent(_ id: TaskID) -> TaskEnd? {
    recent.withLock { recent in
      if recent.isEmpty { return nil }
      let known = recent[Int(id.rawValue % Self.recentMaximum)]
      return known.id == id ? known.end : nil
    }
  }

  private func note(_ ends: [(id: TaskID, end: TaskEnd)]) {
    recent.withLock { recent in
      if recent.isEmpty {
        // No task has the id 0.
        recent = Array(repeating: (TaskID(rawValue: 0), .forgotten), count: Int(Self.recentMaximum))
      }
      for end in ends { recent[Int(end.id.rawValue % Self.recentMaximum)] = end }
    }
  }

  /// The number of callers that wait.
  var count: Int { waiters.withLock { $0.values.reduce(0) { $0 + $1.count } } }

  /// Adds a caller that waits for the end of a task.
  func add(_ id: TaskID) -> EndWaiter {
    let waiter = EndWaiter(id)
    waiters.withLock { $0[id, default: []].append(waiter) }
    return waiter
  }

  /// Removes a caller that does not wait any more.
  func remove(_ waiter: EndWaiter) {
    waiters.withLock { waiters in
      waiters[waiter.id]?.removeAll { $0 === waiter }
      if waiters[waiter.id]?.isEmpty == true { waiters[waiter.id] = nil }
    }
  }

  /// Resumes the callers that wait for some tasks, whose ends are committed.
  func notify(_ ends: [(id: TaskID, end: TaskEnd)]) {
    if ends.isEmpty { return }
    note(ends)
    let resumed = waiters.withLock { waiters -> [(EndWaiter, TaskEnd)] in
      if waiters.isEmpty { return [] }
      return ends.flatMap { id, end in (waiters.removeValue(forKey: id) ?? []).map { ($0, end) } }
    }
    for (waiter, end) in resumed { waiter.resolve(.success(end)) }
  }

  /// Resumes all callers with an error.
  func fail(_ error: any Error) {
    let all = waiters.withLock { waiters in
      defer { waiters = [:] }
      return waiters.values.flatMap { $0 }
    }
    for waiter in all { waiter.resolve(.failure(error)) }
  }
}

/// A caller that waits for the end of a task.
final class EndWaiter: Sendable {
  private struct State {
    var result: Result<TaskEnd, any Error>?
    var continuation: CheckedContinuation<TaskEnd, any Error>?
  }

  let id: TaskID
  private let state = Mutex(State())

  init(_ id: TaskID) { self.id = id }

  /// The end of the task if it has arrived.
  var end: TaskEnd? { state.withLock { try? $0.result?.get() } }

  /// Sets the result. The first one counts.
  func resolve(_ result: Result<TaskEnd, any Error>) {
    let continuation = state.withLock { state in
      if state.result == nil { state.result = result }
      return state.continuation.take()
    }
    continuation?.resume(with: result)
  }

  /// Returns the result when it has arrived, or throws `CancellationError`.
  func wait() async throws -> TaskEnd {
    try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation { continuation in
        let result = state.withLock { state in
          if state.result == nil { state.continuation = continuation }
          return state.result
        }
        if let result { continuation.resume(with: result) }
      }
    } onCancel: {
      resolve(.failure(CancellationError()))
    }
  }
}
