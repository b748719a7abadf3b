/// The effects of a commit of the scheduler on subqueues and timers, besides the attempts that it begins and ends.
struct SchedulerDelta: Sendable {
  var entries: [(subqueue: SubqueueID, entry: QueuedTask)] = []
  var timers: [TimedTask] = []
  var removed: [(subqueue: SubqueueID, id: TaskID, key: [UInt8])] = []
  /// The rows of tasks that waited for a time, and do not wait for it any more.
  var removedTimers: [[UInt8]] = []
  /// The tasks some of whose children are left because the commit has changed the maximum number.
  var pending: [TaskID] = []
  /// The tasks some of whose children are left because transactions are changing them, or because they also wait for
  /// other tasks.
  var heldPending: [TaskID] = []
  /// The tasks that others depend on from now on.
  var parents: [TaskID] = []
  var names: [(name: QueueName, queue: TaskNames.Queue)] = []
  /// The attempts that must be cancelled.
  var cancelling: [TaskRun] = []
  /// The number of children that the commit might have changed besides those that it has.
  var childrenLeft = 0
  /// The tasks that have ended, and how.
  var ended: [(id: TaskID, end: TaskEnd)] = []
  /// The children that were cancelled.
  var cancelled: [TaskRecord] = []

  var isEmpty: Bool {
    entries.isEmpty && timers.isEmpty && removed.isEmpty && removedTimers.isEmpty && pending.isEmpty
      && heldPending.isEmpty && parents.isEmpty
      && names.isEmpty && cancelling.isEmpty
  }
}
