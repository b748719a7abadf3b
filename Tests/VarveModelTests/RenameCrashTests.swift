import EngineTestSupport
import Synchronization
import Testing
import VarveEngine
import VarveTestSupport

@testable import Varve

/// A note; a program has had two formats for it.
private struct RenamedNote: Codable, Identifiable, Hashable, Sendable {
  var id: Int
  var text: String
}

private struct OldNotes: StoreFormat {
  typealias Instance = RenamedNote
  typealias Metadata = Int
  static let collection = "old"
  let text = Index(\.text)
  let unique = OneToOneIndex(\.text, name: "unique")
}

private struct NewNotes: StoreFormat {
  typealias Instance = RenamedNote
  typealias Metadata = Int
  static let collection = "new"
  static let formerKeys = ["old"]
  let text = Index(\.text)
  let unique = OneToOneIndex(\.text, name: "unique")
}

/// Tests of a power loss at any disk operation while a collection is renamed: by its format when the database is
/// opened, and by a call.
///
/// The collection exists by one of the two names, with everything that must be durable, and its indexes find it.
///
/// Images are taken from the open that renames until the close.
///
///     VARVE_TEST_SCALE=5 ./tools/test --filter RenameCrashTests   # every operation
struct RenameCrashTests {
  private static let rowCount = 60
  private static let pointLimit = TestScale.value >= 5 ? Int.max : TestScale.count(60)
  private static let path = "/db"

  private static func open(
    _ fileSystem: any FileSystem, _ seed: UInt64, _ definition: DatabaseDefinition = DatabaseDefinition()
  ) throws -> Database {
    let executor = SteppedExecutor(seed: seed)
    let numbers = Mutex(SeededRandom(seed: seed))
    let environment = EngineEnvironment(
      fileSystem: fileSystem, clock: executor.clock, random: { numbers.withLock { $0.next() } },
      makeExecutor: { _ in executor })
    let backend = try EngineBackend(
      try Engine.open(at: path, options: StorageSite.options, environment: environment))
    var options = DatabaseOptions()
    options.clock = WallClock { 1_700_000_000 }
    return try Database.open(backend, path: path, definition: definition, options: options)
  }

  private static func note(_ id: Int) -> RenamedNote { RenamedNote(id: id, text: "note \(id)") }

  /// Fills the collection by its former name, then renames it in one of the two ways, then writes more by the new name.
  /// `noteRenaming` is called when the renaming part begins.
  private static func run(
    _ disk: CrashFileSystem, byCall: Bool, seed: UInt64, noteRenaming: () -> Void = {}
  ) throws {
    var database = try open(disk, seed, DatabaseDefinition { OldNotes.self })
    try database.core.write(WriteTerms(durability: .power)) { tx in
      for id in 1...rowCount { try tx.set(note(id), key: id, in: "old", metadata: id) }
    }
    try database.close()
    noteRenaming()
    if byCall {
      database = try open(disk, seed &+ 1)
      try database.core.renameCollection("old", to: "new")
      try database.close()
    }
    database = try open(disk, seed &+ 2, DatabaseDefinition { NewNotes.self })
    try database.core.write(WriteTerms(durability: .power)) { tx in
      try tx.set(note(1_000), key: 1_000, in: "new", metadata: 1_000)
    }
    try database.close()
  }

  /// Returns the collections in an image before they are renamed: each name with its number of rows.
  private static func names(_ database: Database) throws -> [String: Int] {
    try database.core.read { tx in
      var found: [String: Int] = [:]
      for name in database.core.catalog.collections.map(\.name) { found[name] = try tx.count(in: name) }
      return found
    }
  }

