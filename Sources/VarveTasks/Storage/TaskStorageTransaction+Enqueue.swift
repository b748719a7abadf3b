internal import Synchronization
@_spi(Extensions) internal import Varve

/// Enqueueing tasks.
extension TaskStorageTransaction {
  /// Adds a task to a queue. Throws, without writing, if an option can't be used, or if a value is too large.
  func enqueue(
    _ kind: String, version: UInt16, _ payload: [UInt8], _ options: TaskOptions, _ extras: TaskExtras = TaskExtras()
  ) throws -> EnqueueResult {
    try TaskDraft.check(kind, payload, options)
    let queue = try queue(making: options.queue)
    if queue.isDraining { throw TaskError.queueDraining(options.queue) }
    if let limit = dispatcher.maxWaiting(options.queue) { try requireRoom(options.queue, queue.number, limit) }
    var extras = extras
    var parents: [(id: TaskID, rule: ParentFailure)] = []
    var earlier: TaskID?
    if let unique = options.unique {
      let key = unique.key.map { Array($0.utf8) } ?? Self.key(of: payload)
      let resolution = try resolveConflict(kind, key, version, payload, unique)
      if let result = resolution.result { return result }
      earlier = resolution.after
      if let earlier { parents.append((earlier, .runAnyway)) }
      extras.uniqueKey = key
      extras.uniqueUntil = unique.end(time().wall)
    }
    if !options.dependsOn.isEmpty {
      for parent in try openParents(options.dependsOn) where !parents.contains(where: { $0.id == parent }) {
        parents.append((parent, options.onParentFailure))
      }
    }
    let id = try takeID()
    for parent in options.dependsOn where dispatcher.run(parent) != nil { note(id, waitingFor: parent) }
    if let key = extras.uniqueKey { try take(ConfigKeys.unique(kind, key), id, extras.uniqueUntil, earlier) }
    extras.limitKey = options.limitKey
    extras.headers = options.headers
    if let group = options.group { try join(group, id, &extras) }
    try add(id, kind, version, payload, options, extras, queue.number, parents)
    return .inserted(id)
  }

  private func add(
    _ id: TaskID, _ kind: String, _ version: UInt16, _ payload: [UInt8], _ options: TaskOptions, _ extras: TaskExtras,
    _ queue: UInt32, _ parents: [(id: TaskID, rule: ParentFailure)]
  ) throws {
    let wall = time().wall
    var draft = TaskDraft(options.start, now: wall)
    if !parents.isEmpty || extras.isGroup { (draft.kind, draft.state) = (.blocked, .blocked) }
    var position = TaskPosition(
      draft.kind, queue: queue, priority: options.priority, sortKey: options.sortKey?.bytes ?? [],
      stamp: TaskPosition.pendingStamp, ordinal: try takeOrdinal(), due: draft.due)
    if options.limitKey != nil { position.lane = SubqueueID.lane(options.limitKey) }
    var record = TaskRecord(
      id: id, progress: TaskProgress(draft.state), position: position, enqueued: wall, kind: kind, version: version,
      payload: payload, options)
    record.delay = draft.delay
    record.signals = draft.signals
    if !extras.isEmpty { record.extras = extras }
    try put(record)
    for (parent, rule) in parents { try link(parent, id, rule) }
  }

  /// Makes a task wait for another one.
  private func link(_ parent: TaskID, _ child: TaskID, _ rule: ParentFailure) throws {
    try parts.live.put(TaskKeys.child(of: parent, child), [rule.rawValue])
    try parts.live.put(TaskKeys.parent(of: child, parent), [])
    note(parent: parent)
    let unchecked = parts.unchecked
    if let (_, position) = try unchecked.position(of: parent) {
      if position.isPending { return }
      // The parent may end in a concurrent commit that does not see the child, so its end is looked up
      // later.
      return try checkLater(parent, known: nil)
    }
    // A task that is dead stays until it is deleted, which lets its children run. A cancelled one may be forgotten.
    let state = try unchecked.endedRecord(parent)?.record.progress.state
    try checkLater(parent, known: state == .cancelled ? state : nil)
  }

