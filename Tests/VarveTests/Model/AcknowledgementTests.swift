import EngineTestSupport
import Synchronization
import Testing
import VarveEngine
import VarveTestSupport

@testable import ObjectFixtures
@testable import Varve

#if canImport(Darwin)
  import Darwin
#elseif canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#endif

/// Tests that readers see exactly what was acknowledged, and that writers build on what was applied.
struct AcknowledgementTests {
  private static func open(_ fileSystem: any FileSystem) throws -> Database {
    var environment = EngineEnvironment.system
    environment.fileSystem = fileSystem
    let engine = try Engine.open(at: "/db", options: StorageSite.options, environment: environment)
    return try Database.open(try EngineBackend(engine), path: "/db")
  }

  private static func keys(_ database: Database) throws -> [Int] {
    try database.core.read { try $0.keys(Int.self, in: "rows") }
  }

  private static func code(_ body: () throws -> Void) -> DatabaseError.Code? { Contract.code(body) }

  // MARK: - Delayed durability

  /// The first commit waits for its sync. The second one requests none, but has read what the first one wrote.
  @Test func `a commit, or one that builds on it, is not readable before it is durable`() throws {
    let fileSystem = GatedFileSystem(MemoryFileSystem())
    let database = try Self.open(fileSystem)
    try database.write { try $0.set(0, key: 0, in: "rows") }
    let done = Called()
    fileSystem.syncs.shut()
    let first = Threads.start { _ in
      try database.write(durability: .power) { try $0.set(1, key: 1, in: "rows") }
      done.add("first")
    }
    // The sync at the gate may be one of the engine's own: only a writer can detect that the commit is applied.
    func waitUntilApplied(_ key: Int) throws {
      while try !database.lookApplied({ try $0.contains(key: key, in: "rows") }) { sched_yield() }
    }
    try waitUntilApplied(1)
    let second = Threads.start { _ in
      try database.write(durability: .process) { tx in
        #expect(try tx.keys(Int.self, in: "rows") == [0, 1])
        try tx.set(2, key: 2, in: "rows")
      }
      done.add("second")
    }
    try waitUntilApplied(2)
    for _ in 0..<2_000 {
      if try Self.keys(database) != [0] || done.all != [] { break }
      sched_yield()
    }
    #expect(try Self.keys(database) == [0])
    #expect(done.all == [])
    fileSystem.syncs.open()
    first.join()
    second.join()
    #expect(try Self.keys(database) == [0, 1, 2])
    #expect(Set(done.all) == ["first", "second"])
    try database.close()
  }

  /// A writer whose commit has returned finds its own row at once, whatever other writers commit.
  @Test(arguments: StorageKind.allCases)
  func `a writer whose commit has returned reads what it wrote`(kind: StorageKind) throws {
    let site = try StorageSite(kind)
    site.faults.lateOneIn = 2
    site.faults.yieldMaximum = 2
    let database = try Database.open(try site.open(), path: "\(kind)")
    let rounds = TestScale.atMost(60)
    Threads.run(3) { thread in
      for round in 0..<rounds {
        let key = thread * 1_000 + round
        try database.write(durability: round % 7 == 0 ? .power : .process) { try $0.set(round, key: key, in: "rows") }
        let isThere = try database.read { try $0.contains(key: key, in: "rows") }
        if !isThere { throw ContractBroken("row \(key) is not there") }
      }
    }
    #expect(try Self.keys(database).count == 3 * rounds)
    try database.close()
    withExtendedLifetime(site) {}
  }

  // MARK: - Unknown outcome

