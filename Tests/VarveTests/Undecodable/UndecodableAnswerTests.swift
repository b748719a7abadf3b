import EngineTestSupport
import Testing

@testable import ObjectFixtures
@testable import Varve

/// Tests of what a row that can't be decoded does to each kind of answer: the lines of the table in the guide *Queries*
/// that read.
struct UndecodableAnswerTests {
  private static let bad = LampShop.bad

  /// What the answers of a format have.
  private struct Expected {
    let ids: [Int]
    /// The identifiers in the order of the names.
    let byName: [Int]
    let watts: [Int]
    let skipped: Int
  }

  private static func expected<Format: LampFormat>(_ format: Format.Type, _ history: LampHistory) -> Expected {
    if Format.undecodable.standIn == nil {
      return Expected(ids: [1, 2, 4, 5, 6], byName: [1, 2, 4, 5, 6], watts: [10, 20, 40, 50, 60], skipped: 1)
    }
    // An index keeps the place that the row had. A row that it could not have has the place of its stand-in.
    return Expected(
      ids: [1, 2, 3, 4, 5, 6], byName: history == .indexed ? [1, 2, 3, 4, 5, 6] : [1, 2, 4, 5, 6, 3],
      watts: [10, 20, 1, 40, 50, 60], skipped: 0)
  }

  private static func reading(
    _ database: Database, skipped: Int, _ body: (ReadTransaction) throws -> Void
  ) throws {
    let rows = try database.core.read { tx in
      try body(tx)
      return tx.skippedRows
    }
    #expect(rows.count == skipped && rows.first.count == skipped)
    if skipped > 0 {
      #expect(rows.first[0].key.text == "\(bad)" && rows.first[0].error.code == .decodingFailed)
      #expect(rows.first[0].error.collection == "lamps" && rows.first[0].stored != nil)
      #expect(try rows.first[0].stored?.decode(WideLamp.self) == LampShop.violet)
    }
  }

  /// Checks all answers of a format that does not throw.
  private func check<Format: LampFormat>(_ format: Format.Type, _ history: LampHistory) async throws {
    let (database, lamps) = try await LampShop().open(format, history)
    let check = Check(database: database, lamps: lamps, history: history, expected: Self.expected(format, history))
    try await check.identifiers()
    try await check.scans()
    try await check.queries()
    try await check.pages()
    try await check.indexes()
    try await database.close()
  }

  private struct Check<Format: LampFormat> {
    let database: Database
    let lamps: Store<Format>
    let history: LampHistory
    let expected: Expected

    var all: StoreQuery<Format> { lamps.query }
    var ids: [Int] { expected.ids }
    var skipped: Int { expected.skipped }
    var bad: Int { UndecodableAnswerTests.bad }
    var isThere: Bool { ids.contains(bad) }

    func read(_ skipped: Int, _ body: (ReadTransaction) throws -> Void) throws {
      try UndecodableAnswerTests.reading(database, skipped: skipped, body)
    }

    func identifiers() async throws {
      try read(skipped) { tx throws in
        #expect(try (lamps.load(bad, in: tx) != nil) == isThere)
        #expect(try lamps.load(ids: [1, bad, 9], in: tx).map { $0?.id } == [1, isThere ? 3 : nil, nil])
        #expect(try lamps.contains(bad, in: tx) == isThere)
        #expect(try lamps.contains(1, in: tx))
      }
      #expect(try await lamps.load(bad)?.name == (isThere ? "unknown" : nil))
    }

    func scans() async throws {
      try read(skipped) { tx throws in
        #expect(try Array(lamps.load(..., in: tx)).map(\.id) == ids)
        #expect(try Array(lamps.load(..., descending: true, limit: 5, in: tx)).count == 5)
        #expect(try lamps.load(2...4, in: tx).count() == (isThere ? 3 : 2))
        #expect(try lamps.count(in: tx) == ids.count)
        #expect(try lamps.count(2...4, in: tx) == (isThere ? 3 : 2))
        #expect(try Array(lamps.ids(in: tx)) == ids)
        #expect(try lamps.ids(limit: 3, in: tx).count() == 3)
        #expect(try Array(lamps.ids(descending: true, limit: 4, in: tx)) == Array(ids.reversed().prefix(4)))
      }
      let rows = lamps.load(...)
      #expect(try await rows.collect().map(\.id) == ids)
      #expect(rows.skippedRows.count == skipped)
      #expect(try await lamps.count == ids.count)
    }

