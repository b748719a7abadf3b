/// The metrics of an engine as text for people: about twenty lines, with the changes since the previous metrics.
struct StatisticsTable {
  let metrics: DecodedStatistics
  /// The previous metrics, and the number of seconds since they were taken.
  var before: (metrics: DecodedStatistics, seconds: Double)?

  var lines: [String] {
    let totals = [work, amplification, cache, memory, readers]
    return [flow, log, tables] + levels + totals + deadRuns + stalls + damage + latencies
  }

  private var flow: String {
    guard let (old, seconds) = before, seconds > 0 else {
      return "entries   \(metrics.log.visibleSequence) committed, \(metrics.readCount) keys looked up"
    }
    func rate(_ new: UInt64, _ old: UInt64) -> Double { Double(new - min(old, new)) / seconds }
    let entries = rate(metrics.log.visibleSequence, old.log.visibleSequence)
    let bytes = rate(metrics.log.bytesAppended, old.log.bytesAppended)
    let reads = rate(metrics.readCount, old.readCount)
    return "entries   \(metrics.log.visibleSequence) committed, \(SizeText.fixed(entries, 0)) a second, "
      + "\(SizeText.text(UInt64(bytes))) a second; \(SizeText.fixed(reads, 0)) keys looked up a second"
  }

  private var log: String {
    let log = metrics.log
    return "log       \(SizeText.text(log.bytes)) in \(log.segments) segments; durable to \(log.durableSequence), "
      + "visible to \(log.visibleSequence)"
  }

  private var tables: String {
    let volatile = metrics.families.count { $0.volatile == 1 }
    let entries = metrics.families.reduce(0) { $0 + $1.memTableEntries }
    return "tables    \(SizeText.text(metrics.tableBytes)) in \(metrics.levels.reduce(0) { $0 + $1.files }) files of "
      + "\(metrics.familyCount) families\(volatile > 0 ? " (\(volatile) volatile)" : ""); "
      + "\(entries) entries in memtables"
  }

  private var levels: [String] {
    metrics.levels.map { level in
      "  level \(level.level): \(level.files) files, \(SizeText.text(level.bytes)), \(level.entries) entries, "
        + "\(level.tombstones) tombstones" + compactions(into: level.level)
    }
  }

  private func compactions(into level: Int) -> String {
    guard let work = metrics.work.levels.first(where: { $0.level == level }) else { return "" }
    return "; \(work.compactions) compactions wrote \(SizeText.text(work.bytesWritten))"
  }

  private var work: String {
    let work = metrics.work
    return
      "work      \(work.flushes) flushes wrote \(SizeText.text(work.bytesFlushed)); \(work.compactions) compactions "
      + "read \(SizeText.text(work.bytesCompactionRead)), wrote \(SizeText.text(work.bytesCompactionWritten)); "
      + "\(work.moves) moves, \(work.tablesDroppedUnread) tables dropped unread, \(work.failures) failures"
  }

  private var amplification: String {
    let amplification = metrics.amplification
    return "amplified write \(SizeText.fixed(amplification.write, 2)), read \(amplification.read), "
      + "space \(SizeText.fixed(amplification.space, 2))"
  }

  private var cache: String {
    let cache = metrics.cache
    let lookups = cache.hits + cache.misses
    let share = lookups == 0 ? "" : ", \(SizeText.fixed(100 * Double(cache.hits) / Double(lookups), 1)) % found"
    return "cache     \(SizeText.text(cache.bytes)) of \(SizeText.text(cache.capacity)); \(cache.hits) hits, "
      + "\(cache.misses) misses\(share); \(cache.evicted) evicted"
  }

  private var memory: String {
    let memory = metrics.memory
    return "memory    \(SizeText.text(memory.used)) of \(SizeText.text(memory.limit)): memtables "
      + "\(SizeText.text(memory.memTables)), log \(SizeText.text(memory.log)), cache \(SizeText.text(memory.cache)), "
      + "\(memory.openTableCount) open tables \(SizeText.text(memory.openTables)), compaction "
      + "\(SizeText.text(memory.compaction)), other \(SizeText.text(memory.other))"
  }

  private var readers: String {
    let readers = metrics.readers
    func age(_ nanoseconds: UInt64?) -> String {
      nanoseconds.map { ", oldest \(SizeText.fixed(Double($0) / 1e9, 1)) s" } ?? ""
    }
    return "readers   \(readers.snapshots) snapshots\(age(readers.oldestSnapshotAge)); "
      + "\(readers.cursors) cursors\(age(readers.oldestCursorAge))"
  }

  private var stalls: [String] {
    metrics.stalls.filter { $0.count > 0 }.map {
      "stall     \($0.cause): \($0.count) waits, \(Self.time($0.nanoseconds)) together"
    }
  }

  private var deadRuns: [String] {
    metrics.families.filter { ($0.coveredRuns ?? 0) > 0 }.map { family in
      "dead runs \(family.coveredRuns ?? 0) covered by cursors in family \"\(family.name)\"; "
        + "\(family.rangeTombstoneTables ?? 0) tables with range tombstones"
    }
  }

  private var damage: [String] {
    (metrics.damagedBlocks ?? []).map { block in
      let location = block.offset.map { " at byte \($0)" } ?? ""
      return "damaged   \(block.file)\(location): \(block.message); family \"\(block.family)\", level \(block.level), "
        + "not compacted"
    }
  }

  private var latencies: [String] {
    let names = ["put", "write", "transaction", "get", "multiGet", "seek", "sync", "flush", "compaction"]
    return names.compactMap { name in
      guard let latency = metrics.latencies[name], latency.samples > 0 else { return nil }
      let padded = name + String(repeating: " ", count: max(1, 12 - name.count))
      return padded + "p50 \(Self.time(latency.p50)), p90 \(Self.time(latency.p90)), p99 \(Self.time(latency.p99)), "
        + "p99.9 \(Self.time(latency.p999)), longest \(Self.time(latency.max)); \(latency.samples) timed"
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
