import EngineTestSupport
import Foundation
import Testing

@testable import EngineFixtures
@testable import VarveEngine

/// Tests of the statistics of an engine against the work that was done with it.
struct EngineStatisticsTests {
  @Test func `levels, entries and tombstones are those of the tables`() throws {
    let observed = try ObservedEngine()
    let engine = observed.engine
    let other = try engine.createFamily("other")
    try observed.put(0..<1_000)
    try observed.put(0..<50, in: other)
    #expect(engine.statistics.families.map(\.memTableEntryCount) == [1_000, 50])
    try engine.flush()
    for index in 0..<100 { try engine.delete(ObservedEngine.key(index)) }
    try engine.flush()
    var statistics = engine.statistics
    #expect(statistics.families.map(\.name) == ["default", "other"])
    #expect(statistics.families.map(\.memTableEntryCount) == [0, 0])
    #expect(statistics.levels.reduce(0) { $0 + $1.entryCount } == 1_150)
    #expect(statistics.levels.reduce(0) { $0 + $1.tombstoneCount } == 100)
    #expect(statistics.families[1].levels.reduce(0) { $0 + $1.entryCount } == 50)
    try engine.compact()
    statistics = engine.statistics
    #expect(statistics.levels.last?.entryCount == 950 && statistics.levels.last?.tombstoneCount == 0)
    #expect(statistics.tableBytes == statistics.levels.reduce(0) { $0 + $1.bytes })
    #expect(statistics.amplification.space == 1)
    #expect(statistics.amplification.read == 1)
    _ = try observed.close()
  }

  @Test func `write amplification is the ratio of the bytes written to the bytes committed`() throws {
    let observed = try ObservedEngine()
    try observed.put(0..<2_000)
    try observed.engine.flush()
    let statistics = observed.engine.statistics
    let (log, work) = (statistics.log, statistics.work)
    #expect(log.bytesAppended > 2_000 * 30 && log.bytesAppended < 2_000 * 90)
    #expect(work.flushCount >= 1 && work.bytesFlushRead > 0 && work.bytesFlushed > 0)
    let expected = Double(log.bytesAppended + work.bytesFlushed + work.bytesCompactionWritten)
    #expect(statistics.amplification.write == expected / Double(log.bytesAppended))
    _ = try observed.close()
  }

  @Test func `a manual compaction has removed the files of replaced tables when it returns`() throws {
    let observed = try ObservedEngine()
    for round in 0..<3 {
      try observed.put(round * 10..<2_000)
      try observed.engine.compact()
      let levels = observed.engine.statistics.levels
      let files = try observed.faults.list("/db").filter { $0.hasSuffix(".sst") }
      #expect(!files.isEmpty && files.count == levels.reduce(0) { $0 + $1.fileCount }, "\(files)")
    }
    _ = try observed.close()
  }

