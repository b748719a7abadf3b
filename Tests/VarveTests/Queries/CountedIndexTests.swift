import EngineTestSupport
import Testing
import VarveTestSupport

@testable import ObjectFixtures
@testable import Varve

private struct PlainTomeFormat: StoreFormat {
  static let collection = "tomes"
  typealias Instance = Tome
  let byAuthor = Index(\.author, \.title)
  @Direct var direct = Index(\.shelf)
  let tags = ManyToManyIndex(\.tags)
}

private struct CountedTomeFormat: StoreFormat {
  static let collection = "tomes"
  typealias Instance = Tome
  let byAuthor = Index(\.author, \.title, counted: true)
  @Direct var direct = Index(\.shelf, counted: true)
  let tags = ManyToManyIndex(\.tags, counted: true)
}

private struct OtherTomeFormat: StoreFormat {
  static let collection = "tomes"
  typealias Instance = Tome
  let byAuthor = Index(\.author, \.title, counted: true)
  let tags = Index(\.year, counted: true)
}

private struct NoTomeFormat: StoreFormat {
  static let collection = "tomes"
  typealias Instance = Tome
}

/// Tests of the life of counted indexes: turning counts on and off, builds, changes without the format, and damage.
@Suite(.serialized) struct CountedIndexTests {
  private let shared: SharedBackend

  init() throws { shared = try SharedBackend() }

  private func open<Format: StoreFormat>(_ format: Format.Type) throws -> (Database, Store<Format>) {
    let database = try shared.open(DatabaseDefinition { format })
    return (database, Store(in: database))
  }

  private func fill(_ all: [Tome]) throws {
    let (database, tomes) = try open(NoTomeFormat.self)
    try database.write { tx in try tomes.persist(contentsOf: all, in: tx) }
    try database.close()
  }

  /// Expects what counted indexes have of an array.
  private func check(
    _ tomes: Store<CountedTomeFormat>, _ all: [Tome], _ tx: ReadTransaction,
    sourceLocation: SourceLocation = #_sourceLocation
  ) throws {
    for author in Set(all.map(\.author)) {
      let query = tomes.query.filter { $0.author == author }.sorted(by: \.title)
      let expected = all.filter { $0.author == author }.sorted { ($0.title, $0.id) < ($1.title, $1.id) }
      try expectCounted(query, expected, in: tx, limit: 5, sourceLocation: sourceLocation)
    }
    let byID = all.sorted { $0.id < $1.id }
    let shelf = tomes.query.filter { $0.shelf == 2 }
    try expectCounted(shelf, byID.filter { $0.shelf == 2 }, in: tx, limit: 5, sourceLocation: sourceLocation)
    let tagged = tomes.query.filter { $0.tags.contains("y1") }
    try expectCounted(
      tagged, byID.filter { $0.tags.contains("y1") }, in: tx, limit: 5, sourceLocation: sourceLocation)
    // Verification compares what is committed.
    if tx is WriteTransaction { return }
    #expect(try tomes.indexDifferences(in: tx).isEmpty, sourceLocation: sourceLocation)
  }

