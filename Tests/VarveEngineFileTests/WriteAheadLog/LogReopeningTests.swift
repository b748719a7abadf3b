import EngineTestSupport
import Testing

@testable import EngineFixtures
@testable import VarveEngine

/// A log that is reopened again and again in segments that were used before.
struct LogReopeningTests {
  /// Records of one size, so that those of an earlier life stand just where the next would.
  @Test func `records of earlier lives are never replayed, reopening after reopening`() throws {
    let count = TestScale.value >= 20 ? 100_000 : 2_000
    let fileSystem = MemoryFileSystem()
    var random = SeededRandom(seed: 77)
    var log = try LogHarness(on: fileSystem, segmentSize: 8 << 10)
    var oldest = log.writer.currentNumber
    var expected: [UInt64] = []
    var sequence: UInt64 = 1
    var reused = 0
    for round in 0..<count {
      for _ in 0..<(1 + random.below(40)) {
        try log.append(valueSize: 40)
        expected.append(sequence)
        sequence += 1
      }
      if random.oneIn(2) { log.executor.runAll() }
      // The process dies here: nothing is closed.
      let recovered = try LogHarness.recover(fileSystem, oldest: oldest)
      #expect(recovered.sequences == expected, "reopening \(round)")
      for number in recovered.outcome.dropped {
        try fileSystem.remove(LogHarness.directory + "/" + FileName.log(number).name)
      }
      if try fileSystem.list(LogHarness.directory).contains(where: { $0.hasSuffix(".pool") }) { reused += 1 }
      log = try LogHarness(
        on: fileSystem, seed: UInt64(round + 2), segmentSize: 8 << 10, recovered: recovered, firstSequence: sequence)
      if random.oneIn(2) || recovered.outcome.chain.count > 4 {
        // All is in tables now: the segments are used again, with their records in them.
        oldest = log.writer.currentNumber
        log.writer.release(before: oldest)
        expected = []
      }
    }
    print("reopening suite: \(count) reopenings, \(reused) of them in a segment that was used before")
    #expect(reused * 4 > count)
  }
}
