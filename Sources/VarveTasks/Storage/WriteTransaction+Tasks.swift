internal import Foundation
public import Varve

/// Calls that enqueue and change tasks.
///
/// # Conflicts
/// The scheduler changes tasks concurrently with the program's transactions. A transaction that cancels, wakes,
/// revives, edits or deletes a task whose state has changed since the transaction began throws `DatabaseError.conflict`
/// when it commits, and changes nothing; it may be tried again. Enqueueing conflicts only if it replaces the payload of
/// a unique task that waits, or makes a queue that a concurrent commit makes, too. Queries of tasks and queues cause no
/// conflict.
///
/// `cancel` and `retryNow` of a selection, such as all tasks of a queue, do not conflict with tasks of the selection
/// that begin, end or become due meanwhile: `cancel` cancels these after the commit, like tasks that run, and
/// `retryNow` leaves them as they are. Still, such a transaction holds the writer for as long as it changes the tasks.
/// For many tasks, and for queues that run, use the calls of `TaskScheduler`, which do not hold the writer, and never
/// throw this error.
extension WriteTransaction {
  /// Adds a task to a queue. The task may run after the transaction has been committed, and does not exist if the
  /// transaction is rolled back.
  ///
  /// The tasks of a queue run by ascending priority, then by ascending sort key, then in the order of their commits,
  /// and within one commit in the order in which they were enqueued. The result has the id of the task, which the
  /// transaction may use at once. If the task is unique (`TaskOptions.unique`), it may be the id of another task.
  ///
  /// `options` replace the defaults of the payload (`TaskPayload.defaults`) as a whole. To change some of them, pass a
  /// closure: `tx.enqueue(payload) { $0.priority = 10 }`.
  ///
  /// Throws `TaskError.tooLarge`, `.invalidValue`, `.duplicate`, `.queueFull`, `.queueDraining`, `.notRegistered`,
  /// `.unknownTask` for a task that this one depends on, and the errors of encoding the payload.
  ///
  /// Complexity: two writes and no read. A unique task needs one read in addition, or two if it is a duplicate, and
  /// each task that it depends on two reads and two writes.
  @discardableResult
  public func enqueue<Payload: TaskPayload>(_ payload: Payload, _ options: TaskOptions = Payload.defaults) throws
    -> EnqueueResult
  {
    let tasks = try tasks
    let data = try payload.encoded()
    // Safety: the bytes are copied while they are lent.
    let bytes = unsafe data.withUnsafeBytes { unsafe [UInt8]($0) }
    guard let middleware = tasks.dispatcher.middleware else {
      return try tasks.enqueue(Payload.kind, version: Payload.version, bytes, options)
    }
    var options = options
    try middleware.enqueuing(Payload.kind, &options, in: self)
    return try tasks.enqueue(Payload.kind, version: Payload.version, bytes, options)
  }

  /// Adds several tasks, which run in their order.
  ///
  /// Throws as `enqueue(_:_:)` does; the tasks before the one that throws are enqueued.
  @discardableResult
  public func enqueue<Payload: TaskPayload>(
    contentsOf payloads: some Sequence<Payload>, _ options: TaskOptions = Payload.defaults
  ) throws -> [EnqueueResult] {
    try payloads.map { try enqueue($0, options) }
  }

  /// Adds a task that runs when all tasks of its group have ended, with any outcome. Calls `members` to enqueue the
  /// tasks of the group.
  ///
  /// `members` receives the group, which is the id of the added task. A group without tasks runs its last task at once.
  ///
  /// ```swift
  /// let group = try tx.enqueueGroup(Report(month: 5)) { group in
  ///   for file in files { try tx.enqueue(Import(file: file)) { $0.group = group } }
  /// }
  /// ```
  /// A running task of the group may enqueue further tasks of it, and so may any transaction while one of the tasks has
  /// not ended. Returns the group.
  ///
  /// Throws as `enqueue(_:_:)` does, and the errors of `members`; then no task was enqueued.
  @discardableResult
  public func enqueueGroup<Payload: TaskPayload>(
    _ last: Payload, _ options: TaskOptions = Payload.defaults, members: (TaskID) throws -> Void
  ) throws -> TaskID {
    let tasks = try tasks
    let bytes = try Array(last.encoded())
    return try savepoint {
      var options = options
      try tasks.dispatcher.middleware?.enqueuing(Payload.kind, &options, in: self)
      return try tasks.enqueueGroup(Payload.kind, version: Payload.version, bytes, options, members)
    }
  }

