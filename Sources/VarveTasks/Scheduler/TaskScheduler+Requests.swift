internal import Synchronization
internal import Varve

/// Changes of many tasks, made concurrently with the program's transactions.
///
/// A transaction that changes tasks throws `DatabaseError.conflict` if one of them has changed its state since the
/// transaction began, as tasks do all the time. These methods do not: they select the tasks in a snapshot, and the
/// scheduler makes the changes in its own commits, each of at most 512 tasks. It reads each task again, and leaves out
/// one that is in another state than the query names, or does not wait for the signal any more. If one of these tasks
/// can't be read, the method throws `DatabaseError.corruption`, and none of the at most 512 is changed.
///
/// Use them for many tasks, and for queues that run. Use the methods of `WriteTransaction` for changes that belong to
/// other writes of a transaction. If the scheduler does not run, each 512 tasks are changed in one transaction.
extension TaskScheduler {
  /// Cancels tasks: see `WriteTransaction.cancel(_:)`. Returns their number.
  @discardableResult
  public func cancel(_ query: TaskQuery) async throws -> Int { try await make(.cancel, query) }

  /// Makes tasks ready that are parked or wait for a time: see `WriteTransaction.retryNow(_:)`. Returns their number.
  @discardableResult
  public func retryNow(_ query: TaskQuery) async throws -> Int { try await make(.wake, query) }

  /// Queues dead and cancelled tasks again: see `WriteTransaction.revive(_:)`. Returns their number.
  ///
  /// Tasks whose unique key another task has are skipped.
  @discardableResult
  public func revive(_ query: TaskQuery) async throws -> Int { try await make(.revive, query) }

  /// Deletes tasks: see `WriteTransaction.delete(_:)`. Returns their number.
  ///
  /// Tasks that run are skipped.
  @discardableResult
  public func delete(_ query: TaskQuery) async throws -> Int {
    let count = try await make(.delete, query)
    if count > 0 || query.uniqueKey == nil { return count }
    // No task has the unique key any more, so only the key is released.
    return try await database.write { tx in try tx.delete(query) }
  }

  /// Makes the tasks ready that wait for a signal: see `WriteTransaction.signal(_:)`. Returns their number.
  @discardableResult
  public func signal(_ signal: WakeSignal) async throws -> Int {
    try await make(.wake, try await database.read { tx in try tx.tasks.ids(signal) }, if: .signal(signal.text))
  }

  /// Pauses a queue, so that none of its tasks is started any more: see `WriteTransaction.pause(_:)`.
  public func pause(_ queue: QueueName) async throws { try await database.write { tx in try tx.pause(queue) } }

  /// Drains a queue, so that it accepts no further tasks: see `WriteTransaction.drain(_:)`.
  public func drain(_ queue: QueueName) async throws { try await database.write { tx in try tx.drain(queue) } }

  /// Resumes a queue, so that its tasks are started again: see `WriteTransaction.resume(_:)`.
  public func resume(_ queue: QueueName) async throws { try await database.write { tx in try tx.resume(queue) } }

  private func make(_ change: ChangeRequest.Change, _ query: TaskQuery) async throws -> Int {
    try await make(
      change, try await database.read { tx in try tx.tasks.ids(query) },
      if: query.states.map { ChangeRequest.Condition.states($0) })
  }

  private func make(
    _ change: ChangeRequest.Change, _ ids: [TaskID], if condition: ChangeRequest.Condition?
  ) async throws -> Int {
    var count = 0
    var rest = ids[...]
    while !rest.isEmpty {
      try Task.checkCancellation()
      let chunk = Array(rest.prefix(TurnWork.batchMaximum))
      rest = rest.dropFirst(chunk.count)
      guard state.withLock({ $0.isRunning }) else {
        count += try await writeHere(change, chunk, if: condition)
        continue
      }
      var left = chunk
      while !left.isEmpty {
        let answer = try await ask(change, left, if: condition)
        count += answer.count
        left = answer.remaining
        // A transaction is changing the tasks that are left.
        if !left.isEmpty { await Task.yield() }
      }
    }
    return count
  }

  private func ask(
    _ change: ChangeRequest.Change, _ ids: [TaskID], if condition: ChangeRequest.Condition?
  ) async throws -> ChangeRequest.Answer {
    try await withCheckedThrowingContinuation { continuation in
      let request = ChangeRequest(change, ids, if: condition, continuation)
      switch dispatcher.add(request) {
      case .none: request.fail(DatabaseError(.closed, "the scheduler has stopped"))
      case .some(let host): host?.wake()
      }
    }
  }

  /// Makes the changes in a transaction, because no scheduler runs the tasks.
  private func writeHere(
    _ change: ChangeRequest.Change, _ ids: [TaskID], if condition: ChangeRequest.Condition?
  ) async throws -> Int {
    try await database.write { tx in
      let tasks = try tx.tasks
      return try ids.count { id in
        if let condition, try !tasks.parts.holds(condition, id, isRunning: false) { return false }
        switch change {
        case .cancel, .cancelMissed: return try tasks.cancel(id)
        case .wake: return try tasks.wake(id)
        case .revive: return try tasks.reviveIfFree(id)
        case .delete: return try tasks.delete(id)
        }
      }
    }
  }
}
