/// The errors that calls of tasks throw, besides `DatabaseError`.
public enum TaskError: Error, Hashable, Sendable, CustomStringConvertible {
  /// A payload was enqueued in a version that the program does not read.
  case unsupportedVersion(kind: String, found: UInt16, expected: UInt16)
  /// The attempt is not the one that the database records as running: it has timed out, was cancelled, or was completed
  /// already.
  case leaseLost(TaskID)
  /// The call requires a task that is not running, and the task runs.
  case taskRunning(TaskID)
  /// The call requires a task in another state.
  case wrongState(TaskID, TaskState, call: String)
  /// The task does not exist.
  case unknownTask(TaskID)
  /// A scheduler is already running the tasks of this database: this one or another.
  case alreadyRunning(path: String)
  /// A value is larger than its limit. `unit` is what both numbers count: `bytes`, or for example `tags`.
  case tooLarge(what: String, size: Int, limit: Int, unit: String = "bytes")
  /// A value can't be used.
  case invalidValue(String)
  /// The unique key is taken by this task.
  case duplicate(of: TaskID)
  /// The queue has the maximum number of waiting tasks (`QueueRules.maxWaiting`).
  case queueFull(QueueName, limit: Int)
  /// The queue accepts no further tasks because it is being drained.
  case queueDraining(QueueName)
  /// Two handlers would receive the same tasks.
  case overlappingHandlers(kind: String, QueueSelector, QueueSelector)
  /// The database has no tasks: neither a scheduler nor `TaskStorage.handle` was registered.
  case notRegistered

  /// A sentence that describes the error.
  public var description: String {
    switch self {
    case .unsupportedVersion(let kind, let found, let expected):
      "payload \"\(kind)\" has version \(found), and the program reads version \(expected)"
    case .leaseLost(let id): "task \(id) does not run in this attempt any more"
    case .taskRunning(let id): "task \(id) is running"
    case .wrongState(let id, let state, let call): "task \(id) is \(state), and can't be changed by \(call)"
    case .unknownTask(let id): "task \(id) does not exist"
    case .alreadyRunning(let path): "a scheduler (this one or another) is already running the tasks of \(path)"
    case .tooLarge(let what, let size, let limit, let unit):
      "\(what) has \(size) \(unit), and may have \(limit) at most"
    case .invalidValue(let text): text
    case .duplicate(let id): "the key of the task is that of task \(id)"
    case .queueFull(let queue, let limit): "queue \"\(queue)\" has \(limit) waiting tasks, which is its limit"
    case .queueDraining(let queue): "queue \"\(queue)\" is being drained, and takes no tasks until it is resumed"
    case .overlappingHandlers(let kind, let first, let second):
      "payload \"\(kind)\" has a handler for \(first) and another for \(second), and some queue belongs to both"
    case .notRegistered:
      "the database has no tasks: open a TaskScheduler with it, or add TaskStorage.handle to its definition"
    }
  }
}
