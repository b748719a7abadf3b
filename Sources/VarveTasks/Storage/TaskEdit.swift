internal import Synchronization
@_spi(Extensions) internal import Varve

/// The writes that a change of one task consists of.
///
/// An edit is made in memory, and is written by a transaction or by an independent commit.
struct TaskEdit: Sendable {
  /// The key of the claim that must exist. If it does not, the attempt is not the one that runs, and the edit is not
  /// written.
  var fence: [UInt8]?
  /// Whether the edit deletes the request to cancel the attempt.
  private(set) var removesCancel = false
  private(set) var deletes: [[UInt8]] = []
  private(set) var puts: [(key: [UInt8], value: [UInt8])] = []
  private var endedDeletes: [[UInt8]] = []
  private var endedPuts: [(key: [UInt8], value: [UInt8])] = []
  private var counts: [(queue: UInt32, state: TaskState, number: Int64)] = []
  private var groupCount: (group: TaskID, state: TaskState)?
  /// A unique key and the task that has it. The key is released if it still belongs to that task.
  private var unique: (key: [UInt8], id: TaskID)?
  /// The rows about an attempt that are deleted with its claim.
  private var endedNotes: [[UInt8]] = []
  /// The group whose counts are deleted, or `nil` if there is none.
  private var endedGroup: TaskID?
  /// The task that ends by the edit, and how, or `nil` if none does.
  private(set) var ended: (id: TaskID, end: TaskEnd)?

  /// Returns the edit that claims a task, whose row keeps its position. `begun` is the time at which the attempt
  /// begins, or `nil` if the claim is made ahead.
  static func claim(_ record: TaskRecord, start: UInt32, begun: Int64?) -> TaskEdit {
    var edit = TaskEdit()
    let progress = record.progress
    edit.puts.append(
      (
        TaskKeys.claim(start, record.id, record.position.revision),
        TaskKeys.claimValue(attempt: progress.attempt, begun: begun, record.position)
      ))
    return edit
  }

  /// Returns the edit that moves a task to another position, or writes its row again.
  ///
  /// `old` is the task on disk, and `counted` the state in which it is counted. `claim` is the key of the claim of the
  /// attempt that the edit ends.
  static func move(_ old: TaskRecord, counted: TaskState, to new: inout TaskRecord, claim: [UInt8]? = nil) -> TaskEdit {
    var edit = TaskEdit()
    edit.removeRows(old, claim)
    new.position.revision = old.position.revision &+ 1
    edit.put(new)
    edit.count(old.position.queue, counted, -1)
    edit.count(new.position.queue, new.progress.state, 1)
    // A dead head of a serial queue is still queued, but has ended.
    if new.progress.state == .dead, counted != .dead {
      edit.ended = (new.id, .dead)
      if new.concernsOthers { edit.noteEnd(new, .dead, isGone: false) }
    }
    return edit
  }

  /// Returns the edit that adds a task that did not exist.
  static func add(_ new: TaskRecord) -> TaskEdit {
    var edit = TaskEdit()
    edit.put(new)
    edit.count(new.position.queue, new.progress.state, 1)
    return edit
  }

  /// Returns the edit that removes the rows of a task, which the caller then writes at another position.
  static func remove(_ old: TaskRecord) -> TaskEdit {
    var edit = TaskEdit()
    edit.removeRows(old, nil)
    edit.count(old.position.queue, old.progress.state, -1)
    return edit
  }

  /// Returns the edit that deletes a task that does not run.
  static func delete(_ old: TaskRecord) -> TaskEdit {
    var edit = end(old, counted: old.progress.state, as: old, at: nil)
    edit.noteEnd(old, .cancelled, isDeleted: true)
    edit.ended = (old.id, .deleted)
    return edit
  }

  /// Returns the edit that ends a task. If `end` is not `nil`, the task is kept as one that has ended.
  static func end(
    _ old: TaskRecord, counted: TaskState, as new: TaskRecord, at end: TaskEnding?, claim: [UInt8]? = nil
  ) -> TaskEdit {
    var edit = TaskEdit()
    edit.removeRows(old, claim)
    edit.count(old.position.queue, counted, -1)
    // The last checkpoint is deleted with the task.
    if old.step > 0 { edit.deletes.append(TaskKeys.step(old.id, old.step)) }
    if let end {
      let key = EndedKeys.key(new, end)
      edit.endedPuts.append((key, new.bytes))
      edit.endedPuts.append((EndedKeys.byID(new.id), key))
      edit.count(new.position.queue, new.progress.state, 1)
    }
    if new.concernsOthers { edit.noteEnd(new, new.progress.state, isGone: end == nil) }
    edit.ended = TaskEnd(new.progress.state).map { (new.id, $0) }
    return edit
  }

  /// Returns the edit that ends the task of an attempt as done, without keeping it.
  static func finish(_ run: TaskRun) -> TaskEdit {
    let stored = run.stored
    var edit = TaskEdit()
    let claim = run.claimKey
    edit.fence = claim
    let (step, isCancelling) = run.state.withLock { ($0.step, $0.isCancelling) }
    edit.deletes = [claim, stored.position.key(of: run.id), TaskKeys.byID(run.id, stored.position.revision)]
    if step > 0 { edit.deletes.append(TaskKeys.step(run.id, step)) }
    if isCancelling { edit.removeCancel(run.id) }
    edit.removeNotes(of: run)
    edit.count(stored.position.queue, run.countedState, -1)
    if stored.concernsOthers { edit.noteEnd(stored, .done, isGone: true) }
    edit.ended = (run.id, .done)
    return edit
  }

