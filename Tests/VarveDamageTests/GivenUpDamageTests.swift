import EngineTestSupport
import Foundation
import Testing

@testable import ObjectFixtures
@testable import Varve
@testable import VarveEngine

/// Tests of a flipped byte in a table of each kind of family, and of the result of `Database.giveUpDamagedBlocks`.
struct GivenUpDamageTests {
  /// The kinds of families by their contents.
  enum Holding: String, CaseIterable {
    case objects, metadata, ownObjects, ownMetadata, catalog, counts, feed, part, rowIDs
  }

  private static let rowCount = 1_500

  /// A database on disk with all of these families, which is flushed, compacted, and closed.
  private struct World {
    let directory: TemporaryDirectory
    var path: String { directory.path + "/db" }
    let environment = EngineEnvironment.system

    static let definition = DatabaseDefinition {
      CollectionDefinition("own", ChangedNote.self, key: Int.self, storage: .own())
    }

    init() throws {
      directory = try TemporaryDirectory()
      let (database, _, _) = try open()
      // The number of commits is such that the feed has several blocks.
      for batch in 0..<15 {
        try database.change { tx in
          for key in batch * 100..<(batch + 1) * 100 {
            let about: Int? = key % 2 == 0 ? key : nil
            if let about {
              try tx.set("word\(key % 10)", key: key, in: "notes", metadata: about)
              try tx.set(ChangedNote("\(key)"), key: key, in: "own", metadata: about)
            } else {
              try tx.set("word\(key % 10)", key: key, in: "notes")
              try tx.set(ChangedNote("\(key)"), key: key, in: "own")
            }
          }
        }
      }
      // The catalog gets many records.
      for number in 0..<150 { try database.change { tx in try tx.set(number, key: 1, in: "collection \(number)") } }
      let engine = try #require(database.core.backend as? EngineBackend).engine
      try engine.flush()
      try engine.compact()
      try database.close()
    }

    func open() throws -> (Database, ExtensionHandle<WordCount>, ExtensionHandle<Scripted>) {
      let database = try Database.open(at: path, definition: Self.definition)
      let words = try database.registerReady(WordCount(), as: "words")
      var numbered = Scripted(events: .all)
      numbered.configuration.asksRowsByID = true
      let handle = try database.registerReady(numbered, as: "numbered")
      // An extension that builds nothing does not wait for the map.
      try database.waitReady(RowIDMap(scope: .all).named(RowIDMap.name(for: .all)))
      return (database, words, handle)
    }

