import EngineTestSupport
import Testing
import VarveTestSupport

@testable import ObjectFixtures
@testable import Varve
@testable import VarveViews

/// Tests of views whose rows are placed by a closure: which rows are where after which changes.
struct AutoViewTests {
  private struct Undone: Error {}
  private let database: Database
  private let view: ExtensionHandle<AutoView<String>>

  init() throws {
    database = try Database.inMemory()
    view = try database.registerReady(BookView.byAuthor(), as: "byAuthor")
  }

  private func shelves() throws -> [String: [String]] {
    try database.look { tx throws in
      #expect(try tx[view].verify() == [])
      return try tx[view].shelves()
    }
  }

  private func change(_ body: (WriteTransaction) throws -> Void) throws -> [String: [String]] {
    try database.change { tx throws in
      try body(tx)
      // The view has the changes of its own transaction.
      #expect(try tx[view].verify() == [])
    }
    return try shelves()
  }

  // yap 59
  @Test func `rows are in groups, in the order of their positions, and enter, move and leave with their fields`() throws
  {
    var found = try change { tx throws in
      try tx.add(Book("a", 1, "one"), Book("a", 3, "three"), Book("b", 2, "two"), Book(nil, 2, "none"))
    }
    #expect(found == ["a": ["three", "one"], "b": ["two"]])
    // nil to a group, a group to another, a group to nil.
    found = try change { tx in try tx.add(Book("b", 9, "none"), Book("b", 1, "three"), Book(nil, 2, "two")) }
    #expect(found == ["a": ["one"], "b": ["none", "three"]])
    // The group goes with its last row.
    found = try change { tx in try tx.remove(key: "one", in: "books") }
    #expect(found == ["b": ["none", "three"]])
    #expect(try database.look { tx in try tx[view].groups().map(\.group) } == ["b"])
  }

  @Test func `positions are compared key by key, descending ones backwards, and each kind of key is one`() throws {
    let view = AutoView<Int>(version: "1", of: ["books"]) { row in
      let book = try row.object(as: Book.self)
      return ViewPlace(0, Descending(book.author), book.price, book.year)
    }
    let handle = try database.registerReady(view, as: "mixed")
    try database.change { tx throws in
      try tx.add(
        Book("a", 2, "a2"), Book("a", 1, "a1"), Book(nil, 0, "nil"), Book("b", 1, "b", price: -1),
        Book("b", 0, "b2", price: .infinity), Book("ab", 0, "ab"), Book("a\u{0}", 0, "a0"))
    }
    #expect(try database.look { tx in try tx[handle].titles(0) } == ["b", "b2", "ab", "a0", "a1", "a2", "nil"])
  }

  // yap 63: of equal rows the one that was inserted later comes later, and an update does not move it.
  @Test func `rows with equal positions are in the order of their insertion, also after updates`() throws {
    var found = try change { tx in try tx.add(Book("a", 1, "x"), Book("b", 1, "x2"), Book("a", 1, "x3")) }
    let view = AutoView<String>(version: "1", of: ["books"]) { ViewPlace(try $0.object(as: Book.self).author ?? "") }
    let ties = try database.registerReady(view, as: "ties")
    found = try change { tx in try tx.add(Book("b", 5, "x"), Book("b", 7, "x3")) }
    #expect(found == ["b": ["x3", "x", "x2"]])
    #expect(try database.look { tx in try tx[ties].titles("b") } == ["x", "x2", "x3"])
    // yap 66: a row that is removed and set again is another row, which comes last.
    try database.change { tx throws in
      try tx.remove(key: "x", in: "books")
      try tx.add(Book("b", 5, "x"))
    }
    #expect(try database.look { tx in try tx[ties].titles("b") } == ["x2", "x3", "x"])
    #expect(try database.look { tx in try tx[ties].verify() } == [])
  }

  // yap 66, 88
  @Test func `a row that is inserted and removed in one transaction leaves nothing`() throws {
    let found = try change { tx throws in
      try tx.add(Book("a", 1, "x"))
      try tx.remove(key: "x", in: "books")
    }
    #expect(found == [:])
  }

  @Test func `an undone savepoint brings back what the view had`() throws {
    _ = try change { tx in try tx.add(Book("a", 1, "x"), Book("b", 1, "y")) }
    let found = try change { tx throws in
      try? tx.savepoint {
        try tx.add(Book("b", 2, "x"), Book("c", 1, "z"))
        try tx.remove(key: "y", in: "books")
        #expect(try tx[view].shelves() == ["b": ["x"], "c": ["z"]])
        throw Undone()
      }
      #expect(try tx[view].shelves() == ["a": ["x"], "b": ["y"]])
      try tx.add(Book("c", 1, "w"))
    }
    #expect(found == ["a": ["x"], "b": ["y"], "c": ["w"]])
  }

