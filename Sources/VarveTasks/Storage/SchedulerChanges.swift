internal import Varve

/// The changes of one commit that the scheduler makes without the writer, while the commit is made.
///
/// They consist of rows, and of the effects on subqueues and timers.
final class SchedulerChanges: TaskChanging {
  let parts: TaskParts
  private let now: Int64
  private let continuous: Duration
  let dispatcher: TaskDispatcher
  private lazy var wallSpans = dispatcher.wallSpans
  var counts = TaskCounts()
  /// The effects on subqueues and timers, which apply when the commit has been made.
  private(set) var result = SchedulerDelta()
  /// The number of children that the commit may still change, of all tasks that end in it.
  private var childBudget: Int

  init(
    _ parts: TaskParts, now: Int64, continuous: Duration, _ dispatcher: TaskDispatcher,
    childMaximum: Int = TurnWork.batchMaximum
  ) {
    childBudget = childMaximum
    self.parts = parts
    self.now = now
    self.continuous = continuous
    self.dispatcher = dispatcher
  }

  var wallNow: Int64 { now }
  func hold(_ id: TaskID) -> TaskRun? { dispatcher.run(id) }

  func cancel(_ run: TaskRun) throws {
    let key = TaskKeys.cancel(run.id)
    if try parts.live.get(run.claimKey) == nil { return }
    if try parts.live.get(key) == nil { try parts.live.put(key, []) }
    result.cancelling.append(run)
  }

  /// Transition 17 or 18: cancels a task whose attempt has ended without seeing the request of a transaction to cancel
  /// it.
  ///
  /// If the task runs again, its new attempt is cancelled; if it waits or is dead, the task is cancelled. The row of
  /// the request is kept only if an attempt runs.
  func cancelMissed(_ id: TaskID) throws -> Bool {
    guard try parts.live.get(TaskKeys.cancel(id)) != nil else { return false }
    if dispatcher.run(id) == nil { try parts.live.delete(TaskKeys.cancel(id)) }
    if try cancel(id) { return true }
    // The attempt was the last one. A dead task is queued again, and then cancelled.
    let state = try parts.position(of: id)?.state ?? parts.endedRecord(id)?.record.progress.state
    guard state == .dead, try reviveIfFree(id) else { return false }
    return try cancel(id)
  }

  func apply(_ edit: TaskEdit, from old: TaskRecord?, to new: TaskRecord?) throws {
    _ = try write(edit)
    if let old, old.position.kind == .queued {
      result.removed.append((old.position.subqueue, old.id, old.position.key(of: old.id)))
    }
    if let old, old.position.kind == .timed { result.removedTimers.append(old.position.key(of: old.id)) }
    if let new { locate(new) }
  }

  func rewrite(_ old: TaskRecord, _ new: inout TaskRecord) throws {
    try apply(TaskEdit.move(old, counted: old.progress.state, to: &new), from: old, to: new)
  }

  /// Writes the counts and returns the effects of the commit. No other change may follow.
  func finish() throws -> SchedulerDelta {
    try counts.write(to: parts.counts)
    result.childrenLeft = childBudget
    if !result.removed.isEmpty, !result.entries.isEmpty {
      // A task that entered a subqueue and left it in this commit was never queued.
      let gone = Set(result.removed.map(\.key))
      result.entries.removeAll { gone.contains($0.entry.key) }
    }
    if !result.removedTimers.isEmpty, !result.timers.isEmpty {
      let gone = Set(result.removedTimers)
      result.timers.removeAll { gone.contains($0.key) }
    }
    return result
  }

  func write(_ edit: TaskEdit) throws -> Bool { note(edit, try edit.write(to: parts, &counts)) }

  /// Writes a change of a task whose rows no other change of the commit reads.
  func writeBlind(_ edit: TaskEdit) throws -> Bool { note(edit, try edit.write(to: parts, &counts, isBlind: true)) }

  private func note(_ edit: TaskEdit, _ isWritten: Bool) -> Bool {
    if isWritten, let ended = edit.ended { result.ended.append(ended) }
    return isWritten
  }

