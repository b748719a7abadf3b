internal import Synchronization
@_spi(Extensions) internal import Varve

/// Finding and changing existing tasks.
extension TaskStorageTransaction: TaskChanging {
  var wallNow: Int64 { time().wall }

  // MARK: - Finding

  /// Returns the ids of the tasks of a query, at most `limit`.
  ///
  /// The tasks of a queue come in the order in which they run. Tasks that wait for a time, are parked, are blocked, are
  /// dead, or are kept after their end follow, in this order.
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
      // The signal may be another one with the same hash.
      if value == Array(signal.text.utf8) { ids.append(try TaskKeys.id(of: key, at: 9)) }
    }
    return ids
  }

  /// Calls a closure with each task of a query, until the closure returns false.
  ///
  /// Concurrent changes by others cause no conflict. A caller that changes one of the tasks must
  /// read it again.
  func forEach(_ query: TaskQuery, _ body: (TaskRecord) throws -> Bool) throws {
    try forEach(query, after: nil) { record, _ in try body(record) }
  }

  /// Calls a closure with each task of a query after a position, and with the position of the task, until the closure
  /// returns false. The position of a task that the query names is `nil`.
  func forEach(
    _ query: TaskQuery, after begin: TaskListPosition?, _ body: (TaskRecord, TaskListPosition?) throws -> Bool
  ) throws {
    if query.states?.isEmpty == true { return }
    let parts = parts.unchecked
    if let id = try single(query, parts) {
      guard let record = try parts.record(id) ?? parts.endedRecord(id)?.record else { return }
      if let name = query.queue, try queue(name)?.number != record.position.queue { return }
      if query.fits(record, state(of: record)) { _ = try body(record, nil) }
      return
    }
    if query.uniqueKey != nil { return }
    var number: UInt32?
    if let name = query.queue {
      guard let known = try queue(name)?.number else { return }
      number = known
    }
    var begin = begin
    for (part, prefix, isEnded) in Self.prefixes(query, number, parts) {
      var range = StorageRange(prefix: prefix)
      if let position = begin {
        guard position.isEnded == isEnded, position.key.starts(with: prefix) else { continue }
        range.lower = position.key + [0]
        begin = nil
      }
      var cursor = try part.cursor(range)
      while let (key, value) = try cursor.next() {
        var record = try TaskRecord(value)
        if key[0] == TaskPosition.Kind.queued.rawValue { record.position.stamp = QueuedTask.stamp(of: key) }
        if let number, record.position.queue != number { continue }
        guard query.fits(record, state(of: record)) else { continue }
        if try !body(record, TaskListPosition(isEnded: isEnded, key: key)) { return }
      }
    }
  }

  /// Returns the queues that have a queued or parked task of a kind, of those for which `isWanted` returns true.
  ///
  /// Running tasks are queued. Concurrent changes by others cause no conflict.
  func queues(withTasksOf kind: String, _ isWanted: (QueueName) -> Bool) throws -> Set<QueueName> {
    let live = parts.live.unchecked
    var found: Set<QueueName> = []
    for position in [TaskPosition.Kind.queued, .parked] {
      var range = StorageRange(prefix: [position.rawValue])
      // Each step reads the first task of a queue, and continues after the queue.
      while let (key, _) = try live.first(in: range) {
        var reader = ByteReader(key, at: 1)
        let number: UInt32 = try reader.number()
        let rows = StorageRange(prefix: TaskKeys.waiting(position, number))
        let queue = try name(of: number)
        if !found.contains(queue), isWanted(queue), try has(kind, in: live, rows) { found.insert(queue) }
        guard let next = rows.upper else { break }
        range.lower = next
      }
    }
    return found
  }

  private func has(_ kind: String, in live: Part, _ rows: StorageRange) throws -> Bool {
    var cursor = try live.cursor(rows)
    while let (_, value) = try cursor.next() {
      // A row that can't be read is left out, as the scheduler leaves it out.
      if let record = try? TaskRecord(value), record.kind == kind { return true }
    }
    return false
  }

  /// Returns the one task that a query names by its id or its unique key, or `nil` if the query names none.
  private func single(_ query: TaskQuery, _ parts: TaskParts) throws -> TaskID? {
    if let id = query.id { return id }
    guard let key = query.uniqueKey, let kind = query.kind else { return nil }
    return try parts.config.get(ConfigKeys.unique(kind, key)).map { try ConfigKeys.unique($0).id }
  }

  /// Returns the parts and the prefixes of the keys that the tasks of a query are under, and whether these have ended.
  private static func prefixes(
    _ query: TaskQuery, _ queue: UInt32?, _ parts: TaskParts
  ) -> [(part: Part, prefix: [UInt8], isEnded: Bool)] {
    var prefixes: [(part: Part, prefix: [UInt8], isEnded: Bool)] = []
    func add(_ prefix: [UInt8], isEnded: Bool = false) {
      prefixes.append((isEnded ? parts.ended : parts.live, prefix, isEnded))
    }
    func own(_ kind: TaskPosition.Kind) -> [UInt8] {
      queue.map { TaskKeys.waiting(kind, $0) } ?? [kind.rawValue]
    }
    if query.wants(.ready, .running, .retryWait, .parked, .dead) { add(own(.queued)) }
    if query.wants(.scheduled, .retryWait) { add([TaskPosition.Kind.timed.rawValue]) }
    if query.wants(.parked) { add(own(.parked)) }
    if query.wants(.blocked) { add(own(.blocked)) }
    if query.wants(.dead) { add(EndedKeys.ofQueue(EndedKeys.dead, queue), isEnded: true) }
    if query.wants(.done, .cancelled) {
      add(EndedKeys.ofQueue(EndedKeys.counted, queue), isEnded: true)
      add([EndedKeys.history], isEnded: true)
    }
    return prefixes
  }

  /// Returns the state of a task. Tasks that have an attempt count as `running`, unless their end is stored: an attempt
  /// is noted a little longer.
  private func state(of record: TaskRecord) -> TaskState {
    if TaskEnd(record.progress.state) != nil { return record.progress.state }
    return dispatcher.run(record.id) == nil && foreignRuns[record.id] == nil ? record.progress.state : .running
  }

  func info(_ id: TaskID) throws -> TaskInfo? {
    try (parts.record(id) ?? parts.endedRecord(id)?.record).map { try info($0) }
  }

  /// Returns a task as callers see it, including the progress of its attempt if it runs.
  func info(_ stored: TaskRecord) throws -> TaskInfo {
    var record = stored
    var progress: HandlerProgress?
    if TaskEnd(record.progress.state) != nil {
      // An attempt is noted a little longer than until its end is stored.
    } else if let run = dispatcher.run(record.id), record.progress.state != .running {
      record.progress = run.settled.record.progress
      progress = run.state.withLock { $0.progress }
    } else if let attempt = foreignRuns[record.id] {
      (record.progress.state, record.progress.attempt) = (.running, attempt)
      progress = try parts.config.get(ConfigKeys.progress(record.id)).map { try HandlerProgress($0) }
    }
    let queue = try name(of: record.position.queue)
    let parents = try parents(of: record)
    return TaskInfo(record, queue, progress, parents, waitsFor: try waits(of: record, in: queue, parents))
  }

  private func name(of queue: UInt32) throws -> QueueName {
    if let name = dispatcher.name(queue) ?? texts[queue] { return name }
    for (name, known) in try TaskNames(config).queues { texts[known.number] = name }
    return texts[queue] ?? QueueName("#\(queue)")
  }

  // MARK: - Changing

  /// Returns the ids of the tasks of a query, which no claim takes before the transaction has ended. Those in `moving`
  /// must not be read with checks, unless the caller accepts a conflict.
  func select(_ query: TaskQuery) throws -> [TaskID] {
    let ids = try ids(query)
    if query.id == nil, query.uniqueKey == nil { try hold(ids) }
    return ids
  }

  /// Cancels a task of a selection. One that is in motion is cancelled by the scheduler, like one that runs.
  func cancelSelected(_ id: TaskID) throws -> Bool {
    guard moving.contains(id) else { return try cancel(id) }
    if let run = dispatcher.run(id) {
      try cancel(run)
      return true
    }
    guard let old = try parts.unchecked.record(id), old.progress.allows(.cancel) else { return false }
    try requestCancellation(of: id)
    return true
  }

  /// Returns whether a task of a selection is left as it is because it is in motion, and was in another state than one
  /// when the transaction began.
  func isLeft(_ id: TaskID, unless state: TaskState) throws -> Bool {
    guard moving.contains(id), let before = try parts.unchecked.position(of: id) else { return false }
    return before.state != state
  }

  func change(_ name: QueueName, _ change: (inout TaskNames.Queue) -> Void) throws {
    var queue = try queue(making: name)
    change(&queue)
    try set(queue, name)
  }

  /// Releases a unique key whose task no longer exists. Returns whether the key was taken.
  func forgetKey(_ query: TaskQuery) throws -> Bool {
    guard let own = query.uniqueKey, let kind = query.kind else { return false }
    let key = ConfigKeys.unique(kind, own)
    guard let value = try parts.config.get(key) else { return false }
    try parts.config.delete(key)
    if let until = try ConfigKeys.unique(value).until { try parts.config.delete(ConfigKeys.expiry(until, key)) }
    return true
  }

  /// Transition 25: changes a task that waits.
  func edit(_ id: TaskID, _ change: (inout TaskRecord, _ now: Int64) throws -> Void) throws {
    if hold(id) != nil { throw TaskError.taskRunning(id) }
    guard let old = try parts.record(id) else {
      if let ended = try parts.endedRecord(id)?.record { throw wrongState(ended) }
      throw TaskError.unknownTask(id)
    }
    if !old.progress.state.isWaiting { throw wrongState(old) }
    var new = old
    try change(&new, time().wall)
    try rewrite(old, &new)
  }

  private func wrongState(_ record: TaskRecord) -> TaskError {
    .wrongState(record.id, record.progress.state, call: "edit")
  }

  /// Replaces the row of a task that does not run.
  func rewrite(_ old: TaskRecord, _ new: inout TaskRecord) throws {
    if old.position.isPending { return try replace(old, &new) }
    try apply(TaskEdit.move(old, counted: old.progress.state, to: &new), from: old, to: new)
  }

  /// Applies the end of a task to the tasks that depend on it.
  func settle(_ id: TaskID, as state: TaskState) throws {
    var children = TaskChildren(
      parts, dispatcher.openParents, leavesShared: dispatcher.isAttached, isHeld: { _ in false },
      run: { [self] old in
        _ = hold(old.id)
        var new = try old.unblocked(time().wall)
        try rewrite(old, &new)
      },
      cancel: { [self] old in
        _ = hold(old.id)
        var new = old
        try new.progress.apply(.parentFailed(.cancel))
        new.note("a task that it depends on has failed")
        try end(old, as: new)
      })
    try children.settle(id, as: state)
    for id in children.pending + children.heldPending { note(pending: id) }
  }
}
