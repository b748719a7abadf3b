import EngineTestSupport
import Synchronization
import Testing
import VarveEngine

@testable import Varve

/// Tests of the disk space that deleted objects, their index entries and their changes return.
struct DeletedSpaceTests {
  private struct Scan: Codable, Identifiable, Sendable {
    var id: Int
    var author: Int
    var year: Int
    var pages: [UInt8]
  }

  private struct ScanFormat: StoreFormat {
    typealias Instance = Scan
    static let collection = "scans"
    let author = Index(\.author)
    let year = Index(\.year)
  }

  private static let count = 2_000

  private static func open(
    _ fileSystem: MemoryFileSystem, _ executor: SteppedExecutor
  ) throws -> (EngineBackend, Database) {
    var options = EngineOptions()
    options.memtableSize = 512 << 10
    options.compression = CompressionKind.none
    let numbers = Mutex(SeededRandom(seed: 1))
    let backend = try EngineBackend(
      try Engine.open(
        at: "/db", options: options,
        environment: EngineEnvironment(
          fileSystem: fileSystem, clock: executor.clock, random: { numbers.withLock { $0.next() } },
          makeExecutor: { _ in executor })))
    return (backend, try Database.open(backend, path: "/db", definition: DatabaseDefinition { ScanFormat.self }))
  }

  private static func tableBytes(_ fileSystem: MemoryFileSystem) throws -> UInt64 {
    try fileSystem.list("/db").reduce(0) { sum, name in
      name.hasSuffix(".sst") ? sum + (try fileSystem.attributes("/db/" + name)?.size ?? 0) : sum
    }
  }

  @Test func `an idle database has returned the space of objects that a query deleted after two minutes`() async throws
  {
    let fileSystem = MemoryFileSystem()
    let executor = SteppedExecutor(seed: 7)
    let (backend, database) = try Self.open(fileSystem, executor)
    let scans = Store<ScanFormat>(in: database)
    for batch in 0..<(Self.count / 100) {
      try await database.write { tx in
        for id in (batch * 100)..<((batch + 1) * 100) {
          let page = [UInt8](repeating: UInt8(id % 251), count: 2_000)
          try scans.persist(Scan(id: id, author: id % 17, year: 1900 + id % 101, pages: page), in: tx)
        }
      }
    }
    try backend.engine.flush()
    try backend.engine.waitForCompaction()
    let before = try Self.tableBytes(fileSystem)
    #expect(before > 4_000_000)
    let all = scans.query.filter { $0.year >= 1900 }
    #expect(try await all.delete(inBatchesOf: 100) == Self.count)
    for _ in 0..<120 {
      executor.runAll()
      executor.clock.advance(1_000_000_000)
    }
    executor.runAll()
    let after = try Self.tableBytes(fileSystem)
    #expect(after < before / 20, "\(after) of \(before) bytes are left")
    #expect(try await scans.query.count() == 0)
    #expect(try await database.verifyIndexes(of: "scans").isEmpty)
    try await database.close()
  }
}