  @Test func `counts are turned on and off without building an entry again`() throws {
    let all = TomeSite.samples(500)
    var (plain, tomes) = try open(PlainTomeFormat.self)
    try plain.write { tx in try tomes.persist(contentsOf: all, in: tx) }
    try warm(tomes)
    let families = try shared.families().filter { $0.name.contains(".i.") }
    #expect(families.count == 3)
    try plain.close()
    for _ in 0..<2 {
      let (database, counted) = try open(CountedTomeFormat.self)
      // The index is ready at once, and its entries are where they were.
      try database.read { tx in try check(counted, all, tx) }
      let now = try shared.families()
      for family in families { #expect(now.contains { $0.name == family.name && $0.number == family.number }) }
      try database.close()
      (plain, tomes) = try open(PlainTomeFormat.self)
      try plain.read { tx throws in
        let query = tomes.query.filter { $0.author == "a1" }.sorted(by: \.title)
        #expect(errorCode { _ = try query.ids(at: 0..<1, in: tx) } == .notIndexed)
        #expect(try query.count(in: tx) == all.filter { $0.author == "a1" }.count)
      }
      let after = try shared.families()
      for family in families { #expect(after.contains { $0.name == family.name && $0.number == family.number }) }
      try plain.close()
    }
  }

  @Test func `a build counts the rows from before, and those written during it`() throws {
    var all = TomeSite.samples(3_000)
    try fill(all)
    let (database, tomes) = try open(CountedTomeFormat.self)
    try database.write { tx throws in
      try tomes.persist(Tome(id: 5_000, author: "a1", tags: ["y1"]), in: tx)
      _ = try tomes.delete(1, in: tx)
      try tomes.modify(2, in: tx) { ($0.author, $0.shelf, $0.tags) = ("a0", 2, ["y1"]) }
      try tomes.modify(2_999, in: tx) { ($0.title, $0.tags) = ("zz", ["y1", "y2"]) }
    }
    all.append(Tome(id: 5_000, author: "a1", tags: ["y1"]))
    all.removeAll { $0.id == 1 }
    for index in all.indices {
      if all[index].id == 2 { (all[index].author, all[index].shelf, all[index].tags) = ("a0", 2, ["y1"]) }
      if all[index].id == 2_999 { (all[index].title, all[index].tags) = ("zz", ["y1", "y2"]) }
    }
    try warm(tomes)
    try database.read { [all] tx in try check(tomes, all, tx) }
    try database.close()
  }

  @Test func `each change enters and removes an entry once`() throws {
    let (database, tomes) = try open(CountedTomeFormat.self)
    var all = TomeSite.samples(60)
    try database.write { tx throws in
      try tomes.persist(contentsOf: all, in: tx)
      // The same rows again, with and without changes.
      try tomes.persist(contentsOf: all, in: tx)
      for index in all.indices { all[index].text = "new" }
      try tomes.persist(contentsOf: all, in: tx)
      try check(tomes, all, tx)
    }
    try database.write { tx throws in
      for index in all.indices {
        // Only the tags change, then the author and back, in one transaction.
        all[index].tags = index % 2 == 0 ? ["y1", "y1", "new"] : []
        try tomes.persist(all[index], in: tx)
        try tomes.modify(all[index].id, in: tx) { $0.author = "elsewhere" }
        try tomes.modify(all[index].id, in: tx) { $0.author = all[index].author }
      }
      try check(tomes, all, tx)
      for tome in all.prefix(10) {
        _ = try tomes.delete(tome.id, in: tx)
        try tomes.persist(tome, in: tx)
        _ = try tomes.delete(tome.id, in: tx)
      }
      all.removeFirst(10)
      try check(tomes, all, tx)
    }
    try database.read { tx in try check(tomes, all, tx) }
    try database.write { tx throws in
      try tx.removeAll(in: "tomes")
      try check(tomes, [], tx)
      try tomes.persist(contentsOf: all, in: tx)
      try check(tomes, all, tx)
    }
    try database.close()
  }

  @Test func `a definition that changes keeps the counts of the other indexes`() throws {
    let all = TomeSite.samples(200)
    for _ in 0..<2 {
      let (database, tomes) = try open(CountedTomeFormat.self)
      try database.write { tx in try tomes.persist(contentsOf: all, in: tx) }
      try warm(tomes)
      try database.read { tx in try check(tomes, all, tx) }
      try database.close()
      let (other, others) = try open(OtherTomeFormat.self)
      try other.write { tx in try others.modify(7, in: tx) { $0.author = "changed" } }
      try warm(others)
      try other.read { tx throws in
        // The name refers to another field now.
        let query = others.query.sorted(by: \.year)
        #expect(try query.explain(in: tx).countedIndex == "tags")
        #expect(try query.count(in: tx) == 200)
        #expect(try others.query.filter { $0.author == "changed" }.count(in: tx) == 1)
      }
      try other.close()
    }
  }

  @Test func `a program without the format leaves rows that are caught up once`() throws {
    var all = TomeSite.samples(300)
    let (first, tomes) = try open(CountedTomeFormat.self)
    try first.write { tx in try tomes.persist(contentsOf: all, in: tx) }
    try first.close()
    let bare = try shared.open(DatabaseDefinition())
    try bare.core.write(WriteTerms()) { tx in
      all[3].author = "a4"
      try tx.set(all[3], key: 3, in: "tomes")
      try tx.set(all[3], key: 3, in: "tomes")
      try tx.remove(key: 4, in: "tomes")
      try tx.set(Tome(id: 900), key: 900, in: "tomes")
    }
    try bare.core.write(WriteTerms()) { tx in
      all[3].author = "a0"
      try tx.set(all[3], key: 3, in: "tomes")
    }
    all.append(Tome(id: 900))
    all.removeAll { $0.id == 4 }
    try bare.close()
    let (second, again) = try open(CountedTomeFormat.self)
    try warm(again)
    try second.read { tx in try check(again, all, tx) }
    try second.close()
  }

  @Test func `rebuilding counts the entries again`() async throws {
    let all = TomeSite.samples(300)
    let (database, tomes) = try open(CountedTomeFormat.self)
    try await database.write { tx in try tomes.persist(contentsOf: all, in: tx) }
    try await tomes.rebuild(\.byAuthor)
    try await tomes.rebuild(\.direct)
    try await tomes.rebuild(\.tags)
    try await database.read { tx in try check(tomes, all, tx) }
    try await database.close()
  }

  @Test func `a query of an index that is being built throws notReady, and is counted otherwise meanwhile`() throws {
    let (database, tomes) = try open(CountedTomeFormat.self)
    let all = TomeSite.samples(50)
    try database.write { tx in try tomes.persist(contentsOf: all, in: tx) }
    let name = IndexesName.name(for: "tomes")
    let registered = try #require(database.core.extensions.list[name])
    let gate = Gate()
    gate.shut()
    defer { gate.open() }
    _ = registered.addWaiting { _ in gate.pass() }
    let index = try #require(registered.traits.parts.firstIndex { $0.name == "i.byAuthor" })
    try database.core.rebuild([index], of: name) { _ in }
    let query = tomes.query.sorted(by: \.author).sorted(by: \.title)
    try database.core.read { tx throws in
      #expect(errorCode { _ = try query.ids(at: 0..<1, in: tx) } == .notReady)
      #expect(try query.count(in: tx) == 50)
      #expect(try query.explain(in: tx).countedIndex == nil)
      #expect(try tomes.query.sorted(by: \.title).sectioned(by: \.author).generation(in: tx) == nil)
    }
    gate.open()
    try warm(tomes)
    try database.read { tx in try check(tomes, all, tx) }
    try database.close()
  }

  @Test func `a counted index needs the writer, and others don't`() throws {
    for (isCounted, format) in [(true, CountedTomeFormat.self as any StoreFormat.Type), (false, PlainTomeFormat.self)] {
      let database = try Database.inMemory(definition: DatabaseDefinition { format })
      let registered = try #require(database.core.extensions.list[IndexesName.name(for: "tomes")])
      #expect(registered.traits.configuration.isConcurrent == !isCounted)
      #expect(registered.traits.parts.contains { $0.isCounted } == isCounted)
    }
    let (database, tomes) = try open(CountedTomeFormat.self)
    try database.writeConcurrently { tx in try tomes.persist(Tome(id: 1), in: tx) }
    let query = tomes.query.sorted(by: \.author).sorted(by: \.title)
    try database.read { tx throws in #expect(try query.count(in: tx) == 1) }
    try database.close()
  }

  // MARK: - Indexes of rows

  private static let byShelf = RowIndex("byShelf", in: "tomes", version: 1, counted: true) { row in
    let tome = try row.object(as: Tome.self)
    return Compound(tome.shelf, tome.title)
  }
  private static let byTag = RowIndex("byTag", in: "tomes", version: 1, counted: true, isDirect: true) { row in
    try row.object(as: Tome.self).tags
  }
  private static let uncounted = RowIndex("uncounted", in: "tomes", version: 1) { row in
    try row.object(as: Tome.self).title
  }

  @Test func `rows of an index of rows have offsets`() throws {
    let database = try Database.inMemory(
      definition: DatabaseDefinition {
        try CollectionDefinition("tomes", Tome.self, key: Int.self)
          .indexed(by: Self.byShelf, Self.byTag, Self.uncounted)
      })
    let all = TomeSite.samples(80)
    try database.write { tx in for tome in all { try tx.set(tome, key: tome.id, in: "tomes") } }
    try database.core.read { tx throws in
      let shelf = all.filter { $0.shelf == 2 }.sorted { ($0.title, $0.id) < ($1.title, $1.id) }.map(\.id)
      func ids(_ rows: [Row]) throws -> [Int] { try rows.map { try $0.key() } }
      #expect(try tx.count(.prefix(2), from: Self.byShelf) == shelf.count)
      #expect(try ids(tx.rows(.prefix(2), from: Self.byShelf, at: 3..<7)) == Array(shelf[3..<7]))
      let reversed = Array(shelf.reversed())
      #expect(
        try ids(tx.rows(.prefix(2), from: Self.byShelf, at: -1..<4, descending: true)) == Array(reversed[..<4]))
      for (offset, id) in shelf.enumerated() {
        let key = try RowKey(id, in: "tomes")
        #expect(try tx.offset(of: key, in: .prefix(2), from: Self.byShelf) == offset)
        #expect(
          try tx.offset(of: key, in: .prefix(2), from: Self.byShelf, descending: true) == shelf.count - 1 - offset)
        #expect(try tx.offset(of: key, in: .prefix(1), from: Self.byShelf) == nil)
      }
      let tagged = all.filter { $0.tags.contains("y1") }
      let rows = try tx.rows(.value("y1"), from: Self.byTag, at: 2..<5)
      #expect(try rows.map { try $0.object(as: Tome.self) } == Array(tagged[2..<5]))
      #expect(try tx.offset(of: RowKey(tagged[4].id, in: "tomes"), in: .value("y1"), from: Self.byTag) == 4)
      #expect(try tx.count(.value("y1"), from: Self.byTag) == tagged.count)
      #expect(try tx.count(.all, from: Self.byTag) == all.count)
      // Several values of a row are several entries.
      #expect(errorCode { _ = try tx.rows(.all, from: Self.byTag, at: 0..<1) } == .notIndexed)
      #expect(errorCode { _ = try tx.rows(.all, from: Self.uncounted, at: 0..<1) } == .notIndexed)
      let other = try RowKey(1, in: "other")
      #expect(errorCode { _ = try tx.offset(of: other, in: .all, from: Self.byShelf) } == .invalidArgument)
    }
  }
}