    /// Every kind of answer of a query agrees.
    func queries() async throws {
      for query in [all, all.sorted(by: \.id), all.sorted(by: \.watt).scan(), all.filter { $0.room == "hall" }] {
        try read(skipped) { tx throws in
          let found = try query.fetch(in: tx)
          #expect(Set(found.map(\.id)) == Set(ids))
          #expect(try query.count(in: tx) == found.count)
          #expect(try query.ids(in: tx) == found.map(\.id))
          #expect(try query.exists(in: tx))
          #expect(try query.first(in: tx) == found.first)
          #expect(try query.values(of: \.watt, in: tx) == found.map(\.watt))
          #expect(try query.sum(of: \.watt, in: tx) == expected.watts.reduce(0, +))
          #expect(try query.average(of: \.watt, in: tx) == Double(expected.watts.reduce(0, +)) / Double(ids.count))
          #expect(try query.min(of: \.watt, in: tx) == expected.watts.min())
          #expect(try query.max(of: \.watt, in: tx) == 60)
          #expect(try query.distinct(\.watt, in: tx) == expected.watts.sorted())
          #expect(try query.grouped(by: \.room, in: tx) == [QueryGroup(value: "hall", count: ids.count)])
          #expect(try query.grouped(by: \.room, summing: \.watt, in: tx).first?.sum == expected.watts.reduce(0, +))
          #expect(try query.explain(in: tx).decodesEachRow && query.explain(in: tx).countedIndex == nil)
        }
      }
      #expect(try await all.rows().collect().count == ids.count)
      try read(skipped) { tx throws in
        #expect(try all.sorted(by: \.name).fetch(in: tx).map(\.id) == expected.byName)
        #expect(try all.sorted(by: \.name, descending: true).ids(in: tx) == expected.byName.reversed())
      }
    }

    /// In both directions, with an index that has the order and without one.
    func pages() async throws {
      for size in 1...4 {
        let byName = [all.sorted(by: \.name), all.sorted(by: \.name, descending: true)]
        for query in byName + [all, all.sorted(by: \.color.text)] {
          let whole = try await query.fetch()
          var page = try await query.page(size: size)
          var paged = page.instances
          while let cursor = page.lastCursor, page.hasMore, paged.count <= 12 {
            page = try await query.page(after: cursor, size: size)
            paged += page.instances
          }
          #expect(paged == whole, "pages of \(size)")
          page = try await query.page(before: nil, size: size)
          paged = page.instances
          while let cursor = page.firstCursor, page.hasMore, paged.count <= 12 {
            page = try await query.page(before: cursor, size: size)
            paged = page.instances + paged
          }
          #expect(paged == whole, "pages of \(size), backward")
        }
      }
    }

    /// Calls that name an index have the rows that it has.
    func indexes() async throws {
      let isIn = isThere
      try read(skipped == 1 && history == .indexed ? 1 : 0) { tx throws in
        #expect(try Array(lamps.load(.all, from: \.byName, in: tx)).map(\.id) == expected.byName)
        #expect(try lamps.count(.all, from: \.byName, in: tx) == expected.byName.count)
        #expect(try lamps.count(.all, from: \.byRoom, in: tx) == ids.count)
        #expect(try (lamps.load(.value(bad), from: \.one, in: tx) != nil) == isIn)
        let inRoom = all.filter { $0.room == "hall" }.sorted(by: \.id)
        let places = isIn || history == .indexed ? 6 : 5
        #expect(try inRoom.ids(at: 0..<10, in: tx).count == places)
        #expect(try inRoom.fetch(at: 0..<10, in: tx).count == ids.count)
        #expect(try inRoom.offset(of: 6, in: tx) == places - 1)
        #expect(try all.sectioned(by: \.room).count(in: tx) == places)
      }
      #expect(try await lamps.undecodableRows().map(\.key.text) == ["3"])
      #expect(try await lamps.undecodableRows(limit: 0).isEmpty)
      let listed = history == .listed && !isThere ? 1 : 0
      #expect(try await lamps.unindexedRows().count == listed)
      #expect(try await lamps.verifyIndexes().isEmpty == (history == .listed))
    }
  }

  @Test("a format that skips leaves the row out of every answer, and says so", arguments: LampHistory.allCases)
  func skips(_ history: LampHistory) async throws { try await check(SkippingLamps.self, history) }

  @Test("a stand-in takes the place of the row in every answer", arguments: LampHistory.allCases)
  func replaces(_ history: LampHistory) async throws { try await check(ReplacingLamps.self, history) }

  @Test("an index finds the row by its entries, and a condition that it does not cover is one on the stand-in")
  func entries() async throws {
    let (indexed, kept) = try await LampShop().open(ReplacingLamps.self, .indexed)
    let thirty = kept.query.filter { $0.watt == 30 }
    #expect(try await thirty.fetch().map(\.name) == ["unknown"])
    #expect(try await thirty.count() == 1)
    #expect(try await thirty.ids() == [3])
    #expect(try await kept.query.filter { $0.watt == 30 && $0.color.text == "red" }.count() == 0)
    #expect(try await kept.query.filter { $0.watt <= 30 && $0.color.text == "red" }.fetch().map(\.id) == [3])
    try await indexed.close()
    let (built, lamps) = try await LampShop().open(ReplacingLamps.self, .listed)
    #expect(try await lamps.query.filter { $0.watt == 30 }.count() == 0)
    #expect(try await lamps.query.filter { $0.watt == 1 }.fetch().map(\.id) == [3])
    #expect(try await lamps.query.filter { $0.name == "unknown" }.exists())
    try await built.close()
  }