  private func checkLater(_ parent: TaskID, known state: TaskState?) throws {
    let key = ConfigKeys.pending(parent)
    let value = ConfigKeys.pendingUnknown(state)
    if try parts.config.unchecked.get(key) == value, !dispatcher.isAttached { return }
    try parts.config.unchecked.put(key, value)
    note(pending: parent)
  }

  /// Returns the tasks that are not done, without duplicates. Throws `TaskError.unknownTask` for an id that was never
  /// assigned.
  private func openParents(_ ids: [TaskID]) throws -> [TaskID] {
    var open: [TaskID] = []
    let unchecked = parts.unchecked
    for id in ids where !open.contains(id) {
      guard dispatcher.isKnown(id) else { throw TaskError.unknownTask(id) }
      if try unchecked.position(of: id) != nil {
        open.append(id)
      } else if let ended = try unchecked.endedRecord(id), ended.record.progress.state != .done {
        open.append(id)
      }
    }
    return open
  }

  // MARK: - Unique keys

  /// Returns the unique key of a payload without one: its bytes, or for a long payload two hashes of the bytes and
  /// their number.
  private static func key(of payload: [UInt8]) -> [UInt8] {
    if payload.count <= TaskLimits.uniqueKeySize { return [Uniqueness.wholeKey] + payload }
    var key = [Uniqueness.hashedKey]
    key.append(number: StableHash.of(payload))
    key.append(number: StableHash.of(payload.reversed()))
    key.append(number: UInt64(payload.count))
    return key
  }

  /// Looks up the task that has a unique key, and applies the rule for conflicts.
  ///
  /// Returns the result of the call if no task needs to be added, or the task after which the new one must run, or
  /// neither. The new one runs after a task that runs, if the rule says so, and by each rule after one that has the key
  /// only until its attempt ends, but is not to be done by it.
  private func resolveConflict(
    _ kind: String, _ key: [UInt8], _ version: UInt16, _ payload: [UInt8], _ unique: Uniqueness
  ) throws -> (result: EnqueueResult?, after: TaskID?) {
    // The read is not checked at the commit, because the scheduler releases keys concurrently with this transaction all
    // the time.
    guard let value = try parts.config.unchecked.get(ConfigKeys.unique(kind, key)) else { return (nil, nil) }
    let (id, until) = try ConfigKeys.unique(value)
    if let until, until <= time().wall { return (nil, nil) }
    if until == nil {
      if id == completing { return (nil, nil) }
      if try isToBeCancelled(id) { return (nil, id) }
    }
    switch unique.onConflict {
    case .fail: throw TaskError.duplicate(of: id)
    case .skip: return (.duplicate(of: id, try knownState(of: id)), nil)
    case .replacePayload, .debounce, .rerun: break
    }
    if hold(id) != nil { return (nil, id) }
    guard let old = try parts.record(id), old.progress.state != .dead else {
      return (.duplicate(of: id, try knownState(of: id)), nil)
    }
    var new = old
    new.payload = payload
    new.version = version
    if case .debounce(let delay, let maxWait) = unique.onConflict {
      new.putOff(delay, atMost: maxWait, now: time().wall)
    }
    try rewrite(old, &new)
    return (.replaced(id), nil)
  }

  /// Returns the state of a task, or `nil` if it does not exist any more.
  private func knownState(of id: TaskID) throws -> TaskState? {
    if dispatcher.run(id) != nil { return .running }
    let parts = parts.unchecked
    return try parts.position(of: id)?.state ?? parts.endedRecord(id)?.record.progress.state
  }

