internal import Synchronization
internal import Varve

/// Tasks that were running when a process died, or was closed.
extension TaskScheduler {
  /// 20: puts them in line again, each counted as a crash, or makes them dead.
  func recover(start: UInt32) async throws {
    var count = 0
    var from = TaskKeys.claimPrefix
    while true {
      let begin = from
      let limit = UInt32(clamping: configuration.maxCrashes)
      let now = WallTime.milliseconds(clock.wallNow)
      let names = dispatcher
      let (found, next) = try await database.commitAside(label: "tasks: recovery") { parts in
        let parts = try TaskParts(parts)
        var range = StorageRange(prefix: TaskKeys.claimPrefix)
        range.lower = begin
        var cursor = try parts.live.cursor(range)
        var keys: [(key: [UInt8], value: [UInt8])] = []
        while keys.count < TaskWork.batchMaximum, let entry = try cursor.next() { keys.append(entry) }
        var counts = TaskCounts()
        for (key, value) in keys {
          try Self.recover(key, value, limit, now, parts, &counts) { number in
            names.name(number).map { self.rules(of: $0) } ?? QueueRules()
          }
        }
        try counts.write(to: parts.counts)
        return (keys.count, keys.last.map { $0.key + [0] })
      }
      count += found
      guard let next, found == TaskWork.batchMaximum else { break }
      from = next
    }
    if count > 0 { TaskLog.orphans(logger, count) }
    // Tasks that were to be cancelled, and ended before.
    try await database.commitAside(label: "tasks: recovery") { parts in
      let live = try TaskParts(parts).live
      var cursor = try live.cursor(StorageRange(prefix: [TaskKeys.cancel]))
      while let (key, _) = try cursor.next() { try live.delete(key) }
    }
  }

  /// 26: forgets tasks that have ended and are not to be kept any more. Looks at most once a minute.
  func prune() async throws {
    let now = clock.continuousNow
    let isDue = state.withLock { state in
      if let last = state.lastPruned, now < last + .seconds(60) { return false }
      state.lastPruned = now
      return true
    }
    if !isDue { return }
    let range = EndedKeys.expired(WallTime.milliseconds(clock.wallNow))
    while try await database.commitAside(
      label: "tasks: pruning",
      { parts in
        let parts = try TaskParts(parts)
        var counts = TaskCounts()
        var cursor = try parts.ended.cursor(range)
        var count = 0
        while count < TaskWork.batchMaximum, let (key, value) = try cursor.next() {
          _ = try TaskEdit.forget(key, TaskRecord(value)).write(to: parts, &counts)
          count += 1
        }
        try counts.write(to: parts.counts)
        return count == TaskWork.batchMaximum
      })
    {}
  }

  /// One of them.
  private static func recover(
    _ key: [UInt8], _ value: [UInt8], _ limit: UInt32, _ now: Int64, _ parts: TaskParts, _ counts: inout TaskCounts,
    _ rules: (UInt32) -> QueueRules
  ) throws {
    let id = try TaskKeys.id(of: key, at: 5)
    let position = try TaskPosition(value, at: TaskKeys.claimPositionOffset)
    guard var stored = try parts.record(id, at: position) else {
      return try parts.live.delete(key)
    }
    let counted = stored.progress.state
    stored.progress.isCancelling = try parts.live.get(TaskKeys.cancel(id)) != nil
    if let (stepKey, _) = try parts.live.first(in: StorageRange(prefix: TaskKeys.step(id)), isReverse: true) {
      var reader = ByteReader(stepKey, at: 9)
      stored.step = try reader.number()
    }
    var record = stored
    record.progress.state = .ready
    try record.progress.apply(.claim)
    try record.progress.apply(.orphan(limit: limit))
    let rules = rules(position.queue)
    switch record.progress.state {
    case .dead where !rules.blocksOnDead:
      record.note("the process died \(record.progress.crashes) times while the task ran")
      _ = try TaskEdit.end(stored, counted: counted, as: record, at: now, claim: key).write(to: parts, &counts)
    case .cancelled:
      let isKept = record.retention != .deleteOnSuccess
      _ = try TaskEdit.end(stored, counted: counted, as: record, at: isKept ? now : nil, claim: key).write(
        to: parts, &counts)
    default:
      if record.progress.state == .dead {
        record.note("the process died \(record.progress.crashes) times while the task ran")
      }
      record.position.due = 0
      record.position.isFront = rules.isSerial
      _ = try TaskEdit.move(stored, counted: counted, to: &record, claim: key).write(to: parts, &counts)
    }
  }
}
