import EngineTestSupport
import Testing
import VarveTestSupport

@testable import ObjectFixtures
@testable import Varve

/// Tests of queries that a counted index answers by offsets.
struct CountedQueryTests {
  private let all = TomeSite.samples(120)
  private let site: TomeSite
  private var tomes: Store<TomeFormat> { site.tomes }

  init() throws { site = try TomeSite(all) }

  /// Sorts by keys and then by the identifier.
  private func sorted<Key: Comparable>(_ isIn: (Tome) -> Bool, by key: (Tome) -> Key) -> [Tome] {
    all.filter(isIn).sorted { (key($0), $0.id) < (key($1), $1.id) }
  }

  @Test func `equalities, a range and a prefix of the next field are counted, in both directions`() throws {
    try site.database.read { tx throws in
      let query = tomes.query.filter { $0.author == "a2" }.sorted(by: \.title)
      let expected = sorted({ $0.author == "a2" }) { $0.title }
      try expectCounted(query, expected, in: tx)
      #expect(try query.ids(in: tx) == expected.map(\.id))
      let reversed = tomes.query.filter { $0.author == "a2" }.sorted(by: \.title, descending: true)
      try expectCounted(reversed, expected.reversed(), in: tx)
      let some = tomes.query.filter { $0.author == "a2" && $0.title >= "t10" && $0.title < "t3" }.sorted(by: \.title)
      try expectCounted(some, expected.filter { $0.title >= "t10" && $0.title < "t3" }, in: tx)
      let prefix = tomes.query.filter { $0.author == "a2" && $0.title.hasPrefix("t1") }.sorted(by: \.title)
      try expectCounted(prefix, expected.filter { $0.title.hasPrefix("t1") }, in: tx)
      let authors = tomes.query.filter { $0.author.hasPrefix("a") && $0.author > "a1" }
      try expectCounted(
        authors.sorted(by: \.author).sorted(by: \.title),
        all.filter { $0.author > "a1" }.sorted { ($0.author, $0.title, $0.id) < ($1.author, $1.title, $1.id) }, in: tx)
    }
  }

  @Test func `a whole index is counted, with nil first and ties in the order of the identifiers`() throws {
    try site.database.read { tx throws in
      let expected = sorted({ _ in true }) { $0.year ?? .min }
      try expectCounted(tomes.query.sorted(by: \.year), expected, in: tx)
      try expectCounted(tomes.query.sorted(by: \.year, descending: true), expected.reversed(), in: tx)
      let none = tomes.query.filter { $0.year == nil }.sorted(by: \.year)
      try expectCounted(none, expected.filter { $0.year == nil }, in: tx)
      let some = tomes.query.filter { $0.year != nil }.sorted(by: \.year, descending: true)
      try expectCounted(some, expected.filter { $0.year != nil }.reversed(), in: tx)
      // The last field of the index is the identifier, by which ties are sorted in any case.
      try expectCounted(tomes.query.sorted(by: \.id, descending: true), all.reversed(), in: tx)
      try expectCounted(tomes.query, all, in: tx)
    }
  }

  @Test func `fields in opposite directions are counted if the index has them so`() throws {
    try site.database.read { tx throws in
      let query = tomes.query.filter { $0.author == "a1" }.sorted(by: \.year, descending: true).sorted(by: \.title)
      let expected = all.filter { $0.author == "a1" }.sorted {
        (-($0.year ?? .min + 1), $0.title, $0.id) < (-($1.year ?? .min + 1), $1.title, $1.id)
      }
      try expectCounted(query, expected, in: tx)
      let reversed = tomes.query.filter { $0.author == "a1" }.sorted(by: \.year).sorted(by: \.title, descending: true)
      try expectCounted(reversed, expected.reversed(), in: tx)
      let late = tomes.query.filter { $0.author == "a1" && $0.year > 1903 }
      try expectCounted(
        late.sorted(by: \.year, descending: true).sorted(by: \.title), expected.filter { $0.year ?? 0 > 1903 }, in: tx)
    }
  }

