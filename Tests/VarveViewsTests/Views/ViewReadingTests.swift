import EngineTestSupport
import Testing
import VarveTestSupport

@testable import ObjectFixtures
@testable import Varve
@testable import VarveViews

/// Tests of what a view answers: groups, counts, offsets, places and ranges.
struct ViewReadingTests {
  private let database: Database
  private let view: ExtensionHandle<AutoView<Int>>
  private static let count = 20

  /// Makes a view with a group of 20 rows, `1`, whose positions are the even numbers up to 38, and a group of one row.
  init() throws {
    database = try Database.inMemory()
    let view = AutoView<Int>(version: "7", of: ["books"]) { row in
      let book = try row.object(as: Book.self)
      return ViewPlace(book.author == nil ? 2 : 1, book.year, book.title)
    }
    self.view = try database.registerReady(view, as: "view")
    try database.change { tx throws in
      for number in 0..<Self.count {
        try tx.set(Book("a", number * 2, "\(number)"), key: number, in: "books")
      }
      try tx.set(Book(nil, 5, "other"), key: 100, in: "books")
    }
  }

  private func with<Result>(_ body: (AutoViewTransaction<Int>) throws -> Result) throws -> Result {
    try database.look { tx in try body(tx[view]) }
  }

  private func numbers(_ rows: [RowKey]) throws -> [Int] { try rows.map { try $0.key(as: Int.self) } }

  @Test func `a view answers which groups it has and how many rows are in each`() throws {
    try with { view throws in
      #expect(try view.groups().map(\.group) == [1, 2])
      #expect(try view.groups().map(\.count) == [20, 1])
      #expect(try view.count() == 21)
      #expect(try (view.count(in: 1), view.count(in: 2), view.count(in: 3)) == (20, 1, 0))
      #expect(try view.hasGroup(1) && view.hasGroup(2) && !view.hasGroup(0) && !view.hasGroup(3))
      #expect(try !view.isEmpty && !view.isEmpty(1) && view.isEmpty(3))
      #expect(view.versionTag == "7")
    }
    #expect(try Database.inMemory().registerReady(BookView.byAuthor(), as: "empty").definition.version == "1")
  }

  @Test func `an empty view has no groups, and answers everything with nothing`() throws {
    let database = try Database.inMemory()
    let handle = try database.registerReady(BookView.byAuthor(), as: "empty")
    try database.look { tx throws in
      let view = try tx[handle]
      #expect(try view.isEmpty && view.groups().isEmpty && view.count() == 0 && view.verify() == [])
      #expect(try view.first(in: "a") == nil && view.last(in: "a") == nil && view.row(in: "a", at: 0) == nil)
      #expect(try view.place(of: book("x")) == nil && view.group(of: book("x")) == nil && !view.contains(book("x")))
      #expect(try view.offsets(in: "a", 1...2) == 0..<0)
      #expect(try view.firstOffset(in: "a") { _ in true } == nil)
      #expect(try view.unplacedRows().isEmpty && view.rows(in: "a", at: 0..<9, reversed: true).isEmpty)
    }
  }

  @Test func `rows are found by offset, forward and backward, and no offset is an error`() throws {
    try with { view throws in
      #expect(try numbers(view.rows(in: 1, at: 0..<3)) == [0, 1, 2])
      #expect(try numbers(view.rows(in: 1, at: 17..<40)) == [17, 18, 19])
      #expect(try numbers(view.rows(in: 1, at: 2..<5, reversed: true)) == [4, 3, 2])
      #expect(try numbers(view.rows(in: 1, at: 17..<Int.max, reversed: true)) == [19, 18, 17])
      #expect(try numbers(view.rows(in: 1, at: -5..<2, reversed: true)) == [1, 0])
      #expect(try numbers(view.rows(in: 1, at: Int.min..<2)) == [0, 1])
      #expect(try view.rows(in: 1, at: Int.min..<Int.max).count == 20)
      for range in [20..<21, Int.max..<Int.max, Int.min..<Int.min, Int.min..<0, -3 ..< -1, 5..<5, 20..<Int.max] {
        #expect(try view.rows(in: 1, at: range).isEmpty, "\(range)")
        #expect(try view.rows(in: 1, at: range, reversed: true).isEmpty, "\(range)")
      }
      #expect(try view.row(in: 1, at: 19)?.key(as: Int.self) == 19)
      for offset in [-1, 20, Int.max, Int.min] { #expect(try view.row(in: 1, at: offset) == nil) }
      #expect(try view.first(in: 1)?.key(as: Int.self) == 0)
      #expect(try view.last(in: 1)?.key(as: Int.self) == 19)
      #expect(try view.last(in: 2)?.key(as: Int.self) == 100)
      #expect(try view.row(in: 3, at: 0) == nil && view.first(in: 3) == nil && view.last(in: 0) == nil)
    }
  }

  @Test func `a cursor gives each row with its offset in the group, in both directions`() throws {
    try with { view throws in
      func all(_ cursor: ViewCursor<Int>) throws -> [[Int]] {
        var cursor = cursor
        var all: [[Int]] = []
        while let (offset, row) = try cursor.next() { all.append([offset, try row.key(as: Int.self)]) }
        #expect(try cursor.next() == nil)
        return all
      }
      #expect(try all(view.cursor(in: 1)) == (0..<20).map { [$0, $0] })
      #expect(try all(view.cursor(in: 1, reversed: true)) == (0..<20).reversed().map { [$0, $0] })
      #expect(try all(view.cursor(in: 1, at: 18..<25)) == [[18, 18], [19, 19]])
      #expect(try all(view.cursor(in: 1, at: 18..<25, reversed: true)) == [[19, 19], [18, 18]])
      #expect(try all(view.cursor(in: 2, reversed: true)) == [[0, 100]])
      #expect(try all(view.cursor(in: 3)) == [] && all(view.cursor(in: 3, reversed: true)) == [])
    }
    // Later writes have no effect on a cursor.
    try database.change { tx throws in
      var cursor = try tx[view].cursor(in: 1)
      _ = try cursor.next()
      try tx.removeAll(in: "books")
      #expect(try cursor.next()?.offset == 1)
    }
  }

  @Test func `a row is found by its key`() throws {
    try with { view throws in
      let place = try view.place(of: RowKey(7, in: "books"))
      #expect(place?.group == 1 && place?.offset == 7)
      #expect(try view.group(of: RowKey(100, in: "books")) == 2)
      #expect(try view.contains(RowKey(7, in: "books")) && !view.contains(RowKey(50, in: "books")))
      #expect(try view.place(of: RowKey(50, in: "books")) == nil && view.place(of: RowKey(7, in: "nowhere")) == nil)
    }
  }

  // yap 1.4: findRange and findFirstMatch
  @Test func `the rows of a range of positions are found by two offsets`() throws {
    try with { view throws in
      #expect(try view.offsets(in: 1, 4...8) == 2..<5)
      #expect(try view.offsets(in: 1, 4..<8) == 2..<4)
      #expect(try view.offsets(in: 1, 5..<8) == 3..<4)
      #expect(try view.offsets(in: 1, 5...5) == 3..<3)
      #expect(try view.offsets(in: 1, ...3) == 0..<2)
      #expect(try view.offsets(in: 1, 35...) == 18..<20)
      #expect(try view.offsets(in: 1, -10 ..< -1) == 0..<0)
      #expect(try view.offsets(in: 1, 100...) == 20..<20)
      #expect(try view.offsets(in: 1, KeyInterval(from: .excluding(4), to: .excluding(8))) == 3..<4)
      #expect(try view.offsets(in: 1, KeyInterval(from: .including(8), to: .including(4))).isEmpty)
      #expect(try view.offsets(in: 3, 0...9) == 0..<0)
      #expect(
        errorCode { _ = try view.offsets(in: 1, KeyInterval(from: .including(Double.nan), to: .including(1))) }
          == .invalidKey)
    }
    let handle = try database.registerReady(
      AutoView<Int>(version: "1", of: ["books"]) { row in ViewPlace(1, Descending(try row.object(as: Book.self).year))
      },
      as: "descending")
    try database.look { tx throws in
      #expect(try tx[handle].offsets(in: 1, Descending(38)...Descending(36)) == 0..<2)
      #expect(try tx[handle].offsets(in: 1, ...Descending(5)) == 0..<18)
    }
  }

