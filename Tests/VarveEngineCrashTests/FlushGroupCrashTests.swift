import EngineTestSupport
import Synchronization
import Testing

@testable import VarveEngine

/// Tests of a power loss while the tables of many families are written, synced, entered into their directory and
/// added to the MANIFEST, all in one job: at every operation of the disk.
struct FlushGroupCrashTests {
  private static let familyCount = 24
  private static let names = (0..<familyCount).map { "family \($0)" }

  private static func open(_ disk: CrashFileSystem, seed: UInt64) throws -> (Engine, SteppedExecutor) {
    let executor = SteppedExecutor(seed: seed, clock: ManualClock(1_000_000_000))
    let numbers = Mutex(SeededRandom(seed: seed))
    var options = EngineOptions()
    options.memtableSize = 1 << 20
    options.cacheSize = 256 << 10
    options.logSegmentSize = 64 << 10
    let environment = EngineEnvironment(
      fileSystem: disk, clock: executor.clock, random: { numbers.withLock { $0.next() } },
      makeExecutor: { _ in executor })
    return (try Engine.open(at: "/db", options: options, environment: environment), executor)
  }

  private struct Recording {
    var points: [CrashPoint]
    var kinds: [String]
  }

  /// Writes one durable batch to all families, and then flushes; every operation of the flush is a crash point.
  private static func record() throws -> Recording {
    let disk = CrashFileSystem(seed: 5)
    let (engine, _) = try open(disk, seed: 5)
    let families = try engine.createFamilies(names)
    var batch = WriteBatch()
    for (index, family) in families.enumerated() { try batch.put([1], [UInt8(index)], in: family) }
    try engine.write(batch, durability: .power)
    let points = Mutex<[(CrashPoint, String)]>([])
    disk.observe { operation, capture in
      let point = capture()
      points.withLock { $0.append((point, operation.description)) }
    }
    try engine.flush()
    disk.observe(nil)
    #expect(families.allSatisfy { $0.state.version.tableCount == 1 })
    try engine.close()
    return Recording(points: points.withLock { $0.map(\.0) }, kinds: points.withLock { $0.map(\.1) })
  }

  @Test(arguments: CrashPolicy.allCases)
  func `after a crash at any operation of a flush of many families all of their entries are there`(
    policy: CrashPolicy
  ) throws {
    let recording = try Self.record()
    // A file is created, written and synced for each family, and then the directory and the MANIFEST are synced.
    #expect(recording.points.count >= 3 * Self.familyCount + 3)
    var random = SeededRandom(seed: 6)
    var tableCounts: Set<Int> = []
    for (index, point) in recording.points.enumerated() {
      let seed = random.next()
      let (engine, _) = try Self.open(point.image(seed: seed, policy: policy), seed: seed)
      for (number, name) in Self.names.enumerated() {
        let found = try engine.get([1], in: engine.family(named: name))
        #expect(found == [UInt8(number)], "\(name) at point \(index), \(recording.kinds[index]), seed \(seed)")
      }
      tableCounts.insert(engine.families.reduce(0) { $0 + $1.state.version.tableCount })
      #expect(try engine.verify().faults.isEmpty, "point \(index), \(recording.kinds[index]), seed \(seed)")
      try engine.close()
    }
    // One edit adds all of the tables.
    #expect(tableCounts.isSubset(of: [0, Self.familyCount]) && tableCounts.contains(0))
    print("flush of \(Self.familyCount) families, \(policy.rawValue): \(recording.points.count) crash points")
  }
}
