import Foundation

/// A store of books that keeps them in order as `EngineSettings.shelf` says.
protocol ShelfEngine: MeasuredEngine {
  /// Returns the forms that a workload is measured with, `rows` first.
  static func forms(_ workload: Workload) -> [ShelfForm]
  /// What lists can ask this engine for.
  static var reads: [ShelfRead] { get }
  /// The bytes of a year, a title and an id in a key of the order, or nil if that is not known.
  static func keySize(of book: Book) throws -> Int?

  /// Inserts books in one transaction.
  func insert(_ count: Int, _ next: () -> Book) throws
  /// Updates books that exist, in one transaction.
  func update(_ count: Int, _ next: () -> Book) throws
  func countRows() throws -> Int

  /// Returns the id of the book at an offset of a year, or nil if there is none.
  func id(at offset: Int, of year: Int) throws -> UUID?
  /// Returns the number of books that come before a book in its year, or nil if it does not exist.
  func offset(of book: Book, byNumbering: Bool) throws -> Int?
  func count(of year: Int) throws -> Int
  func count(of year: Int, from title: String) throws -> Int
  /// Reads all ids in order. Returns how many there were.
  func scan() throws -> Int

  /// Closes and opens the database, with nothing cached.
  func reopen() throws
  /// Opens the database in another form, and returns when the order has all books; or builds another definition of the
  /// order while the old one is in use. Returns false if the engine can't.
  func build(_ form: ShelfForm, inShadow: Bool) throws -> Bool

  /// Follows a list while `change` makes one commit for each number of a range, and returns a time in nanoseconds for
  /// each; or nil if the engine has no such list.
  func follow(_ changes: ShelfChanges, rounds: Int, _ change: @escaping @Sendable (Int) throws -> Void) throws
    -> [UInt64]?
}