  @Test func `an unordered query is in the order of the identifiers`() throws {
    try site.database.read { tx throws in
      try expectCounted(tomes.query.filter { $0.shelf == 2 }, all.filter { $0.shelf == 2 }, in: tx)
      try expectCounted(tomes.query.filter { $0.tags.contains("y1") }, all.filter { $0.id % 3 == 1 }, in: tx)
      let descending = tomes.query.filter { $0.tags.contains("y1") }.sorted(by: \.id, descending: true)
      try expectCounted(descending, all.filter { $0.id % 3 == 1 }.reversed(), in: tx)
      try expectCounted(tomes.query.filter { $0.id >= 50 && $0.id < 70 }.sorted(by: \.id), Array(all[50..<70]), in: tx)
    }
  }

  @Test func `the condition of an index is a part of what it counts`() throws {
    try site.database.read { tx throws in
      let query = tomes.query.filter { $0.isRead == false && $0.title.hasPrefix("t1") }.sorted(by: \.title)
      try expectCounted(query, sorted({ !$0.isRead && $0.title.hasPrefix("t1") }) { $0.title }, in: tx)
      #expect(try query.explain(in: tx).countedIndex == "unread")
      // Not all of these are in the index.
      #expect(errorCode { _ = try tomes.query.sorted(by: \.title).ids(at: 0..<1, in: tx) } == .notIndexed)
    }
  }

  @Test func `a limit ends the result, and extreme offsets have no instances`() throws {
    try site.database.read { tx throws in
      let query = tomes.query.filter { $0.author == "a2" }.sorted(by: \.title)
      let ids = try query.ids(in: tx)
      let limited = query.limit(5)
      #expect(try limited.count(in: tx) == 5)
      #expect(try limited.ids(at: 3..<9, in: tx) == Array(ids[3..<5]))
      #expect(try limited.fetch(at: 4..<5, in: tx).map(\.id) == [ids[4]])
      #expect(try limited.offset(of: ids[4], in: tx) == 4)
      #expect(try limited.offset(of: ids[5], in: tx) == nil)
      #expect(try query.limit(1_000).count(in: tx) == ids.count)
      #expect(try query.limit(0).ids(at: 0..<9, in: tx).isEmpty)
      #expect(errorCode { _ = try query.limit(-1).ids(at: 0..<9, in: tx) } == .invalidArgument)
      #expect(errorCode { _ = try query.limit(-1).count(in: tx) } == .invalidArgument)
      #expect(try query.ids(at: -7..<2, in: tx) == Array(ids[..<2]))
      #expect(try query.ids(at: Int.min..<0, in: tx).isEmpty)
      #expect(try query.ids(at: Int.max..<Int.max, in: tx).isEmpty)
      #expect(try query.fetch(at: (Int.max - 1)..<Int.max, in: tx).isEmpty)
      #expect(try query.ids(at: 4..<4, in: tx).isEmpty)
      #expect(try query.offset(of: 100_000, in: tx) == nil)
      // It exists, and has another author.
      #expect(try query.offset(of: try #require(all.first { $0.author != "a2" }).id, in: tx) == nil)
    }
  }

