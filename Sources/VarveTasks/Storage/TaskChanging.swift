internal import Varve

/// A type that changes existing tasks: a transaction, or the scheduler without the writer.
protocol TaskChanging: AnyObject {
  var parts: TaskParts { get }
  var dispatcher: TaskDispatcher { get }
  /// The time of day, in milliseconds since 1970.
  var wallNow: Int64 { get }
  /// Keeps claims from taking a task until the change is made. Returns the attempt if the task runs.
  func hold(_ id: TaskID) -> TaskRun?
  /// Requests that a running task be cancelled when its handler returns.
  func cancel(_ run: TaskRun) throws
  /// Writes a change of a task that does not run, and notes its effect on the subqueue.
  func apply(_ edit: TaskEdit, from old: TaskRecord?, to new: TaskRecord?) throws
  /// Replaces the row of a task that does not run.
  func rewrite(_ old: TaskRecord, _ new: inout TaskRecord) throws
  /// Applies the end of a task to the tasks that depend on it.
  func settle(_ id: TaskID, as state: TaskState) throws
}

extension TaskChanging {
  /// Transitions 17 and 18: cancels a task that waits, or requests that a running one be cancelled.
  ///
  /// Returns false if the task does not exist or has ended.
  func cancel(_ id: TaskID) throws -> Bool {
    if let run = hold(id) {
      try cancel(run)
      return true
    }
    guard let old = try parts.record(id), old.progress.allows(.cancel) else { return false }
    var new = old
    try new.progress.apply(.cancel)
    try end(old, as: new)
    try settle(id, as: .cancelled)
    return true
  }

  /// Transition 22: makes a task ready that is parked or waits for a time. Returns false if the task is in another
  /// state.
  func wake(_ id: TaskID) throws -> Bool {
    if hold(id) != nil { return false }
    guard let old = try parts.record(id), old.progress.allows(.wake) else { return false }
    var new = old
    try new.progress.apply(.wake)
    try move(old, &new)
    return true
  }

  /// Transition 23: queues a dead or cancelled task again. Returns false if the task is in another state.
  ///
  /// Throws `TaskError.duplicate` if another task has its unique key.
  func revive(_ id: TaskID) throws -> Bool {
    if hold(id) != nil { return false }
    // A dead head of a serial queue is still queued.
    let queued = try parts.record(id)
    let ended = queued == nil ? try parts.endedRecord(id) : nil
    guard let old = queued ?? ended?.record, old.progress.allows(.revive) else { return false }
    var new = old
    if let key = old.extras.uniqueKey { try takeAgain(ConfigKeys.unique(old.kind, key), id) }
    // The group that the task belonged to has counted it already.
    new.extras.group = nil
    try new.progress.apply(.revive)
    if new.maxAttempts > 0 { new.maxAttempts = max(new.maxAttempts, new.progress.attempt + 1) }
    guard let ended else {
      try move(old, &new)
      return true
    }
    new.position.kind = .queued
    // The task waits no more for what it waited for when it was cancelled.
    new.position.due = 0
    new.delay = 0
    new.signals = []
    // The task has left the head of its queue, where another task may wait for its next attempt.
    new.position.isFront = false
    new.position.revision &+= 1
    try apply(TaskEdit.revive(ended.key, counted: old.progress.state, new), from: nil, to: new)
    return true
  }

  /// Queues a dead or cancelled task again as `revive(_:)` does, but returns false if another task has its unique key.
  func reviveIfFree(_ id: TaskID) throws -> Bool {
    do { return try revive(id) } catch TaskError.duplicate { return false }
  }

  /// Transitions 24 and 26: deletes a task that does not run, and lets the tasks that depend on it run. Returns whether
  /// the task existed.
  ///
  /// Throws `TaskError.taskRunning` if the task runs.
  func delete(_ id: TaskID) throws -> Bool {
    if hold(id) != nil { throw TaskError.taskRunning(id) }
    if let old = try parts.record(id) {
      try apply(TaskEdit.delete(old), from: old, to: nil)
      if old.progress.state == .blocked { try leaveParents(of: id) }
      try settle(id, as: .done)
      return true
    }
    guard let (key, record) = try parts.endedRecord(id) else { return false }
    try apply(TaskEdit.forget(key, record, isDeleted: true), from: nil, to: nil)
    try settle(id, as: .done)
    return true
  }

  /// Writes that a task that does not run was cancelled.
  ///
  /// A task that keeps others blocked is kept, so that it can be revived, or deleted, which lets the others run.
  func end(_ old: TaskRecord, as new: TaskRecord) throws {
    var new = new
    var end: TaskEnding? = new.retention == .deleteOnSuccess ? nil : .kept(wallNow)
    // A task that is enqueued and cancelled in the same transaction leaves no row.
    if new.position.isPending { end = nil }
    if try TaskChildren.blocks(old.id, parts) {
      end = .needed
      if new.position.isPending { new.position.stamp = 0 }
    }
    if old.progress.state == .blocked { try leaveParents(of: old.id) }
    try apply(TaskEdit.end(old, counted: old.progress.state, as: new, at: end), from: old, to: nil)
  }

  /// Removes a blocked task from the tasks that it waits for.
  ///
  /// A task that was kept only because it kept others blocked, and keeps none blocked any more, is from now on kept as
  /// its own retention says, or is forgotten.
  private func leaveParents(of child: TaskID) throws {
    for parent in try TaskChildren.removeParents(of: child, parts) {
      guard let (key, record) = try parts.endedRecord(parent), key == EndedKeys.key(record, .needed),
        try !dispatcher.blockedChildren.exist(of: parent, in: parts.live)
      else { continue }
      let isKept = record.retention != .deleteOnSuccess
      try apply(
        isKept ? TaskEdit.keep(key, record, from: wallNow) : TaskEdit.forget(key, record), from: nil, to: nil)
    }
  }

  private func move(_ old: TaskRecord, _ new: inout TaskRecord) throws {
    new.position.kind = .queued
    new.position.due = 0
    new.delay = 0
    new.signals = []
    try rewrite(old, &new)
  }

  /// Gives a revived task its unique key back. Throws `TaskError.duplicate` if another task has the key.
  private func takeAgain(_ key: [UInt8], _ id: TaskID) throws {
    if let value = try parts.config.get(key) {
      let (owner, until) = try ConfigKeys.unique(value)
      if owner != id, until.map({ $0 > wallNow }) ?? true { throw TaskError.duplicate(of: owner) }
      if owner == id { return }
    }
    try parts.config.put(key, ConfigKeys.uniqueValue(id, until: nil))
  }
}

/// The way in which a task that has ended is kept.
enum TaskEnding: Hashable, Sendable {
  /// The task is kept as its retention says, counted from a time in milliseconds since 1970.
  case kept(Int64)
  /// The task is kept until it is deleted, because others wait for it.
  case needed
}
