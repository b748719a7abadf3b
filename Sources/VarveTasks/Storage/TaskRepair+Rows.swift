internal import Varve

/// The rows of tasks, and their rows by id.
extension TaskRepair {
  /// Returns the record of a row in `live`. Throws `DamagedTask` if it is not the record of this key.
  static func record(_ key: [UInt8], _ value: [UInt8]) throws(DamagedTask) -> TaskRecord {
    let isQueued = key.first == TaskPosition.Kind.queued.rawValue
    let record = try TaskRecord(value, stamp: isQueued ? QueuedTask.stamp(of: key) : nil)
    guard record.position.key(of: record.id) == key else {
      throw DamagedTask(what: "it is under the key of another task", bytes: value)
    }
    return record
  }

  /// Returns the state of a task that has not ended, or `nil` if there is no such task.
  ///
  /// If a task has several rows by id, this is the state of the one with the largest revision. After step 5 each of
  /// them has a row.
  static func state(of id: TaskID, _ parts: TaskParts) throws -> TaskState? {
    guard let (_, value) = try parts.live.first(in: StorageRange(prefix: TaskKeys.byID(id)), isReverse: true) else {
      return nil
    }
    return value.first.flatMap(TaskState.init(rawValue:))
  }

  /// Returns a task that has ended, or `nil` if there is no such task or its row can't be read.
  private static func ended(_ id: TaskID, _ parts: TaskParts) throws -> (key: [UInt8], record: TaskRecord)? {
    guard let key = try parts.ended.get(EndedKeys.byID(id)), let value = try parts.ended.get(key),
      let record = try? TaskRecord(value), record.id == id
    else { return nil }
    return (key, record)
  }

  mutating func note(_ id: TaskID) { largestID = max(largestID, id.rawValue) }

  private mutating func note(queueOf record: TaskRecord) {
    queues.insert(record.position.queue)
    largestQueue = max(largestQueue, record.position.queue)
  }

  // MARK: - Tasks that have ended

  mutating func repairEnded(_ key: [UInt8], _ value: [UInt8], _ parts: TaskParts) throws {
    let record = try TaskRecord(value)
    note(record.id)
    note(queueOf: record)
    let known = try parts.ended.get(EndedKeys.byID(record.id))
    if known == key { return }
    if let other = try Self.ended(record.id, parts) {
      // The deletion of one of the rows was lost.
      found.removed += 1
      if other.record.position.revision >= record.position.revision { return try parts.ended.delete(key) }
      try parts.ended.delete(other.key)
    }
    try parts.ended.put(EndedKeys.byID(record.id), key)
    found.restored += 1
  }

  mutating func repairEndedID(_ key: [UInt8], _ value: [UInt8], _ parts: TaskParts) throws {
    note(try TaskKeys.id(of: key, at: 1))
    if try parts.ended.get(value) != nil { return }
    try parts.ended.delete(key)
    found.lost += 1
  }

  // MARK: - Tasks that have not ended

  /// Gives a task its row by id, and removes the rows of earlier positions, whose deletions were lost.
  ///
  /// A task has a larger revision with each move. A task that has ended has the revision of its last row, and a larger
  /// one after it was revived.
  mutating func repairRow(_ key: [UInt8], _ value: [UInt8], _ parts: TaskParts) throws {
    let record = try Self.record(key, value)
    let (id, revision) = (record.id, record.position.revision)
    note(id)
    note(queueOf: record)
    if let (endedKey, ended) = try Self.ended(id, parts) {
      if ended.position.revision >= revision { return try remove(record, parts) }
      try parts.ended.delete(endedKey)
      try parts.ended.delete(EndedKeys.byID(id))
      found.removed += 1
    }
    var isKnown = false
    var cursor = try parts.live.cursor(StorageRange(prefix: TaskKeys.byID(id)))
    while let (idKey, idValue) = try cursor.next() {
      let other = try Self.revision(idKey)
      if other == revision {
        isKnown = true
        continue
      }
      // A row by id without a row is removed later.
      guard let position = try? TaskPosition(idValue, at: 1), position.revision == other else { continue }
      let otherKey = position.key(of: id)
      guard let row = try parts.live.get(otherKey), let rest = try? Self.record(otherKey, row), rest.id == id else {
        continue
      }
      if other > revision { return try remove(record, parts) }
      try remove(rest, parts)
    }
    if !isKnown {
      try parts.live.put(
        TaskKeys.byID(id, revision), TaskKeys.byIDValue(record.progress.state, record.position))
      found.restored += 1
    }
    for signal in record.signals {
      let signalKey = TaskKeys.signal(WakeSignal(signal), id, revision)
      if try parts.live.get(signalKey) != nil { continue }
      try parts.live.put(signalKey, Array(signal.utf8))
      found.restored += 1
    }
  }

  /// Removes a row of a task that has a later one.
  private mutating func remove(_ record: TaskRecord, _ parts: TaskParts) throws {
    let (id, revision) = (record.id, record.position.revision)
    var keys = [record.position.key(of: id), TaskKeys.byID(id, revision)]
    keys += record.signals.map { TaskKeys.signal(WakeSignal($0), id, revision) }
    for key in keys { try delete(key, parts.live) }
  }

  /// Removes a row if there is one. The keys of `live` are put once, and are deleted once.
  mutating func delete(_ key: [UInt8], _ part: Part) throws {
    if try part.get(key) == nil { return }
    try part.delete(key)
    found.removed += 1
  }

