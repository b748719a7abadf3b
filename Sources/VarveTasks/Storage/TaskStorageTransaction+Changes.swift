public import Varve

/// Tasks that are there already.
extension TaskStorageTransaction {
  // MARK: - Finding

  /// The tasks of a query, in their order.
  func ids(_ query: TaskQuery) throws -> [TaskID] {
    switch query {
    case .id(let id): return [id]
    case .queue(let name):
      guard let queue = try queue(name)?.number else { return [] }
      return try idsInLine(queue) + idsOfTimers(queue) + idsParked(queue)
    case .parked(let name):
      guard let queue = try queue(name)?.number else { return [] }
      return try idsInLine(queue) { $0 == .parked } + idsParked(queue)
    case .dead(let name):
      guard let queue = try queue(name)?.number else { return [] }
      var prefix: [UInt8] = [EndedKeys.dead]
      prefix.append(number: queue)
      var ids = try idsInLine(queue) { $0 == .dead }
      var cursor = try parts.ended.cursor(StorageRange(prefix: prefix), keysOnly: true)
      while let (key, _) = try cursor.next() { ids.append(try TaskKeys.id(of: key, at: 13)) }
      return ids
    }
  }

  func ids(_ signal: WakeSignal) throws -> [TaskID] {
    var ids: [TaskID] = []
    var cursor = try parts.live.cursor(StorageRange(prefix: TaskKeys.signal(signal)))
    while let (key, value) = try cursor.next() {
      // Another signal may have the same hash.
      if value == Array(signal.text.utf8) { ids.append(try TaskKeys.id(of: key, at: 9)) }
    }
    return ids
  }

  private func idsInLine(_ queue: UInt32, _ isMeant: (TaskState) -> Bool = { _ in true }) throws -> [TaskID] {
    var ids: [TaskID] = []
    var cursor = try parts.live.cursor(StorageRange(prefix: TaskKeys.line(queue)))
    while let (key, value) = try cursor.next() {
      let entry = try LineEntry(key: key, value: value)
      if isMeant(entry.state) { ids.append(entry.id) }
    }
    return ids
  }

  private func idsOfTimers(_ queue: UInt32) throws -> [TaskID] {
    var ids: [TaskID] = []
    var cursor = try parts.live.cursor(StorageRange(prefix: [TaskPosition.Kind.timed.rawValue]))
    while let (_, value) = try cursor.next() {
      let record = try TaskRecord(value)
      if record.position.queue == queue { ids.append(record.id) }
    }
    return ids
  }

  private func idsParked(_ queue: UInt32) throws -> [TaskID] {
    var prefix: [UInt8] = [TaskPosition.Kind.parked.rawValue]
    prefix.append(number: queue)
    var ids: [TaskID] = []
    var cursor = try parts.live.cursor(StorageRange(prefix: prefix), keysOnly: true)
    while let (key, _) = try cursor.next() { ids.append(try TaskKeys.id(of: key, at: 5)) }
    return ids
  }

  func info(_ id: TaskID) throws -> TaskInfo? {
    guard var record = try parts.record(id) ?? parts.endedRecord(id)?.record else { return nil }
    if let run = dispatcher.run(id), record.progress.state != .running { record.progress = run.settled.record.progress }
    return TaskInfo(record, try name(of: record.position.queue))
  }

  private func name(of queue: UInt32) throws -> QueueName {
    if let name = dispatcher.name(queue) { return name }
    return try TaskNames(config).queues.first { $0.value.number == queue }?.key ?? QueueName("#\(queue)")
  }

  func taskCount(_ name: QueueName, _ state: TaskState) throws -> Int {
    guard let queue = try queue(name)?.number else { return 0 }
    if context.writeTransaction != nil { try flush() }
    return Int(try parts.counts.counter(TaskCounts.key(queue, state)))
  }

  // MARK: - Changing

  func set(_ name: QueueName, isPaused: Bool) throws {
    let number = try number(making: name)
    var queue = try queue(name) ?? TaskNames.Queue(number: number)
    queue.isPaused = isPaused
    try set(queue, name)
  }

  /// 17 and 18. Returns whether it concerns the task.
  func cancel(_ id: TaskID) throws -> Bool {
    if let run = hold(id) {
      try cancel(run)
      return true
    }
    guard let old = try parts.record(id), old.progress.allows(.cancel) else { return false }
    var new = old
    try new.progress.apply(.cancel)
    try end(old, as: new)
    return true
  }

  /// 22. Returns whether the task waited.
  func wake(_ id: TaskID) throws -> Bool {
    if hold(id) != nil { return false }
    guard let old = try parts.record(id), old.progress.allows(.wake) else { return false }
    var new = old
    try new.progress.apply(.wake)
    try move(old, &new)
    return true
  }

  /// 23. Returns whether the task had ended.
  func revive(_ id: TaskID) throws -> Bool {
    if hold(id) != nil { return false }
    // A dead head of a serial queue stands in line.
    let inLine = try parts.record(id)
    let ended = inLine == nil ? try parts.endedRecord(id) : nil
    guard let old = inLine ?? ended?.record, old.progress.allows(.revive) else { return false }
    var new = old
    try new.progress.apply(.revive)
    if new.maxAttempts > 0 { new.maxAttempts = max(new.maxAttempts, new.progress.attempt + 1) }
    guard let ended else {
      try move(old, &new)
      return true
    }
    new.position.kind = .line
    new.position.revision &+= 1
    try apply(TaskEdit.revive(ended.key, counted: old.progress.state, new), from: nil, to: new)
    return true
  }

  /// 24 and 26. Returns whether there was one.
  func delete(_ id: TaskID) throws -> Bool {
    if hold(id) != nil { throw TaskError.taskRunning(id) }
    if let old = try parts.record(id) {
      try apply(TaskEdit.end(old, counted: old.progress.state, as: old, at: nil), from: old, to: nil)
      return true
    }
    guard let (key, record) = try parts.endedRecord(id) else { return false }
    try apply(TaskEdit.forget(key, record), from: nil, to: nil)
    return true
  }

  private func end(_ old: TaskRecord, as new: TaskRecord) throws {
    // What comes and goes in one transaction leaves nothing.
    let isKept = new.retention != .deleteOnSuccess && !new.position.isPending
    let edit = TaskEdit.end(old, counted: old.progress.state, as: new, at: isKept ? time().wall : nil)
    try apply(edit, from: old, to: nil)
  }

  private func move(_ old: TaskRecord, _ new: inout TaskRecord) throws {
    new.position.kind = .line
    new.position.due = 0
    new.delay = 0
    new.signals = []
    if old.position.isPending { return try replace(old, &new) }
    try apply(TaskEdit.move(old, counted: old.progress.state, to: &new), from: old, to: new)
  }
}
