import EngineTestSupport
import Testing

@testable import VarveEngine

/// Tests of a real process on the real disk that is killed by SIGKILL again and again in the same directory.
struct ProcessKillTests {
  /// The number of markers that `varve-kill-target` keeps.
  private static let kept: UInt64 = 1_000

  @Test func `a killed process loses nothing that it acknowledged`() throws {
    let rounds = TestScale.value >= 4 ? 200 : 20
    let seed: UInt64 = 4_711
    var random = SeededRandom(seed: seed)
    let directory = try TemporaryDirectory()
    let path = directory.path + "/db"
    var last: UInt64 = 0
    var acknowledgedTotal: UInt64 = 0
    for round in 0..<rounds {
      let child = try ChildProcess(ChildProcess.built("varve-kill-target"), [path, "\(last + 1)"])
      let wanted = random.below(1_500)
      var acknowledged = last
      for _ in 0..<wanted {
        guard let number = child.nextNumber() else { break }
        #expect(number == acknowledged + 1)
        acknowledged = number
      }
      #expect(child.killAndWait(), "round \(round) of seed \(seed): the program ended by itself")
      // The numbers that it acknowledged before the signal arrived.
      while let number = child.nextNumber() { acknowledged = number }
      acknowledgedTotal += acknowledged - last
      // In every other round, the next process is the one that recovers.
      last = try check(path, acknowledged: acknowledged, readOnly: round % 2 == 1, "round \(round) of seed \(seed)")
    }
    print("kill suite: \(rounds) processes killed, \(acknowledgedTotal) acknowledged batches")
    #expect(acknowledgedTotal > UInt64(rounds) * 100)
  }

  /// Checks the database, and returns the number of the last batch that is there.
  private func check(_ path: String, acknowledged: UInt64, readOnly: Bool, _ location: String) throws -> UInt64 {
    var options = EngineOptions()
    options.memtableSize = 64 << 10
    options.logSegmentSize = 256 << 10
    options.readOnly = readOnly
    // A process that was killed early has created no database, and a read-only open would not create one either.
    if acknowledged == 0 { options.readOnly = false }
    let engine = try Engine.open(at: path, options: options)
    let pair = engine.families.first { $0.name == "pair" }
    let main = try numbers(engine, engine.defaultFamily, valueSize: 24)
    let other = try pair.map { try numbers(engine, $0, valueSize: 100) } ?? []
    #expect(main == other, "\(location): the families differ")
    let last = main.last ?? 0
    #expect(last >= acknowledged, "\(location): \(acknowledged) was acknowledged, and \(last) is the last")
    let first = last > Self.kept ? last - Self.kept + 1 : 1
    #expect(main.elementsEqual(last == 0 ? [] : Array(first...last)), "\(location): a gap, or a deleted batch is back")
    let faults = try engine.verify().faults
    #expect(faults.isEmpty, "\(location): \(faults)")
    try engine.close()
    return last
  }

  private func numbers(_ engine: Engine, _ family: ColumnFamily, valueSize: Int) throws -> [UInt64] {
    var result: [UInt64] = []
    var cursor = try engine.cursor(in: family)
    try cursor.seekToFirst()
    while cursor.isValid {
      let number = cursor.keyBytes.reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
      let value = cursor.valueBytes
      #expect(value == (0..<valueSize).map { UInt8(truncatingIfNeeded: number &* UInt64($0 + 1)) })
      result.append(number)
      try cursor.next()
    }
    return result
  }
}
