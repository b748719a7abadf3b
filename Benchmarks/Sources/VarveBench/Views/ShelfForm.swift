/// What keeps the books of the view workloads in order: by year, and in a year by title.
enum ShelfForm: String, Codable {
  /// Nothing. What the others cost is compared with it.
  case rows
  /// A view, whose closure decodes a book.
  case view
  /// The view with a filter that keeps no book.
  case filtered
  /// A counted index, or in SQLite an index.
  case index
}

/// What a list is asked for, one at a time.
enum ShelfRead: String, CaseIterable {
  /// The key at an offset of a year.
  case entry
  /// The offset of a book in its year.
  case offset
  /// The offset of a book, found by numbering the books of its year. Only engines that can do no better have it.
  case rownumber
  /// The number of books of a year.
  case group
  /// The number of books of a year from a title on.
  case range
}

/// What is measured of a list that follows commits.
enum ShelfChanges: String, CaseIterable {
  /// The difference of a list of all books, for a commit of 100 of them.
  case all
  /// The time from a commit of 100 books to the change of a list of which 200 rows are loaded.
  case window
  /// The time of the main actor for each such commit.
  case main

  /// The number of books that a commit changes.
  static var changed: Int { 100 }
  /// The number of rows that are loaded.
  static var loaded: Int { 200 }
}
