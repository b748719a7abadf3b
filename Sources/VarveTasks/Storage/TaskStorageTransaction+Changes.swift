internal import Synchronization
public import Varve

/// Tasks that are there already.
extension TaskStorageTransaction {
  // MARK: - Finding

  /// The tasks of a query: those of a queue in the order in which they run, then those that wait for a time, that are parked,
  /// blocked, dead, and kept. At most so many.
  func ids(_ query: TaskQuery, limit: Int = .max) throws -> [TaskID] {
    var ids: [TaskID] = []
    try forEach(query) { record in
      ids.append(record.id)
      return ids.count < limit
    }
    return ids
  }

  func ids(_ signal: WakeSignal) throws -> [TaskID] {
    var ids: [TaskID] = []
    var cursor = try parts.live.unchecked.cursor(StorageRange(prefix: TaskKeys.signal(signal)))
    while let (key, value) = try cursor.next() {
      // Another signal may have the same hash.
      if value == Array(signal.text.utf8) { ids.append(try TaskKeys.id(of: key, at: 9)) }
    }
    return ids
  }

  /// Calls `body` with the tasks of a query until it returns false. What others change beside the transaction does not conflict:
  /// the caller that changes one of them looks at it again.
  func forEach(_ query: TaskQuery, _ body: (TaskRecord) throws -> Bool) throws {
    if query.states?.isEmpty == true { return }
    let parts = parts.unchecked
    if let id = try single(query, parts) {
      guard let record = try parts.record(id) ?? parts.endedRecord(id)?.record else { return }
      if let name = query.queue, try queue(name)?.number != record.position.queue { return }
      if query.fits(record, state(of: record)) { _ = try body(record) }
      return
    }
    if query.uniqueKey != nil { return }
    var number: UInt32?
    if let name = query.queue {
      guard let known = try queue(name)?.number else { return }
      number = known
    }
    for (part, prefix) in Self.prefixes(query, number, parts) {
      var cursor = try part.cursor(StorageRange(prefix: prefix))
      while let (key, value) = try cursor.next() {
        var record = try TaskRecord(value)
        if key[0] == TaskPosition.Kind.line.rawValue { record.position.stamp = LineEntry.stamp(of: key) }
        if let number, record.position.queue != number { continue }
        if query.fits(record, state(of: record)), try !body(record) { return }
      }
    }
  }

  /// The task that a query names by itself; nil: it names none so.
  private func single(_ query: TaskQuery, _ parts: TaskParts) throws -> TaskID? {
    if let id = query.id { return id }
    guard let key = query.uniqueKey, let kind = query.kind else { return nil }
    return try parts.config.get(ConfigKeys.unique(kind, key)).map { try ConfigKeys.unique($0).id }
  }

  /// Where the tasks of a query stand.
  private static func prefixes(_ query: TaskQuery, _ queue: UInt32?, _ parts: TaskParts) -> [(Part, [UInt8])] {
    var prefixes: [(Part, [UInt8])] = []
    func own(_ kind: TaskPosition.Kind) -> [UInt8] {
      queue.map { TaskKeys.waiting(kind, $0) } ?? [kind.rawValue]
    }
    if query.wants(.ready, .running, .retryWait, .parked, .dead) { prefixes.append((parts.live, own(.line))) }
    if query.wants(.scheduled, .retryWait) { prefixes.append((parts.live, [TaskPosition.Kind.timed.rawValue])) }
    if query.wants(.parked) { prefixes.append((parts.live, own(.parked))) }
    if query.wants(.blocked) { prefixes.append((parts.live, own(.blocked))) }
    if query.wants(.dead) {
      prefixes.append((parts.ended, EndedKeys.ofQueue(EndedKeys.dead, queue)))
    }
    if query.wants(.done, .cancelled) {
      prefixes.append((parts.ended, EndedKeys.ofQueue(EndedKeys.counted, queue)))
      prefixes.append((parts.ended, [EndedKeys.history]))
    }
    return prefixes
  }

  /// The state that a task is in, with those that run.
  private func state(of record: TaskRecord) -> TaskState {
    dispatcher.run(record.id) == nil && foreignRuns[record.id] == nil ? record.progress.state : .running
  }

  func info(_ id: TaskID) throws -> TaskInfo? {
    try (parts.record(id) ?? parts.endedRecord(id)?.record).map { try info($0) }
  }