  /// Notes that an attempt has begun whose claim was made ahead, unless a transaction has ended it.
  func noteBegun(_ run: TaskRun) throws {
    let claim = run.claimKey
    if try parts.live.get(claim) != nil { try parts.config.put(ConfigKeys.begun(run.id), claim) }
  }

  /// The milliseconds of a delay that may be left when the task is put into its subqueue. The clocks are compared in
  /// whole milliseconds, and the wall clock may be corrected in small steps.
  private static let leftMaximum: Int64 = 1_000

  /// Transition 5: puts a task whose time has come into its subqueue. Does nothing if the task is no longer at this
  /// key.
  ///
  /// If the wall clock was set forward, the date of a task may come before its delay is over. The task then gets a new
  /// date.
  func makeReady(_ key: [UInt8]) throws {
    guard let value = try parts.live.get(key) else { return }
    let old = try TaskRecord(value)
    var new = old
    if old.delay > 0, let left = wallSpans.remaining(of: old.delay, due: old.position.due, at: continuous.milliseconds),
      left > Self.leftMaximum
    {
      (new.position.due, new.delay) = (now + left, left)
      return try rewrite(old, &new)
    }
    guard (try? new.progress.apply(.due)) != nil else { return }
    new.position.kind = .queued
    new.position.due = 0
    new.delay = 0
    try rewrite(old, &new)
  }

  /// Applies the end of a task to the tasks that depend on it, or leaves them to the next start.
  func settle(_ id: TaskID, as state: TaskState, leavesChildren: Bool) throws {
    if !leavesChildren { return try settle(id, as: state) }
    try parts.config.put(ConfigKeys.pending(id), ConfigKeys.pending(state, from: TaskID(rawValue: 0)))
  }

  /// Transitions 6 and 7: applies the end of a task to the tasks that depend on it.
  func settle(_ id: TaskID, as state: TaskState) throws {
    var children = makeChildren()
    try children.settle(id, as: state)
    note(children)
  }

  /// Continues to apply the end of a task to its children, where an earlier commit stopped.
  func resume(_ id: TaskID) throws {
    // The task keeps its `pending` row for the next commit.
    if childBudget == 0 { return result.pending.append(id) }
    var children = makeChildren()
    try children.resume(id)
    note(children)
  }

  private func note(_ children: TaskChildren) {
    childBudget = children.budget
    result.pending += children.pending
    result.heldPending += children.heldPending
  }

  private func makeChildren() -> TaskChildren {
    TaskChildren(
      parts, dispatcher.openParents, budget: childBudget, leavesShared: false,
      isHeld: { [dispatcher] in !dispatcher.mayChange($0) },
      run: { [self] old in
        var new = try old.unblocked(now)
        try rewrite(old, &new)
      },
      cancel: { [self] old in
        var new = old
        guard (try? new.progress.apply(.parentFailed(.cancel))) != nil else { return }
        new.note("a task that it depends on has failed")
        try end(old, as: new)
        result.cancelled.append(new)
      })
  }

  /// Adds a task that did not exist.
  func add(_ record: TaskRecord, after parent: TaskID?) throws {
    _ = try write(TaskEdit.add(record))
    if let parent {
      try parts.live.put(TaskKeys.child(of: parent, record.id), [ParentFailure.runAnyway.rawValue])
      try parts.live.put(TaskKeys.parent(of: record.id, parent), [])
      result.parents.append(parent)
    }
    locate(record)
  }

  func add(_ name: QueueName) throws -> TaskNames.Queue {
    if let value = try parts.config.get(TaskNames.key(name)) { return try TaskNames.queue(value) }
    let queue = TaskNames.Queue(number: try parts.takeQueueNumber(dispatcher.incarnation))
    try parts.config.put(TaskNames.key(name), TaskNames.value(queue))
    result.names.append((name, queue))
    return queue
  }

  private func locate(_ new: TaskRecord) {
    switch new.position.kind {
    case .queued: result.entries.append((new.position.subqueue, QueuedTask(new, new.bytes)))
    case .timed:
      result.timers.append(
        TimedTask(
          id: new.id, key: new.position.key(of: new.id), due: new.position.due,
          deadline: new.remainingDelay(now).map { continuous + .milliseconds($0) }))
    case .parked, .blocked: break
    }
  }
}
