import EngineTestSupport
import Testing

@testable import EngineFixtures
@testable import VarveEngine

/// Tests of the picker under whole workloads, with real keys and simulated bytes, at a 250th of the real size.
struct CompactionSimulationTests {
  static let scale = 250

  static var options: CompactionPickerOptions {
    var options = CompactionPickerOptions()
    options.memtableSize /= UInt64(scale)
    options.targetFileSize /= UInt64(scale)
    return options
  }

  /// The number of entries of 116 bytes, with some overhead, in a memtable of 64 MiB.
  static let memtableCount = (64 << 20) / 134 / scale

  static func fill(_ simulator: inout CompactionSimulator, from start: Int, count: Int, _ key: (Int) -> UInt32) throws {
    var memtable: [UInt64] = []
    for index in start..<(start + count) {
      memtable.append(CompactionSimulator.entry(key(index), UInt32(index + 1)))
      if memtable.count == memtableCount {
        try simulator.flush(memtable)
        memtable = []
      }
    }
    if !memtable.isEmpty { try simulator.flush(memtable) }
  }

  /// Checks the condition that every workload must keep: reads find the newest entry of every key.
  static func check(_ simulator: CompactionSimulator, _ expected: [UInt32: UInt64], _ comment: Comment) throws {
    for (key, sequence) in expected { #expect(try simulator.newestSequence(of: key) == sequence, comment) }
  }

  /// Writes random keys, and then as many overwrites. Returns the bytes written for each byte flushed: after the keys,
  /// and after both.
  static func randomLoad(
    entries: Int, bytesPerMemtable: UInt64? = nil, checks: Bool = true
  ) throws -> (fill: Double, all: Double, CompactionSimulator) {
    let count = entries / scale
    var random = SeededRandom(seed: 1)
    var expected: [UInt32: UInt64] = [:]
    var simulator = CompactionSimulator(options, bytesPerMemtable: bytesPerMemtable)
    func key(_ index: Int) -> UInt32 {
      let key = UInt32(random.below(count))
      expected[key] = UInt64(index + 1)
      return key
    }
    try fill(&simulator, from: 0, count: count, key)
    try simulator.settle()
    let first = simulator.writeAmplification
    try fill(&simulator, from: count, count: count, key)
    try simulator.settle()
    try check(simulator, expected, "random keys, \(entries)")
    return (first, simulator.writeAmplification, simulator)
  }

  /// The tables are wide, with narrow ones between them, so that each makes a merge include others.
  @Test(arguments: [4, 16]) func `a level 0 that is deeper than one merge may be becomes shallow in few passes`(
    runs: Int
  ) throws {
    var options = Self.options
    options.runCountMaximum = runs
    var simulator = CompactionSimulator(options, bytesPerMemtable: 0)
    var random = SeededRandom(seed: 3)
    var expected: [UInt32: UInt64] = [:]
    var sequence: UInt32 = 0
    for _ in 0..<400 {
      let isNarrow = random.oneIn(3)
      let start = random.below(10_000)
      let memtable = (0..<50).map { _ in
        let key = UInt32(isNarrow ? start + random.below(500) : random.below(10_500))
        sequence += 1
        expected[key] = UInt64(sequence)
        return CompactionSimulator.entry(key, sequence)
      }
      try simulator.flush(memtable)
    }
    #expect(simulator.version.levelZero.depth > 10 * runs)
    try simulator.settle()
    #expect(simulator.runCountMaximum <= 2 * runs)
    #expect(simulator.reasons.contains(.intraLevelZero))
    #expect(simulator.version.levelZero.depth <= 10)
    #expect(simulator.writeAmplification < 8, "\(simulator.writeAmplification)")
    try Self.check(simulator, expected, "at most \(runs) runs")
  }

  @Test func `five million random keys and their overwrites cost less than two passes`() throws {
    let (fill, all, simulator) = try Self.randomLoad(entries: 5_000_000)
    #expect(fill < 1.8, "\(simulator.report)")
    #expect(all < 1.9, "\(simulator.report)")
    #expect(simulator.depthMaximum <= Self.options.levelZeroDepthTrigger)
    #expect(simulator.parallelMaximum == 2)
  }

  @Test func `compactions that can't keep up make larger merges and fewer passes`() throws {
    let slow = UInt64(Self.memtableCount) * 60 * 3 / 2
    let (_, all, simulator) = try Self.randomLoad(entries: 20_000_000, bytesPerMemtable: slow)
    let (_, keepingUp, _) = try Self.randomLoad(entries: 20_000_000)
    #expect(all < keepingUp, "\(simulator.report)")
    #expect(keepingUp < 4.6)
    #expect(simulator.debtMaximum > 0)
  }

  @Test func `ascending keys are never merged`() throws {
    var simulator = CompactionSimulator(Self.options)
    var expected: [UInt32: UInt64] = [:]
    try Self.fill(&simulator, from: 0, count: 5_000_000 / Self.scale) { index in
      expected[UInt32(index)] = UInt64(index + 1)
      return UInt32(index)
    }
    try simulator.settle()
    #expect(simulator.compactedBytes == 0, "\(simulator.report)")
    #expect(simulator.version.levelZero.isEmpty)
    try Self.check(simulator, expected, "ascending keys")
  }

  @Test func `a hundred interleaved ascending prefixes cost less than two and a half passes`() throws {
    var simulator = CompactionSimulator(Self.options)
    var expected: [UInt32: UInt64] = [:]
    try Self.fill(&simulator, from: 0, count: 5_000_000 / Self.scale) { index in
      let key = UInt32(index % 100) << 24 | UInt32(index / 100)
      expected[key] = UInt64(index + 1)
      return key
    }
    try simulator.settle()
    #expect(simulator.writeAmplification < 2.5, "\(simulator.report)")
    try Self.check(simulator, expected, "interleaved prefixes")
  }

  @Test func `reads are right in any order in which compactions begin and end`() throws {
    var reasons: Set<Compaction.Reason> = []
    for seed in UInt64(0)..<16 {
      var random = SeededRandom(seed: seed)
      var options = CompactionPickerOptions()
      options.memtableSize = 4_000
      options.levelZeroDepthTrigger = 4
      options.targetFileSize = 1_000
      var simulator = CompactionSimulator(
        options, entrySize: 20, threadCount: 4, bytesPerMemtable: UInt64(random.below(9_000)))
      simulator.splitsFlushes = random.oneIn(2)
      var expected: [UInt32: UInt64] = [:]
      var sequence: UInt32 = 0
      for _ in 0..<120 {
        let base = random.below(3_000)
        let width = random.oneIn(3) ? 60 : 3_000
        try simulator.flush(
          (0..<(20 + random.below(120))).map { _ in
            sequence += 1
            let key = UInt32((base + random.below(width)) % 3_000)
            expected[key] = UInt64(sequence)
            return CompactionSimulator.entry(key, sequence)
          })
      }
      try Self.check(simulator, expected, "seed \(seed)")
      try simulator.settle()
      try Self.check(simulator, expected, "seed \(seed)")
      #expect(simulator.version.levelZero.depth <= options.levelZeroDepthTrigger, "seed \(seed)")
      reasons.formUnion(simulator.reasons)
    }
    // The seeds must cover every reason for a compaction that needs no tombstones and no request.
    #expect(reasons == [.levelZero, .intraLevelZero, .levelSize])
  }
}