  /// Opens an image without any format, and then by the new one. Returns the name by which the collection existed.
  private static func trial(_ point: CrashPoint, _ policy: CrashPolicy, _ seed: UInt64) throws -> String {
    let disk = point.image(seed: seed, policy: policy)
    let plain = try open(disk, seed)
    let found = try names(plain)
    try plain.close()
    guard found["old"] == nil || found["new"] == nil else { throw ContractBroken("both names are there: \(found)") }
    // The rows written before the rename were durable.
    guard let count = found["old"] ?? found["new"], count >= rowCount else {
      throw ContractBroken("there are \(found)")
    }

    for attempt in 0..<2 {
      let database = try open(disk, seed &+ UInt64(attempt) &+ 1, DatabaseDefinition { NewNotes.self })
      let store = Store<NewNotes>(in: database)
      try store.warm()
      try database.core.read { tx in
        let rows = try Array(store.load(..., in: tx))
        guard rows.count == count else {
          throw ContractBroken("\(rows.count) rows by the new name, \(found) before")
        }
        for row in rows {
          guard row == note(row.id), try tx.row(key: row.id, in: "new")?.metadata(as: Int.self) == row.id else {
            throw ContractBroken("row \(row.id) is torn")
          }
          guard try store.load(.value(row.text), from: \.unique, in: tx) == row else {
            throw ContractBroken("the index does not find row \(row.id)")
          }
        }
        let differences = try store.indexDifferences(in: tx)
        guard differences.isEmpty else { throw ContractBroken("\(differences[0])") }
        guard try tx.count(in: "new") == rows.count, try tx.count(in: "old") == 0 else {
          throw ContractBroken("counts are \(try tx.count(in: "new")) and \(try tx.count(in: "old"))")
        }
        let names = database.core.extensionCatalog.names
        guard names == [IndexesName.name(for: "new")] else { throw ContractBroken("extensions \(names)") }
      }
      guard database.core.catalog.collections.map(\.name) == ["new"] else {
        throw ContractBroken("collections \(database.core.catalog.collections.map(\.name))")
      }
      guard let backend = database.core.backend as? EngineBackend, try backend.engine.verify().faults.isEmpty else {
        throw ContractBroken("verify finds faults")
      }
      try database.close()
    }
    return found["old"] == nil ? "new" : "old"
  }

  @Test(arguments: CrashPolicy.allCases, [false, true])
  func `a crash leaves a collection under its old or its new name, with its rows and their index entries`(
    policy: CrashPolicy, byCall: Bool
  ) throws {
    let seed: UInt64 = 20_261_126
    let counting = CrashFileSystem(seed: seed)
    var first = 0
    try Self.run(counting, byCall: byCall, seed: seed) { first = counting.operationCount }
    let begin = first
    let stride = max(1, (counting.operationCount - begin) / Self.pointLimit)

    let disk = CrashFileSystem(seed: seed)
    let points = Mutex<[CrashPoint]>([])
    disk.observe { operation, capture in
      if operation.number > begin, operation.number % stride == 0 { points.withLock { $0.append(capture()) } }
    }
    try Self.run(disk, byCall: byCall, seed: seed)
    disk.observe(nil)
    #expect(disk.operationCount == counting.operationCount, "seed \(seed) gave two runs")
    var found: [String: Int] = [:]
    var order: [String] = []
    for (index, point) in points.withLock({ $0 }).enumerated() {
      do {
        let name = try Self.trial(point, policy, seed &+ UInt64(index))
        found[name, default: 0] += 1
        if order.last != name { order.append(name) }
      } catch {
        Issue.record(error, "image \(index), \(point.operation.map { "\($0)" } ?? ""), \(policy), seed \(seed)")
        return
      }
    }
    print(
      "rename crashes, \(policy.rawValue), by call \(byCall): \(found), of \(counting.operationCount - begin) operations,",
      "seed \(seed)")
    #expect(found["old", default: 0] > 0 && found["new", default: 0] > 0, "\(found)")
    if policy == .processKill {
      // Everything that was acknowledged is kept, so the collection never returns to a name that it has lost.
      #expect(order == ["old", "new"], "\(order)")
    }
  }
}
