public import Foundation
public import Varve

/// # Conflicts
/// The scheduler changes tasks beside the program's transactions. A transaction that cancels, wakes, revives, edits or deletes a task
/// which has moved since the transaction began throws `DatabaseError.conflict` when it commits, and has changed nothing: it may be tried
/// again. Enqueueing does so only where it replaces the payload of a unique task that waits. Where many tasks are meant, or queues that run, the calls of `TaskScheduler` do not throw it.
extension WriteTransaction {
  /// Adds a task to a queue: it may run when the transaction has been committed, and is not there where that is rolled back.
  ///
  /// Among the tasks of a queue smaller priorities run first, then smaller sort keys, then earlier commits, and in one commit
  /// those that were enqueued earlier. The result has its identity, which the transaction may use at once; where the task is unique
  /// (`TaskOptions.unique`) it may be that of another one.
  ///
  /// Throws `TaskError.tooLarge`, `.invalidValue`, `.duplicate`, `.queueFull`, `.queueDraining`, `.unknownTask` for one that it depends
  /// on, `.notRegistered`, and what `payload` throws.
  ///
  /// Complexity: two entries, and no read; for a unique task one look, and two looks and two entries for each that it depends on.
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

  /// Adds several tasks, which run in their order. Throws as `enqueue(_:_:)`; tasks before the one that throws are enqueued.
  @discardableResult
  public func enqueue<Payload: TaskPayload>(
    contentsOf payloads: some Sequence<Payload>, _ options: TaskOptions = Payload.defaults
  ) throws -> [EnqueueResult] {
    try payloads.map { try enqueue($0, options) }
  }

  /// Adds a task that runs when all tasks of its group have ended, however they did, and calls `members` with the group, which
  /// is the id of that task, to enqueue these. A group without any runs its last task at once.
  ///
  /// ```swift
  /// let group = try tx.enqueueGroup(Report(month: 5)) { group in
  ///   var options = Import.defaults
  ///   options.group = group
  ///   for file in files { try tx.enqueue(Import(file: file), options) }
  /// }
  /// ```
  /// A task of the group may enqueue others of it, while it runs, as may anyone while one of them has not ended. Returns the group.
  ///
  /// Throws as `enqueue(_:_:)`, and what `members` throws; then nothing was enqueued.
  @discardableResult
  public func enqueueGroup<Payload: TaskPayload>(
    _ last: Payload, _ options: TaskOptions = Payload.defaults, members: (TaskID) throws -> Void
  ) throws -> TaskID {
    let tasks = try tasks
    let bytes = try Array(last.encoded())
    return try savepoint { try tasks.enqueueGroup(Payload.kind, version: Payload.version, bytes, options, members) }
  }

  /// Gives a task that waits another payload of the same kind. Throws `TaskError.taskRunning`, `.wrongState` for one that has ended,
  /// `.unknownTask`, `.invalidValue` for another kind, and `.tooLarge`.
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

  /// Gives a task that waits another priority. Throws as `edit(_:payload:)`.
  public func edit(_ id: TaskID, priority: UInt8) throws {
    try tasks.edit(id) { record, _ in record.position.priority = priority }
  }

  /// Lets a task that waits for a time, or for its turn, wait for another time. One that is parked, blocked, or the head of a serial
  /// queue stays as it is. Throws as `edit(_:payload:)`, and `.invalidValue` for a negative duration, or `.parked`.
  public func edit(_ id: TaskID, start: Start) throws {
    if case .parked = start { throw TaskError.invalidValue("a task is parked by its handler, or when it is enqueued") }
    if case .after(let delay) = start, delay < .zero {
      throw TaskError.invalidValue("a start after \(delay) is negative")
    }
    try tasks.edit(id) { record, now in
      let draft = TaskDraft(start, now: now)
      guard !record.position.isFront, [.ready, .scheduled, .retryWait].contains(record.progress.state) else { return }
      (record.progress.state, record.position.kind) = (draft.state, draft.kind)
      (record.position.due, record.delay) = (draft.due, draft.delay)
    }
  }

  /// Cancels tasks. One that waits is gone; the handler of one that runs receives a cancellation when the transaction has been committed, and is cancelled
  /// when its handler returns without success. Returns how many tasks that concerns: none of those that have ended.
  ///
  /// Complexity: O(tasks of the query); `.queue` looks at all tasks that wait for a time.
  @discardableResult
  public func cancel(_ query: TaskQuery) throws -> Int {
    let tasks = try tasks
    return try tasks.ids(query).count { try tasks.cancel($0) }
  }

