internal import Synchronization
internal import Varve

/// What a change of one task writes. Made in memory, and written by a transaction or beside the writer.
struct TaskEdit: Sendable {
  /// The claim that has to be there: without it the attempt is not the one that runs, and nothing is written.
  var fence: [UInt8]?
  private(set) var deletes: [[UInt8]] = []
  private(set) var puts: [(key: [UInt8], value: [UInt8])] = []
  private var endedDeletes: [[UInt8]] = []
  private var endedPuts: [(key: [UInt8], value: [UInt8])] = []
  private var counts: [(queue: UInt32, state: TaskState, number: Int64)] = []

  /// A worker takes a task: its row stays where it is.
  static func claim(_ record: TaskRecord, start: UInt32, begun: Int64) -> TaskEdit {
    var edit = TaskEdit()
    let progress = record.progress
    edit.puts.append(
      (
        TaskKeys.claim(start, record.id, progress.epoch),
        TaskKeys.claimValue(attempt: progress.attempt, begun: begun, record.position)
      ))
    return edit
  }

  /// A task moves from where it stands to another position, or its row is written again. `old` is what the disk has, with the
  /// state that is counted; `claim` is the key of the attempt that this ends.
  static func move(_ old: TaskRecord, counted: TaskState, to new: inout TaskRecord, claim: [UInt8]? = nil) -> TaskEdit {
    var edit = TaskEdit()
    edit.removeRows(old, claim)
    new.position.revision = old.position.revision &+ 1
    edit.put(new)
    edit.count(old.position.queue, counted, -1)
    edit.count(new.position.queue, new.progress.state, 1)
    return edit
  }

  /// A task ends; with `end`, a time, it is kept as one that has ended then.
  static func end(
    _ old: TaskRecord, counted: TaskState, as new: TaskRecord, at end: Int64?, claim: [UInt8]? = nil
  ) -> TaskEdit {
    var edit = TaskEdit()
    edit.removeRows(old, claim)
    edit.count(old.position.queue, counted, -1)
    // The last checkpoint goes with it.
    if old.step > 0 { edit.deletes.append(TaskKeys.step(old.id, old.step)) }
    if let end {
      let key = EndedKeys.key(new, end: end)
      edit.endedPuts.append((key, new.bytes))
      edit.endedPuts.append((EndedKeys.byID(new.id), key))
      edit.count(new.position.queue, new.progress.state, 1)
    }
    return edit
  }

  /// A task is done and not kept: `key` is that of its row.
  static func finish(_ run: TaskRun) -> TaskEdit {
    let stored = run.stored
    var edit = TaskEdit()
    let claim = run.claimKey
    edit.fence = claim
    let (step, isCancelling) = run.state.withLock { ($0.step, $0.isCancelling) }
    edit.deletes = [claim, stored.position.key(of: run.id), TaskKeys.byID(run.id, stored.position.revision)]
    if step > 0 { edit.deletes.append(TaskKeys.step(run.id, step)) }
    if isCancelling { edit.deletes.append(TaskKeys.cancel(run.id)) }
    edit.count(stored.position.queue, run.countedState, -1)
    return edit
  }

  /// A task that has ended is queued again.
  static func revive(_ key: [UInt8], counted: TaskState, _ new: TaskRecord) -> TaskEdit {
    var edit = TaskEdit()
    edit.endedDeletes = [key, EndedKeys.byID(new.id)]
    edit.put(new)
    edit.count(new.position.queue, counted, -1)
    edit.count(new.position.queue, new.progress.state, 1)
    return edit
  }

  /// A task that has ended is forgotten.
  static func forget(_ key: [UInt8], _ record: TaskRecord) -> TaskEdit {
    var edit = TaskEdit()
    edit.endedDeletes = [key, EndedKeys.byID(record.id)]
    edit.count(record.position.queue, record.progress.state, -1)
    return edit
  }

  private mutating func removeRows(_ old: TaskRecord, _ claim: [UInt8]?) {
    if let claim {
      fence = claim
      deletes.append(claim)
    }
    deletes.append(old.position.key(of: old.id))
    deletes.append(TaskKeys.byID(old.id, old.position.revision))
    if old.progress.isCancelling { deletes.append(TaskKeys.cancel(old.id)) }
    for signal in old.signals { deletes.append(TaskKeys.signal(WakeSignal(signal), old.id, old.position.revision)) }
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

  /// Writes it. False: the attempt is not the one that runs, and nothing was written.
  func write(to parts: TaskParts, _ sums: inout TaskCounts) throws -> Bool {
    if let fence, try parts.live.get(fence) == nil { return false }
    for key in deletes { try parts.live.delete(key) }
    for (key, value) in puts { try parts.live.put(key, value) }
    for key in endedDeletes { try parts.ended.delete(key) }
    for (key, value) in endedPuts { try parts.ended.put(key, value) }
    for (queue, state, number) in counts { sums.add(number, queue, state) }
    return true
  }
}