  @Test("a stand-in that the closure does not make is left out, as by a format that skips")
  func partly() async throws {
    let shop = try LampShop()
    let (database, lamps) = try await shop.open(WideOnly.self, .listed)
    try Self.reading(database, skipped: 1) { tx throws in
      #expect(try lamps.query.sorted(by: \.name).fetch(in: tx).map(\.id) == [1, 2, 4, 5, 6])
      #expect(try lamps.query.count(in: tx) == 5)
    }
    try await database.close()
  }

  private struct WideOnly: LampFormat {
    typealias Instance = Lamp
    static let undecodable: UndecodablePolicy = .fallback { row in
      row.stored == nil ? Lamp(id: 0, name: "", watt: 0) : nil
    }
    let byName = Index(\.name)
    let byWatt = Index(\.watt)
    let byRoom = Index(\.room, \.id, counted: true)
    let one = OneToOneIndex(\.id)
  }

  // MARK: - Throwing

  @Test("a format that throws does so in each answer that reads the row", arguments: LampHistory.allCases)
  func throwsWhenRead(_ history: LampHistory) async throws {
    let (database, lamps) = try await LampShop().open(ThrowingLamps.self, history)
    let all = lamps.query
    func expect(_ name: String, _ body: () async throws -> Void) async {
      let error = await #expect(throws: DatabaseError.self, "\(name)") { try await body() }
      #expect(error?.code == .decodingFailed && error?.key == "3" && error?.collection == "lamps", "\(name)")
    }
    await expect("load") { _ = try await lamps.load(3) }
    await expect("load(ids:)") { _ = try await lamps.load(ids: [1, 3]) }
    await expect("scan") { _ = try await lamps.load(...).collect() }
    await expect("fetch") { _ = try await all.fetch() }
    await expect("scanned condition") { _ = try await all.filter { $0.color.text == "red" }.scan().fetch() }
    await expect("sorted") { _ = try await all.sorted(by: \.name).fetch() }
    await expect("page") { _ = try await all.sorted(by: \.name).page(size: 6) }
    await expect("rows") { _ = try await all.rows().collect() }
    await expect("element groups") { _ = try await all.grouped(byElementsOf: \.letters) }
    #expect(try await lamps.load(1)?.id == 1)
    #expect(try await all.limit(2).fetch().map(\.id) == [1, 2], "the row is not read")

    // Rows and entries are counted without being decoded.
    #expect(try await lamps.contains(3))
    #expect(try await lamps.count == 6)
    #expect(try await lamps.ids().collect() == [1, 2, 3, 4, 5, 6])
    #expect(try await all.count() == 6)
    #expect(try await all.exists())
    #expect(try await all.ids() == [1, 2, 3, 4, 5, 6])
    try Self.reading(database, skipped: 0) { tx in _ = try lamps.load(1, in: tx) }
    #expect(try await lamps.undecodableRows().map(\.key.text) == ["3"])

    let ten = all.filter { $0.watt == 10 }
    if history == .indexed {
      #expect(try await ten.fetch().map(\.id) == [1])
      #expect(try await all.filter { $0.watt == 30 }.count() == 1, "its entry is that of the row")
      #expect(try await all.sum(of: \.watt) == 210)
      await expect("found by an index") { _ = try await all.filter { $0.watt == 30 }.fetch() }
      await expect("found by load") { _ = try await lamps.load(.value(30), from: \.byWatt).collect() }
    } else {
      // It is not known whether the row belongs to the answer.
      await expect("other rows") { _ = try await ten.fetch() }
      await expect("count") { _ = try await ten.count() }
      await expect("exists") { _ = try await ten.exists() }
      await expect("ids") { _ = try await ten.ids() }
      await expect("counted") { _ = try await all.filter { $0.room == "hall" }.count() }
      await expect("sum") { _ = try await all.sum(of: \.watt) }
      #expect(try await lamps.load(.value(10), from: \.byWatt).collect().map(\.id) == [1], "the index is named")
      #expect(try await lamps.count(.all, from: \.byWatt) == 5)
      // Once the row can be decoded, everything can be answered.
      try await lamps.persist(Lamp(id: 3, name: "lamp 3", watt: 30))
      #expect(try await ten.count() == 1)
      #expect(try await all.sum(of: \.watt) == 210)
    }
    try await database.close()
  }

  @Test("a scan treats the row in the same way at each call, whatever was read before")
  func deterministic() async throws {
    let (database, lamps) = try await LampShop().open(ThrowingLamps.self, .indexed)
    try await lamps.persist(contentsOf: (10...300).map { Lamp(id: $0, name: "lamp \($0)", watt: 1_000) })
    for _ in 1...8 {
      // The stored fields say that the row does not belong to the answer.
      #expect(try await lamps.query.filter { $0.name != "lamp 3" && $0.watt < 100 }.scan().fetch().count == 5)
    }
    try await database.close()
  }
}

extension Lamp {
  fileprivate var letters: [String] { name.map(String.init) }
}

extension Lamp.Color {
  /// A field that no index has.
  fileprivate var text: String { rawValue }
}
