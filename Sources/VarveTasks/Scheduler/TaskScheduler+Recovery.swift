internal import FutexLocks
internal import Synchronization
internal import Varve

/// The recovery of tasks that were running when a process died or was closed.
extension TaskScheduler {
  /// Transition 20: queues the tasks that were running when a process died again, each counted as a crash, or
  /// makes them dead.
  ///
  /// Transition 19: in a copy that was made while tasks ran, no process died while it ran them, so their attempts do
  /// not count. The same holds if the database was closed while they ran.
  ///
  /// A task whose crash can't be counted, because its rows are damaged, does not run until the next start, which tries
  /// again. If the claim itself can't be read, its task is not known: it runs again, as its row says, and the crash is
  /// not counted.
  func recover() async throws {
    var count = 0
    var rest = try await readableKeys(TaskKeys.claimPrefix, "claims of tasks")[...]
    while !rest.isEmpty {
      let chunk = Array(rest.prefix(TurnWork.batchMaximum))
      rest = rest.dropFirst(chunk.count)
      let now = WallTime.milliseconds(clock.wallNow)
      let crashed = try await recover(chunk, now)
      count += crashed.count
      try await noteCrashes(crashed, now)
    }
    if count > 0 { SchedulerLog.orphans(logger, count) }
    try await cancelMissed()
    // All claims of the start that it names are recovered, unless some can't be read.
    if dispatcher.state.withLock({ !$0.holds.leftOut.isEmpty }) { return }
    try await database.commitIndependently(label: "tasks: recovery") { parts in
      let config = try TaskParts(parts).config
      if try config.get(ConfigKeys.closedStart) != nil { try config.delete(ConfigKeys.closedStart) }
      // Those of attempts that a transaction ended while the row was written.
      let begun = StorageRange(prefix: [ConfigKeys.begun])
      if try config.first(in: begun) != nil { try config.deleteRange(begun) }
    }
  }

  /// Notes in the last commit, with which the database is closed, that no process died while tasks of the last start
  /// ran.
  ///
  /// No task is claimed after this commit, and the number of the start is not given again. So the note says nothing
  /// about a later death.
  static func noteClose(_ parts: IndependentParts, _ dispatcher: TaskDispatcher) throws {
    guard let start = dispatcher.state.withLock({ $0.recoveredStart }) else { return }
    let parts = try TaskParts(parts)
    // After a stop no task runs.
    guard try parts.live.first(in: StorageRange(prefix: TaskKeys.claimPrefix)) != nil else { return }
    try parts.config.put(ConfigKeys.closedStart, ConfigKeys.closedStart(start))
  }

  /// Returns the keys of `live` with a prefix that can be read.
  private func readableKeys(_ prefix: [UInt8], _ what: String) async throws -> [[UInt8]] {
    // Unlike a read, an independent commit sees all commits that were acknowledged.
    let (keys, damage) = try await database.commitIndependently(label: "tasks: recovery") { parts in
      try TaskDamage.keys(of: StorageRange(prefix: prefix), in: try TaskParts(parts).live)
    }
    if let damage { SchedulerLog.unreadable(logger, what, damage) }
    return keys
  }

  /// Recovers the tasks of claims in one commit, or in several if something is damaged.
  private func recover(_ keys: [[UInt8]], _ now: Int64) async throws -> [TaskRecord] {
    do { return try await recoverAtOnce(keys, now) } catch let error where TaskDamage.isLasting(error) {
      if keys.count > 1 {
        let middle = keys.count / 2
        let first = try await recover(Array(keys[..<middle]), now)
        let second = try await recover(Array(keys[middle...]), now)
        return first + second
      }
      guard let id = try? keys.first.map({ try TaskKeys.id(of: $0, at: 5) }) else { return [] }
      SchedulerLog.unreadable(logger, "task \(id), which ran when the process ended", error)
      dispatcher.leaveOut(id)
      return []
    }
  }

  private func recoverAtOnce(_ keys: [[UInt8]], _ now: Int64) async throws -> [TaskRecord] {
    let limit = UInt32(clamping: configuration.maxCrashes)
    let (dispatcher, continuous) = (dispatcher, clock.continuousNow)
    let (crashed, ended) = try await database.commitIndependently(label: "tasks: recovery") { parts in
      let changes = SchedulerChanges(
        try TaskParts(parts), now: now, continuous: continuous, dispatcher)
      var crashed: [TaskRecord] = []
      let owner = try changes.parts.config.get(ConfigKeys.incarnation).map { try ConfigKeys.incarnation($0) }
      let closedStart = try changes.parts.config.get(ConfigKeys.closedStart).map { try ConfigKeys.closedStart($0) }
      for key in keys {
        guard let value = try changes.parts.live.get(key) else { continue }
        let start = try TaskKeys.start(ofClaim: key)
        // Claims of the database that this one was copied from do not count as crashes.
        let isCopied = owner.map { owner in
          owner.number != dispatcher.incarnation || owner.copiedStart.map { start <= $0 } ?? false
        }
        let isCrash = isCopied != true && start != closedStart
        let record = try Self.recover(key, value, isCrash ? limit : nil, now, changes) { number in
          dispatcher.name(number).map { self.rules(of: $0) } ?? QueueRules()
        }
        if isCrash, let record, record.isSuspect { crashed.append(record) }
      }
      return (crashed, try changes.finish().ended)
    }
    dispatcher.ends.notify(ended)
    return crashed
  }

