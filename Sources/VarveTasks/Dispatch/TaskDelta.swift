internal import Varve

/// The effect of one commit on the tasks that run next.
@_spi(Extensions) public struct TaskDelta: Sendable {
  /// The tasks that came into a subqueue.
  var entries: [(subqueue: SubqueueID, entry: QueuedTask)] = []
  var timers: [TimedTask] = []
  /// The subqueues into which more tasks came than `entries` has, each with the key from which on they are only on
  /// disk.
  var more: [SubqueueID: [UInt8]] = [:]
  /// The rows of tasks that waited for a time, and do not wait for it any more.
  var removedTimers: [[UInt8]] = []
  /// The key from which on timers were added that `timers` does not have, or `nil` if it has all.
  var moreTimers: [UInt8]?
  /// The tasks that left a subqueue.
  var removed: [(subqueue: SubqueueID, id: TaskID, key: [UInt8])] = []
  /// The tasks that others depend on from now on.
  var parents: [TaskID] = []
  /// The pairs of a running task and a task that depends on it.
  var waits: [(parent: TaskID, child: TaskID)] = []
  /// The tasks whose children must be examined.
  var pending: [TaskID] = []
  /// The tasks that have ended, and how.
  var ended: [(id: TaskID, end: TaskEnd)] = []
  /// The running tasks that must be cancelled.
  var cancelled: [TaskID] = []
  var names: [(name: QueueName, queue: TaskNames.Queue)] = []
  /// The id up to which the disk records that ids may have been assigned, or 0 if the commit does not record it.
  var lastID: UInt64 = 0
  /// Whether the tasks of a copy of a database run from now on.
  var releasesAll = false
  /// The hold on the tasks that the transaction is changing, or `nil` if it changes no existing task.
  var hold: Hold?

  var isEmpty: Bool {
    entries.isEmpty && timers.isEmpty && removed.isEmpty && removedTimers.isEmpty && cancelled.isEmpty && names.isEmpty
      && lastID == 0
      && parents.isEmpty && pending.isEmpty && !releasesAll && ended.isEmpty
      && hold == nil
  }
}

/// A hold on tasks that a transaction is changing: no claim takes them until the hold is released with this object.
final class Hold: Sendable {
  private let dispatcher: TaskDispatcher
  private let ids: Set<TaskID>

  init(_ dispatcher: TaskDispatcher, _ ids: Set<TaskID>) {
    self.dispatcher = dispatcher
    self.ids = ids
  }

  deinit { dispatcher.release(ids) }
}
