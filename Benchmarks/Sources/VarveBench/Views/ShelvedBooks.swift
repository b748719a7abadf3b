import Foundation
import Varve
import VarveViews

/// A format with a counted index.
struct BooksShelved: StoreFormat {
  typealias Instance = Book
  static let collection = Book.collection
  let shelf = Index(\.year, \.title, counted: true)
}

/// The views of the view workloads.
enum Shelf {
  static let name = "shelf"

  /// Returns the definition of the view, which a version distinguishes from others.
  static func view(_ version: String = "1") -> AutoView<Int> {
    AutoView(version: version, of: [Book.collection]) { row in
      let book = try row.object(as: Book.self)
      return ViewPlace(book.year, book.title)
    }
  }

  static func view(_ form: ShelfForm) -> AutoView<Int> {
    form == .filtered ? view().filtered(version: "1") { _ in false } : view()
  }
}

/// The books of the view workloads by their numbers, and changed ones.
struct ShelfSource {
  let books: BookSource
  let num: Int

  init(_ settings: RunSettings) {
    books = BookSource(settings)
    num = settings.num
  }

  func book(_ number: Int) -> Book { books.book(UInt64(number)) }

  /// Returns a book with another title, so that it moves within its year.
  func moved(_ number: Int, _ round: Int) -> Book {
    var book = book(number)
    book.title = books.book(UInt64(num + number + round)).title
    return book
  }

  /// Returns a book with another price, so that it stays.
  func repriced(_ number: Int, _ round: Int) -> Book {
    var book = book(number)
    book.price += Double(round + 1)
    return book
  }
}

/// The years of books, which are the groups.
enum ShelfYears {
  static let all = 1900..<2030
}