  /// Returns whether the scheduler will cancel a task: when its attempt ends without success, or because a task that it
  /// depends on has failed.
  private func isToBeCancelled(_ id: TaskID) throws -> Bool {
    if dispatcher.run(id)?.state.withLock({ $0.isCancelling }) == true { return true }
    let parts = parts.unchecked
    if try parts.live.get(TaskKeys.cancel(id)) != nil { return true }
    return try parts.position(of: id)?.state == .blocked && TaskChildren.isToBeCancelled(id, parts)
  }

  /// Gives a unique key to a task. If `earlier` has the key, it may release the key at any time, so the write is then
  /// not checked at the commit.
  private func take(_ key: [UInt8], _ id: TaskID, _ until: Int64?, _ earlier: TaskID?) throws {
    let config = earlier == nil ? parts.config : parts.config.unchecked
    try config.put(key, ConfigKeys.uniqueValue(id, until: until))
    if let until, until < .max { try config.put(ConfigKeys.expiry(until, key), []) }
  }

  // MARK: - Groups

  /// Adds a task that runs when the tasks of its group have ended, and calls `members` to enqueue those tasks.
  func enqueueGroup(
    _ kind: String, version: UInt16, _ payload: [UInt8], _ options: TaskOptions, _ members: (TaskID) throws -> Void
  ) throws -> TaskID {
    if options.unique != nil { throw TaskError.invalidValue("the last task of a group can't be unique") }
    if case .parked = options.start { throw TaskError.invalidValue("the last task of a group can't be parked") }
    var extras = TaskExtras()
    extras.isGroup = true
    let id = try enqueue(kind, version: version, payload, options, extras).id
    try members(id)
    // The task of a group without members runs at once.
    if try parts.live.first(in: StorageRange(prefix: TaskKeys.parent(of: id))) == nil, let old = try parts.record(id) {
      var new = try old.unblocked(time().wall)
      try rewrite(old, &new)
    }
    return id
  }

  private func join(_ group: TaskID, _ id: TaskID, _ extras: inout TaskExtras) throws {
    guard let (state, _) = try parts.position(of: group), let record = try parts.record(group), record.extras.isGroup
    else { throw TaskError.invalidValue("task \(group) is not the last one of a group that has not ended") }
    if state != .blocked { throw TaskError.wrongState(group, state, call: "enqueue") }
    extras.group = group
    countMember(of: group)
    // The last task of the group waits for this task, whatever its end.
    try parts.live.put(TaskKeys.child(of: id, group), [ParentFailure.runAnyway.rawValue])
    try parts.live.put(TaskKeys.parent(of: group, id), [])
    note(parent: id)
  }

  /// Returns the progress of a group, or `nil` if the group no longer exists.
  func group(_ id: TaskID) throws -> TaskGroupInfo? {
    guard let record = try parts.record(id) ?? parts.endedRecord(id)?.record, record.extras.isGroup else { return nil }
    if context.writeTransaction != nil { try flush() }
    let counts = parts.counts.unchecked
    let numbers = try TaskCounts.groupStates.map { Int(try counts.counter(TaskCounts.key(group: id, $0))) }
    return TaskGroupInfo(id: id, total: numbers[0], done: numbers[1], dead: numbers[2], cancelled: numbers[3])
  }

}

extension TaskRecord {
  /// Makes the task wait for a duration from now on, but not longer than `maxWait` after it was enqueued.
  ///
  /// A task that waits for something other than a time or its turn is not put off, and neither is one that has been run
  /// or postponed by its handler: it would never be run again while others come.
  mutating func putOff(_ delay: Duration, atMost maxWait: Duration?, now: Int64) {
    guard !position.isFront, progress.state == .ready || progress.state == .scheduled, progress.attempt == 0,
      progress.snoozes == 0
    else { return }
    let end = maxWait.map { min(enqueued + $0.milliseconds, WallTime.latest) } ?? WallTime.latest
    let due = min(now + max(1, delay.milliseconds), end)
    if delay <= .zero || due <= now { return }
    progress.state = .scheduled
    position.kind = .timed
    self.delay = due - now
    position.due = due
  }
}
