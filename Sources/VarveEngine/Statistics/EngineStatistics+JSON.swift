/// The statistics as one JSON object in one line, as published and as printed by `varve stats --json`.
///
/// Later versions may add members; existing ones keep their meaning. Times are in nanoseconds, sizes in bytes.
extension EngineStatistics {
  /// The statistics as JSON.
  public var json: String { json(familyCountMaximum: .max) }

  /// Returns the statistics as JSON with at most `familyCountMaximum` families, those with the most bytes.
  ///
  /// `familyCount` is the number of all families.
  func json(familyCountMaximum: Int) -> String {
    var writer = JSONWriter()
    writer.object { json in
      json.string("databaseID", Self.hexadecimal(databaseID))
      json.number("formatVersion", formatVersion)
      json.number("readCount", readCount)
      json.number("tableBytes", tableBytes)
      json.number("eventsDroppedCount", eventsDroppedCount)
      json.number("familyCount", families.count)
      json.array("levels") { Self.write(levels, to: &$0) }
      json.array("families") { json in
        for family in largestFamilies(familyCountMaximum) { json.object { family.write(to: &$0) } }
      }
      json.object("log") { log.write(to: &$0) }
      json.object("work") { work.write(to: &$0) }
      json.object("amplification") { json in
        json.number("write", amplification.write)
        json.number("read", amplification.read)
        json.number("space", amplification.space)
      }
      json.array("damagedBlocks") { json in
        for block in damagedBlocks { json.object { block.write(to: &$0) } }
      }
      json.array("stalls") { json in for stall in stalls { json.object { stall.write(to: &$0) } } }
      json.object("cache") { cache.write(to: &$0) }
      json.object("memory") { memory.write(to: &$0) }
      json.object("readers") { readers.write(to: &$0) }
      json.object("latencies") { json in
        for (name, histogram) in latencies.all { json.object(name) { histogram.write(to: &$0) } }
      }
    }
    return writer.text
  }

  private func largestFamilies(_ countMaximum: Int) -> [Family] {
    guard families.count > countMaximum else { return families }
    func size(_ family: Family) -> UInt64 { family.levels.reduce(0) { $0 + $1.bytes } }
    let largest = families.sorted { (size($0), $1.id) > (size($1), $0.id) }.prefix(countMaximum)
    return largest.sorted { $0.id < $1.id }
  }

  private static func hexadecimal(_ number: UInt64) -> String {
    let digits = String(number, radix: 16)
    return String(repeating: "0", count: 16 - digits.utf8.count) + digits
  }

  /// Writes the levels that have tables.
  fileprivate static func write(_ levels: [Level], to json: inout JSONWriter) {
    for (number, level) in levels.enumerated() where level.fileCount > 0 {
      json.object { json in
        json.number("level", number)
        json.number("files", level.fileCount)
        json.number("bytes", level.bytes)
        json.number("entries", level.entryCount)
        json.number("tombstones", level.tombstoneCount)
      }
    }
  }
}

extension EngineStatistics.Family {
  fileprivate func write(to json: inout JSONWriter) {
    json.string("name", name)
    json.number("id", id.value)
    if isVolatile { json.number("volatile", 1) }
    json.number("memTableEntries", memTableEntryCount)
    json.number("coveredRuns", coveredRunCount)
    json.number("rangeTombstoneTables", rangeTombstoneTableCount)
    json.array("levels") { EngineStatistics.write(levels, to: &$0) }
  }
}

extension EngineStatistics.Log {
  fileprivate func write(to json: inout JSONWriter) {
    json.number("segments", segmentCount)
    json.number("bytes", bytes)
    json.number("bytesAppended", bytesAppended)
    json.number("durableSequence", durableSequence.value)
    json.number("visibleSequence", visibleSequence.value)
  }
}

extension EngineStatistics.Work {
  fileprivate func write(to json: inout JSONWriter) {
    json.number("flushes", flushCount)
    json.number("bytesFlushRead", bytesFlushRead)
    json.number("bytesFlushed", bytesFlushed)
    json.number("compactions", compactionCount)
    json.number("moves", moveCount)
    json.number("bytesCompactionRead", bytesCompactionRead)
    json.number("bytesCompactionWritten", bytesCompactionWritten)
    json.number("tablesDroppedUnread", droppedUnreadCount)
    json.number("coveredRuns", coveredRunCount)
    json.number("failures", failureCount)
    json.array("levels") { json in
      for (number, level) in levels.enumerated() where level.compactionCount > 0 {
        json.object { json in
          json.number("level", number)
          json.number("compactions", level.compactionCount)
          json.number("bytesRead", level.bytesRead)
          json.number("bytesWritten", level.bytesWritten)
        }
      }
    }
  }
}

extension DamagedBlock {
  fileprivate func write(to json: inout JSONWriter) {
    json.string("family", family)
    json.number("table", table)
    json.number("level", level)
    json.string("file", file)
    if let offset { json.number("offset", offset) }
    json.string("message", message)
  }
}

extension EngineStatistics.Stall {
  fileprivate func write(to json: inout JSONWriter) {
    json.string("cause", cause.rawValue)
    json.number("count", count)
    json.number("nanoseconds", nanoseconds)
  }
}

extension EngineStatistics.Cache {
  fileprivate func write(to json: inout JSONWriter) {
    json.number("hits", hitCount)
    json.number("misses", missCount)
    json.number("inserted", insertedCount)
    json.number("insertedBytes", insertedBytes)
    json.number("evicted", evictedCount)
    json.number("evictedBytes", evictedBytes)
    json.number("refused", refusedCount)
    json.number("bytes", bytes)
    json.number("capacity", capacity)
  }
}

extension EngineStatistics.Memory {
  fileprivate func write(to json: inout JSONWriter) {
    json.number("limit", limit)
    json.number("used", used)
    json.number("excess", excess)
    json.number("memTables", memTables)
    json.number("log", log)
    json.number("cache", cache)
    json.number("openTables", openTables)
    json.number("openTableCount", openTableCount)
    json.number("compaction", compaction)
    json.number("other", other)
  }
}

extension EngineStatistics.Readers {
  fileprivate func write(to json: inout JSONWriter) {
    json.number("snapshots", snapshotCount)
    json.number("cursors", cursorCount)
    if let oldestSequence { json.number("oldestSequence", oldestSequence.value) }
    if let age = oldestSnapshotAgeNanoseconds { json.number("oldestSnapshotAge", age) }
    if let age = oldestCursorAgeNanoseconds { json.number("oldestCursorAge", age) }
    if let age = oldestReadAgeNanoseconds { json.number("oldestReadAge", age) }
    json.number("keptMemTables", keptMemTableCount)
    json.number("keptBytes", keptBytes)
    json.number("keptFiles", keptFileCount)
    json.number("keptFileBytes", keptFileBytes)
  }
}

extension LatencyHistogram {
  fileprivate func write(to json: inout JSONWriter) {
    json.number("samples", count)
    json.number("mean", meanNanoseconds.rounded())
    json.number("p50", percentile(50))
    json.number("p90", percentile(90))
    json.number("p99", percentile(99))
    json.number("p999", percentile(99.9))
    json.number("max", maximumNanoseconds)
  }
}
