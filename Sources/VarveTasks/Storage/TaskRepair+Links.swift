internal import Varve

/// Rows that refer to tasks.
extension TaskRepair {
  // MARK: - Queues

  mutating func noteName(_ key: [UInt8], _ value: [UInt8]) throws {
    let queue = try TaskNames.queue(value)
    names[queue.number] = QueueName(String(decoding: key.dropFirst(), as: UTF8.self))
    largestQueue = max(largestQueue, queue.number)
  }

  mutating func noteTokens(_ key: [UInt8]) throws {
    var reader = ByteReader(key, at: 1)
    largestQueue = max(largestQueue, try reader.number())
  }

  // MARK: - Rows of one task

  /// Removes a row of a task that does not exist, or has ended.
  mutating func removeIfGone(_ key: [UInt8], _ id: TaskID, _ part: Part, _ parts: TaskParts) throws {
    note(id)
    if try Self.state(of: id, parts) != nil { return }
    try delete(key, part)
  }

  mutating func repairClaim(_ key: [UInt8], _ value: [UInt8], _ parts: TaskParts) throws {
    let id = try TaskKeys.id(of: key, at: 5)
    note(id)
    largestStart = max(largestStart, Int64(try TaskKeys.start(ofClaim: key)))
    if let position = try? TaskPosition(value, at: TaskKeys.claimPositionOffset),
      try parts.live.get(position.key(of: id)) != nil
    {
      claimed.insert(id)
      return
    }
    try delete(key, parts.live)
  }

  /// Removes the progress of a handler that does not run, or the note that it has begun.
  mutating func repairProgress(_ key: [UInt8], _ parts: TaskParts) throws {
    if claimed.contains(try TaskKeys.id(of: key, at: 1)) { return }
    try delete(key, parts.config)
  }

  /// Removes the row of a signal if the task has moved.
  mutating func repairSignal(_ key: [UInt8], _ parts: TaskParts) throws {
    var reader = ByteReader(key, at: 17)
    let revision: UInt32 = try reader.number()
    if try parts.live.get(TaskKeys.byID(try TaskKeys.id(of: key, at: 9), revision)) != nil { return }
    try delete(key, parts.live)
  }

  /// Removes a checkpoint that no attempt can read: its task does not exist, or has a later one, or has lost the claim
  /// of the attempt that made it.
  mutating func repairStep(_ key: [UInt8], _ parts: TaskParts) throws {
    let id = try TaskKeys.id(of: key, at: 1)
    note(id)
    let last = try parts.live.first(in: StorageRange(prefix: TaskKeys.step(id)), isReverse: true)
    if last?.key == key, try Self.state(of: id, parts) != nil {
      if claimed.contains(id) { return }
      var reader = ByteReader(key, at: 9)
      let number: UInt32 = try reader.number()
      if try parts.record(id)?.step == number { return }
    }
    try delete(key, parts.live)
  }

  /// Removes a unique key that is taken until the end of a task that has ended.
  ///
  /// A key that is taken until a time stays: it also outlives a task that is done.
  mutating func repairUnique(_ key: [UInt8], _ value: [UInt8], _ parts: TaskParts) throws {
    let (id, until) = try ConfigKeys.unique(value)
    note(id)
    if let until {
      let expiry = ConfigKeys.expiry(until, key)
      guard until < .max, try parts.config.get(expiry) == nil else { return }
      try parts.config.put(expiry, [])
      found.restored += 1
      return
    }
    let state = try Self.state(of: id, parts)
    if state == nil || state == .dead { try delete(key, parts.config) }
  }

  // MARK: - Tasks that wait for tasks

  /// Corrects a row that says how a task has ended, if the task has not ended.
  mutating func repairPending(_ key: [UInt8], _ value: [UInt8], _ parts: TaskParts) throws {
    let id = try TaskKeys.id(of: key, at: 1)
    note(id)
    guard value.first != ConfigKeys.unknown, let state = try Self.state(of: id, parts), state != .dead else { return }
    try parts.config.put(key, ConfigKeys.pendingUnknown(nil))
  }

  mutating func repairChild(_ key: [UInt8], _ parts: TaskParts) throws {
    let (parent, child) = (try TaskKeys.id(of: key, at: 1), try TaskKeys.id(of: key, at: 9))
    let other = TaskKeys.parent(of: child, parent)
    note(parent)
    note(child)
    guard try Self.state(of: child, parts) == .blocked else {
      try delete(key, parts.live)
      return try delete(other, parts.live)
    }
    if try parts.live.get(other) == nil {
      try parts.live.put(other, [])
      found.restored += 1
    }
    try settleLater(parent, parts)
  }

  mutating func repairParent(_ key: [UInt8], _ parts: TaskParts) throws {
    let (child, parent) = (try TaskKeys.id(of: key, at: 1), try TaskKeys.id(of: key, at: 9))
    let other = TaskKeys.child(of: parent, child)
    note(parent)
    note(child)
    guard try Self.state(of: child, parts) == .blocked else {
      try delete(key, parts.live)
      return try delete(other, parts.live)
    }
    if try parts.live.get(other) != nil { return }
    // The rule is lost: a group takes any end of its members, and other tasks get the rule of the default options.
    let isGroup = (try? parts.record(child))?.extras.isGroup ?? false
    let rule = isGroup ? ParentFailure.runAnyway : .stayBlocked
    try parts.live.put(other, [rule.rawValue])
    found.restored += 1
    try settleLater(parent, parts)
  }

  /// Notes that the end of a task must be applied to its children, if it has ended or does not exist.
  ///
  /// A row that says how the task has ended stays, but its first child may not be the first one that is left.
  private mutating func settleLater(_ parent: TaskID, _ parts: TaskParts) throws {
    let state = try Self.state(of: parent, parts)
    if let state, state != .dead { return }
    let key = ConfigKeys.pending(parent)
    let value = try parts.config.get(key)
    if let value, value.count == 1 { return }
    if let value, ConfigKeys.state(ofUnknown: value) != nil, state != nil { return }
    // A task that is lost counts as done, also if it had failed.
    try parts.config.put(key, [value?.first ?? ConfigKeys.unknown])
    if state == nil, value == nil { found.released += 1 }
  }
}