  private static func revision(_ key: [UInt8]) throws(DamagedTask) -> UInt32 {
    var reader = ByteReader(key, at: 9)
    return try reader.number()
  }

  /// Removes a row by id if the task has no row there.
  mutating func repairByID(_ key: [UInt8], _ value: [UInt8], _ parts: TaskParts) throws {
    let id = try TaskKeys.id(of: key, at: 1)
    note(id)
    let state = value.first.flatMap(TaskState.init(rawValue:))
    if state != nil, let position = try? TaskPosition(value, at: 1), try position.revision == Self.revision(key),
      try parts.live.get(position.key(of: id)) != nil
    {
      return
    }
    try parts.live.delete(key)
    if try parts.live.first(in: StorageRange(prefix: TaskKeys.byID(id))) == nil {
      found.lost += 1
    } else {
      found.removed += 1
    }
  }

  // MARK: - What tasks have

  /// Gives a task its unique key back, and a group the row by which it waits for the task.
  mutating func repairMember(_ key: [UInt8], _ value: [UInt8], _ parts: TaskParts, now: Int64) throws {
    let record = try Self.record(key, value)
    let extras = record.extras
    if record.progress.state.isSettled { return }
    if let own = extras.uniqueKey, extras.uniqueUntil.map({ $0 > now }) ?? true {
      let key = ConfigKeys.unique(record.kind, own)
      let owner = try parts.config.get(key).flatMap { try? ConfigKeys.unique($0).id }
      // Of two tasks with the key, the earlier one runs, and the later one, which waits for its end, has the key.
      if owner.map({ $0 < record.id }) ?? true {
        try parts.config.put(key, ConfigKeys.uniqueValue(record.id, until: extras.uniqueUntil))
        if let until = extras.uniqueUntil, until < .max { try parts.config.put(ConfigKeys.expiry(until, key), []) }
        found.restored += 1
      }
    }
    guard let group = extras.group, try Self.state(of: group, parts) == .blocked,
      try parts.live.get(TaskKeys.parent(of: group, record.id)) == nil
    else { return }
    try parts.live.put(TaskKeys.child(of: record.id, group), [ParentFailure.runAnyway.rawValue])
    try parts.live.put(TaskKeys.parent(of: group, record.id), [])
    found.restored += 1
  }

  /// Lets a blocked task run that waits for no task.
  mutating func repairBlocked(
    _ key: [UInt8], _ value: [UInt8], _ parts: TaskParts, _ tx: TaskStorageTransaction
  ) throws {
    let old = try Self.record(key, value)
    guard old.progress.state == .blocked,
      try parts.live.first(in: StorageRange(prefix: TaskKeys.parent(of: old.id))) == nil
    else { return }
    var new = try old.unblocked(tx.wallNow)
    try tx.rewrite(old, &new)
    found.released += 1
  }

  /// Keeps a task as its retention says that was kept because others waited for it, if none of them is left.
  mutating func repairNeeded(
    _ key: [UInt8], _ value: [UInt8], _ parts: TaskParts, _ tx: TaskStorageTransaction
  ) throws {
    let record = try TaskRecord(value)
    guard key == EndedKeys.key(record, .needed), try !TaskChildren.blocks(record.id, parts) else { return }
    let isKept = record.retention != .deleteOnSuccess
    _ = try tx.write(isKept ? TaskEdit.keep(key, record, from: tx.wallNow) : TaskEdit.forget(key, record))
  }

  // MARK: - Counts

  mutating func count(_ record: TaskRecord, _ parts: TaskParts) throws {
    found.tasks += 1
    let key = CountKey(queue: record.position.queue, state: record.progress.state.rawValue)
    counts[key, default: 0] += 1
    if record.extras.isGroup { try countMembers(of: record.id, parts) }
  }

  /// Counts the members of a group. Those that have ended are only in the counts of their ends, so these stay, and the
  /// number of all members follows from them and from the members that have not ended.
  private func countMembers(of group: TaskID, _ parts: TaskParts) throws {
    var open: Int64 = 0
    var cursor = try parts.live.cursor(StorageRange(prefix: TaskKeys.parent(of: group)), keysOnly: true)
    while let (key, _) = try cursor.next() {
      let member = try TaskKeys.id(of: key, at: 9)
      // A dead head of a serial queue is queued, but its end is counted.
      guard let record = try? parts.record(member), record.extras.group == group, !record.progress.state.isSettled
      else { continue }
      open += 1
    }
    var total = open
    for state in TaskCounts.groupStates where state != .ready {
      let key = TaskCounts.key(group: group, state)
      let number = try parts.counts.counter(key)
      if number < 0 { try parts.counts.delete(key) }
      total += max(0, number)
    }
    let key = TaskCounts.key(group: group, .ready)
    if try parts.counts.counter(key) == total { return }
    try parts.counts.delete(key)
    try parts.counts.add(total, to: key)
  }

  /// Removes the counts of a group that does not exist.
  mutating func repairGroupCount(_ key: [UInt8], _ parts: TaskParts) throws {
    if key.count != 10 { return }
    let group = try TaskKeys.id(of: key, at: 1)
    if try Self.state(of: group, parts) != nil || Self.ended(group, parts) != nil { return }
    try parts.counts.delete(key)
    found.removed += 1
  }
}
