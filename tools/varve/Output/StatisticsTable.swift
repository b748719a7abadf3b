import VarveEngine

/// The metrics of an engine as text for people: about twenty lines, with the changes since the previous metrics.
struct StatisticsTable {
  let metrics: EngineStatistics
  /// The previous metrics, and the number of seconds since they were taken.
  var before: (metrics: EngineStatistics, seconds: Double)?

  var lines: [String] {
    let totals = [work, amplification, cache, memory, readers]
    return [flow, log, tables] + levels + totals + deadRuns + stalls + damage + latencies
  }

  private var flow: String {
    guard let (old, seconds) = before, seconds > 0 else {
      return "entries   \(metrics.log.visibleSequence) committed, \(Count.text(metrics.readCount, "key")) looked up"
    }
    func rate(_ new: UInt64, _ old: UInt64) -> Double { Double(new - min(old, new)) / seconds }
    let entries = rate(metrics.log.visibleSequence.value, old.log.visibleSequence.value)
    let bytes = rate(metrics.log.bytesAppended, old.log.bytesAppended)
    let reads = rate(metrics.readCount, old.readCount)
    return "entries   \(metrics.log.visibleSequence) committed, \(SizeText.fixed(entries, 0)) a second, "
      + "\(SizeText.text(UInt64(bytes))) a second; \(SizeText.fixed(reads, 0)) keys looked up a second"
  }

  private var log: String {
    let log = metrics.log
    return "log       \(SizeText.text(log.bytes)) in \(Count.text(log.segmentCount, "segment")); "
      + "durable to \(log.durableSequence), visible to \(log.visibleSequence)"
  }

  private var tables: String {
    let volatile = metrics.families.count { $0.isVolatile }
    let entries = metrics.families.reduce(0) { $0 + $1.memTableEntryCount }
    let files = metrics.levels.reduce(0) { $0 + $1.fileCount }
    var text = "tables    \(SizeText.text(metrics.tableBytes)) in \(Count.text(files, "file")) of "
    text += Count.text(metrics.familyCount, "family", plural: "families")
    if volatile > 0 { text += " (\(volatile) volatile)" }
    return text + "; \(Count.text(entries, "entry", plural: "entries")) in memtables"
  }

  private var levels: [String] {
    metrics.levels.filter { $0.fileCount > 0 }.map { level in
      "  level \(level.level): " + LevelText.text(level) + compactions(into: level.level)
    }
  }

  private func compactions(into level: Int) -> String {
    let work = metrics.work.levels[level]
    guard work.compactionCount > 0 else { return "" }
    return "; \(Count.text(work.compactionCount, "compaction")) wrote \(SizeText.text(work.bytesWritten))"
  }

  private var work: String {
    let work = metrics.work
    var text = "work      \(Count.text(work.flushCount, "flush", plural: "flushes")) wrote "
    text += "\(SizeText.text(work.bytesFlushed)); \(Count.text(work.compactionCount, "compaction")) read "
    text += "\(SizeText.text(work.bytesCompactionRead)), wrote \(SizeText.text(work.bytesCompactionWritten)); "
    text += "\(Count.text(work.moveCount, "move")), \(Count.text(work.droppedUnreadCount, "table")) dropped unread, "
    return text + Count.text(work.failureCount, "failure")
  }

  private var amplification: String {
    let amplification = metrics.amplification
    return "amplified write \(SizeText.fixed(amplification.write, 2)), read \(amplification.read), "
      + "space \(SizeText.fixed(amplification.space, 2))"
  }

  private var cache: String {
    let cache = metrics.cache
    var text = "cache     \(SizeText.text(cache.bytes)) of \(SizeText.text(cache.capacity)); "
    text += "\(Count.text(cache.hitCount, "hit")), \(Count.text(cache.missCount, "miss", plural: "misses"))"
    if cache.hitCount + cache.missCount > 0 { text += ", \(SizeText.fixed(100 * cache.hitRatio, 1)) % found" }
    return text + "; \(cache.evictedCount) evicted"
  }

  private var memory: String {
    let memory = metrics.memory
    return "memory    \(SizeText.text(memory.used)) of \(SizeText.text(memory.limit)): memtables "
      + "\(SizeText.text(memory.memTables)), log \(SizeText.text(memory.log)), cache \(SizeText.text(memory.cache)), "
      + "\(Count.text(memory.openTableCount, "open table")) \(SizeText.text(memory.openTables)), compaction "
      + "\(SizeText.text(memory.compaction)), other \(SizeText.text(memory.other))"
  }

  private var readers: String {
    let readers = metrics.readers
    func age(_ nanoseconds: UInt64?) -> String {
      nanoseconds.map { ", oldest \(SizeText.fixed(Double($0) / 1e9, 1)) s" } ?? ""
    }
    return "readers   \(Count.text(readers.snapshotCount, "snapshot"))\(age(readers.oldestSnapshotAgeNanoseconds)); "
      + "\(Count.text(readers.cursorCount, "cursor"))\(age(readers.oldestCursorAgeNanoseconds))"
  }

  private var stalls: [String] {
    metrics.stalls.filter { $0.count > 0 }.map {
      "stall     \($0.cause): \(Count.text($0.count, "wait")), \(Self.time($0.nanoseconds)) together"
    }
  }

  private var deadRuns: [String] {
    metrics.families.filter { $0.coveredRunCount > 0 }.map { family in
      "dead runs \(family.coveredRunCount) covered by cursors in family \"\(family.name)\"; "
        + "\(Count.text(family.rangeTombstoneTableCount, "table")) with range tombstones"
    }
  }

  private var damage: [String] {
    metrics.damagedBlocks.map { block in
      let location = block.offset.map { " at byte \($0)" } ?? ""
      return "damaged   \(block.file)\(location): \(block.message); family \"\(block.family)\", level \(block.level), "
        + "not compacted"
    }
  }

  private var latencies: [String] {
    metrics.latencies.all.filter { !$0.histogram.isEmpty }.map { name, latency in
      func percentile(_ percent: Double) -> String { Self.time(latency.percentile(percent)) }
      let padded = name + String(repeating: " ", count: max(1, 12 - name.count))
      return padded + "p50 \(percentile(50)), p90 \(percentile(90)), p99 \(percentile(99)), p99.9 \(percentile(99.9)), "
        + "longest \(Self.time(latency.maximumNanoseconds)); \(latency.count) timed"
    }
  }

  /// Returns nanoseconds in a suitable unit.
  private static func time(_ nanoseconds: UInt64) -> String {
    switch nanoseconds {
    case ..<10_000: "\(nanoseconds) ns"
    case ..<10_000_000: "\(SizeText.fixed(Double(nanoseconds) / 1e3, 1)) us"
    case ..<10_000_000_000: "\(SizeText.fixed(Double(nanoseconds) / 1e6, 1)) ms"
    default: "\(SizeText.fixed(Double(nanoseconds) / 1e9, 1)) s"
    }
  }
}

/// The tables of a level as text for people.
enum LevelText {
  static func text(_ level: EngineStatistics.Level) -> String {
    var text =
      "\(Count.text(level.fileCount, "file")), \(SizeText.text(level.bytes)), "
      + Count.text(level.entryCount, "entry", plural: "entries")
    if level.tombstoneCount > 0 { text += ", " + Count.text(level.tombstoneCount, "tombstone") }
    if level.rangeTombstoneCount > 0 { text += ", " + Count.text(level.rangeTombstoneCount, "range tombstone") }
    return text
  }
}
