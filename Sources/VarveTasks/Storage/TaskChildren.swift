@_spi(Extensions) internal import Varve

/// Applies the end of a task to the tasks that depend on it, its children.
///
/// A child waits while it has rows of parents. A parent that ends removes its row of each child, and a child whose last
/// row is removed runs. One commit of the scheduler changes at most 512 children, however many parents end in it, and
/// none that a transaction is changing. If some are left, the same commit leaves a row `pending` in `config`, and the
/// scheduler continues with it. A transaction changes at most 512 children of each parent that it ends.
///
/// A transaction that commits while a scheduler runs also leaves to the scheduler those children that wait for other
/// tasks, too: those tasks may end concurrently with the transaction, and each of the two commits would have to see the
/// changes of the other.
struct TaskChildren {
  let parts: TaskParts
  private let openParents: OpenParents
  /// Returns whether a transaction is changing a task.
  let isHeld: (TaskID) -> Bool
  /// Lets a child run that waits for no other task.
  let run: (TaskRecord) throws -> Void
  /// Cancels a child, which deletes its rows.
  let cancel: (TaskRecord) throws -> Void
  /// Whether children that also wait for other tasks are left to the scheduler.
  let leavesShared: Bool
  /// The number of children that may still be changed.
  private(set) var budget: Int
  /// The tasks some of whose children are left because the commit has changed the maximum number.
  private(set) var pending: [TaskID] = []
  /// The tasks some of whose children are left because a transaction is changing them, or because they also wait for
  /// other tasks.
  private(set) var heldPending: [TaskID] = []

  init(
    _ parts: TaskParts, _ openParents: OpenParents, budget: Int = TurnWork.batchMaximum, leavesShared: Bool,
    isHeld: @escaping (TaskID) -> Bool, run: @escaping (TaskRecord) throws -> Void,
    cancel: @escaping (TaskRecord) throws -> Void
  ) {
    self.parts = parts
    self.budget = budget
    self.openParents = openParents
    self.leavesShared = leavesShared
    self.isHeld = isHeld
    self.run = run
    self.cancel = cancel
  }

  /// The part without checks at the commit, because the scheduler removes `pending` rows concurrently with a
  /// transaction all the time.
  private var config: Part { parts.config.unchecked }

  /// Transitions 6 and 7: applies the end of a task to its children.
  ///
  /// Deletes the `pending` row of the task if no child is left: by then, all its children have received the end.
  /// `first` is the first child that may be left. If the task `isForgotten`, those that would stay blocked run: no call
  /// could let them run later.
  mutating func settle(
    _ id: TaskID, as state: TaskState, from first: TaskID = TaskID(rawValue: 0), isForgotten: Bool = false
  ) throws {
    var ended = [(id: id, state: state, first: first)]
    while let (parent, state, first) = ended.popLast() {
      // The first child that is left now. Those that stay blocked may be very many, and are passed once.
      var left: TaskID?
      var range = StorageRange(prefix: TaskKeys.child(of: parent))
      range.lower = TaskKeys.child(of: parent, first)
      var cursor = try parts.live.cursor(range)
      while let (key, value) = try cursor.next() {
        let child = try TaskKeys.id(of: key, at: 9)
        let rule = state == .done ? .runAnyway : value.first.flatMap(ParentFailure.init(rawValue:)) ?? .stayBlocked
        if rule == .stayBlocked, !isForgotten || parent != id { continue }
        if budget == 0 || isHeld(child) {
          left = left ?? child
          if budget == 0 { break }
          continue
        }
        // The read is not checked at the commit, because the other parent may end at any time.
        if leavesShared, rule == .runAnyway, try openParents.hasOther(than: parent, of: child, in: parts.live.unchecked)
        {
          left = left ?? child
          continue
        }
        budget -= 1
        if rule == .cancel {
          guard let record = try parts.record(child) else { continue }
          try cancel(record)
          ended.append((child, .cancelled, TaskID(rawValue: 0)))
          continue
        }
        try parts.live.delete(key)
        try parts.live.delete(TaskKeys.parent(of: child, parent))
        if try openParents.hasOther(than: parent, of: child, in: parts.live) { continue }
        guard let record = try parts.record(child), record.progress.state == .blocked else { continue }
        try run(record)
      }
      if let left {
        try config.put(ConfigKeys.pending(parent), ConfigKeys.pending(state, from: left))
        if budget == 0 { pending.append(parent) } else { heldPending.append(parent) }
      } else if try config.get(ConfigKeys.pending(parent)) != nil {
        try config.delete(ConfigKeys.pending(parent))
      }
    }
  }

