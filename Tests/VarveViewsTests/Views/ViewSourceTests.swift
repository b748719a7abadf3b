import EngineTestSupport
import Testing
import VarveTestSupport

@testable import ObjectFixtures
@testable import Varve
@testable import VarveViews

/// Tests of views as the sources of lists.
struct ViewSourceTests {
  private let database: Database
  private let view: ExtensionHandle<AutoView<String>>
  private let source: ViewSource<AutoView<String>, Book>

  init() throws {
    database = try Database.inMemory()
    view = try database.registerReady(BookView.byAuthor(of: ["books", "films"]), as: "view")
    source = ViewSource(view, in: database) { try $0.object(as: Book.self) }
    try database.change { tx throws in
      try tx.add(Book("a", 1, "x"), Book("a", 2, "y"), Book("b", 1, "z"))
      try tx.set("no book", key: "text", in: "books")
    }
  }

  @Test func `a source answers what the view answers, and makes elements of rows`() throws {
    try database.look { tx throws in
      #expect(try source.groups(in: tx).map(\.group) == ["a", "b"])
      #expect(try source.groups(in: tx).map(\.count) == [2, 1])
      #expect(try source.count(in: "a", tx) == 2)
      #expect(try source.ids(in: "a", at: 0..<9, tx) == [book("y"), book("x")])
      #expect(try source.group(of: book("z"), tx) == "b")
      let place = try source.place(of: book("x"), tx)
      #expect(place?.group == "a" && place?.offset == 1)
      #expect(try source.element(book("x"), tx) == ViewElement(id: book("x"), value: Book("a", 1, "x")))
      #expect(try source.element(book("?"), tx) == nil)
      #expect(errorCode { _ = try source.element(book("text"), tx) } == .decodingFailed)
      #expect(source.progress == nil)
    }
  }

  private func changed(_ body: (WriteTransaction) throws -> Void) throws -> [RowKey: ListFlags]? {
    let connection = database.connection()
    _ = try connection.advance()

    try database.change { try body($0) }
    guard case .changes(let changes)? = try connection.advance().first else { return nil }
    return try database.look { tx in try source.changedIDs(by: changes, tx) }
  }

  // yap 60: a row that was set, replaced or touched is named, whatever the closure reads.
  @Test func `a commit names the rows of the view's collections that it may have moved or changed`() throws {
    let named = try changed { tx throws in
      try tx.add(Book("a", 5, "new"), Book("b", 1, "z"))
      try tx.add(Book("a", 5, "film"), in: "films")
      try tx.add(Book("a", 5, "other"), in: "others")
      try tx.remove(key: "x", in: "books")
      _ = try tx.touchMetadata(key: "y", in: "books")
    }
    let films = try book("film", in: "films")
    #expect(Set(try #require(named).keys) == [try book("new"), try book("z"), films, try book("x"), try book("y")])
    #expect(named?[try book("y")] == .metadata)
    #expect(try changed { tx in try tx.add(Book("a", 1, "o"), in: "others") } == [:])
    #expect(try changed { tx in try tx.removeAll(in: "others") } == [:])
    #expect(try changed { tx in try tx.removeAll(in: "films") } == nil)
    #expect(try changed { tx in try tx.removeAll() } == nil)
  }

  @Test func `the generation is another one with other content, and nil while the view is built`() throws {
    func generation() throws -> UInt64? { try database.look { tx in try source.generation(tx) } }
    let first = try #require(try generation())
    try database.change { tx in try tx.add(Book("a", 9, "more")) }
    #expect(try generation() == first)
    let held = try database.holdSnapshot()
    try database.change { tx throws in
      try tx.replaceDefinition(of: view, by: BookView.byAuthor(version: "2", of: ["books", "films"]))
    }
    let second = try #require(try generation())
    #expect(second != first)
    #expect(try held.read { tx in try source.generation(tx) } == first)
    // The content stays.
    try database.change { tx throws in
      try tx.replaceDefinition(of: view, by: BookView.byAuthor(version: "2", of: ["books", "films"]))
    }
    #expect(try generation() == second)
    try database.unregister("view")
    let before = try database.holdSnapshot()
    try database.registerReady(BookView.byAuthor(), as: "view")
    #expect(try #require(try generation()) != second)
    #expect(try before.read { tx in try source.generation(tx) } == nil)
  }

  @Test func `a manual view is a source, too`() throws {
    let manual = try database.registerReady(ManualView<String>(), as: "manual")
    let source = ViewSource(manual, in: database) { try $0.object(as: Book.self).title }
    try database.change { tx in try tx[manual].append([book("z"), book("x")], to: "list") }
    try database.look { tx throws in
      #expect(try source.ids(in: "list", at: 0..<2, tx) == [book("z"), book("x")])
      #expect(try source.element(book("z"), tx)?.value == "z")
    }
  }
}