  @Test func `a view has rows of several collections, in one order`() throws {
    let both = try database.registerReady(BookView.byAuthor(of: ["books", "films"]), as: "both")
    try database.change { tx throws in
      try tx.add(Book("a", 3, "x"), Book("a", 1, "y"))
      try tx.add(Book("a", 2, "x"), Book("b", 2, "z"), in: "films")
      try tx.add(Book("a", 9, "other"), in: "others")
    }
    func rows(_ group: String) throws -> [String] {
      try database.look { tx throws in
        #expect(try tx[both].verify() == [])
        return try tx[both].rows(in: group, at: 0..<10).map(\.description)
      }
    }
    #expect(try rows("a") == ["books/\"x\"", "films/\"x\"", "books/\"y\""])
    // Of one collection among several the rows go one by one; the other's stay.
    try database.change { tx in try tx.removeAll(in: "books") }
    #expect(try rows("a") == ["films/\"x\""])
    #expect(try rows("b") == ["films/\"z\""])
    #expect(try shelves() == [:])
    // yap 80
    try database.change { tx in try tx.removeAll() }
    #expect(try database.look { tx in try tx[both].isEmpty })
  }

  @Test func `rows that are removed together, or of a range, leave the view`() throws {
    try database.change { tx throws in
      for number in 0..<100 { try tx.set(Book("a", number, "\(number)"), key: number, in: "books") }
    }
    try database.change { tx throws in
      _ = try tx.remove((20..<60).map { try RowKey($0, in: "books") })
      #expect(try tx[view].count(in: "a") == 60)
      #expect(try tx[view].verify() == [])
    }
    try database.change { tx throws in
      try tx.removeAll(in: "books")
      try tx.set(Book("a", 1, "again"), key: 1, in: "books")
    }
    #expect(try database.look { tx in try tx[view].verify() } == [])
    #expect(try database.look { tx in try tx[view].count() } == 1)
  }

  // MARK: - What the closure reads