  /// Continues to apply the end of a task to its children, if the task has a `pending` row and has ended.
  mutating func resume(_ id: TaskID) throws {
    guard let value = try parts.config.get(ConfigKeys.pending(id)) else { return }
    var state: TaskState?
    if let known = value.first.flatMap(TaskState.init(rawValue:)) {
      state = known
    } else if let (current, _) = try parts.position(of: id) {
      // A dead head of a serial queue is still queued.
      state = current == .dead ? .dead : nil
    } else {
      // A task that no longer exists counts as done, unless it was cancelled before a child was enqueued.
      state = try parts.endedRecord(id)?.record.progress.state ?? ConfigKeys.state(ofUnknown: value) ?? .done
    }
    guard let state else { return try parts.config.delete(ConfigKeys.pending(id)) }
    let isForgotten = try state != .done && parts.position(of: id) == nil && parts.endedRecord(id) == nil
    try settle(id, as: state, from: try ConfigKeys.firstChild(ofPending: value), isForgotten: isForgotten)
  }

  /// Returns whether a task has a child that stays blocked if the task fails.
  static func blocks(_ id: TaskID, _ parts: TaskParts) throws -> Bool {
    var cursor = try parts.live.cursor(StorageRange(prefix: TaskKeys.child(of: id)))
    while let (_, value) = try cursor.next() {
      if value.first == ParentFailure.stayBlocked.rawValue { return true }
    }
    return false
  }

  /// Returns whether a blocked task waits for one that has failed, and must be cancelled with it.
  static func isToBeCancelled(_ child: TaskID, _ parts: TaskParts) throws -> Bool {
    var cursor = try parts.live.cursor(StorageRange(prefix: TaskKeys.parent(of: child)), keysOnly: true)
    while let (key, _) = try cursor.next() {
      let parent = try TaskKeys.id(of: key, at: 9)
      guard try parts.live.get(TaskKeys.child(of: parent, child))?.first == ParentFailure.cancel.rawValue else {
        continue
      }
      let pending = try parts.config.get(ConfigKeys.pending(parent))?.first.flatMap(TaskState.init(rawValue:))
      let state =
        try pending ?? parts.position(of: parent)?.state ?? parts.endedRecord(parent)?.record.progress.state
      if state == .dead || state == .cancelled { return true }
    }
    return false
  }

  /// Removes a child from all tasks that it waits for, and returns those tasks.
  static func removeParents(of child: TaskID, _ parts: TaskParts) throws -> [TaskID] {
    var parents: [TaskID] = []
    var cursor = try parts.live.cursor(StorageRange(prefix: TaskKeys.parent(of: child)), keysOnly: true)
    while let (key, _) = try cursor.next() {
      let parent = try TaskKeys.id(of: key, at: 9)
      try parts.live.delete(TaskKeys.child(of: parent, child))
      try parts.live.delete(key)
      parents.append(parent)
    }
    return parents
  }
}

extension TaskRecord {
  /// Transition 6: returns the record of a child that waits for no other task any more: it is queued, or waits for its
  /// time.
  ///
  /// A child that waits for a delay waits no longer than that, even if the wall clock was set back while it was
  /// blocked.
  func unblocked(_ now: Int64) throws(TaskRefusal) -> TaskRecord {
    var new = self
    if delay > 0 { new.position.due = min(position.due, now + delay) }
    let isDue = new.position.due <= now
    try new.progress.apply(.parentsDone(isDue: isDue))
    new.position.kind = isDue ? .queued : .timed
    if isDue {
      new.position.due = 0
      new.delay = 0
    } else if delay > 0 {
      new.delay = new.position.due - now
    }
    return new
  }
}
