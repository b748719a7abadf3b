import EngineTestSupport
import Synchronization
import Testing

@testable import EngineFixtures
@testable import VarveEngine

/// Tests that the check of the content detects changes that background work makes.
struct ContentWatchTests {
  private static func open(_ watch: ContentWatch) throws -> (Engine, SteppedExecutor) {
    let clock = ManualClock()
    let random = Mutex(SeededRandom(seed: 5))
    let executor = SteppedExecutor(seed: 5, clock: clock, watch: watch)
    let environment = EngineEnvironment(
      fileSystem: MemoryFileSystem(), clock: clock, random: { random.withLock { $0.next() } },
      makeExecutor: { _ in executor })
    let engine = try Engine.open(at: "/db", options: SmallEngine.options(), environment: environment)
    watch.attach(engine)
    return (engine, executor)
  }

  private static func key(_ index: Int) -> [UInt8] { [UInt8(index / 10), UInt8(index % 10)] }

  @Test func `flushes and compactions change no content, neither the newest nor that of a snapshot`() throws {
    let watch = ContentWatch(seed: 1, oneIn: 1)
    let (engine, executor) = try Self.open(watch)
    var random = SeededRandom(seed: 9)
    var snapshots: [EngineSnapshot] = []
    for round in 0..<40 {
      for _ in 0..<30 {
        let index = random.below(100)
        switch random.below(8) {
        case 0: try engine.delete(Self.key(index))
        case 1: try engine.deleteRange(from: Self.key(index), to: Self.key(index + 1 + random.below(20)))
        default: try engine.put(Self.key(index), [UInt8](repeating: UInt8(round), count: random.below(200)))
        }
      }
      snapshots.append(engine.snapshot())
      if snapshots.count > 3 { snapshots.remove(at: random.below(4)) }
      watch.setSnapshots(snapshots)
      try engine.flush()
      if random.oneIn(4) { try engine.compact() } else { executor.runAll() }
      let problem = watch.problem
      #expect(problem == nil, "round \(round)")
    }
    #expect(watch.installCount >= 50)
    snapshots = []
    watch.detach()
    try engine.close()
  }

  @Test func `a job that removes a live table is reported, at the newest sequence and at a snapshot`() throws {
    for keepsNewest in [false, true] {
      let watch = ContentWatch(seed: 1, oneIn: 1)
      let (engine, executor) = try Self.open(watch)
      try engine.put([1], [1])
      let snapshot = engine.snapshot()
      watch.setSnapshots([snapshot])
      // With a newer delete, only the snapshot sees the entry in the table.
      try engine.flush()
      if keepsNewest { try engine.delete([1]) }
      executor.runAll()
      #expect(watch.problem == nil)
      let version = engine.defaultFamily.state.version
      let found = (0..<Limits.levelCount).flatMap { level in version.tables(level: level).map { (level, $0.number) } }
      let (level, number) = try #require(found.first)
      executor.submit("compaction", priority: .low) {
        var edit = VersionEdit()
        edit.deleteTable(number, family: 0, level: level)
        _ = try? engine.core.tree.commit(edit)
      }
      executor.step(named: "compaction")
      let problem = watch.problem
      #expect(problem?.contains("\(snapshot.sequence)") == true, "keepsNewest \(keepsNewest): \(problem ?? "nothing")")
      watch.detach()
      try engine.close()
    }
  }
}
