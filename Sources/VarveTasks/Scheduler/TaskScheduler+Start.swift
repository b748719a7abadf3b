internal import Synchronization
internal import Varve

/// The part of a scheduler's start that reads the database. Of the tasks that wait, it reads only those that run next.
extension TaskScheduler {
  /// Records a start, and returns its number. Compares the wall clock with the latest time at which tasks were run, and
  /// also returns an event if the clock was set back.
  func noteStart() async throws -> (number: UInt32, setBack: TaskEvent?) {
    let now = WallTime.milliseconds(clock.wallNow)
    let (number, latest) = try await database.commitIndependently(label: "tasks: start") { [dispatcher] parts in
      let parts = try TaskParts(parts)
      if try parts.config.get(ConfigKeys.incarnation) == nil {
        try parts.config.put(ConfigKeys.incarnation, ConfigKeys.incarnation(dispatcher.incarnation))
      }
      let next = try parts.numbers.counter(TaskNumbers.start) + 1
      try parts.numbers.add(next, to: TaskNumbers.start)
      return (UInt32(truncatingIfNeeded: next), try Self.raiseTime(now, parts.config))
    }
    guard let latest, now < latest - Self.setBackMinimum else { return (number, nil) }
    SchedulerLog.setBack(logger, now: clock.wallNow, latest: WallTime.date(latest))
    let event = TaskEvent(
      .clockSetBack, TaskID(rawValue: 0), "", "", attempt: 0, now, "tasks have run at \(WallTime.date(latest))")
    hub.send([event])
    return (number, event)
  }

  /// The minimum time in milliseconds by which the clock must have been set back. A smaller change may be a correction.
  private static let setBackMinimum: Int64 = 3_600_000

  /// Stores the time of day if it is the latest so far, and returns the latest time that the disk had.
  ///
  /// The times of tasks are not changed, whatever the clock shows.
  private static func raiseTime(_ now: Int64, _ config: Part) throws -> Int64? {
    let latest = try latestTime(config)
    if latest.map({ $0 < now }) ?? true { try config.put(ConfigKeys.latestTime, ConfigKeys.latestTime(now)) }
    return latest
  }

  private static func latestTime(_ config: Part) throws -> Int64? {
    try config.get(ConfigKeys.latestTime).map { value in
      var reader = ByteReader(value)
      return try reader.time()
    }
  }

  /// Stores the time of day for the next start.
  func noteTime() async throws {
    let now = WallTime.milliseconds(clock.wallNow)
    _ = try await database.commitIndependently(label: "tasks: time") { parts in
      try Self.raiseTime(now, try TaskParts(parts).config)
    }
  }

  /// Loads the timers and tokens, and the tasks that others depend on, for the start with a number.
  func loadState(_ start: UInt32) async throws {
    let from = dispatcher.beginLoadingTimers()
    try await readAcknowledged(database) { tx in
      let parts = try tx.tasks.parts
      if let from { try loadTimers(from, parts.live, of: start) }
      try loadParents(parts)
      do { try loadTokens(parts.config) } catch let error where TaskDamage.isLasting(error) {
        SchedulerLog.unreadable(logger, "the tokens of queues, which begin with all of theirs", error)
      }
      let (next, damage) = try Self.nextEvent(parts)
      if let damage { SchedulerLog.unreadable(logger, "the number of the last event", damage) }
      state.withLock { $0.nextEvent = max($0.nextEvent, next) }
    }
  }