  /// Makes tasks ready that are parked, or wait for a time. Returns how many were; those in other states stay as they are, and
  /// dead ones too: see `revive(_:)`.
  @discardableResult
  public func retryNow(_ query: TaskQuery) throws -> Int {
    let tasks = try tasks
    return try tasks.ids(query).count { try tasks.wake($0) }
  }

  /// Makes tasks ready that wait for a signal. Returns how many did.
  ///
  /// Complexity: O(tasks that wait for it).
  @discardableResult
  public func signal(_ signal: WakeSignal) throws -> Int {
    let tasks = try tasks
    return try tasks.ids(signal).count { try tasks.wake($0) }
  }

  /// Queues dead and cancelled tasks again, with at least one attempt left; they do not belong to a group any more, which has counted
  /// them. Returns how many there were. A unique task whose key another one has is left out; of a query that names it by its id the call
  /// throws `TaskError.duplicate`.
  @discardableResult
  public func revive(_ query: TaskQuery) throws -> Int {
    let tasks = try tasks
    return try tasks.ids(query).count { query.id == nil ? try tasks.reviveIfFree($0) : try tasks.revive($0) }
  }

  /// Deletes tasks that do not run, those that have ended as well; tasks that depend on one of them run. Returns how many there were.
  /// `.unique` takes back the key also where its task is gone, which counts as one. Throws `TaskError.taskRunning` where one runs.
  @discardableResult
  public func delete(_ query: TaskQuery) throws -> Int {
    let tasks = try tasks
    let count = try tasks.ids(query).count { try tasks.delete($0) }
    return try count > 0 || !tasks.forgetKey(query) ? count : 1
  }

  /// From the commit on no task of a queue is started, also after a restart, until `resume`. Those that run continue.
  public func pause(_ queue: QueueName) throws { try tasks.change(queue) { $0.isPaused = true } }

  /// From now on a queue takes no tasks: enqueueing throws `TaskError.queueDraining`, also after a restart, until `resume`. Those that
  /// it has are run.
  public func drain(_ queue: QueueName) throws { try tasks.change(queue) { $0.isDraining = true } }

  /// Lets the tasks of a copy of a database run, from the commit on. A backup has the tasks that the database had, which that runs:
  /// so a copy starts none of them, and no schedule, until this is called. Returns false where they are not held.
  @discardableResult
  public func releaseTasks() throws -> Bool { try tasks.releaseAll() }

  /// Tasks of a queue are started again, and it takes tasks again.
  public func resume(_ queue: QueueName) throws {
    try tasks.change(queue) { ($0.isPaused, $0.isDraining) = (false, false) }
  }
}

extension ReadTransaction {
  /// A task; nil where it does not exist, or has gone.
  public func task(_ id: TaskID) throws -> TaskInfo? { try tasks.info(id) }

  /// The tasks of a query, those of a queue in the order in which they run; at most so many.
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

  /// How far a group of tasks is; nil where it has gone.
  public func taskGroup(_ id: TaskID) throws -> TaskGroupInfo? { try tasks.group(id) }

  /// Whether a queue is paused, and whether it is being drained.
  public func taskQueueState(_ queue: QueueName) throws -> (isPaused: Bool, isDraining: Bool) {
    try tasks.queue(queue).map { ($0.isPaused, $0.isDraining) } ?? (false, false)
  }

  /// Whether no task is started because the database is a copy: see `WriteTransaction.releaseTasks()`.
  public var areTasksHeld: Bool { get throws { try tasks.areHeld } }

  /// How many tasks of a queue are in a state. Those that run count as what they were before. Complexity: one look.
  public func taskCount(in queue: QueueName, _ state: TaskState) throws -> Int { try tasks.taskCount(queue, state) }

  /// The queues that have ever had a task.
  public func taskQueues() throws -> [QueueName] {
    try TaskNames(tasks.config).queues.keys.sorted()
  }

  /// What tasks are in this transaction.
  var tasks: TaskStorageTransaction {
    get throws {
      do { return try self[TaskStorage.handle] } catch let error as DatabaseError where error.code == .unknownExtension
      {
        throw TaskError.notRegistered
      }
    }
  }
}
