/// The indexes of the books, the same on every engine.
enum BookIndexes: Int, Codable {
  case none = 0
  /// By year, and by the date of the last change.
  case two = 2
  /// These, and by title, by author and year, and by price.
  case five = 5
  /// For the rows that look things up: a unique one by the number of a book, which is its id, and one by the date.
  case lookups = 100

  /// As columns of SQL, with the names of the indexes. The unique one is the table's own by its key.
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
