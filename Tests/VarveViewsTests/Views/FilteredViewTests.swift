import EngineTestSupport
import Testing
import VarveTestSupport

@testable import ObjectFixtures
@testable import Varve
@testable import VarveViews

/// Tests of filtered views, which are views of their own whose closures are composed.
struct FilteredViewTests {
  private let database: Database

  init() throws { database = try Database.inMemory() }

  private func shelves(_ view: ExtensionHandle<AutoView<String>>) throws -> [String: [String]] {
    try database.look { tx throws in
      #expect(try tx[view].verify() == [])
      return try tx[view].shelves()
    }
  }

  private static let all = BookView.byAuthor()
  private static let cheap = all.filtered(version: "1") { try $0.object(as: Book.self).price < 10 }
  private static let cheapOld = cheap.filtered(version: "1") { try $0.object(as: Book.self).year < 5 }

  // yap 73, 74: no parent has to be registered, or registered before.
  @Test func `a filtered view has the groups and the order of the other, whether that is registered or not`() throws {
    let view = try database.registerReady(Self.cheapOld, as: "cheapOld")
    try database.change { tx throws in
      try tx.add(
        Book("a", 1, "x", price: 5), Book("a", 3, "y", price: 6), Book("a", 2, "dear", price: 50),
        Book("b", 9, "young", price: 2), Book(nil, 1, "none"))
    }
    #expect(try shelves(view) == ["a": ["y", "x"]])
    let all = try database.registerReady(Self.all, as: "all")
    #expect(try shelves(all) == ["a": ["y", "dear", "x"], "b": ["young"]])
    try database.unregister("all")
    try database.change { tx in try tx.add(Book("a", 2, "dear", price: 1)) }
    #expect(try shelves(view) == ["a": ["y", "dear", "x"]])
  }

  // The first BUG of yap 1.6: a filter that reads only the key was not asked when a row entered by an update.
  @Test func `a filter that reads only the key is asked when a row enters or changes its group by an update`() throws {
    let view = try database.registerReady(
      Self.all.filtered(version: "1", reads: .key) { try $0.key(as: String.self) != "no" }, as: "named")
    try database.change { tx in try tx.add(Book(nil, 1, "yes"), Book(nil, 1, "no")) }
    #expect(try shelves(view) == [:])
    try database.change { tx throws in
      try tx.set(Book("a", 1, "yes"), key: "yes", in: "books")
      try tx.set(Book("a", 1, "no"), key: "no", in: "books")
    }
    #expect(try shelves(view) == ["a": ["yes"]])
    try database.change { tx in try tx.set(Book("b", 1, "yes"), key: "yes", in: "books") }
    #expect(try shelves(view) == ["b": ["yes"]])
  }

  // yap 62: the filter reads metadata and the view reads the object; the composed view reads both.
  @Test func `a filtered view reads what the view and the filter read`() throws {
    let filtered = Self.all.filtered(version: "1", reads: .metadata) {
      try $0.metadata(as: Shelving.self)?.shelf == "here"
    }
    #expect(filtered.reads == [.object, .metadata])
    let view = try database.registerReady(filtered, as: "here")
    try database.change { tx throws in
      try tx.add(Book("a", 1, "x"), Book("a", 2, "y"))
      _ = try tx.replaceMetadata(Shelving(shelf: "here"), key: "x", in: "books")
    }
    #expect(try shelves(view) == ["a": ["x"]])
    try database.change { tx throws in
      _ = try tx.replaceMetadata(Shelving(shelf: "there"), key: "x", in: "books")
      _ = try tx.replaceMetadata(Shelving(shelf: "here"), key: "y", in: "books")
    }
    #expect(try shelves(view) == ["a": ["y"]])
  }

  // yap 71, and the second BUG of 1.6: the filter's version contains that of the view.
  @Test func `a view is built again if the version of what it filters has changed`() throws {
    let site = try StorageSite(.memory)
    func with(_ view: AutoView<String>, _ body: (Database, ExtensionHandle<AutoView<String>>) throws -> Void) throws {
      let database = try Database.open(try site.open(), path: "filtered")
      try body(database, try database.registerReady(view, as: "cheap"))
      try database.close()
    }
    try with(Self.cheap) { database, view throws in
      try database.change { tx in try tx.add(Book("a", 11, "x"), Book("b", 12, "y"), Book("b", 13, "z", price: 90)) }
      #expect(try database.look { tx in try tx[view].shelves() } == ["a": ["x"], "b": ["y"]])
      #expect(try database.look { tx in try tx[view].versionTag } == "1/1")
    }
    let other = BookView.byDecade().filtered(version: "1") { try $0.object(as: Book.self).price < 10 }
    try with(other) { database, view throws in
      #expect(try database.look { tx in try tx[view].shelves() } == ["10": ["x", "y"]])
      #expect(try database.look { tx in try tx[view].versionTag } == "2/1")
    }
  }

  // yap 69
  @Test func `another filter is put in force in a transaction, and an undone savepoint brings back the old one`() throws
  {
    struct Undone: Error {}
    let view = try database.registerReady(Self.all.filtered(version: "all") { _ in true }, as: "view")
    try database.change { tx throws in
      try tx.add(Book("a", 1, "x", price: 5), Book("a", 3, "y", price: 50), Book("b", 1, "z", price: 5))
    }
    try database.change { tx throws in
      try? tx.savepoint {
        try tx.replaceDefinition(of: view, by: Self.all.filtered(version: "none") { _ in false })
        #expect(try tx[view].isEmpty)
        throw Undone()
      }
      #expect(try tx[view].count() == 3)
      try tx.replaceDefinition(of: view, by: Self.cheap)
      #expect(try tx[view].versionTag == "1/1")
    }
    #expect(try shelves(view) == ["a": ["x"], "b": ["z"]])
  }
}