  /// Cancels the tasks whose attempts ended while a request to cancel them was made, if the process died before the
  /// scheduler examined the requests.
  private func cancelMissed() async throws {
    let keys = try await readableKeys([TaskKeys.cancel], "requests to cancel tasks")
    if keys.isEmpty { return }
    do { try await cancelMissed(keys) } catch let error where TaskDamage.isLasting(error) {
      for key in keys {
        do { try await cancelMissed([key]) } catch let error where TaskDamage.isLasting(error) {
          SchedulerLog.unreadable(logger, "a request to cancel a task", error)
        }
      }
    }
  }

  private func cancelMissed(_ keys: [[UInt8]]) async throws {
    let now = WallTime.milliseconds(clock.wallNow)
    let (dispatcher, continuous) = (dispatcher, clock.continuousNow)
    let ended = try await database.commitIndependently(label: "tasks: recovery") { parts in
      let changes = SchedulerChanges(try TaskParts(parts), now: now, continuous: continuous, dispatcher)
      for key in keys { _ = try changes.cancelMissed(try TaskKeys.id(of: key, at: 1)) }
      return try changes.finish().ended
    }
    dispatcher.ends.notify(ended)
  }

  /// Transition 26: forgets tasks that have ended and are not to be kept any more. Does so at most once a minute.
  func prune() async throws {
    let now = clock.continuousNow
    let isDue = state.withLock { state in
      if let last = state.lastPruned, now < last + .seconds(60) { return false }
      state.lastPruned = now
      return true
    }
    if !isDue { return }
    try await noteTime()
    correctSchedules()
    // What can't be read now is tried again after a minute.
    try await passDamage { try await pruneExpired() }
    try await passDamage { try await pruneCounted() }
    try await passDamage { try await pruneKeys() }
  }

  private func passDamage(_ step: () async throws -> Void) async throws {
    do { try await step() } catch let error where TaskDamage.isLasting(error) {
      SchedulerLog.unreadable(logger, "tasks that have ended, or unique keys that are free again", error)
    }
  }

  /// Forgets the tasks that are kept for a time which has passed.
  private func pruneExpired() async throws {
    let range = EndedKeys.expired(WallTime.milliseconds(clock.wallNow))
    while try await database.commitIndependently(
      label: "tasks: pruning",
      { parts in
        let parts = try TaskParts(parts)
        var counts = TaskCounts()
        var cursor = try parts.ended.cursor(range)
        var count = 0
        while count < TurnWork.batchMaximum, let (key, value) = try cursor.next() {
          _ = try TaskEdit.forget(key, TaskRecord(value)).write(to: parts, &counts)
          count += 1
        }
        try counts.write(to: parts.counts)
        return count == TurnWork.batchMaximum
      })
    {}
  }

  /// Forgets the oldest of the tasks that are kept by number. In each queue it leaves as many as the retention of the
  /// last one says.
  private func pruneCounted() async throws {
    while try await database.commitIndependently(
      label: "tasks: pruning",
      { parts in
        let parts = try TaskParts(parts)
        var counts = TaskCounts()
        var (queue, left, count) = (UInt32?.none, 0, 0)
        var cursor = try parts.ended.cursor(StorageRange(prefix: [EndedKeys.counted]), isReverse: true)
        while count < TurnWork.batchMaximum, let (key, value) = try cursor.next() {
          let record = try TaskRecord(value)
          if queue != record.position.queue {
            queue = record.position.queue
            left = if case .keepCount(let number) = record.retention { number } else { 1 }
          }
          left -= 1
          if left >= 0 { continue }
          _ = try TaskEdit.forget(key, record).write(to: parts, &counts)
          count += 1
        }
        try counts.write(to: parts.counts)
        return count == TurnWork.batchMaximum
      })
    {}
  }

  /// Deletes the unique keys that are not taken any more.
  private func pruneKeys() async throws {
    let now = WallTime.milliseconds(clock.wallNow)
    while try await database.commitIndependently(
      label: "tasks: pruning",
      { parts in
        let config = try TaskParts(parts).config
        var count = 0
        var cursor = try config.cursor(
          StorageRange(lower: ConfigKeys.expiry(.min), upper: ConfigKeys.expiry(now)), keysOnly: true)
        while count < TurnWork.batchMaximum, let (key, _) = try cursor.next() {
          let unique = ConfigKeys.unique(ofExpiry: key)
          // The key may have been taken again since the entry was written.
          if let value = try config.get(unique), let until = try ConfigKeys.unique(value).until, until <= now {
            try config.delete(unique)
          }
          try config.delete(key)
          count += 1
        }
        return count == TurnWork.batchMaximum
      })
    {}
  }