  @Test func `a transaction counts what it has written, and not what it has undone`() throws {
    let query = tomes.query.filter { $0.author == "a2" }.sorted(by: \.title)
    struct Undone: Error {}
    try site.database.write { tx throws in
      var expected = all.filter { $0.author == "a2" }
      func check() throws {
        try expectCounted(query, expected.sorted { ($0.title, $0.id) < ($1.title, $1.id) }, in: tx)
      }
      let new = Tome(id: 1_000, author: "a2", title: "t5")
      try tomes.persist(new, in: tx)
      expected.append(new)
      try check()
      do {
        try tx.savepoint {
          try tomes.delete(ids: expected.map(\.id), in: tx)
          #expect(try query.count(in: tx) == 0)
          #expect(try query.offset(of: 1_000, in: tx) == nil)
          throw Undone()
        }
      } catch is Undone {}
      try check()
      try tomes.modify(expected[0].id, in: tx) { $0.title = "zz" }
      expected[0].title = "zz"
      try check()
      try tomes.modify(expected[0].id, in: tx) { $0.author = "a3" }
      expected.removeFirst()
      try check()
      // The same row is removed and inserted again.
      _ = try tomes.delete(new.id, in: tx)
      try tomes.persist(new, in: tx)
      try check()
    }
    try site.database.read { tx throws in #expect(try query.offset(of: 1_000, in: tx) != nil) }
  }

  @Test func `a condition that nothing fulfills has no offsets, and refuses nothing`() throws {
    try site.database.read { tx throws in
      let query = tomes.query.filter { $0.author == "a" && $0.author == "b" }.sorted(by: \.title)
      #expect(try query.count(in: tx) == 0)
      #expect(try query.ids(at: 0..<5, in: tx).isEmpty)
      #expect(try query.offset(of: 1, in: tx) == nil)
      #expect(try query.sectioned(by: \.author).sections(in: tx).isEmpty)
    }
  }

  @Test func `values of isIn are counted range by range, and have no offsets`() throws {
    try site.database.read { tx throws in
      let query = tomes.query.filter { $0.author.isIn(["a1", "a3", "no caller"]) }
      #expect(try query.count(in: tx) == all.filter { ["a1", "a3"].contains($0.author) }.count)
      #expect(try query.explain(in: tx).countedIndex == "byAuthor")
      #expect(try !query.explain(in: tx).hasOffsets)
      #expect(errorCode { _ = try query.sorted(by: \.author).ids(at: 0..<1, in: tx) } == .notIndexed)
    }
  }

  @Test func `prefixes of values are not counted, because rows are tested`() throws {
    try site.database.read { tx throws in
      let query = tomes.query.filter { $0.text == "text 3" }
      #expect(try query.explain(in: tx).countedIndex == nil)
      #expect(try query.count(in: tx) == all.filter { $0.text == "text 3" }.count)
      #expect(errorCode { _ = try query.ids(at: 0..<1, in: tx) } == .notIndexed)
      #expect(try tomes.count(.value("text 3"), from: \.byText, in: tx) == query.count(in: tx))
    }
  }

  @Test func `an explanation says that counts are used`() throws {
    try site.database.read { tx throws in
      let query = tomes.query.filter { $0.author == "a2" }.sorted(by: \.title)
      #expect(
        try query.explain(in: tx).description
          == "index \"byAuthor\", 1 range of 1 field\nin order\ncounted by index \"byAuthor\", with offsets")
      let other = tomes.query.filter { $0.isRead == true }
      #expect(try other.explain(in: tx).countedIndex == nil)
    }
  }

  @Test func `stores count values of a counted index`() throws {
    try site.database.read { tx throws in
      #expect(try tomes.count(.prefix("a2"), from: \.byAuthor, in: tx) == all.filter { $0.author == "a2" }.count)
      #expect(try tomes.count(.all, from: \.byYear, in: tx) == 120)
      #expect(try tomes.count(.value("y1"), from: \.tags, in: tx) == 40)
      // A row with several values is counted once.
      #expect(try tomes.count(.all, from: \.tags, in: tx) == 120)
      #expect(try tomes.count(.value(5), from: \.unique, in: tx) == 1)
    }
  }

  @Test(arguments: StorageKind.allCases)
  func `a follower has the offsets of what it sees`(kind: StorageKind) throws {
    let storage = try StorageSite(kind)
    let definition = DatabaseDefinition { TomeFormat.self }
    let writer = try Database.open(try storage.open(), path: "writer", definition: definition)
    let written = Store<TomeFormat>(in: writer)
    try writer.write { [all] tx in try written.persist(contentsOf: all, in: tx) }
    var options = DatabaseOptions()
    options.follows = true
    let follower = try Database.open(
      try storage.follow(), path: "follower", definition: definition, options: options)
    let followed = Store<TomeFormat>(in: follower)
    let query = followed.query.filter { $0.author == "a2" }.sorted(by: \.title)
    let expected = sorted({ $0.author == "a2" }) { $0.title }
    try follower.read { tx in try expectCounted(query, expected, in: tx) }
    _ = try writer.write { tx in try written.delete(expected[0].id, in: tx) }
    try follower.read { tx throws in
      try expectCounted(query, Array(expected[1...]), in: tx)
      #expect(try query.sectioned(by: \.author).generation(in: tx) != nil)
    }
    try follower.close()
    try writer.close()
    withExtendedLifetime(storage) {}
  }

  @Test func `asynchronous calls are transactions of their own`() async throws {
    let query = tomes.query.filter { $0.author == "a2" }.sorted(by: \.title)
    let ids = try await query.ids()
    #expect(try await query.ids(at: 2..<4) == Array(ids[2..<4]))
    #expect(try await query.fetch(at: 2..<4).map(\.id) == Array(ids[2..<4]))
    #expect(try await query.offset(of: ids[7]) == 7)
  }
}
