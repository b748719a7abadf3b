internal import Synchronization
internal import Varve

/// The part of a scheduler's start that reads the database. Of the tasks that wait, it reads only those that run next.
extension TaskScheduler {
  /// Records a start, and returns its number. Compares the wall clock with the latest time at which tasks were run, and
  /// also returns an event if the clock was set back.
  func noteStart() async throws -> (number: UInt32, setBack: TaskEvent?) {
    let now = WallTime.milliseconds(clock.wallNow)
    let (number, latest) = try await database.commitAside(label: "tasks: start") { [dispatcher] parts in
      let parts = try TaskParts(parts)
      if try parts.config.get(ConfigKeys.incarnation) == nil {
        try parts.config.put(ConfigKeys.incarnation, ConfigKeys.incarnation(dispatcher.incarnation))
      }
      let next = try parts.numbers.counter(TaskNumbers.start) + 1
      try parts.numbers.add(next, to: TaskNumbers.start)
      return (UInt32(truncatingIfNeeded: next), try Self.raiseTime(now, parts.config))
    }
    guard let latest, now < latest - Self.setBackMinimum else { return (number, nil) }
    TaskLog.setBack(logger, now: clock.wallNow, latest: WallTime.date(latest))
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
    let latest = try config.get(ConfigKeys.latestTime).map { value in
      var reader = ByteReader(value)
      return try reader.time()
    }
    if latest.map({ $0 < now }) ?? true { try config.put(ConfigKeys.latestTime, ConfigKeys.latestTime(now)) }
    return latest
  }

  /// Stores the time of day for the next start.
  func noteTime() async throws {
    let now = WallTime.milliseconds(clock.wallNow)
    _ = try await database.commitAside(label: "tasks: time") { parts in
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
      try loadTokens(parts.config)
      let last = try parts.events.first(isReverse: true)
      let next = try last.map { try TaskEventRecord.number(of: $0.key) + 1 } ?? 1
      state.withLock { $0.nextEvent = max($0.nextEvent, next) }
    }
  }

  /// The maximum number of tasks with children that a start reads.
  private static let parentMaximum = 4_096

  /// Loads the tasks that others depend on, and those that have ended before all their children received it.
  private func loadParents(_ parts: TaskParts) throws {
    var found: [TaskID] = []
    var range = StorageRange(prefix: [TaskKeys.children])
    while found.count < Self.parentMaximum, let (key, _) = try parts.live.first(in: range) {
      let id = try TaskKeys.id(of: key, at: 1)
      found.append(id)
      guard id.rawValue < .max else { break }
      range.lower = TaskKeys.child(of: TaskID(rawValue: id.rawValue + 1))
    }
    var pending: [TaskID] = []
    var cursor = try parts.config.cursor(StorageRange(prefix: [ConfigKeys.pending]), keysOnly: true)
    while let (key, _) = try cursor.next() { pending.append(try TaskKeys.id(of: key, at: 1)) }
    dispatcher.loadParents(found, areAll: found.count < Self.parentMaximum, pending: pending)
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

  /// Returns the lines that have tasks.
  ///
  /// Complexity: one seek for each line.
  static func lines(_ live: Part) throws -> [LineID] {
    var lines: [LineID] = []
    var range = StorageRange(prefix: [TaskPosition.Kind.line.rawValue])
    while let (key, _) = try live.first(in: range) {
      let line = try LineID(of: key)
      lines.append(line)
      if line.lane < .max {
        range.lower = LineID(queue: line.queue, lane: line.lane + 1).begin
      } else if line.queue < .max {
        range.lower = TaskKeys.lines(line.queue + 1)
      } else {
        break
      }
    }
    return lines
  }
}
