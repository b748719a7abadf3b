public import Foundation
public import Varve

extension WriteTransaction {
  /// Adds a task to a queue: it may run when the transaction has been committed, and is not there where that is rolled back.
  ///
  /// Among the tasks of a queue smaller priorities run first, then smaller sort keys, then earlier commits, and in one commit
  /// those that were enqueued earlier. Returns its identity, which the transaction may use at once.
  ///
  /// Throws `TaskError.tooLarge` and `.invalidValue`, `.notRegistered`, and what `payload` throws.
  ///
  /// Complexity: two entries, and no read.
  @discardableResult
  public func enqueue<Payload: TaskPayload>(_ payload: Payload, _ options: TaskOptions = Payload.defaults) throws
    -> TaskID
  {
    try tasks.enqueue(Payload.kind, version: Payload.version, Array(payload.encoded()), options)
  }

  /// Adds several tasks, which run in their order. Throws as `enqueue(_:_:)`; tasks before the one that throws are enqueued.
  @discardableResult
  public func enqueue<Payload: TaskPayload>(
    contentsOf payloads: some Sequence<Payload>, _ options: TaskOptions = Payload.defaults
  ) throws -> [TaskID] {
    let tasks = try tasks
    return try payloads.map {
      try tasks.enqueue(Payload.kind, version: Payload.version, Array($0.encoded()), options)
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

  /// Queues dead and cancelled tasks again, with at least one attempt left. Returns how many there were.
  @discardableResult
  public func revive(_ query: TaskQuery) throws -> Int {
    let tasks = try tasks
    return try tasks.ids(query).count { try tasks.revive($0) }
  }

  /// Deletes tasks that do not run, those that have ended as well. Returns how many there were. Throws `TaskError.taskRunning`
  /// where one runs.
  @discardableResult
  public func delete(_ query: TaskQuery) throws -> Int {
    let tasks = try tasks
    return try tasks.ids(query).count { try tasks.delete($0) }
  }

  /// From the commit on no task of a queue is started, also after a restart, until `resume`. Those that run continue.
  public func pause(_ queue: QueueName) throws { try tasks.set(queue, isPaused: true) }

  /// Tasks of a queue are started again.
  public func resume(_ queue: QueueName) throws { try tasks.set(queue, isPaused: false) }
}

extension ReadTransaction {
  /// A task; nil where it does not exist, or has gone.
  public func task(_ id: TaskID) throws -> TaskInfo? { try tasks.info(id) }

  /// The tasks of a query, in their order.
  public func tasks(_ query: TaskQuery) throws -> [TaskInfo] {
    let tasks = try tasks
    return try tasks.ids(query).compactMap { try tasks.info($0) }
  }

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