  @Test func `the first row that fulfills a condition is found by reading few rows`() throws {
    try with { view throws in
      var reads = 0
      let offset = try view.firstOffset(in: 1) { row in
        reads += 1
        return try row.object(as: Book.self).year >= 11
      }
      #expect(offset == 6)
      #expect(reads <= 5)
      #expect(try view.firstOffset(in: 1) { _ in false } == nil)
      #expect(try view.firstOffset(in: 1) { _ in true } == 0)
      #expect(try view.firstOffset(in: 3) { _ in true } == nil)
      #expect(throws: BadWord.self) { try view.firstOffset(in: 1) { _ in throw BadWord() } }
    }
  }

  @Test func `groups of any key type are apart, also texts that begin with each other`() throws {
    let names = ["", "a", "a\u{0}", "a\u{0}\u{0}", "ab", "\u{10ffff}"]
    let database = try Database.inMemory()
    let texts = try database.registerReady(
      AutoView<String>(version: "1", of: ["books"]) { ViewPlace(try $0.object(as: Book.self).title, 0) }, as: "texts")
    let downward = try database.registerReady(
      AutoView<Descending<String>>(version: "1", of: ["books"]) {
        ViewPlace(Descending(try $0.object(as: Book.self).title))
      }, as: "downward")
    let pairs = try database.registerReady(
      AutoView<Compound<String, Int?>>(version: "1", of: ["books"]) {
        ViewPlace(Compound(try $0.object(as: Book.self).title, nil), "x")
      }, as: "pairs")
    try database.change { tx throws in
      for (index, name) in names.enumerated() {
        for copy in 0...index { try tx.set(Book(nil, 0, name), key: Compound(index, copy), in: "books") }
      }
    }
    try database.look { tx throws in
      #expect(try tx[texts].groups().map(\.group) == names)
      #expect(try tx[texts].groups().map(\.count) == [1, 2, 3, 4, 5, 6])
      #expect(try tx[downward].groups().map(\.group.value) == names.reversed())
      #expect(try tx[downward].groups().map(\.count) == [6, 5, 4, 3, 2, 1])
      #expect(try tx[pairs].groups().map(\.count) == [1, 2, 3, 4, 5, 6])
      for (index, name) in names.enumerated() {
        #expect(try tx[texts].count(in: name) == index + 1)
        #expect(try tx[downward].count(in: Descending(name)) == index + 1)
        #expect(try tx[pairs].count(in: Compound(name, nil)) == index + 1)
      }
      #expect(try tx[texts].verify() == [] && tx[downward].verify() == [] && tx[pairs].verify() == [])
    }
  }

  @Test func `a view of a transaction that has ended throws, and so does a handle of another type`() throws {
    var kept: AutoViewTransaction<Int>?
    try database.look { tx in kept = try tx[view] }
    #expect(errorCode { _ = try kept?.count() } == .transactionEnded)
    #expect(errorCode { _ = try kept?.groups() } == .transactionEnded)
    let other = BookView.byAuthor().named("view")
    #expect(errorCode { try database.look { tx in _ = try tx[other].count() } } == .definitionDiffers)
  }
}