  @Test(arguments: [false, true])
  func `a commit whose answer was lost is not visible, and nothing builds on it`(isApplied: Bool) throws {
    let backend = ToyBackend()
    let database = try Database.open(backend, path: "toy")
    let announced = Called()
    try database.write { try $0.set(0, key: 0, in: "rows") }
    let version = try database.core.read { $0.version }
    backend.inject(.unknown(isApplied: isApplied))
    let lost = Self.code {
      try database.write { tx in
        try tx.set(1, key: 1, in: "rows")
        tx.onCommit { announced.add("committed") }
      }
    }
    #expect(lost == .outcomeUnknown)
    #expect(announced.all == [])
    #expect(try Self.keys(database) == [0])
    #expect(try database.core.read { $0.version } == version)
    for _ in 0..<2 {
      #expect(Self.code { try database.write { try $0.set(2, key: 2, in: "rows") } } == .outcomeUnknown)
      #expect(Self.code { try database.writeConcurrently { try $0.set(2, key: 2, in: "rows") } } == .outcomeUnknown)
    }
    #expect(try Self.keys(database) == [0])
    try database.close()
    let again = try Database.open(ToyBackend(backend.storage), path: "toy")
    #expect(try Self.keys(again) == (isApplied ? [0, 1] : [0]))
    try again.write { try $0.set(3, key: 3, in: "rows") }
    #expect(try Self.keys(again) == (isApplied ? [0, 1, 3] : [0, 3]))
    try again.close()
  }

  @Test(arguments: [false, true])
  func `a commit that can't be made durable is not visible, and nothing builds on it`(isDurable: Bool) throws {
    let backend = ToyBackend()
    let database = try Database.open(backend, path: "toy")
    try database.write { try $0.set(0, key: 0, in: "rows") }
    backend.inject(.failing(isDurable: isDurable))
    #expect(Self.code { try database.write { try $0.set(1, key: 1, in: "rows") } } == .outcomeUnknown)
    #expect(try Self.keys(database) == [0])
    #expect(Self.code { try database.write { try $0.set(2, key: 2, in: "rows") } } == .outcomeUnknown)
    #expect(try Self.keys(database) == [0])
    _ = Self.code { try database.close() }
    let again = try Database.open(ToyBackend(backend.storage), path: "toy")
    #expect(try Self.keys(again) == (isDurable ? [0, 1] : [0]))
    try again.close()
  }

  /// The first row of a collection is uncertain too: the collection's number must not be given to another one.
  @Test(arguments: [false, true])
  func `a collection whose creation is uncertain shares its rows with no other`(
    isApplied: Bool
  ) throws {
    let backend = ToyBackend()
    let database = try Database.open(backend, path: "toy")
    try database.write { tx in
      backend.inject(.unknown(isApplied: isApplied))
      #expect(Self.code { try tx.set("lost", key: 1, in: "first") } == .outcomeUnknown)
      try tx.set("b", key: 1, in: "second")
      try tx.set("a", key: 1, in: "first")
    }
    try database.close()
    let again = try Database.open(ToyBackend(backend.storage), path: "toy")
    try again.read { tx throws in
      #expect(try tx.object(String.self, key: 1, in: "first") == "a")
      #expect(try tx.object(String.self, key: 1, in: "second") == "b")
      #expect(try tx.count() == 2)
    }
    let infos = again.core.catalog.collections
    #expect(Set(infos.map(\.record.id)).count == infos.count)
    try again.close()
  }

  /// The error must not be an encoding error: the object itself can be encoded.
  @Test(arguments: [false, true])
  func `a storage that refuses a new shape does not fail encoding, and no row refers to a missing shape`(
    isApplied: Bool
  ) throws {
    struct Point: Codable, Hashable { var x: Int }
    let backend = ToyBackend()
    let database = try Database.open(backend, path: "toy")
    try database.write { tx in
      try tx.set("a", key: 0, in: "rows")
      backend.inject(.unknown(isApplied: isApplied))
      #expect(Self.code { try tx.set(Point(x: 1), key: 1, in: "rows") } == .outcomeUnknown)
      try tx.set(Point(x: 2), key: 1, in: "rows")
    }
    #expect(try database.core.read { try $0.object(Point.self, key: 1, in: "rows") } == Point(x: 2))
    try database.close()
    let again = try Database.open(ToyBackend(backend.storage), path: "toy")
    #expect(try again.core.read { try $0.object(Point.self, key: 1, in: "rows") } == Point(x: 2))
    try again.close()
  }
}
