internal import Varve

extension TaskScheduler {
  /// Returns how a task has ended, when it has.
  ///
  /// ```swift
  /// let id = try await database.write { tx in try tx.enqueue(Export(month: 5)) }.id
  /// guard try await scheduler.end(of: id) == .done else { return }
  /// ```
  /// The call waits without polling. It may be made in any process that runs the task, for a task that was enqueued by
  /// any transaction that is committed, by the inbox, or before a restart. A task that fails, waits or is parked has
  /// not ended. One that is dead has, although it may be revived: the call returns at its first end.
  ///
  /// The ends of the last 4,096 tasks that have ended since the database was opened are known. One that had ended
  /// before is found only if the database has kept it; otherwise the result is `.forgotten`. For a task that is done,
  /// `TaskOptions.retention` decides whether it is kept, and with it the result of its handler.
  ///
  /// If no scheduler runs, the call waits for one. Throws `TaskError.unknownTask` for an id that was never assigned,
  /// `TaskError.invalidValue` in the handler of the task itself, `CancellationError` if the caller's Swift task is
  /// cancelled, `DatabaseError.closed` if `stop()` is called or the database is closed before the task has ended, and
  /// the errors of a commit. A handler must not wait for a task that depends on its own.
  public func end(of id: TaskID) async throws -> TaskEnd {
    if let run = ownRun, run.id == id {
      throw TaskError.invalidValue("the handler of task \(id) can't wait for the end of this task")
    }
    guard dispatcher.isKnown(id) else { throw TaskError.unknownTask(id) }
    let waiter = dispatcher.ends.add(id)
    defer { dispatcher.ends.remove(waiter) }
    // Unlike a read, an independent commit sees all commits that were acknowledged.
    let stored = try await database.commitIndependently(label: "tasks: end") { parts in
      try Self.end(of: id, in: try TaskParts(parts))
    }
    if waiter.end == nil, let stored { return stored == .forgotten ? await recentEnd(of: id, waiter) : stored }
    let end = try await waiter.wait()
    // The caller may look at the task, or at what its handler has written.
    try await readAcknowledged(database) { _ in }
    return end
  }

  /// Returns how a task has ended that the database does not have any more.
  private func recentEnd(of id: TaskID, _ waiter: EndWaiter) async -> TaskEnd {
    // A commit that was just made notes the ends of its tasks before it lets the next one begin.
    await commitMutex.lock()
    commitMutex.unlock()
    return waiter.end ?? dispatcher.ends.recent(id) ?? .forgotten
  }

  /// Returns how a task has ended, or `nil` if it has not.
  private static func end(of id: TaskID, in parts: TaskParts) throws -> TaskEnd? {
    // A dead head of a serial queue is still queued.
    if let (state, _) = try parts.position(of: id) { return TaskEnd(state) }
    return try parts.endedRecord(id).flatMap { TaskEnd($0.record.progress.state) } ?? .forgotten
  }
}