  /// Returns the number of the next event that the database keeps, and an error if the last one can't be read.
  ///
  /// In that case it is the first number from which on there are no events, neither readable ones nor others, so that
  /// no number is assigned again. Complexity: 64 seeks. If nothing of the events can be read, that is not known, and
  /// the number is the latest time of day at which tasks were run, in milliseconds since 1970: no database has kept one
  /// event in each millisecond since then.
  static func nextEvent(_ parts: TaskParts) throws -> (number: UInt64, damage: (any Error)?) {
    do {
      let last = try parts.events.first(isReverse: true)
      return (try last.map { try TaskEventRecord.number(of: $0.key) + 1 } ?? 1, nil)
    } catch let error where TaskDamage.isLasting(error) {
      var (low, high) = (UInt64(0), UInt64.max)
      while high - low > 1 {
        let middle = low + (high - low) / 2
        do {
          let first = try parts.events.first(in: StorageRange(lower: TaskEventRecord.key(middle)))
          if first == nil { high = middle } else { low = middle }
        } catch let other where TaskDamage.isLasting(other) { low = middle }
      }
      if high < 1 << 62 { return (high, error) }
      let latest = try latestTime(parts.config) ?? 1
      return (UInt64(max(1, latest)), error)
    }
  }

  /// The maximum number of tasks with children that a start reads.
  private static let parentMaximum = 4_096

  /// Loads the tasks that others depend on, and those that have ended before all their children received it.
  private func loadParents(_ parts: TaskParts) throws {
    var found: [TaskID] = []
    var areAll = true
    var range = StorageRange(prefix: [TaskKeys.children])
    do {
      while found.count < Self.parentMaximum, let (key, _) = try parts.live.first(in: range) {
        let id = try TaskKeys.id(of: key, at: 1)
        found.append(id)
        guard id.rawValue < .max else { break }
        range.lower = TaskKeys.child(of: TaskID(rawValue: id.rawValue + 1))
      }
    } catch let error where TaskDamage.isLasting(error) {
      // Every task may be one that others depend on.
      SchedulerLog.unreadable(logger, "tasks that depend on others", error)
      areAll = false
    }
    let (pending, damage) = try TaskDamage.keys(of: StorageRange(prefix: [ConfigKeys.pending]), in: parts.config)
    if let damage { SchedulerLog.unreadable(logger, "tasks that depend on others which have ended", damage) }
    dispatcher.loadParents(
      found, areAll: areAll && found.count < Self.parentMaximum,
      pending: pending.compactMap { try? TaskKeys.id(of: $0, at: 1) })
  }

  private func loadTokens(_ config: Part) throws {
    var tokens: [UInt32: TokenBucket] = [:]
    var cursor = try config.cursor(StorageRange(prefix: [ConfigKeys.tokens]))
    while let (key, value) = try cursor.next() {
      var reader = ByteReader(key, at: 1)
      tokens[try reader.number()] = try TokenBucket(value)
    }
    dispatcher.loadTokens(tokens)
  }

  /// Returns the subqueues that have tasks, and those that may have tasks but whose first one can't be read.
  ///
  /// Complexity: one seek for each subqueue.
  func subqueues(_ live: Part) throws -> [SubqueueID] {
    var subqueues: [SubqueueID] = []
    var range = StorageRange(prefix: [TaskPosition.Kind.queued.rawValue])
    while true {
      do {
        guard let (key, _) = try live.first(in: range) else { return subqueues }
        let subqueue = try SubqueueID(of: key)
        subqueues.append(subqueue)
        if subqueue.lane < .max {
          range.lower = SubqueueID(queue: subqueue.queue, lane: subqueue.lane + 1).begin
        } else if subqueue.queue < .max {
          range.lower = TaskKeys.subqueues(subqueue.queue + 1)
        } else {
          return subqueues
        }
      } catch let error where TaskDamage.isLasting(error) {
        SchedulerLog.unreadable(logger, "the first tasks of some queues", error)
        let next = try TaskDamage.end(of: range, in: live)
        // Reading their tasks passes those that can't be read. Limit keys are known only by their tasks.
        subqueues += dispatcher.queueNumbers.map { SubqueueID(queue: $0) }.filter { subqueue in
          !QueuedTask.precedes(subqueue.begin, range.lower)
            && next.map { QueuedTask.precedes(subqueue.begin, $0) } ?? true
        }
        guard let next else { return subqueues }
        range.lower = next
      }
    }
  }
}