  /// A task as callers see it, with what runs.
  func info(_ stored: TaskRecord) throws -> TaskInfo {
    var record = stored
    var progress: HandlerProgress?
    if let run = dispatcher.run(record.id), record.progress.state != .running {
      record.progress = run.settled.record.progress
      progress = run.state.withLock { $0.progress }
    } else if let attempt = foreignRuns[record.id] {
      (record.progress.state, record.progress.attempt) = (.running, attempt)
      progress = try parts.config.get(ConfigKeys.progress(record.id)).map { try HandlerProgress($0) }
    }
    return TaskInfo(record, try name(of: record.position.queue), progress)
  }

  private func name(of queue: UInt32) throws -> QueueName {
    if let name = dispatcher.name(queue) { return name }
    return try TaskNames(config).queues.first { $0.value.number == queue }?.key ?? QueueName("#\(queue)")
  }

  func taskCount(_ name: QueueName, _ state: TaskState) throws -> Int {
    guard let queue = try queue(name)?.number else { return 0 }
    if context.writeTransaction != nil { try flush() }
    return Int(try parts.counts.unchecked.counter(TaskCounts.key(queue, state)))
  }

  // MARK: - Changing

  func change(_ name: QueueName, _ change: (inout TaskNames.Queue) -> Void) throws {
    var queue = try queue(making: name)
    change(&queue)
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
    if old.progress.state == .blocked { try TaskChildren.removeParents(of: id, parts) }
    try settle(id, as: .cancelled)
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
    if let key = old.extras.uniqueKey { try takeAgain(ConfigKeys.unique(old.kind, key), id) }
    // A group that it belonged to has counted it already.
    new.extras.group = nil
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
      try apply(TaskEdit.delete(old), from: old, to: nil)
      if old.progress.state == .blocked { try TaskChildren.removeParents(of: id, parts) }
      try settle(id, as: .done)
      return true
    }
    guard let (key, record) = try parts.endedRecord(id) else { return false }
    try apply(TaskEdit.forget(key, record, isDeleted: true), from: nil, to: nil)
    try settle(id, as: .done)
    return true
  }

  /// 25: changes a task that waits.
  func edit(_ id: TaskID, _ change: (inout TaskRecord, _ now: Int64) -> Void) throws {
    if hold(id) != nil { throw TaskError.taskRunning(id) }
    guard let old = try parts.record(id) else {
      if let ended = try parts.endedRecord(id)?.record { throw wrongState(ended) }
      throw TaskError.unknownTask(id)
    }
    if !old.progress.state.isWaiting { throw wrongState(old) }
    var new = old
    change(&new, time().wall)
    try rewrite(old, &new)
  }

  private func wrongState(_ record: TaskRecord) -> TaskError {
    .wrongState(record.id, record.progress.state, call: "edit")
  }

  /// Those that depend on a task receive that it has ended.
  func settle(_ id: TaskID, as state: TaskState) throws {
    var children = TaskChildren(
      parts, isHeld: { _ in false },
      run: { [self] old in
        _ = hold(old.id)
        var new = try old.unblocked(time().wall)
        try rewrite(old, &new)
      },
      cancel: { [self] old in
        _ = hold(old.id)
        var new = old
        try new.progress.apply(.parentFailed(.cancel))
        try end(old, as: new)
      })
    try children.settle(id, as: state)
    for id in children.pending { note(pending: id) }
  }

  /// A task that is revived has its key again. Throws where another one has it.
  private func takeAgain(_ key: [UInt8], _ id: TaskID) throws {
    if let value = try parts.config.get(key) {
      let (owner, until) = try ConfigKeys.unique(value)
      if owner != id, until.map({ $0 > time().wall }) ?? true { throw TaskError.duplicate(of: owner) }
      if owner == id { return }
    }
    try parts.config.put(key, ConfigKeys.uniqueValue(id, until: nil))
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
    try rewrite(old, &new)
  }

  /// Writes a task that does not run again.
  func rewrite(_ old: TaskRecord, _ new: inout TaskRecord) throws {
    if old.position.isPending { return try replace(old, &new) }
    try apply(TaskEdit.move(old, counted: old.progress.state, to: &new), from: old, to: new)
  }
}
