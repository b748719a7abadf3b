import EngineTestSupport
import Foundation
import Testing

@testable import ObjectFixtures
@testable import Varve
@testable import VarveInspection

/// Tests of differences in index entries that are found and repaired without the program's code.
struct IndexReviewDamageTests {
  typealias Kind = IndexReview.Difference.Kind

  private let directory: TemporaryDirectory
  private var path: String { directory.path + "/db" }

  init() throws {
    directory = try TemporaryDirectory()
    try with(VolumeFormat.self) { database, volumes in
      try database.write { tx in
        for id in 1...20 {
          try volumes.persist(
            Volume(
              id: id, title: "title \(id % 7)", year: 1990 + id, isbn: id % 2 == 0 ? "isbn \(id)" : nil,
              tags: ["all", "t\(id % 3)"], codes: [id, id + 100]), in: tx)
        }
      }
    }
  }

  // MARK: - Valid indexes

  @Test func `indexes are listed with their definitions, and agree with their rows`() throws {
    try inspect { inspector in
      let indexes = try inspector.indexes(of: "volumes") { throw $0 }
      #expect(
        indexes.map(\.name) == [
          "added", "byShelf", "byYear", "city", "codes", "isbn", "price", "recent", "tags", "title", "titleAndRow",
          "weight",
        ])
      #expect(indexes.allSatisfy { $0.state == .ready && !$0.isBeingReplaced && $0.collection == "volumes" })
      let byName = Dictionary(uniqueKeysWithValues: indexes.map { ($0.name, $0) })
      #expect(byName["byYear"]?.keyType == "compound(int,string)" && byName["byYear"]?.kind == "index")
      #expect(byName["byShelf"]?.keyType == "compound(string,descending(int))")
      #expect(byName["isbn"]?.kind == "oneToOne" && byName["isbn"]?.isUnique == true)
      #expect(byName["isbn"]?.keyType == "optional(string)")
      #expect(byName["codes"]?.kind == "manyToOne" && byName["tags"]?.kind == "manyToMany")
      #expect(indexes.filter(\.isDirect).map(\.name) == ["titleAndRow"])
      #expect(indexes.filter(\.isUnique).map(\.name) == ["codes", "isbn"])
      let counts = try indexes.map { try inspector.entryCount(of: $0) }
      #expect(counts == [20, 20, 20, 20, 40, 20, 20, 0, 40, 20, 20, 20])
      let review = try inspector.verify(indexes)
      #expect(review.differenceCount == 0 && review.differences.isEmpty && review.skipped.isEmpty)
      #expect(review.rowCount == 20 && review.entryCount == counts.reduce(0, +) && review.indexes.count == 12)
    }
  }

  @Test func `a collection without indexes lists none, and a missing collection is refused`() throws {
    try open { database in try database.write { tx in try tx.set(1, key: 1, in: "bare") } }
    try inspect { inspector in
      let none = try inspector.indexes(of: "bare", fault: rethrow)
      #expect(none.isEmpty)
      let missing = errorCode { _ = try inspector.indexes(of: "none", fault: rethrow) }
      #expect(missing == .notFound)
    }
  }

  // MARK: - Damaged indexes

  /// The damage that is done to a valid database.
  enum Damage: CaseIterable {
    case missingEntry, entryOfAnotherValue, entryOfNoRow, otherContent, unreadableEntry, lostRow
    case lostEmitted, damagedEmitted

    var kind: Kind {
      switch self {
      case .missingEntry: .missing
      case .entryOfAnotherValue, .entryOfNoRow: .stale
      case .otherContent: .content
      case .unreadableEntry: .unreadableEntry
      case .lostRow: .withoutRow
      case .lostEmitted: .notEmitted
      case .damagedEmitted: .unreadableEmitted
      }
    }

    var index: String { self == .otherContent ? "titleAndRow" : "title" }
    /// Whether the program's code is needed for the repair.
    var needsProgram: Bool { self == .lostEmitted || self == .damagedEmitted }
  }

  @Test(arguments: Damage.allCases)
  func `each kind of difference is found, and repaired or refused`(damage: Damage) throws {
    try inflict(damage)
    let before = try review()
    // A row that has lost its emitted values has unaccounted entries: 12 indexes, codes and tags twice, and none in
    // "recent".
    let others = damage == .lostEmitted ? 13 : 0
    #expect(before.differenceCount == 1 + others, "\(before.differences)")
    #expect(
      before.differences.first?.kind == damage.kind && before.differences.dropFirst().allSatisfy { $0.kind == .stale })
    #expect(before.differences.allSatisfy { $0.collection == "volumes" })
    let first = try #require(before.differences.first)
    #expect(first.index == ([.notEmitted, .unreadableEmitted, .withoutRow].contains(damage.kind) ? nil : damage.index))
    #expect(first.row?.text == (damage == .unreadableEntry ? nil : damage == .entryOfNoRow ? "99" : "5"))
    if damage == .missingEntry {
      #expect("\(first)" == "index \"title\" of volumes: the entry of the row 5 for \"title 5\" is missing")
    }

    if damage.needsProgram {
      let error = #expect(throws: DatabaseError.self) { try IndexRebuild.run("title", at: path) }
      #expect(error?.code == .corruption && error?.message.hasPrefix("1 rows have no emitted values") == true)
      #expect(try review().differenceCount == before.differenceCount, "what is refused changes nothing")
      try with(VolumeFormat.self) { database, volumes in
        let differences = try database.read { tx in try volumes.indexDifferences(in: tx) }
        #expect(differences.map(\.kind) == [.emitted])
        try rebuild(volumes, \.title)
      }
      #expect(try review().differenceCount == 0)
      return
    }
    let result = try IndexRebuild.run(damage.index, at: path)
    #expect(result.added == (damage == .missingEntry ? 1 : 0) && result.corrected == (damage == .otherContent ? 1 : 0))
    #expect(result.removed == ([.stale, .unreadableEntry, .withoutRow].contains(damage.kind) ? 1 : 0))
    #expect(result.removedRows == (damage == .lostRow ? 1 : 0) && result.index == damage.index)
    #expect(result.entryCount == (damage == .lostRow ? 19 : 20) && result.collection == "volumes")
    #expect(try review().differenceCount == 0)
    #expect(try IndexRebuild.run(damage.index, of: "volumes", at: path).added == 0)
    try with(VolumeFormat.self) { database, volumes in
      try database.read { tx throws in
        #expect(try volumes.indexDifferences(in: tx).isEmpty)
        #expect(try volumes.count(.value("title 5"), from: \.title, in: tx) == (damage == .lostRow ? 2 : 3))
      }
    }
  }

  @Test func `a rebuild does not change other extensions and the state of the index`() throws {
    try inflict(.missingEntry)
    let before = try records()
    _ = try IndexRebuild.run("title", at: path)
    #expect(try records() == before)
  }

  @Test func `as many differences are listed as requested, and all are counted`() throws {
    try tamper { batch, indexes, inspector in
      for entry in try entries(of: "tags", indexes, inspector) { batch.delete(entry.key, in: entry.family) }
    }
    let some = try review(limit: 3)
    #expect(some.differenceCount == 40 && some.differences.count == 3)
    #expect(try review(limit: 0).differences.isEmpty)
    #expect(try IndexRebuild.run("tags", at: path).added == 40)
    #expect(try review().differenceCount == 0)
  }

  @Test func `an index whose definition is not readable is reported, and the others are listed`() throws {
    try open { database in
      let name = IndexesName.name(for: "volumes")
      var record = try #require(database.core.extensionCatalog.record(name))
      let part = try #require(record.parts.firstIndex { $0.name == "i.title" })
      record.parts[part].version = "no definition"
      var batch = StorageBatch()
      batch.put(CatalogKey.extensions + Array(name.utf8), record.bytes, in: database.core.catalog.families.catalog)
      batch.put(CatalogKey.extensions + Array("other".utf8), [5, 1, 2], in: database.core.catalog.families.catalog)
      try database.core.backend.commit(batch, check: nil, durability: .process).wait()
    }
    try inspect { inspector in
      var faults: [String] = []
      let indexes = try inspector.indexes { faults.append("\($0)") }
      #expect(indexes.count == 11 && !indexes.contains { $0.name == "title" })
      #expect(faults.count == 2 && faults.contains { $0.contains("\"no definition\" is not a definition of an index") })
      #expect(faults.contains { $0.contains("record of extension \"other\" is damaged") }, "\(faults)")
    }
  }

  @Test func `an index whose family is missing is created again`() throws {
    try open { database in
      let backend = database.core.backend
      let indexes = try DatabaseInspector(backend, path: path).indexes { throw $0 }
      try backend.dropFamily(try #require(indexes.first { $0.name == "byYear" }?.entries))
    }
    let before = try review()
    #expect(
      before.differenceCount == 20 && before.differences.allSatisfy { $0.kind == .missing && $0.index == "byYear" })
    #expect(try IndexRebuild.run("byYear", at: path).added == 20)
    #expect(try review().differenceCount == 0)
    try with(VolumeFormat.self) { database, volumes in
      let differences = try database.read { tx in try volumes.indexDifferences(in: tx) }
      #expect(differences.isEmpty)
    }
  }

  @Test(arguments: 0..<8)
  func `rebuilds restore the entries of all indexes from any damage`(round: Int) throws {
    let seed = UInt64.random(in: 0 ... .max)
    var random = SeededRandom(seed: seed)
    try tamper { batch, indexes, inspector in
      for index in indexes {
        for entry in try entries(of: index.name, indexes, inspector) {
          switch Int.random(in: 0..<6, using: &random) {
          case 0: batch.delete(entry.key, in: entry.family)
          case 1: batch.put(entry.key, [UInt8.random(in: 0...255, using: &random)], in: entry.family)
          case 2:
            var other = entry.key
            other[Int.random(in: other.indices, using: &random)] ^= UInt8.random(in: 1...255, using: &random)
            batch.put(other, [], in: entry.family)
          default: break
          }
        }
      }
    }
    let indexes = try review().indexes
    for index in indexes { _ = try IndexRebuild.run(index.name, at: path) }
    let after = try review()
    #expect(after.differenceCount == 0, "seed \(seed): \(after.differences)")
    try with(VolumeFormat.self) { database, volumes in
      let differences = try database.read { tx in try volumes.indexDifferences(in: tx) }
      #expect(differences.isEmpty, "seed \(seed): \(differences)")
    }
  }

  // MARK: - Indexes that can't be compared

  @Test func `an index that has missed changes is skipped and not rebuilt, and catches up when the program opens`()
    throws
  {
    try open { database in
      try database.write { tx throws in _ = try tx.remove(key: 5, in: "volumes") }
    }
    let stale = try review()
    #expect(stale.indexes.isEmpty && stale.skipped.count == 12 && stale.skipped.allSatisfy { $0.state == .stale })
    let error = #expect(throws: DatabaseError.self) { try IndexRebuild.run("title", at: path) }
    #expect(error?.code == .notReady && error?.message.contains("has missed changes") == true)
    try with(VolumeFormat.self) { _, _ in }
    let ready = try review()
    #expect(ready.skipped.isEmpty && ready.differenceCount == 0 && ready.rowCount == 19)
  }

  @Test func `an index that is being built is skipped and not rebuilt`() throws {
    try open { database in
      let name = IndexesName.name(for: "volumes")
      var record = try #require(database.core.extensionCatalog.record(name))
      let part = try #require(record.parts.firstIndex { $0.name == "i.title" })
      record.parts[part].watermark = []
      record.state = .building(watermark: [])
      var batch = StorageBatch()
      batch.put(CatalogKey.extensions + Array(name.utf8), record.bytes, in: database.core.catalog.families.catalog)
      try database.core.backend.commit(batch, check: nil, durability: .process).wait()
    }
    let review = try review()
    #expect(review.skipped.map(\.name) == ["title"] && review.skipped.first?.state == .building)
    #expect(review.indexes.count == 11 && review.differenceCount == 0)
    #expect(errorCode { _ = try IndexRebuild.run("title", at: path) } == .notReady)
    #expect(try IndexRebuild.run("byYear", at: path).entryCount == 20)
  }

  @Test func `a unique index over rows with the same value reports how many collided`() throws {
    try with(BareVolumeFormat.self) { database, volumes in
      try database.write { tx throws in
        for id in 1...3 { try volumes.persist(Volume(id: id, title: "a", isbn: "same"), in: tx) }
      }
    }
    try with(VolumeFormat.self) { _, _ in }
    try inspect { inspector in
      let index = try #require(try inspector.indexes { throw $0 }.first { $0.name == "isbn" })
      #expect(index.state == .collided(2) && index.isComplete)
    }
    #expect(try review().differenceCount == 0)
  }

  @Test func `an index that does not exist, and a name in several collections, are refused`() throws {
    #expect(errorCode { _ = try IndexRebuild.run("none", at: path) } == .notFound)
    #expect(errorCode { _ = try IndexRebuild.run("title", of: "other", at: path) } == .notFound)
    #expect(errorCode { _ = try IndexRebuild.run("title", at: path + "none") } == .notFound)
    try with(ShelvedFormat.self) { database, volumes in
      try database.write { tx in _ = try volumes.persist(Volume(id: 1, title: "a"), in: tx) }
    }
    let error = #expect(throws: DatabaseError.self) { try IndexRebuild.run("title", at: path) }
    #expect(error?.code == .invalidArgument && error?.message.contains("shelved, volumes") == true)
    #expect(try IndexRebuild.run("title", of: "shelved", at: path).entryCount == 1)
  }

  @Test func `a database that is open is not rebuilt`() throws {
    try open { _ in
      let code = errorCode { _ = try IndexRebuild.run("title", at: path) }
      #expect(code == .locked)
    }
  }

  // MARK: - Support

  private struct BareVolumeFormat: StoreFormat {
    typealias Instance = Volume
    static let collection = "volumes"
  }

  private struct ShelvedFormat: StoreFormat {
    typealias Instance = Volume
    static let collection = "shelved"
    let title = Index(\.title)
  }

  private func open(_ body: (Database) throws -> Void) throws {
    let database = try Database.open(at: path)
    do { try body(database) } catch {
      try? database.close()
      throw error
    }
    try database.close()
  }

  private func with<Format: StoreFormat>(
    _ format: Format.Type, _ body: (Database, Store<Format>) throws -> Void
  ) throws {
    let database = try Database.open(at: path, definition: DatabaseDefinition { format })
    let store = Store<Format>(in: database)
    do {
      let warm: (Store<Format>) throws -> Void = { try $0.warm() }
      try warm(store)
      try body(database, store)
    } catch {
      try? database.close()
      throw error
    }
    try database.close()
  }

  private func rethrow(_ error: any Error) throws { throw error }

  private func rebuild<Format: StoreFormat>(
    _ store: Store<Format>, _ path: KeyPath<Format, some StoreIndex>
  ) throws { try store.rebuild(path) }

  private func inspect<Result>(_ body: (DatabaseInspector) throws -> Result) throws -> Result {
    let inspector = try DatabaseInspector.open(at: path)
    let result = try body(inspector)
    try inspector.close()
    return result
  }

  private func review(limit: Int = 100) throws -> IndexReview {
    try inspect { inspector in try inspector.verify(try inspector.indexes { throw $0 }, limit: limit) }
  }

  private func records() throws -> [String] {
    var lines: [String] = []
    try inspect { inspector in
      try inspector.dumpCatalog {
        if $0.hasPrefix("extension") { lines.append($0) }
      } fault: {
        throw $0
      }
    }
    return lines
  }

  /// Changes families without the object database.
  private func tamper(
    _ body: (inout StorageBatch, [InspectedIndex], DatabaseInspector) throws -> Void
  ) throws {
    try open { database in
      let inspector = try DatabaseInspector(database.core.backend, path: path)
      var batch = StorageBatch()
      try body(&batch, try inspector.indexes { throw $0 }, inspector)
      try database.core.backend.commit(batch, check: nil, durability: .process).wait()
    }
  }

  private func entries(
    of name: String, _ indexes: [InspectedIndex], _ inspector: DatabaseInspector
  ) throws -> [(key: [UInt8], family: StorageFamily)] {
    let index = try #require(indexes.first { $0.name == name })
    guard let family = index.entries else { return [] }
    var found: [(key: [UInt8], family: StorageFamily)] = []
    var cursor = FamilyCursor(StorageRange(), in: family, of: inspector.snapshot, isReverse: false)
    while let key = try cursor.nextKey() { found.append((key, family)) }
    return found
  }

  /// Damages the entries of row 5, whose title is "title 5".
  private func inflict(_ damage: Damage) throws {
    try tamper { batch, indexes, inspector in
      let index = try #require(indexes.first { $0.name == damage.index })
      let (entries, emitted) = (try #require(index.entries), try #require(index.emitted))
      let row = try 5.encoded()
      let title = try "title 5".encoded()
      switch damage {
      case .missingEntry: batch.delete(IndexFormat.entry(value: title, row: row), in: entries)
      case .entryOfAnotherValue:
        batch.put(IndexFormat.entry(value: try "title 6".encoded(), row: row), [], in: entries)
      case .entryOfNoRow: batch.put(IndexFormat.entry(value: title, row: try 99.encoded()), [], in: entries)
      case .otherContent: batch.put(IndexFormat.entry(value: title, row: row), [1, 2, 3], in: entries)
      case .unreadableEntry: batch.put([9, 200], [], in: entries)
      case .lostRow:
        let collection = try inspector.collection("volumes")
        batch.delete(collection.prefix + row, in: collection.objects)
      case .lostEmitted: batch.delete(row, in: emitted)
      case .damagedEmitted: batch.put(row, [0, 1, 2], in: emitted)
      }
    }
  }
}
