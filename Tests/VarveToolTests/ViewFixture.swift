import Foundation
import Testing
import Varve
import VarveViews

/// A database with two views that the tool inspects: books by author, newest first, and shelves that are sorted by
/// hand.
struct ViewFixture {
  struct Book: Codable, Identifiable, Sendable {
    var id: Int
    var author: String
    var title: String
    var year: Int
  }

  struct Books: StoreFormat {
    typealias Instance = Book
    static let collection = "books"
    let byTitle = Index(\.title, counted: true)
  }

  static let byAuthor = AutoView<String>(version: "2", of: ["books"]) { row in
    let book = try row.object(as: Book.self)
    return ViewPlace(book.author, Descending(book.year), book.title)
  }.named("byAuthor")
  static let shelves = ManualView<String>(of: ["books"]).named("shelves")

  static let definition = DatabaseDefinition {
    Books.self
    byAuthor
    shelves
  }

  static func key(_ id: Int) throws -> RowKey { try RowKey(id, in: Books.collection) }

  /// Opens the database with its views, which are complete when `body` runs.
  static func with<Result>(_ path: String, _ body: (Database) throws -> Result) throws -> Result {
    try ObjectFixture.with(path, definition) { database in
      try wait(database, byAuthor)
      try wait(database, shelves)
      try Store<Books>(in: database).warm()
      return try body(database)
    }
  }

  private static func wait<Definition: DatabaseExtension>(
    _ database: Database, _ handle: ExtensionHandle<Definition>
  ) throws { try database.waitUntilReady(handle) }

  static func book(_ id: Int) -> Book {
    Book(id: id, author: "author \(id % 3)", title: "title \(id)", year: 1900 + id % 50)
  }

  /// Stores books, of which each tenth is on a shelf.
  static func make(_ path: String, count: Int = 300) throws {
    try with(path) { database in
      let books = Store<Books>(in: database)
      try database.write { tx in
        for id in 0..<count { try books.persist(book(id), in: tx) }
        for id in stride(from: 0, to: count, by: 10) { try tx[shelves].append(key(id), to: "shelf \(id % 20)") }
      }
    }
  }

  /// What the views of a program have.
  struct Content: Equatable {
    var byAuthor: [String: [RowKey]] = [:]
    var shelves: [String: [RowKey]] = [:]

    init(_ database: Database) throws {
      try database.read { tx throws in
        for (group, count) in try tx[ViewFixture.byAuthor].groups() {
          byAuthor[group] = try tx[ViewFixture.byAuthor].rows(in: group, at: 0..<count)
        }
        for (group, count) in try tx[ViewFixture.shelves].groups() {
          shelves[group] = try tx[ViewFixture.shelves].rows(in: group, at: 0..<count)
        }
      }
    }
  }

  /// Returns the name of the family of a part of an extension.
  static func family(_ path: String, _ name: String, _ part: String) throws -> String {
    let catalog = try Tool.good(["dump", "catalog", path])
    let line = try #require(Tool.lines(catalog).first { $0.contains("extension \"\(name)\"") })
    return "x.\(try #require(line.firstMatch(of: /number (\d+)/)).output.1).\(part)"
  }

  /// Returns the entries of a family in hexadecimal digits.
  static func entries(_ path: String, _ family: String) throws -> [(key: String, value: String)] {
    Tool.lines(try Tool.good(["scan", path, "--family", family, "--hex"])).map { line in
      let fields = line.split(separator: "\t", omittingEmptySubsequences: false).map(String.init)
      return (fields[0], fields[1])
    }
  }
}
