import Foundation
import Varve
import VarveViews

@testable import ObjectFixtures

/// A row of the tests of views.
struct Book: Codable, Hashable, Sendable {
  var author: String?
  var year: Int
  var title: String
  var price: Double = 1

  init(_ author: String?, _ year: Int, _ title: String, price: Double = 1) {
    self.author = author
    self.year = year
    self.title = title
    self.price = price
  }
}

/// The metadata of a row of the tests of views.
struct Shelving: Codable, Hashable, Sendable {
  var shelf: String
}

/// The views of the tests.
enum BookView {
  /// By author, and within that the newest first.
  static func byAuthor(
    version: String = "1", of collections: Set<String> = ["books"], isVolatile: Bool = false, isFilled: Bool = true
  ) -> AutoView<String> {
    AutoView(version: version, of: collections, isVolatile: isVolatile, isFilled: isFilled) { row in
      let book = try row.object(as: Book.self)
      return book.author.map { ViewPlace($0, Descending(book.year), book.title) }
    }
  }

  /// By decade, and within that by title.
  static func byDecade(version: String = "2") -> AutoView<String> {
    AutoView(version: version, of: ["books"]) { row in
      let book = try row.object(as: Book.self)
      return ViewPlace("\(book.year / 10 * 10)", book.title)
    }
  }
}

extension WriteTransaction {
  func add(_ books: Book..., in collection: String = "books") throws {
    for book in books { try set(book, key: book.title, in: collection) }
  }
}

extension ViewTransaction {
  /// The keys of a group's rows, as text.
  func titles(_ group: Group) throws -> [String] {
    try rows(in: group, at: 0..<Int.max).map { try $0.key(as: String.self) }
  }

  /// All groups with the keys of their rows.
  func shelves() throws -> [Group: [String]] {
    try groups().reduce(into: [:]) { shelves, entry in
      shelves[entry.group] = try titles(entry.group)
      guard shelves[entry.group]?.count == entry.count else { throw DatabaseError(.corruption, "a count is wrong") }
    }
  }
}

func book(_ title: String, in collection: String = "books") throws -> RowKey { try RowKey(title, in: collection) }
