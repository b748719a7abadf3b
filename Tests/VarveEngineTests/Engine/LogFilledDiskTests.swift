import EngineTestSupport
import Synchronization
import Testing

@testable import EngineFixtures
@testable import VarveEngine

/// Tests of a disk that is smaller than the log may become: the log must not keep the space that its own flush needs,
/// and when there is space again, writes continue in the same engine.
struct LogFilledDiskTests {
  /// An engine whose log may take 32 MB by its memory budget, on a disk of `capacity` bytes.
  private final class SmallDisk {
    let fileSystem: SizedFileSystem
    let executor = SteppedExecutor(seed: 3)
    private(set) var engine: Engine
    private(set) var content: [Int: [UInt8]] = [:]
    private(set) var errors: [EngineError] = []
    private var random = SeededRandom(seed: 17)

    init(capacity: Int) throws {
      fileSystem = SizedFileSystem(capacity: capacity)
      engine = try Self.open(fileSystem, executor)
    }

    private static func open(_ fileSystem: any FileSystem, _ executor: SteppedExecutor) throws -> Engine {
      let numbers = Mutex(SeededRandom(seed: 5))
      var options = SmallEngine.options(memtableSize: 4 << 20)
      options.logSegmentSize = 2 << 20
      return try Engine.open(
        at: "/db", options: options,
        environment: EngineEnvironment(
          fileSystem: fileSystem, clock: executor.clock, random: { numbers.withLock { $0.next() } },
          makeExecutor: { _ in executor }))
    }

    func reopen() throws {
      try engine.close()
      engine = try Self.open(fileSystem, SteppedExecutor(seed: 4))
    }

    /// Writes `count` values of 2,000 incompressible bytes, to `keyCount` keys in turn. Returns how many succeeded.
    @discardableResult
    func write(_ count: Int, keyCount: Int, inBatches: Bool = false) throws -> Int {
      var written = 0
      for index in 0..<count {
        let key = index % keyCount
        let value = random.bytes(2_000)
        do throws(EngineError) {
          if inBatches {
            var batch = WriteBatch()
            try batch.put(ObservedEngine.key(key), value)
            try engine.write(batch)
          } else {
            try engine.put(ObservedEngine.key(key), value)
          }
          content[key] = value
          written += 1
        } catch {
          errors.append(error)
        }
        if index % 4 == 0 { executor.step() }
      }
      return written
    }

    func clearErrors() { errors = [] }

    /// Returns the keys whose value is not the last one that was acknowledged.
    func mismatches() throws -> [Int] {
      try content.filter { try engine.get(ObservedEngine.key($0.key)) != $0.value }.map(\.key)
    }
  }

  @Test(arguments: [false, true])
  func `a log that would fill a small disk is flushed, and writes continue`(inBatches: Bool) throws {
    let disk = try SmallDisk(capacity: 10 << 20)
    // 40 MB of values for 400 keys: one table takes less than 1 MB.
    let written = try disk.write(20_000, keyCount: 400, inBatches: inBatches)
    let isGood = disk.errors.isEmpty
    #expect(isGood, "\(disk.errors.count) errors: \(disk.errors.prefix(2))")
    #expect(written == 20_000)
    #expect(try disk.mismatches() == [])
    try disk.reopen()
    #expect(try disk.mismatches() == [])
    try disk.engine.close()
  }

  @Test(arguments: [false, true])
  func `a disk filled by the log and the tables takes writes again in the same engine when it has space`(
    waits: Bool
  ) throws {
    let disk = try SmallDisk(capacity: 8 << 20)
    // Every value has its own key, so that nothing can be freed.
    try disk.write(6_000, keyCount: 6_000)
    let isFull = !disk.errors.isEmpty
    #expect(isFull)
    let areExpected = disk.errors.allSatisfy { $0.code == .noSpace }
    #expect(areExpected, "\(disk.errors.prefix(2))")
    #expect(try disk.mismatches() == [], "while the disk is full")
    disk.clearErrors()
    // Space for the waiting memtables and a small segment, but not for a segment of the present size besides.
    disk.fileSystem.capacity += 6 << 20
    if waits {
      for _ in 0..<4 {
        disk.executor.clock.advance(6_000_000_000)
        disk.executor.runAll()
      }
      #expect(disk.engine.backgroundError == nil)
    } else {
      disk.executor.clock.advance(200_000_000)
    }
    let written = try disk.write(800, keyCount: 400)
    #expect(written == 800, "\(disk.errors.prefix(2))")
    #expect(try disk.mismatches() == [])
    try disk.reopen()
    #expect(try disk.mismatches() == [])
    #expect(try disk.engine.verify().faults.isEmpty)
    try disk.engine.close()
  }

  @Test func `on a disk that is smaller than a segment of the usual size, the log continues in smaller ones`() throws {
    let disk = try SmallDisk(capacity: 1_900_000)
    // 6 MB of values for 100 keys: one table takes 200 kB.
    let written = try disk.write(3_000, keyCount: 100)
    #expect(written == 3_000, "\(disk.errors.prefix(2))")
    #expect(try disk.mismatches() == [])
    try disk.reopen()
    #expect(try disk.mismatches() == [])
    try disk.engine.close()
  }
}