  // yap 60, 61, 62: a change of what the closure does not read skips it, and a lazy row has whatever it asks for.
  // yap 64: the closure is called once for each change, however the row is placed.
  @Test func `the closure is called for changes of what it reads, and for every touch`() throws {
    let calls = Counter()
    func register(_ reads: RowInputs, _ name: String) throws -> ExtensionHandle<AutoView<String>> {
      let view = AutoView<String>(version: "1", of: ["books"], reads: reads) { row in
        calls.add()
        return ViewPlace(try row.metadata(as: Shelving.self)?.shelf ?? "", try row.object(as: Book.self).title)
      }
      return try database.registerReady(view, as: name)
    }
    try database.change { tx in try tx.add(Book("a", 1, "x")) }
    func expect(
      _ reads: RowInputs, inserted: Int = 1, _ set: Int, _ object: Int, _ metadata: Int, touches: Int = 3
    ) throws {
      let handle = try register(reads, "reads \(reads.rawValue)")
      func count(_ body: (WriteTransaction) throws -> Void) throws -> Int {
        calls.reset()
        try database.change { try body($0) }
        return calls.count
      }
      #expect(
        try count { try $0.set(Book("a", 1, "y"), key: "y", in: "books", metadata: Shelving(shelf: "s")) } == inserted)
      #expect(try count { try $0.set(Book("a", 2, "y"), key: "y", in: "books", metadata: Shelving(shelf: "t")) } == set)
      #expect(try count { _ = try $0.replaceObject(Book("a", 3, "y"), key: "y", in: "books") } == object)
      #expect(try count { _ = try $0.replaceMetadata(Shelving(shelf: "u"), key: "y", in: "books") } == metadata)
      let touched = try count { tx throws in
        _ = try tx.touchRow(key: "y", in: "books")
        _ = try tx.touchObject(key: "y", in: "books")
        _ = try tx.touchMetadata(key: "y", in: "books")
      }
      #expect(touched == touches)
      // A row that was moved by its metadata has its position by the object: nothing is missing.
      #expect(try database.look { tx in try tx[handle].group(of: book("y")) } == "u")
      #expect(try count { _ = try $0.remove(key: "y", in: "books") } == 0)
      try database.unregister("reads \(reads.rawValue)")
    }
    try expect(.object, 1, 1, 0)
    try expect(.metadata, 1, 0, 1)
    try expect([.object, .metadata], 1, 1, 1)
    try expect(.key, 0, 0, 0)
  }

  // yap 65: what the closure depends on besides the row is asked again by a touch.
  @Test func `a touch asks a closure again that depends on something else`() throws {
    let current = Setting("a")
    let handle = try database.registerReady(
      AutoView<String>(version: "1", of: ["books"], reads: .key) { _ in ViewPlace(current.value) }, as: "setting")
    try database.change { tx in try tx.add(Book("a", 1, "x"), Book("a", 1, "y")) }
    current.value = "b"
    try database.change { tx throws in
      try tx.add(Book("a", 2, "x"))
      #expect(try tx[handle].shelves() == ["a": ["x", "y"]])
      _ = try tx.touchRow(key: "x", in: "books")
      #expect(try tx[handle].shelves() == ["a": ["y"], "b": ["x"]])
    }
  }

  // MARK: - Rows that can't be placed

  @Test func `a row without a place is in no group, listed, and placed once it has one`() throws {
    let view = AutoView<String>(version: "1", of: ["books"]) { row in
      let book = try row.object(as: Book.self)
      return ViewPlace(book.author ?? "none", book.price, book.title)
    }
    let handle = try database.registerReady(view, as: "prices")
    let long = String(repeating: "x", count: 70_000)
    try database.change { tx throws in
      try tx.add(Book("a", 1, "x", price: 2), Book("a", 1, "y", price: .nan), Book("b", 1, "z"))
      try tx.set("no book", key: "text", in: "books")
      try tx.set(Book(long, 1, "long"), key: "long", in: "books")
    }
    func unplaced() throws -> [String] {
      try database.look { tx throws in
        #expect(try tx[handle].verify() == [])
        return try tx[handle].unplacedRows().map { try $0.row.key(as: String.self) }
      }
    }
    #expect(try unplaced() == ["long", "text", "y"])
    #expect(try database.look { tx in try tx[handle].shelves() } == ["a": ["x"], "b": ["z"]])
    let reasons = try database.look { tx in try tx[handle].unplacedRows(limit: 2).map(\.reason) }
    #expect(reasons.count == 2 && reasons[0].contains("keyTooLong") && reasons[1].contains("decodingFailed"))
    #expect(try database.look { tx in try tx[handle].unplacedRows(limit: -1).isEmpty })
    try database.change { tx throws in
      try tx.add(Book("a", 1, "y", price: 1), Book("b", 1, "z", price: .nan), Book("a", 1, "text"))
      try tx.remove(key: "long", in: "books")
    }
    #expect(try unplaced() == ["z"])
    #expect(try database.look { tx in try tx[handle].shelves() } == ["a": ["text", "y", "x"]])
    // The error of a row that still can't be placed is that of its last change.
    try database.change { tx in try tx.set(1, key: "z", in: "books") }
    #expect(try unplaced() == ["z"])
    try database.change { tx in try tx.removeAll(in: "books") }
    #expect(try unplaced() == [])
  }

  // yap 99: a row that can't be decoded is not a nil object: it is listed with its error.
  @Test func `any other error of the closure refuses the change, and ends a build`() throws {
    let strict = AutoView<String>(version: "1", of: ["books"]) { row in
      let book = try row.object(as: Book.self)
      if book.year == 13 { throw Undone() }
      return ViewPlace("all", book.title)
    }
    let handle = try database.registerReady(strict, as: "strict")
    try database.change { tx in try tx.add(Book("a", 1, "x")) }
    #expect(throws: Undone.self) { try database.change { tx in try tx.add(Book("a", 13, "y")) } }
    #expect(try database.look { tx in try tx[handle].shelves() } == ["all": ["x"]])
    try database.unregister("strict")
    try database.change { tx in try tx.add(Book("a", 13, "y")) }
    #expect(throws: Undone.self) { try database.registerReady(strict, as: "strict") }
    // The corrected definition is built.
    let again = try database.registerReady(BookView.byAuthor(version: "2"), as: "strict")
    #expect(try database.look { tx in try tx[again].verify() } == [])
  }

  @Test func `definitions that contradict themselves are refused before anything is written`() throws {
    func code(_ view: AutoView<String>) -> DatabaseError.Code? {
      errorCode { _ = try database.registerReady(view, as: "bad") }
    }
    #expect(code(BookView.byAuthor(version: "")) == .invalidArgument)
    #expect(code(BookView.byAuthor(version: "1/2")) == .invalidArgument)
    #expect(code(BookView.byAuthor(version: "1").filtered(version: "") { _ in true }) == .invalidArgument)
    #expect(code(BookView.byAuthor(of: [])) == .invalidDefinition)
    #expect(!database.knownExtensions.contains("bad"))
    #expect(errorCode { _ = try database.registerReady(ManualView<String>(of: []), as: "bad") } == .invalidDefinition)
    #expect(
      errorCode { _ = try database.registerReady(ManualView<String>(), as: "byAuthor") } == .alreadyDefined)
  }
}
