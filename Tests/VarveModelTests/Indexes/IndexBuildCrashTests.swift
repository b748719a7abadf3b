import EngineTestSupport
import Foundation
import Synchronization
import Testing
import VarveEngine
import VarveTestSupport

@testable import ObjectFixtures
@testable import Varve

/// Tests of a power loss at any commit while the indexes of a format are built, by tables or by chunks, or one of
/// them is rebuilt, during writes.
///
/// After reopening, the builds continue, and each index agrees with the rows.
///
///     VARVE_TEST_SCALE=10 ./tools/test --filter IndexBuildCrashTests
struct IndexBuildCrashTests {
  enum Way: String, CaseIterable, Sendable { case tables, chunks, again }

  private static let rowCount = 400
  private static let pointLimit = TestScale.count(20)
  private static var name: String { IndexesName.name(for: VolumeFormat.collection) }

  /// Opens the database as a program with the format would, with the settings made before the indexes are registered.
  private static func open(_ fileSystem: any FileSystem, _ seed: UInt64, _ way: Way) throws -> Database {
    let executor = SteppedExecutor(seed: seed)
    let numbers = Mutex(SeededRandom(seed: seed))
    let environment = EngineEnvironment(
      fileSystem: fileSystem, clock: executor.clock, random: { numbers.withLock { $0.next() } },
      makeExecutor: { _ in executor })
    let backend = try EngineBackend(
      try Engine.open(at: "/db", options: StorageSite.options, environment: environment))
    var bare = try CollectionDefinition(VolumeFormat.self)
    bare.indexing = nil
    let database = try Database.open(backend, path: "/db", definition: DatabaseDefinition { bare })
    if way != .chunks { database.core.extensions.rowsForIngestion.store(100, ordering: .relaxed) }
    database.core.extensions.spillSize.store(16 << 10, ordering: .relaxed)
    return database
  }

  private static func register(_ database: Database) throws {
    try DatabaseDefinition { VolumeFormat.self }.registerIndexes(in: database.core)
  }

  private static func volume(_ id: Int, _ change: Int = 0) -> Volume {
    Volume(
      id: id, title: "title \((id + change) % 37)", year: 1990 + (id + change) % 30,
      isbn: id % 3 == 0 ? nil : "isbn \(id)", tags: id % 4 == 0 ? [] : ["t\(id % 5)", "t\((id + change) % 7)"],
      codes: id % 5 == 0 ? nil : [id * 2, id * 2 + 1], shelf: id % 2 == 0 ? .fiction : .science,
      home: id % 6 == 0 ? nil : Volume.Home(city: "city \(id % 4)"), weight: id % 9 == 0 ? .nan : Double(id % 3))
  }

  /// Fills the collection, and changes some rows after each chunk of the builds. Calls `isReady` once the indexes are
  /// durably ready and more work follows.
  private static func run(_ disk: CrashFileSystem, _ way: Way, isReady: () -> Void = {}) throws {
    let database = try open(disk, 1, way)
    let volumes = Store<VolumeFormat>(in: database)
    try database.core.write(WriteTerms(durability: .power)) { tx in
      for id in 0..<rowCount { try tx.set(volume(id), key: id, in: VolumeFormat.collection) }
    }
    try register(database)
    let registered = try #require(database.core.extensions.list[name])
    let steps = Mutex(0)
    _ = registered.addWaiting { _ in
      let step = steps.withLock { steps in
        steps += 1
        return steps
      }
      if step > 14 { return }
      do {
        try database.core.write(WriteTerms(durability: step % 3 == 0 ? .power : .process)) { tx in
          try volumes.persist(volume(step * 23, 3), in: tx)
          _ = try volumes.deleteIfPresent(rowCount - 1 - step * 23, in: tx)
          try volumes.persist(volume(rowCount + step), in: tx)
        }
      } catch { Issue.record(error) }
    }
    try volumes.warm()
    _ = try database.core.write(WriteTerms(durability: .power)) { tx in try volumes.persist(volume(0, 4), in: tx) }
    isReady()
    if way == .again {
      for _ in 0..<2 {
        try volumes.rebuild(\.title)
        try volumes.rebuild(\.isbn)
      }
    }
    try database.close()
  }

