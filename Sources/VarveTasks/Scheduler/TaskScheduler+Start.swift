internal import Synchronization
internal import Varve

/// What a scheduler reads when it starts: nothing of tasks that wait, except of those that are next.
extension TaskScheduler {
  func load() async throws {
    let from = dispatcher.beginLoadingTimers()
    try await readAcknowledged(database) { tx in
      let parts = try tx.tasks.parts
      if let from { try loadTimers(from, parts.live) }
      try loadParents(parts)
      try loadTokens(parts.config)
      let last = try parts.events.first(isReverse: true)
      let next = try last.map { try TaskEventRecord.number(of: $0.key) + 1 } ?? 1
      state.withLock { $0.nextEvent = max($0.nextEvent, next) }
    }
  }

  /// So many tasks that others depend on are looked for.
  private static let parentMaximum = 4_096

  /// Tasks that others depend on, and those that have ended without their children having received it.
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
    dispatcher.load(parents: found, areAll: found.count < Self.parentMaximum, pending: pending)
  }

  private func loadTokens(_ config: Part) throws {
    var tokens: [UInt32: TokenBucket] = [:]
    var cursor = try config.cursor(StorageRange(prefix: [ConfigKeys.tokens]))
    while let (key, value) = try cursor.next() {
      var reader = ByteReader(key, at: 1)
      tokens[try reader.number()] = try TokenBucket(value)
    }
    dispatcher.load(tokens)
  }

  /// The lines that have tasks. Complexity: a seek for each.
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