  /// Replaces the payload of a task that waits by another one of the same kind.
  ///
  /// Throws `TaskError.taskRunning`, `.wrongState` for a task that has ended, `.unknownTask`, `.invalidValue` for
  /// another kind, and `.tooLarge`.
  public func edit<Payload: TaskPayload>(_ id: TaskID, payload: Payload) throws {
    let bytes = try Array(payload.encoded())
    try TaskDraft.check(Payload.kind, bytes, TaskOptions())
    try tasks.edit(id) { record, _ in
      if record.kind != Payload.kind {
        throw TaskError.invalidValue("task \(id) has kind \"\(record.kind)\", and the payload \"\(Payload.kind)\"")
      }
      (record.version, record.payload) = (Payload.version, bytes)
    }
  }

  /// Changes the priority of a task that waits. Throws as `edit(_:payload:)` does.
  public func edit(_ id: TaskID, priority: UInt8) throws {
    try tasks.edit(id) { record, _ in record.position.priority = priority }
  }

  /// Makes a task that waits for a time, or for its turn, wait for another time.
  ///
  /// A task that is parked or blocked, or waits at the head of a serial queue for its next attempt, stays as it is.
  /// Throws as `edit(_:payload:)` does, and `TaskError.invalidValue` for a negative duration, a date that is not
  /// finite, or `.parked`.
  public func edit(_ id: TaskID, start: Start) throws {
    if case .parked = start { throw TaskError.invalidValue("a task is parked by its handler, or when it is enqueued") }
    if let refusal = start.refusal { throw TaskError.invalidValue(refusal) }
    try tasks.edit(id) { record, now in
      let draft = TaskDraft(start, now: now)
      guard !record.position.isFront, [.ready, .scheduled, .retryWait].contains(record.progress.state) else { return }
      (record.progress.state, record.position.kind) = (draft.state, draft.kind)
      (record.position.due, record.delay) = (draft.due, draft.delay)
    }
  }

  /// Cancels tasks. Returns the number of tasks that wait or run, and are therefore cancelled.
  ///
  /// A task that waits is cancelled by the transaction. A task that runs is cancelled when its handler returns without
  /// success; its handler receives the cancellation after the commit. Tasks that have ended stay as they are.
  ///
  /// Complexity: O(tasks of the query). `.queue` also iterates over all tasks that wait for a time.
  @discardableResult
  public func cancel(_ query: TaskQuery) throws -> Int {
    let tasks = try tasks
    return try tasks.select(query).count { try tasks.cancelSelected($0) }
  }

  /// Makes tasks ready that are parked or wait for a time. Returns their number.
  ///
  /// Tasks in other states stay as they are, including dead ones: see `revive(_:)`.
  @discardableResult
  public func retryNow(_ query: TaskQuery) throws -> Int {
    let tasks = try tasks
    return try tasks.select(query).count { try !tasks.isLeft($0, unless: .parked) && tasks.wake($0) }
  }

  /// Makes the tasks ready that wait for a signal. Returns their number.
  ///
  /// Complexity: O(tasks that wait for the signal).
  @discardableResult
  public func signal(_ signal: WakeSignal) throws -> Int {
    let tasks = try tasks
    return try tasks.ids(signal).count { try tasks.wake($0) }
  }

  /// Queues dead and cancelled tasks again, with at least one attempt left. Returns their number.
  ///
  /// They no longer belong to a group, because the group has counted them already, and they no longer wait for the
  /// tasks that they depended on. A unique task whose key another task has is skipped, but if the query names a task by
  /// its id, the call throws `TaskError.duplicate` for it.
  @discardableResult
  public func revive(_ query: TaskQuery) throws -> Int {
    let tasks = try tasks
    return try tasks.select(query).count { id in
      if query.id != nil { return try tasks.revive(id) }
      return try !tasks.isLeft(id, unless: .dead) && tasks.reviveIfFree(id)
    }
  }

  /// Deletes tasks that do not run, including those that have ended. Returns their number.
  ///
  /// Tasks that depend on a deleted task run. A query by `.unique` also releases a key whose task no longer exists,
  /// which counts as one task. Throws `TaskError.taskRunning` if one of the tasks runs.
  @discardableResult
  public func delete(_ query: TaskQuery) throws -> Int {
    let tasks = try tasks
    let count = try tasks.ids(query).count { try tasks.delete($0) }
    return try count > 0 || !tasks.forgetKey(query) ? count : 1
  }