  /// Notes the effects of a task's end on other rows: on its unique key, and on the counts of groups.
  private mutating func noteEnd(_ record: TaskRecord, _ state: TaskState, isGone: Bool = true, isDeleted: Bool = false)
  {
    let extras = record.extras
    if let key = extras.uniqueKey, extras.uniqueUntil == nil || isDeleted {
      unique = (ConfigKeys.unique(record.kind, key), record.id)
    }
    if let group = extras.group, !(isDeleted && record.progress.state.isSettled) { groupCount = (group, state) }
    if extras.isGroup, isGone { endedGroup = record.id }
  }

  /// Returns the edit that queues a task again that has ended. `key` is the key of its row.
  static func revive(_ key: [UInt8], counted: TaskState, _ new: TaskRecord) -> TaskEdit {
    var edit = TaskEdit()
    edit.endedDeletes = [key, EndedKeys.byID(new.id)]
    edit.put(new)
    edit.count(new.position.queue, counted, -1)
    edit.count(new.position.queue, new.progress.state, 1)
    return edit
  }

  /// Returns the edit that forgets a task that has ended. If a call deletes the task, its unique key is released, too.
  static func forget(_ key: [UInt8], _ record: TaskRecord, isDeleted: Bool = false) -> TaskEdit {
    var edit = TaskEdit()
    edit.endedDeletes = [key, EndedKeys.byID(record.id)]
    if record.extras.isGroup { edit.endedGroup = record.id }
    if isDeleted, let own = record.extras.uniqueKey { edit.unique = (ConfigKeys.unique(record.kind, own), record.id) }
    edit.count(record.position.queue, record.progress.state, -1)
    return edit
  }

  /// Returns the edit that keeps a task that has ended as its retention says, counted from a time.
  ///
  /// `key` is the key of the task's row.
  static func keep(_ key: [UInt8], _ record: TaskRecord, from time: Int64) -> TaskEdit {
    var edit = TaskEdit()
    let new = EndedKeys.key(record, .kept(time))
    if new == key { return edit }
    edit.endedDeletes = [key]
    edit.endedPuts = [(new, record.bytes), (EndedKeys.byID(record.id), new)]
    return edit
  }

  /// Deletes what was written about an attempt besides its claim.
  mutating func removeNotes(of run: TaskRun) {
    let (hasProgress, isNoted) = run.state.withLock { ($0.progressWritten != nil, $0.isNoted) }
    if hasProgress { endedNotes.append(ConfigKeys.progress(run.id)) }
    if isNoted { endedNotes.append(ConfigKeys.begun(run.id)) }
  }

  private mutating func removeRows(_ old: TaskRecord, _ claim: [UInt8]?) {
    if let claim {
      fence = claim
      deletes.append(claim)
    }
    deletes.append(old.position.key(of: old.id))
    deletes.append(TaskKeys.byID(old.id, old.position.revision))
    if old.progress.isCancelling { removeCancel(old.id) }
    for signal in old.signals { deletes.append(TaskKeys.signal(WakeSignal(signal), old.id, old.position.revision)) }
  }

  private mutating func removeCancel(_ id: TaskID) {
    deletes.append(TaskKeys.cancel(id))
    removesCancel = true
  }

  private mutating func put(_ record: TaskRecord) {
    puts.append((record.position.key(of: record.id), record.bytes))
    puts.append(
      (
        TaskKeys.byID(record.id, record.position.revision), TaskKeys.byIDValue(record.progress.state, record.position)
      ))
    for signal in record.signals {
      puts.append((TaskKeys.signal(WakeSignal(signal), record.id, record.position.revision), Array(signal.utf8)))
    }
  }

  private mutating func count(_ queue: UInt32, _ state: TaskState, _ number: Int64) {
    counts.append((queue, state, number))
  }

  /// Writes the edit. Returns false, without writing, if the attempt is not the one that runs.
  ///
  /// `isBlind` means that no other change in the commit reads the rows of the task, so that they are written by blind
  /// writes.
  func write(to parts: TaskParts, _ sums: inout TaskCounts, isBlind: Bool = false) throws -> Bool {
    if let fence, try parts.live.get(fence) == nil { return false }
    if let (key, id) = unique, let value = try parts.config.get(key) {
      let (owner, until) = try ConfigKeys.unique(value)
      if owner == id {
        try parts.config.delete(key)
        if let until { try parts.config.delete(ConfigKeys.expiry(until, key)) }
      }
    }
    for key in endedNotes { try parts.config.delete(key) }
    if let (group, state) = groupCount { sums.add(1, group: group, state) }
    if let endedGroup {
      for state in TaskCounts.groupStates { try parts.counts.delete(TaskCounts.key(group: endedGroup, state)) }
    }
    if isBlind {
      for key in deletes { try parts.live.blindDelete(key) }
      for (key, value) in puts { try parts.live.blindPut(key, value) }
    } else {
      for key in deletes { try parts.live.delete(key) }
      for (key, value) in puts { try parts.live.put(key, value) }
    }
    for key in endedDeletes { try parts.ended.delete(key) }
    for (key, value) in endedPuts { try parts.ended.put(key, value) }
    for (queue, state, number) in counts { sums.add(number, queue, state) }
    return true
  }
}
