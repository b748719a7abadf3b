/// The indexes of the books, the same on every engine.
enum BookIndexes: Int, Codable {
  case none = 0
  /// Indexes by year, and by the date of the last change.
  case two = 2
  /// The indexes of `two`, and indexes by title, by author and year, and by price.
  case five = 5
  /// The indexes of the lookup workloads: a unique one by the number of a book, which is its id, and one by the date.
  case lookups = 100

  /// The indexes as names and SQL columns. The unique index is the table's own index of its key.
  var columns: [(name: String, columns: String)] {
    switch self {
    case .none: []
    case .lookups: [("bookUpdated", "updated")]
    case .two: [("bookYear", "year"), ("bookUpdated", "updated")]
    case .five:
      Self.two.columns + [("bookTitle", "title"), ("bookAuthor", "author, year"), ("bookPrice", "price")]
    }
  }
}