  /// Pauses a queue: from the commit on, none of its tasks is started, also after a restart, until `resume`.
  ///
  /// Tasks that run continue.
  public func pause(_ queue: QueueName) throws { try tasks.change(queue) { $0.isPaused = true } }

  /// Drains a queue: from now on, enqueueing throws `TaskError.queueDraining`, also after a restart, until `resume`.
  ///
  /// The tasks that the queue has are run.
  public func drain(_ queue: QueueName) throws { try tasks.change(queue) { $0.isDraining = true } }

  /// Lets the tasks of a copy of a database run, from the commit on. Returns false if they are not held.
  ///
  /// A backup has the tasks that the database had, and the database still runs these. Therefore a copy starts none of
  /// them, and no schedule, until this method is called.
  @discardableResult
  public func releaseTasks() throws -> Bool { try tasks.releaseAll() }

  /// Resumes a queue that was paused or drained: its tasks are started again, and it accepts tasks again.
  public func resume(_ queue: QueueName) throws {
    try tasks.change(queue) { ($0.isPaused, $0.isDraining) = (false, false) }
  }
}

extension ReadTransaction {
  /// Returns a task, or `nil` if it does not exist or no longer exists.
  public func task(_ id: TaskID) throws -> TaskInfo? { try tasks.info(id) }

  /// Returns the tasks of a query, at most `limit`. The tasks of a queue come in the order in which they run.
  public func tasks(_ query: TaskQuery, limit: Int = .max) throws -> [TaskInfo] {
    let tasks = try tasks
    var found: [TaskInfo] = []
    if limit < 1 { return found }
    try tasks.forEach(query) { record in
      found.append(try tasks.info(record))
      return found.count < limit
    }
    return found
  }

  /// Returns the progress of a group of tasks, or `nil` if the group no longer exists.
  public func taskGroup(_ id: TaskID) throws -> TaskGroupInfo? { try tasks.group(id) }

  /// The serial queues that wait because their first task is dead or parked, by name. A queue with limit keys is in the
  /// list once for each key that waits.
  ///
  /// Unlike `TaskScheduler.blockedQueues`, it also works in a program that runs no tasks, and does not know which rules
  /// the scheduler has: a queue that is not serial any more stays in the list.
  ///
  /// Complexity: one lookup for each queue, and for each limit key of its waiting tasks.
  public func blockedTaskQueues() throws -> [BlockedTaskQueue] { try tasks.blockedQueues() }

  /// Returns whether a queue is paused, and whether it is being drained.
  public func taskQueueState(_ queue: QueueName) throws -> (isPaused: Bool, isDraining: Bool) {
    try tasks.queue(queue).map { ($0.isPaused, $0.isDraining) } ?? (false, false)
  }

  /// Whether no task is started because the database is a copy: see `WriteTransaction.releaseTasks()`.
  public var areTasksHeld: Bool { get throws { try tasks.areHeld } }

  /// Returns the number of tasks of a queue that are in a state.
  ///
  /// Complexity: one lookup, and one for each running task at the first call in a transaction.
  public func taskCount(in queue: QueueName, _ state: TaskState) throws -> Int { try tasks.taskCount(queue, state) }

  /// Returns the names of the queues that tasks were ever enqueued to, or that were paused, drained or resumed, sorted.
  public func taskQueues() throws -> [QueueName] {
    try TaskNames(tasks.config).queues.keys.sorted()
  }

  /// Returns the queues that have a queued or parked task of a kind, of those for which `isWanted` returns true. A
  /// running task is queued, and so is the first task of a serial queue while it waits for its next attempt.
  ///
  /// Complexity: one lookup for each queue that has tasks there. In each of the wanted ones, it also iterates over the
  /// tasks up to the first one of the kind.
  @_spi(TaskQueue)
  public func taskQueues(
    withTasksOf kind: String, where isWanted: (QueueName) -> Bool
  ) throws -> Set<QueueName> { try tasks.queues(withTasksOf: kind, isWanted) }

  /// The object of the extension in this transaction. Throws `TaskError.notRegistered` if the extension is not
  /// registered.
  var tasks: TaskStorageTransaction {
    get throws {
      do { return try self[TaskStorage.handle] } catch let error as DatabaseError where error.code == .unknownExtension
      {
        throw TaskError.notRegistered
      }
    }
  }
}