  /// Checks that every index has the entries of each row, and returns the number of rows.
  private static func check(_ database: Database) throws -> Int {
    let volumes = Store<VolumeFormat>(in: database)
    try volumes.warm()
    return try database.core.read { tx in
      let differences = try volumes.indexDifferences(in: tx)
      guard differences.isEmpty else { throw ContractBroken("\(differences.prefix(4))") }
      let all = try Array(volumes.load(..., in: tx))
      guard try volumes.count(.all, from: \.title, in: tx) == all.count else {
        throw ContractBroken("titles are missing")
      }
      let isbns = Set(all.compactMap(\.isbn))
      guard try volumes.count(.range(""...), from: \.isbn, in: tx) == isbns.count else {
        throw ContractBroken("ISBNs differ")
      }
      let runs = try database.core.backend.families().map(\.name).filter { $0.hasPrefix("spill.") }
      guard runs.isEmpty else { throw ContractBroken("runs are left: \(runs)") }
      return all.count
    }
  }

  private static func state(_ database: Database) -> String {
    switch database.core.extensionCatalog.record(name)?.state {
    case nil: "none"
    case .building: "building"
    case .ingesting: "ingesting"
    case .stale: "stale"
    case .ready: "ready"
    case .failed: "failed"
    }
  }

  @Test(arguments: Way.allCases)
  func `indexes whose build is interrupted by a crash contain all rows after the next start`(way: Way) throws {
    let counting = CrashFileSystem(seed: 3)
    let operations = Mutex(0)
    counting.observe { _, _ in operations.withLock { $0 += 1 } }
    try Self.run(counting, way)
    counting.observe(nil)
    let stride = max(1, operations.withLock { $0 } / Self.pointLimit)

    let disk = CrashFileSystem(seed: 3)
    let points = Mutex<[CrashPoint]>([])
    let wantsNext = Mutex(false)
    disk.observe { operation, capture in
      let isWanted = wantsNext.withLock { wantsNext in
        defer { wantsNext = false }
        return wantsNext
      }
      if isWanted || operation.number % stride == 0 { points.withLock { $0.append(capture()) } }
    }
    try Self.run(disk, way) { wantsNext.withLock { $0 = true } }
    disk.observe(nil)
    var states: [String: Int] = [:]
    for (index, point) in points.withLock({ $0 }).enumerated() {
      // The run has seed 1: random numbers that it has used would make its log look like that of this opening.
      let seed = UInt64(index + 2)
      let policy = CrashPolicy.allCases[index % CrashPolicy.allCases.count]
      do {
        let image = point.image(seed: seed, policy: policy)
        let database = try Self.open(image, seed, way)
        states[Self.state(database), default: 0] += 1
        try Self.register(database)
        _ = try Self.check(database)
        let volumes = Store<VolumeFormat>(in: database)
        try database.core.write(WriteTerms()) { tx in
          try volumes.persist(Self.volume(47, 5), in: tx)
          try volumes.persist(Self.volume(77_777), in: tx)
        }
        let count = try Self.check(database)
        try database.close()
        // After a second opening, no work is left.
        let again = try Self.open(image, seed &+ 1_000, way)
        try Self.register(again)
        guard try Self.check(again) == count else { throw ContractBroken("rows are gone") }
        try again.close()
      } catch {
        Issue.record(error, "image \(index), \(point.operation.map { "\($0)" } ?? ""), \(policy), seed \(seed)")
        return
      }
    }
    print("index build crashes, \(way.rawValue): \(points.withLock { $0.count }) images, found \(states)")
    let expected: [String] = way == .tables ? ["ingesting", "ready"] : ["building", "ready"]
    for state in expected { #expect(states[state, default: 0] > 0 || !TestScale.isWhole, "\(state): \(states)") }
  }
}
