import EngineTestSupport
import Testing

@testable import EngineFixtures
@testable import VarveEngine

/// Tests of a log that is reopened repeatedly in segments that were used before.
struct LogReopeningTests {
  /// All records have the same size, so that those of an earlier life are exactly at the positions of later ones.
  @Test func `records of a segment's earlier lives are not replayed at any of many reopenings`() throws {
    let count = TestScale.value >= 20 ? 100_000 : 2_000
    let fileSystem = MemoryFileSystem()
    var random = SeededRandom(seed: 77)
    // All segments have the same size: a segment that is smaller than the next ones will be is not reused.
    var log = try LogHarness(on: fileSystem, segmentSize: 8 << 10, segmentSizeMaximum: 8 << 10)
    var oldest = log.writer.currentNumber
    var expected: [(segment: FileNumber, sequence: UInt64)] = []
    var sequence: UInt64 = 1
    var reused = 0
    for round in 0..<count {
      var kept: Set<String> = []
      for _ in 0..<(1 + random.below(200)) {
        try log.append(valueSize: 40)
        expected.append((log.writer.currentNumber, sequence))
        sequence += 1
        if random.oneIn(50) {
          // Everything before the current segment is in tables now: those segments are reused, with their records in
          // them.
          oldest = log.writer.currentNumber
          log.writer.release(before: oldest)
          expected.removeAll { $0.segment < oldest }
          kept.formUnion(try Self.pooled(fileSystem))
          log.executor.runAll()
        }
      }
      if random.oneIn(2) { log.executor.runAll() }
      if !kept.isSubset(of: try Self.pooled(fileSystem)) { reused += 1 }
      // Simulates the death of the process: the log is not closed.
      let recovered = try LogHarness.recover(fileSystem, oldest: oldest)
      #expect(recovered.sequences == expected.map(\.sequence), "reopening \(round)")
      for number in recovered.outcome.dropped {
        try fileSystem.remove(LogHarness.directory + "/" + FileName.log(number).name)
      }
      // As in an opening, segments that another process prepared are not used.
      for name in try Self.pooled(fileSystem) { try fileSystem.remove(LogHarness.directory + "/" + name) }
      log = try LogHarness(
        on: fileSystem, seed: UInt64(round + 2), segmentSize: 8 << 10, segmentSizeMaximum: 8 << 10,
        recovered: recovered,
        firstSequence: sequence)
      if random.oneIn(2) || recovered.outcome.chain.count > 4 {
        oldest = log.writer.currentNumber
        log.writer.release(before: oldest)
        expected = []
      }
    }
    print("reopening suite: \(count) reopenings, \(reused) of them after a segment was used again")
    #expect(reused * 4 > count)
  }

  private static func pooled(_ fileSystem: MemoryFileSystem) throws -> [String] {
    try fileSystem.list(LogHarness.directory).filter { $0.hasSuffix(".pool") }
  }
}
