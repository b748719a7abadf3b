internal import Varve

/// What the end of a task means for those that depend on it.
///
/// A child waits while it has rows of parents. A parent that ends removes its row of each child; the child whose last one goes runs.
/// At most 512 children are changed in one commit, and none that a transaction is changing: where some are left, a row `pending`
/// stays in `config` in the same commit, and the scheduler continues with it.
///
/// A transaction whose scheduler runs leaves it the children that wait for other tasks, too: those may end beside it, and each of
/// the two commits has to see what the other one did.
struct TaskChildren {
  let parts: TaskParts
  private let openParents: OpenParents
  /// Whether a transaction is changing a task.
  let isHeld: (TaskID) -> Bool
  /// A child runs when it is its turn.
  let run: (TaskRecord) throws -> Void
  /// A child is cancelled: its rows go.
  let cancel: (TaskRecord) throws -> Void
  /// Whether children that wait for other tasks, too, are left to the scheduler.
  let leavesShared: Bool
  /// How many may still be changed.
  private var budget = TaskWork.batchMaximum
  /// Tasks with children that are left.
  private(set) var pending: [TaskID] = []
  /// Tasks with children that are left because a transaction is changing them, or because they wait for others, too.
  private(set) var heldPending: [TaskID] = []

  /// A state on disk for "look whether it has ended, and how".
  static let unknown: UInt8 = 255

  init(
    _ parts: TaskParts, _ openParents: OpenParents, leavesShared: Bool, isHeld: @escaping (TaskID) -> Bool,
    run: @escaping (TaskRecord) throws -> Void, cancel: @escaping (TaskRecord) throws -> Void
  ) {
    self.parts = parts
    self.openParents = openParents
    self.leavesShared = leavesShared
    self.isHeld = isHeld
    self.run = run
    self.cancel = cancel
  }

  /// The scheduler takes looks back all the time, beside a transaction.
  private var config: Part { parts.config.unchecked }

  /// 6 and 7: a task has ended. A look that was to come is not needed any more: all children that are there receive it now.
  mutating func settle(_ id: TaskID, as state: TaskState) throws {
    var ended = [(id: id, state: state)]
    while let (parent, state) = ended.popLast() {
      var isLeft = false
      var cursor = try parts.live.cursor(StorageRange(prefix: TaskKeys.child(of: parent)))
      while let (key, value) = try cursor.next() {
        let child = try TaskKeys.id(of: key, at: 9)
        let rule = state == .done ? .runAnyway : value.first.flatMap(ParentFailure.init(rawValue:)) ?? .stayBlocked
        if rule == .stayBlocked { continue }
        if budget == 0 || isHeld(child) {
          isLeft = true
          if budget == 0 { break }
          continue
        }
        // Without a check, because the other one may end at any time.
        if leavesShared, rule == .runAnyway, try openParents.hasOther(than: parent, of: child, in: parts.live.unchecked)
        {
          isLeft = true
          continue
        }
        budget -= 1
        if rule == .cancel {
          guard let record = try parts.record(child) else { continue }
          try cancel(record)
          ended.append((child, .cancelled))
          continue
        }
        try parts.live.delete(key)
        try parts.live.delete(TaskKeys.parent(of: child, parent))
        if try openParents.hasOther(than: parent, of: child, in: parts.live) { continue }
        guard let record = try parts.record(child), record.progress.state == .blocked else { continue }
        try run(record)
      }
      if isLeft {
        try config.put(ConfigKeys.pending(parent), [state.rawValue])
        if budget == 0 { pending.append(parent) } else { heldPending.append(parent) }
      } else if try config.get(ConfigKeys.pending(parent)) != nil {
        try config.delete(ConfigKeys.pending(parent))
      }
    }
  }

  /// Continues with a task whose children are to receive that it has ended, if it has.
  mutating func resume(_ id: TaskID) throws {
    guard let value = try parts.config.get(ConfigKeys.pending(id)) else { return }
    let state: TaskState?
    if let known = value.first.flatMap(TaskState.init(rawValue:)) {
      state = known
    } else if let (current, _) = try parts.position(of: id) {
      // The dead head of a serial queue stands in line.
      state = current == .dead ? .dead : nil
    } else {
      // One that is gone counts as done.
      state = try parts.endedRecord(id)?.record.progress.state ?? .done
    }
    guard let state else { return try parts.config.delete(ConfigKeys.pending(id)) }
    try settle(id, as: state)
  }

  /// Whether a child stays blocked where a task fails.
  static func blocks(_ id: TaskID, _ parts: TaskParts) throws -> Bool {
    var cursor = try parts.live.cursor(StorageRange(prefix: TaskKeys.child(of: id)))
    while let (_, value) = try cursor.next() {
      if value.first == ParentFailure.stayBlocked.rawValue { return true }
    }
    return false
  }

  /// Removes a child from all tasks that it waits for, and returns these.
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
  /// 6: Returns a child that waits for no other task any more: it is in line, or waits for its time.
  ///
  /// A child that waits for a delay waits no longer than that, even if the wall clock was set back while it was blocked.
  func unblocked(_ now: Int64) throws(TaskRefusal) -> TaskRecord {
    var new = self
    if delay > 0 { new.position.due = min(position.due, now + delay) }
    let isDue = new.position.due <= now
    try new.progress.apply(.parentsDone(isDue: isDue))
    new.position.kind = isDue ? .line : .timed
    if isDue {
      new.position.due = 0
      new.delay = 0
    } else if delay > 0 {
      new.delay = new.position.due - now
    }
    return new
  }
}
