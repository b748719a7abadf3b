import Testing

@testable import ObjectFixtures
@testable import Varve

/// Tests of queries that are divided into sections.
struct SectionedQueryTests {
  private let all = TomeSite.samples(120)
  private let site: TomeSite
  private var tomes: Store<TomeFormat> { site.tomes }

  init() throws { site = try TomeSite(all) }

  /// Expects the sections of an array that is in order.
  private func expect<Section: KeyCodable>(
    _ sectioned: SectionedQuery<TomeFormat, Section>, _ expected: [(Section, [Tome])], in tx: ReadTransaction,
    sourceLocation: SourceLocation = #_sourceLocation
  ) throws {
    let sections = try sectioned.sections(in: tx)
    #expect(sections.map(\.value) == expected.map(\.0), sourceLocation: sourceLocation)
    #expect(sections.map(\.count) == expected.map(\.1.count), sourceLocation: sourceLocation)
    #expect(try sectioned.count(in: tx) == expected.reduce(0) { $0 + $1.1.count }, sourceLocation: sourceLocation)
    for (value, tomes) in expected {
      let ids = tomes.map(\.id)
      #expect(try sectioned.count(of: value, in: tx) == ids.count, sourceLocation: sourceLocation)
      #expect(try sectioned.ids(of: value, at: 0..<Int.max, in: tx) == ids, sourceLocation: sourceLocation)
      #expect(
        try sectioned.fetch(of: value, at: -3..<2, in: tx) == Array(tomes.prefix(2)), sourceLocation: sourceLocation)
      for (offset, id) in ids.enumerated() {
        let place = try sectioned.place(of: id, in: tx)
        #expect(place?.section == value && place?.offset == offset, sourceLocation: sourceLocation)
        #expect(try sectioned.section(of: id, in: tx) == value, sourceLocation: sourceLocation)
      }
    }
  }

  private func groups<Section: KeyCodable & Comparable>(
    _ isIn: (Tome) -> Bool, by section: (Tome) -> Section, _ isBefore: (Tome, Tome) -> Bool
  ) -> [(Section, [Tome])] {
    Dictionary(grouping: all.filter(isIn), by: section).sorted { $0.key < $1.key }.map {
      ($0.key, $0.value.sorted(by: isBefore))
    }
  }

  private struct Word: Codable, Equatable, Sendable, Identifiable {
    var id: Int
    var text: String
  }

  private struct WordFormat: StoreFormat {
    static let collection = "words"
    typealias Instance = Word
    let byText = Index(counted: true, { $0.text.folded })
  }

  @Test func `a section of folded texts is asked for by any form of its text`() throws {
    let database = try Database.inMemory { WordFormat.self }
    let words = Store<WordFormat>(in: database)
    try database.change { tx in
      for (id, text) in ["Hello", "HELLO", "Straße", "héllo", "other"].enumerated() {
        try words.persist(Word(id: id, text: text), in: tx)
      }
    }
    let sections = words.query.sorted { $0.text.folded }.sectioned { $0.text.folded }
    try database.look { tx throws in
      #expect(try sections.sections(in: tx).map(\.count) == [3, 1, 1])
      for text in ["hello", "HELLO", "Héllo"] {
        #expect(try sections.count(of: text, in: tx) == 3)
        #expect(try sections.ids(of: text, at: 0..<9, in: tx) == [0, 1, 3])
      }
      #expect(try sections.ids(of: "STRASSE", at: 0..<9, in: tx) == [2])
    }
    try database.close()
  }

  @Test func `sections are in the order of their values, and instances in that of the query`() throws {
    try site.database.read { tx throws in
      let ascending = groups({ _ in true }, by: \.author) { ($0.title, $0.id) < ($1.title, $1.id) }
      let query = tomes.query.sorted(by: \.title)
      try expect(query.sectioned(by: \.author), ascending, in: tx)
      try expect(query.sectioned(by: \.author, descending: true), ascending.reversed(), in: tx)
      let descending = groups({ _ in true }, by: \.author) { ($0.title, $0.id) > ($1.title, $1.id) }
      let reversed = tomes.query.sorted(by: \.title, descending: true)
      try expect(reversed.sectioned(by: \.author), descending, in: tx)
      try expect(reversed.sectioned(by: \.author, descending: true), descending.reversed(), in: tx)
      // The field of the sections may be the first of the order.
      try expect(tomes.query.sorted(by: \.author).sorted(by: \.title).sectioned(by: \.author), ascending, in: tx)
      try expect(query.sectioned { $0.author }, ascending, in: tx)
    }
  }

  @Test func `the condition may name values before the sections, and ranges of their field`() throws {
    try site.database.read { tx throws in
      let one = groups({ $0.shelf == 1 }, by: \.author) { $0.id < $1.id }
      let shelf = tomes.query.filter { $0.shelf == 1 }
      // The index has the authors in descending order.
      try expect(shelf.sectioned(by: \.author), one, in: tx)
      try expect(shelf.sectioned(by: \.author, descending: true), one.reversed(), in: tx)
      let some = shelf.filter { $0.author > "a0" && $0.author <= "a3" }
      try expect(some.sectioned(by: \.author), one.filter { $0.0 > "a0" && $0.0 <= "a3" }, in: tx)
      let named = shelf.filter { $0.author.isIn(["a1", "a4"]) }
      try expect(named.sectioned(by: \.author), one.filter { ["a1", "a4"].contains($0.0) }, in: tx)
      let descending = shelf.sorted(by: \.id, descending: true).sectioned(by: \.author)
      try expect(descending, one.map { ($0.0, $0.1.reversed()) }, in: tx)
      let excluded = some.sectioned(by: \.author)
      #expect(try excluded.count(of: "a0", in: tx) == 0)
      #expect(try excluded.ids(of: "a0", at: 0..<5, in: tx).isEmpty)
      #expect(try excluded.place(of: try #require(one.first { $0.0 == "a0" }?.1.first).id, in: tx) == nil)
      #expect(try excluded.section(of: try #require(all.first { $0.shelf == 2 }).id, in: tx) == nil)
      #expect(try excluded.place(of: 100_000, in: tx) == nil)
    }
  }

  @Test func `a section may be nil`() throws {
    try site.database.read { tx throws in
      let sections = try tomes.query.sectioned(by: \.year).sections(in: tx)
      #expect(sections.first?.value == nil)
      #expect(sections.first?.count == all.filter { $0.year == nil }.count)
      let ids = try tomes.query.sectioned(by: \.year).ids(of: nil, at: 0..<1_000, in: tx)
      #expect(ids == all.filter { $0.year == nil }.map(\.id))
      #expect(try tomes.query.sectioned(by: \.year, descending: true).sections(in: tx) == sections.reversed())
    }
  }

  @Test func `a transaction sees its own sections`() throws {
    let sectioned = tomes.query.sorted(by: \.title).sectioned(by: \.author)
    try site.database.write { tx throws in
      try tomes.persist(Tome(id: 999, author: "0", title: "new"), in: tx)
      #expect(try sectioned.sections(in: tx).first == QueryGroup(value: "0", count: 1))
      let place = try sectioned.place(of: 999, in: tx)
      #expect(place?.section == "0" && place?.offset == 0)
      try tomes.modify(999, in: tx) { $0.author = "a2" }
      #expect(try sectioned.count(of: "0", in: tx) == 0)
      #expect(try sectioned.section(of: 999, in: tx) == "a2")
      #expect(try sectioned.instance(999, in: tx)?.title == "new")
    }
  }

  @Test func `a commit names the identifiers that it may have changed, except when it clears the collection`()
    async throws
  {
    let sectioned = tomes.query.sorted(by: \.title).sectioned(by: \.author)
    var changes = site.database.changes().makeAsyncIterator()
    try await site.database.write { [tomes] tx throws in
      _ = try tomes.delete(3, in: tx)
      try tomes.modify(5, in: tx) { $0.title = "other" }
      try tomes.persist(Tome(id: 500), in: tx)
    }
    #expect(try sectioned.changedIDs(by: try await changes.nextChanges()) == [3, 5, 500])
    try await site.database.write { tx in try tx.removeAll(in: "tomes") }
    #expect(try sectioned.changedIDs(by: try await changes.nextChanges()) == nil)
    try await site.database.read { tx throws in #expect(try sectioned.sections(in: tx).isEmpty) }
  }

  @Test func `the generation changes when the index is built again, and not with commits`() async throws {
    let sectioned = tomes.query.sorted(by: \.title).sectioned(by: \.author)
    func generation() throws -> UInt64? { try site.database.read { tx in try sectioned.generation(in: tx) } }
    let first = try #require(try generation())
    _ = try await site.database.write { [tomes] tx in try tomes.delete(3, in: tx) }
    #expect(try generation() == first)
    try await tomes.rebuild(\.byAuthor)
    let second = try #require(try generation())
    #expect(second != first)
    #expect(try await sectioned.count() == 119)
  }

  @Test func `equal sections are equal values`() throws {
    let sectioned = tomes.query.sorted(by: \.title).sectioned(by: \.author)
    #expect(sectioned == tomes.query.sorted(by: \.title).sectioned(by: \.author))
    #expect(sectioned != tomes.query.sorted(by: \.title).sectioned(by: \.author, descending: true))
    #expect(sectioned != tomes.query.sorted(by: \.year).sectioned(by: \.author))
    #expect(Set([sectioned, tomes.query.sorted(by: \.title).sectioned(by: \.author)]).count == 1)
  }

  @Test func `asynchronous calls are transactions of their own`() async throws {
    let sectioned = tomes.query.sorted(by: \.title).sectioned(by: \.author)
    let sections = try await sectioned.sections()
    #expect(sections.map(\.value) == ["a0", "a1", "a2", "a3", "a4"])
    #expect(try await sectioned.count() == 120)
    #expect(try await sectioned.count(of: "a1") == sections[1].count)
    let ids = try await sectioned.ids(of: "a1", at: 3..<5)
    #expect(try await sectioned.fetch(of: "a1", at: 3..<5).map(\.id) == ids)
    let place = try await sectioned.place(of: ids[1])
    #expect(place?.section == "a1" && place?.offset == 4)
  }
}