    /// Flips a byte of the first table of a family. Returns the name of the family.
    func damage(_ holding: Holding) throws -> String {
      let engine = try Engine.open(at: path)
      let database = engine.core.tree.state.families.values
      func isMeant(_ name: String) -> Bool {
        switch holding {
        case .objects, .metadata, .catalog, .counts, .feed: name == holding.rawValue
        case .ownObjects: name.hasPrefix("c.") && name.hasSuffix(".objects")
        case .ownMetadata: name.hasPrefix("c.") && name.hasSuffix(".metadata")
        case .part: name.hasPrefix("x.") && name.hasSuffix(".words")
        case .rowIDs: name.hasPrefix("x.") && name.hasSuffix(".rows")
        }
      }
      let family = try #require(database.first { isMeant($0.name) })
      let table = try #require(
        (0..<Limits.levelCount).lazy.compactMap { family.version.tables(level: $0).first { _ in true } }.first)
      let file = engine.core.tree.path(.table(table.number))
      try engine.close()
      var bytes = try Data(contentsOf: URL(fileURLWithPath: file))
      bytes[20] ^= 0x10
      try bytes.write(to: URL(fileURLWithPath: file))
      return family.name
    }
  }

  /// Expects all derived data of the database to agree with its rows.
  private static func expectOrder(_ world: World) throws {
    let (database, words, numbered) = try world.open()
    defer { try? database.close() }
    try database.look { tx in
      for name in ["notes", "own"] {
        #expect(try tx.count(in: name) == tx.keys(Int.self, in: name).count)
        for key in try tx.keys(Int.self, in: name) {
          let about = try tx.metadata(Int.self, key: key, in: name)
          #expect(about == nil || about == key)
        }
      }
      var expected: [String: Int] = [:]
      for key in try tx.keys(Int.self, in: "notes") {
        expected[try #require(try tx.object(String.self, key: key, in: "notes")), default: 0] += 1
      }
      for number in 0..<10 {
        #expect(try tx[words].count(of: "word\(number)") == expected["word\(number)", default: 0])
      }
      // Every row must be found by its number.
      for key in try tx.keys(Int.self, in: "notes") {
        let row = try #require(try tx.row(key: key, in: "notes"))
        let found = try tx[numbered].context.key(of: row.id)
        #expect(try found?.key(as: Int.self) == key && found?.collection == "notes")
      }
    }
    let engine = try #require(database.core.backend as? EngineBackend).engine
    #expect(try engine.verify().faults.isEmpty)
    // Numbers must not be reused.
    let known = try database.look { tx in
      try tx.keys(Int.self, in: "notes").compactMap { try tx.row(key: $0, in: "notes")?.id }
    }
    try database.change { tx in try tx.set("new", key: 99_999, in: "notes") }
    let id = try #require(try database.look { tx in try tx.row(key: 99_999, in: "notes")?.id })
    #expect(known.allSatisfy { $0 < id })
    try database.change { tx in try tx.remove(key: 99_999, in: "notes") }
    try engine.compact()
  }

  @Test(arguments: Holding.allCases)
  func `giving up a block leaves a consistent database`(holding: Holding) throws {
    let world = try World()
    let (before, _, _) = try world.open()
    let version = try before.lastVersion()
    try before.close()
    let family = try world.damage(holding)
    let given = try Database.giveUpDamagedBlocks(at: world.path)
    #expect(given.tables.map(\.family) == [family])
    #expect(given.tables.allSatisfy { $0.entryCount > 0 })
    let concernsRows = ![.counts, .feed, .part, .rowIDs].contains(holding)
    #expect(given.concernsRows == concernsRows)
    #expect(given.concernsCatalog == (holding == .catalog))
    switch holding {
    case .part: #expect(given.staleExtensions == ["words"])
    case .counts, .feed, .rowIDs: #expect(given.staleExtensions == [])
    case .catalog: break
    default: #expect(given.staleExtensions.contains("words"))
    }
    // A subscription that resumes from before the damage receives a gap if rows or the feed are affected.
    let options = DatabaseOptions()
    let database = try Database.open(at: world.path, definition: World.definition, options: options)
    let first = try database.feedEvents(after: CommitVersion(version.number - 5)).first
    let isGap = if case .gap = first { true } else { false }
    #expect(isGap == (concernsRows || holding == .feed))
    let rows = try database.look { tx in try tx.keys(Int.self, in: "notes").count }
    if holding == .objects {
      #expect(rows > 0 && rows < Self.rowCount)
    } else if holding != .catalog {
      #expect(rows == Self.rowCount)
    }
    try database.close()
    try Self.expectOrder(world)
    #expect(try Database.giveUpDamagedBlocks(at: world.path).tables.isEmpty)
    try Self.expectOrder(world)
  }

  @Test func `an interruption after the blocks were removed is completed by the next open`() throws {
    for isOpened in [true, false] {
      let world = try World()
      _ = try world.damage(.objects)
      // The state is the one that a crash leaves before extensions are marked.
      let backend = try #require(
        try BackendOpening(path: world.path, options: DatabaseOptions()).run() as? EngineBackend)
      let damage = try backend.engine.findDamage()
      _ = try DamageRepair.begin(backend, Set(damage.map(\.family)))
      for block in damage { try backend.engine.giveUp(block) }
      try backend.close()
      if !isOpened { #expect(try Database.giveUpDamagedBlocks(at: world.path).tables.isEmpty) }
      try Self.expectOrder(world)
    }
  }

  @Test func `giving up any damaged block of a small catalog's only table ends, and reports the loss`() throws {
    let directory = try TemporaryDirectory()
    let sound = directory.path + "/sound"
    let database = try Database.open(at: sound)
    _ = try database.registerReady(WordCount(), as: "words")
    try database.change { tx in for key in 0..<50 { try tx.set("word", key: key, in: "notes") } }
    // The key of this shape is after that of the mark, so the lookup of the mark reads the table.
    try database.change { tx in try tx.set(ChangedNote("a"), key: 1, in: "shaped") }
    let engine = try #require(database.core.backend as? EngineBackend).engine
    try engine.flush()
    try engine.compact()
    let catalog = try #require(engine.core.tree.state.families.values.first { $0.name == "catalog" })
    let tables = (0..<Limits.levelCount).flatMap { Array(catalog.version.tables(level: $0)) }
    let table = try #require(tables.first)
    #expect(tables.count == 1 && table.entryCount > 3)
    let name = try #require(engine.core.tree.path(.table(table.number)).split(separator: "/").last)
    try database.close()

    var lost = 0
    var keptAll = 0
    for offset in stride(from: 2, to: Int(table.fileSize), by: 19) {
      let path = directory.path + "/damaged"
      try? FileManager.default.removeItem(atPath: path)
      try FileManager.default.copyItem(atPath: sound, toPath: path)
      let file = URL(fileURLWithPath: "\(path)/\(name)")
      var bytes = try Data(contentsOf: file)
      bytes[offset] ^= 4
      try bytes.write(to: file)
      let given = try Database.giveUpDamagedBlocks(at: path)
      let report = try #require(given.tables.first, "byte \(offset)")
      #expect(given.tables.count == 1 && given.concernsRows)
      let holdsEntries = report.parts.contains(where: \.holdsEntries)
      #expect((report.entryCount > 0) == holdsEntries, "byte \(offset): \(report)")
      if holdsEntries { lost += 1 } else { keptAll += 1 }
      let again = try Database.open(at: path)
      let count = try again.look { tx in try tx.count(in: "notes") }
      #expect(count == (holdsEntries ? 0 : 50), "byte \(offset): \(report)")
      try again.close()
      let second = try Database.giveUpDamagedBlocks(at: path)
      #expect(second.tables.isEmpty, "byte \(offset)")
    }
    #expect(lost > 3 && keptAll > 3)
  }

  @Test func `giving up blocks does not change an undamaged database`() throws {
    let world = try World()
    let given = try Database.giveUpDamagedBlocks(at: world.path)
    #expect(given.tables.isEmpty && given.staleExtensions.isEmpty && !given.concernsRows)
    #expect(errorCode { try Database.giveUpDamagedBlocks(at: world.path + "/none") } == .notFound)
    try Self.expectOrder(world)
  }

  @Test func `a task gives up blocks without blocking its thread`() async throws {
    let world = try World()
    _ = try world.damage(.part)
    let given = try await Database.giveUpDamagedBlocks(at: world.path)
    #expect(given.tables.count == 1 && given.staleExtensions == ["words"])
    try Self.expectOrder(world)
  }

  @Test func `a repair of the engine followed by one of the objects leaves a consistent database`() throws {
    let world = try World()
    _ = try world.damage(.objects)
    let report = try Engine.repair(at: world.path)
    #expect(!report.losses.isEmpty)
    try Database.repairDamage(after: report.losses.map(\.family), at: world.path)
    try Self.expectOrder(world)
  }
}
