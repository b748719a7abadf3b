import EngineTestSupport
import Synchronization
import Testing

@testable import EngineFixtures
@testable import VarveEngine

/// Tests of compactions on a disk that has less space than they need: smaller ones are chosen instead, or they
/// wait; none is repeated that can't end.
struct CompactionSpaceTests {
  private static let keyCount = 4_000

  /// An engine with a last level of 2 MB and a level 0 of as much, which is due to be merged, on a disk of which a test
  /// sets the free bytes.
  private final class World {
    let disk = SizedFileSystem(capacity: 7 << 20)
    let executor = SteppedExecutor(seed: 7)
    let log = EventLog()
    private(set) var engine: Engine
    private var random = SeededRandom(seed: 23)
    private(set) var content: [Int: [UInt8]] = [:]

    init() throws {
      engine = try Self.open(disk, SteppedExecutor(seed: 6), nil, compacts: true)
      for index in 0..<keyCount { try put(index) }
      try engine.compact()
      try engine.close()
      engine = try Self.open(disk, SteppedExecutor(seed: 6), nil, compacts: false)
      for _ in 0..<keyCount { try put(random.below(keyCount)) }
      try engine.flush()
      try engine.close()
    }

    private static func open(
      _ disk: SizedFileSystem, _ executor: SteppedExecutor, _ log: EventLog?, compacts: Bool
    ) throws -> Engine {
      // The ids of tables must differ from those of earlier engines.
      let numbers = Mutex(SeededRandom(seed: UInt64(disk.used) + 1))
      var options = SmallEngine.options()
      options.compression = CompressionKind.none
      options.compactsInBackground = compacts
      options.listener = log
      return try Engine.open(
        at: "/db", options: options,
        environment: EngineEnvironment(
          fileSystem: disk, clock: executor.clock, random: { numbers.withLock { $0.next() } },
          makeExecutor: { _ in executor }))
    }

    private func put(_ index: Int) throws {
      let value = random.bytes(500)
      try engine.put(ObservedEngine.key(index), value)
      content[index] = value
    }

    /// Opens the database with so many bytes free, before any background work.
    func open(free: Int, reported: Int? = nil) throws {
      engine = try Self.open(disk, executor, log, compacts: true)
      setFree(free, reported: reported)
    }

    func setFree(_ free: Int, reported: Int? = nil) {
      disk.capacity = disk.used + free
      disk.reportedFree = reported
    }

    /// Lets time pass, and does the work that becomes due.
    func pass(seconds: Int) {
      for _ in 0..<seconds {
        executor.clock.advance(1_000_000_000)
        executor.runAll()
      }
    }

    var levelZeroDepth: Int { engine.statistics.families[0].levelZeroDepth }
    /// Whether level 0 is deep enough to be merged.
    var isDue: Bool { levelZeroDepth >= 10 }
    var failureCount: UInt64 { engine.statistics.work.failureCount }

    func mismatches() throws -> [Int] {
      try content.filter { try engine.get(ObservedEngine.key($0.key)) != $0.value }.map(\.key)
    }

    /// Closes the engine, and returns the number of reported errors of compactions, and of recoveries.
    func close() throws -> (errors: Int, recoveries: Int) {
      try engine.close()
      let events = log.events
      return (
        events.count { if case .backgroundError(_, in: .compaction, _) = $0 { true } else { false } },
        events.count { if case .recovered(.compaction) = $0 { true } else { false } }
      )
    }
  }

  @Test func `a merge that does not fit is made in pieces that do`() throws {
    let world = try World()
    try world.open(free: 900 << 10)
    #expect(world.isDue)
    world.pass(seconds: 60)
    #expect(!world.isDue)
    #expect(world.failureCount == 0)
    #expect(world.engine.backgroundError == nil)
    #expect(try world.mismatches() == [])
    _ = try world.close()
  }

  @Test func `a merge of which no piece fits writes nothing, is reported once, and runs when there is space`() throws {
    let world = try World()
    try world.open(free: 40 << 10)
    let depth = world.levelZeroDepth
    let before = world.disk.writtenTableBytes
    world.pass(seconds: 900)
    #expect(world.disk.writtenTableBytes == before)
    #expect(world.levelZeroDepth == depth)
    #expect(world.engine.backgroundError?.code == .noSpace)
    #expect(throws: EngineError.self) { try world.engine.waitForCompaction() }
    #expect(try world.mismatches() == [])
    world.setFree(3 << 20)
    world.pass(seconds: 10)
    #expect(!world.isDue)
    #expect(world.engine.backgroundError == nil)
    try world.engine.waitForCompaction()
    #expect(try world.mismatches() == [])
    let (errors, recoveries) = try world.close()
    #expect(errors == 1)
    #expect(recoveries == 1)
  }

  @Test func `where more space is reported than there is, failures become rare`() throws {
    let world = try World()
    try world.open(free: 100 << 10, reported: 10 << 20)
    let before = world.disk.writtenTableBytes
    world.pass(seconds: 3_600)
    #expect(world.failureCount > 1)
    #expect(world.disk.writtenTableBytes - before < 12 * (100 << 10))
    world.setFree(3 << 20)
    try world.engine.resume()
    try world.engine.waitForCompaction()
    #expect(!world.isDue)
    #expect(try world.mismatches() == [])
    _ = try world.close()
  }

  @Test func `after a compaction that found no space, its family has only smaller ones`() {
    let error = EngineError(.noSpace, "the disk is full")
    let need = CompactionSpace.Need(outputs: 400_000, size: 2_000_000)
    var space = CompactionSpace()
    _ = space.update(free: 1_000_000)
    space.noteFailure(of: 1, need, written: 350_000, error)
    #expect(space.available(to: 1, written: [:]) == 200_000)
    #expect(space.available(to: 2, written: [:]) == 1_000_000 - (64 << 10))
    #expect(space.error?.code == .noSpace)
    space.endPoll()
    #expect(space.update(free: 2_300_000).isEmpty)
    #expect(space.update(free: 2_400_000) == [1])
    #expect(space.available(to: 1, written: [:]) == 2_400_000 - (64 << 10))
    // Where that much is reported as free, but not given, smaller ones are not attempted either.
    space.noteFailure(of: 1, need, written: 350_000, error)
    #expect(space.available(to: 1, written: [:]) == 0)
  }

  @Test func `tables are dropped and moved while other compactions wait for space`() throws {
    let world = try World()
    try world.open(free: 300 << 10)
    let size = world.disk.used
    try world.engine.deleteRange(from: ObservedEngine.key(0), to: ObservedEngine.key(Self.keyCount / 2))
    try world.engine.flush()
    world.setFree(20 << 10)
    world.pass(seconds: 10)
    #expect(world.disk.used < size - (700 << 10))
    #expect(world.failureCount == 0)
    _ = try world.close()
  }
}