  @Test func `compactions are counted by the level that they write to`() throws {
    let observed = try ObservedEngine()
    for round in 0..<3 {
      try observed.put(round * 10..<2_000)
      try observed.engine.flush()
    }
    try observed.engine.compact()
    let work = observed.engine.statistics.work
    #expect(work.levels.count == Limits.levelCount && work.levels[0] == LevelWork())
    #expect(work.compactionCount > 0 && work.compactionCount == work.levels.reduce(0) { $0 + $1.compactionCount })
    #expect(work.bytesCompactionRead == work.levels.reduce(0) { $0 + $1.bytesRead })
    #expect(work.bytesCompactionWritten == work.levels.reduce(0) { $0 + $1.bytesWritten })
    for level in work.levels { #expect((level.compactionCount > 0) == (level.bytesRead > 0)) }
    let events = try observed.close()
    let written = events.reduce(into: Array(repeating: UInt64(0), count: Limits.levelCount)) { sums, event in
      guard case .compactionEnded(let compaction, let outcome) = event, !compaction.isMove else { return }
      for table in outcome.outputs { sums[compaction.outputLevel] += table.bytes }
    }
    #expect(work.levels.map(\.bytesWritten) == written)
  }

  @Test func `unlogged commits count in write amplification by their memtables`() throws {
    let observed = try ObservedEngine()
    for index in 0..<500 { try observed.engine.put(ObservedEngine.key(index), [1], durability: Durability.none) }
    try observed.engine.flush()
    let statistics = observed.engine.statistics
    #expect(statistics.log.bytesAppended == 0)
    #expect(statistics.amplification.write > 0 && statistics.amplification.write < 1)
    _ = try observed.close()
  }

  @Test func `hits, misses and evictions of the cache are counted`() throws {
    var options = EngineTests.options()
    options.cacheSize = 64 << 10
    let observed = try ObservedEngine(options)
    try observed.put(0..<20_000)
    try observed.engine.compact()
    let before = observed.engine.statistics.cache
    for _ in 0..<2 { _ = try observed.engine.get(ObservedEngine.key(7)) }
    let after = observed.engine.statistics.cache
    #expect(after.missCount > before.missCount, "the first read finds nothing")
    #expect(after.hitCount > before.hitCount, "the second does")
    for index in stride(from: 0, to: 20_000, by: 10) { _ = try observed.engine.get(ObservedEngine.key(index)) }
    let full = observed.engine.statistics.cache
    #expect(full.evictedCount > 0 && full.evictedBytes > 0 && full.bytes <= full.capacity)
    #expect(full.hitRatio > 0 && full.hitRatio < 1)
    _ = try observed.close()
  }

  @Test func `one operation in 64 is timed, and every flush and sync`() throws {
    let observed = try ObservedEngine()
    let engine = observed.engine
    try observed.put(0..<6_400)
    for index in 0..<6_400 { _ = try engine.get(ObservedEngine.key(index)) }
    for _ in 0..<640 {
      var cursor = try engine.cursor()
      try cursor.seek(ObservedEngine.key(5))
    }
    for index in 0..<640 {
      var batch = WriteBatch()
      for entry in 0..<64 { try batch.put(ObservedEngine.key(index), [UInt8(entry)]) }
      try engine.write(batch)
    }
    for index in 0..<128 { _ = try engine.multiGet((0..<5).map { ObservedEngine.key(index + $0) }) }
    for index in 0..<640 { try engine.transaction { try $0.put(ObservedEngine.key(index), [1]) } }
    try engine.sync()
    try engine.flush()
    let statistics = engine.statistics
    let latencies = statistics.latencies
    #expect((90...110).contains(latencies.put.count))
    #expect(latencies.get.count == 100)
    #expect(latencies.multiGet.count == 10, "640 keys")
    #expect((5...15).contains(latencies.transaction.count))
    #expect(statistics.readCount == 6_400 + 640)
    #expect(latencies.seek.count == 10)
    #expect((5...15).contains(latencies.write.count))
    #expect(latencies.sync.count >= 1)
    #expect(latencies.flush.count == statistics.work.flushCount)
    let names = ["put", "write", "transaction", "get", "multiGet", "seek", "sync", "flush", "compaction"]
    #expect(latencies.all.map(\.name) == names)
    _ = try observed.close()
  }

  @Test func `a sync that takes long is measured by the engine's clock`() throws {
    let observed = try ObservedEngine()
    let clock = observed.executor.clock
    clock.advance(1)
    observed.faults.interruptNext(.sync, pathSuffix: ".log") { clock.advance(5_000_000) }
    try observed.engine.put([1], [1], durability: .power)
    let sync = observed.engine.statistics.latencies.sync
    #expect(sync.maximumNanoseconds == 5_000_000 && sync.percentile(100) == 5_000_000)
    _ = try observed.close()
  }

  @Test func `waits for a flush and for a segment of the log are counted by cause`() throws {
    let observed = try ObservedEngine()
    let clock = observed.executor.clock
    // Background jobs run only when a caller waits, so both causes occur.
    observed.faults.interruptNext(.createFile, pathSuffix: ".sst") { clock.advance(1_000_000) }
    #expect(!observed.engine.mayDelayWrites)
    try observed.put(0..<30_000)
    #expect(observed.engine.mayDelayWrites)
    try observed.engine.flush()
    #expect(!observed.engine.mayDelayWrites)
    let stalls = observed.engine.statistics.stalls
    #expect(stalls.map(\.cause) == StallCause.allCases)
    #expect(stalls[0].count > 0 && stalls[0].nanoseconds >= 1_000_000)
    #expect(stalls[2].count > 0)
    let events = try observed.close()
    for cause in [StallCause.frozenMemTables, .logSegment] {
      let began = events.filter { if case .stallBegan(cause) = $0 { true } else { false } }.count
      let ended = events.filter { if case .stallEnded(cause, _) = $0 { true } else { false } }.count
      #expect(began > 0 && began == ended, "\(cause)")
    }
  }

  @Test func `the log's statistics follow commits and syncs`() throws {
    let observed = try ObservedEngine()
    try observed.put(0..<10)
    var log = observed.engine.statistics.log
    #expect(log.visibleSequence == SequenceNumber(10) && log.durableSequence == SequenceNumber(0))
    #expect(log.segmentCount == 1 && log.bytes > 0)
    try observed.engine.sync()
    log = observed.engine.statistics.log
    #expect(log.durableSequence == SequenceNumber(10))
    _ = try observed.close()
  }

  @Test func `the statistics as JSON are one line that names all of them`() throws {
    let observed = try ObservedEngine()
    _ = try observed.engine.createFamily("a \"quoted\" \\ name\n")
    try observed.put(0..<100)
    try observed.engine.flush()
    let json = observed.engine.statistics.json
    #expect(!json.contains("\n") && json.hasPrefix("{\"databaseID\":\"") && json.hasSuffix("}"))
    #expect(json.contains("\"name\":\"a \\\"quoted\\\" \\\\ name\\u000a\""))
    for name in [
      "levels", "families", "log", "work", "amplification", "stalls", "cache", "memory", "readers", "latencies",
      "readCount", "durableSequence", "p999", "oldestSequence", "eventsDroppedCount",
    ] where name != "oldestSequence" {
      #expect(json.contains("\"\(name)\":"), "\(name)")
    }
    #expect(json.contains("{\"level\":0,\"files\":1,"))
    for number in 0..<100 { _ = try observed.engine.createFamily("f\(number)") }
    let cut = observed.engine.statistics.withLargestFamilies(3).json
    #expect(cut.contains("\"familyCount\":102"))
    #expect(cut.contains("\"name\":\"default\"") && !cut.contains("\"name\":\"f50\""))
    for family in observed.engine.families.suffix(4) { try observed.engine.put([1], [2], in: family) }
    try observed.engine.flush()
    // The published statistics keep nothing of the other families, and have the same sums.
    let few = EngineStatistics(observed.engine.core.background, familyCountMaximum: 3)
    let all = observed.engine.statistics
    #expect(few.families == all.withLargestFamilies(3).families && few.familyCount == 102)
    #expect(few.levels == all.levels && few.tableBytes == all.tableBytes && few.tableBytes > 0)
    #expect(few.amplification.read == all.amplification.read && few.amplification.space == 1)
    _ = try observed.close()
  }

  @Test func `statistics that are decoded from their JSON are equal to what they were`() throws {
    let observed = try ObservedEngine()
    var options = FamilyOptions()
    options.isVolatile = true
    _ = try observed.engine.createFamily("volatile", options: options)
    for round in 0..<3 {
      try observed.put(round * 100..<round * 100 + 200)
      try observed.engine.flush()
    }
    try observed.engine.compact()
    let snapshot = observed.engine.snapshot()
    for key in 0..<200 { _ = try observed.engine.get([UInt8(key)]) }
    let statistics = observed.engine.statistics
    #expect(statistics.latencies.flush.count > 0 && statistics.readers.oldestSequence != nil)
    #expect(statistics.levels.contains { $0.fileCount > 0 } && statistics.families.contains { $0.isVolatile })
    #expect(try JSONDecoder().decode(EngineStatistics.self, from: Data(statistics.json.utf8)) == statistics)
    let encoded = try JSONEncoder().encode(statistics)
    #expect(try JSONDecoder().decode(EngineStatistics.self, from: encoded) == statistics)
    withExtendedLifetime(snapshot) {}
    _ = try observed.close()
  }

  @Test(arguments: [
    (#""level":0"#, #""level":7"#, "level 7 was found; the last level is 6"),
    (#""databaseID":""#, #""databaseID":"x"#, "hexadecimal digits were expected"),
    (#""buckets":[["#, #""buckets":[[1],["#, "a bucket has 1 numbers"),
  ])
  func `wrong statistics are refused with what was found and what was expected`(
    old: String, new: String, message: String
  ) throws {
    let observed = try ObservedEngine()
    try observed.put(0..<100)
    try observed.engine.flush()
    let json = observed.engine.statistics.json
    _ = try observed.close()
    #expect(json.contains(old))
    let error = #expect(throws: DecodingError.self) {
      try JSONDecoder().decode(EngineStatistics.self, from: Data(json.replacingOccurrences(of: old, with: new).utf8))
    }
    #expect("\(try #require(error))".contains(message), "\(String(describing: error))")
  }
}
