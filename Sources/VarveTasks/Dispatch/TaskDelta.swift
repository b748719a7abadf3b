public import Varve

/// What one commit means for the tasks that are next.
public struct TaskDelta: Sendable {
  struct Timer: Sendable {
    let id: TaskID
    var key: [UInt8]
    let due: Int64
    /// Nil: the time of day counts.
    let deadline: Duration?
  }

  /// Tasks that came to a line.
  var entries: [(line: LineID, entry: LineEntry)] = []
  var timers: [Timer] = []
  /// Lines to which more came than `entries` has, and from which key on.
  var more: [LineID: [UInt8]] = [:]
  /// From which key on more timers came than `timers` has; nil: none.
  var moreTimers: [UInt8]?
  /// Tasks that left a line.
  var removed: [(line: LineID, id: TaskID, key: [UInt8])] = []
  /// Tasks that others depend on from now on.
  var parents: [TaskID] = []
  /// Tasks whose children are to be looked at.
  var pending: [TaskID] = []
  /// Tasks that run and are to be cancelled.
  var cancelled: [TaskID] = []
  var names: [(name: QueueName, queue: TaskNames.Queue)] = []
  /// An id of which the disk knows that it and all before it may have been given.
  var lastID: UInt64 = 0
  /// Whether tasks of a copy of a database are run from now on.
  var releasesAll = false
  /// Tasks that no claim takes while the transaction runs.
  var hold: TaskHold?

  var isEmpty: Bool {
    entries.isEmpty && timers.isEmpty && removed.isEmpty && cancelled.isEmpty && names.isEmpty && lastID == 0
      && parents.isEmpty && pending.isEmpty && !releasesAll
      && hold == nil
  }
}

/// Tasks that a transaction is changing: no claim takes them until it has ended.
final class TaskHold: Sendable {
  private let dispatcher: TaskDispatcher
  private let ids: Set<TaskID>

  init(_ dispatcher: TaskDispatcher, _ ids: Set<TaskID>) {
    self.dispatcher = dispatcher
    self.ids = ids
  }

  deinit { dispatcher.release(ids) }
}