  /// Recovers the task of one claim, and returns its new record, or `nil` if the task does not exist any more.
  ///
  /// `limit` is the maximum number of crashes, or `nil` if the attempt does not count.
  private static func recover(
    _ key: [UInt8], _ value: [UInt8], _ limit: UInt32?, _ now: Int64, _ changes: SchedulerChanges,
    _ rules: (UInt32) -> QueueRules
  ) throws -> TaskRecord? {
    let parts = changes.parts
    let id = try TaskKeys.id(of: key, at: 5)
    let position = try TaskPosition(value, at: TaskKeys.claimPositionOffset)
    guard var stored = try parts.record(id, at: position) else {
      try parts.live.delete(key)
      return nil
    }
    let counted = stored.progress.state
    stored.progress.isCancelling = try parts.live.get(TaskKeys.cancel(id)) != nil
    // A handler that was cancelled, or has reported its progress, has begun.
    let hasBegun =
      try !TaskKeys.isAhead(value) || stored.progress.isCancelling
      || parts.config.get(ConfigKeys.begun(id)) == key || parts.config.get(ConfigKeys.progress(id)) != nil
    try parts.config.delete(ConfigKeys.begun(id))
    if let (stepKey, _) = try parts.live.first(in: StorageRange(prefix: TaskKeys.step(id)), isReverse: true) {
      var reader = ByteReader(stepKey, at: 9)
      stored.step = try reader.number()
    }
    try parts.config.delete(ConfigKeys.progress(id))
    var record = stored
    if !hasBegun {
      // In a copy, or after a close, the task can't be what has killed a process.
      if limit == nil || stored.mayHaveBegun {
        try parts.live.delete(key)
        return nil
      }
      record.mayHaveBegun = true
      _ = try changes.write(TaskEdit.move(stored, counted: counted, to: &record, claim: key))
      return record
    }
    record.progress.state = .ready
    try record.progress.apply(.claim)
    if let limit {
      try record.progress.apply(.orphan(limit: limit))
      (record.isSuspect, record.mayHaveBegun) = (true, false)
    } else {
      try record.progress.apply(.interrupt(epoch: record.progress.epoch))
    }
    let rules = rules(position.queue)
    let state = record.progress.state
    if state == .dead { record.note("the process died \(record.progress.crashes) times while the task ran") }
    if state == .cancelled || (state == .dead && !rules.blocksOnDead) {
      let isKept = state == .dead || record.retention != .deleteOnSuccess
      // A cancelled task that keeps others blocked stays until the last of them is gone, whatever its retention.
      let isNeeded = try state == .cancelled && TaskChildren.blocks(id, parts)
      let ending: TaskEnding? = isNeeded ? .needed : isKept ? .kept(now) : nil
      _ = try changes.write(TaskEdit.end(stored, counted: counted, as: record, at: ending, claim: key))
    } else {
      record.position.due = 0
      record.position.isFront = rules.isSerial
      _ = try changes.write(TaskEdit.move(stored, counted: counted, to: &record, claim: key))
    }
    if state.isSettled { try changes.settle(id, as: state) }
    return record
  }

  /// Sends and keeps the events of tasks that have crashed.
  private func noteCrashes(_ records: [TaskRecord], _ now: Int64) async throws {
    var events: [TaskEvent] = []
    for record in records {
      let queue = dispatcher.name(record.position.queue) ?? ""
      if record.progress.state == .dead { SchedulerLog.dead(logger, record, queue) }
      for (kind, isSo) in [(TaskEvent.Kind.crashed, true), (.dead, record.progress.state == .dead)] where isSo {
        events.append(
          TaskEvent(
            kind, record.id, record.kind, queue, attempt: Int(record.progress.attempt), now, record.errors.last))
      }
    }
    hub.send(events)
    try await keep(events)
  }

  /// Keeps those events of the start whose kinds the database keeps.
  func keep(_ events: [TaskEvent]) async throws {
    let kept = events.filter { configuration.keptEvents.contains($0.kind) }
    if kept.isEmpty { return }
    let least = state.withLock { $0.nextEvent }
    let (next, damage) = try await database.commitIndependently(label: "tasks: recovery") { parts in
      let parts = try TaskParts(parts)
      let (first, damage) = try Self.nextEvent(parts)
      var number = max(first, least)
      for event in kept {
        try TaskEventRecord.put(event, number, to: parts.events)
        number += 1
      }
      return (number, damage)
    }
    state.withLock { $0.nextEvent = max($0.nextEvent, next) }
    if let damage { SchedulerLog.unreadable(logger, "the number of the last event", damage) }
  }
}
