import Foundation

/// A store of typed objects by a key.
protocol ObjectEngine: MeasuredEngine {
  associatedtype Session: ObjectSession

  /// Whether several threads can use sessions at once; if false, `objectreadthreads` is left out.
  static var hasSessionsForThreads: Bool { get }

  /// - Parameter sync: whether a commit survives a power loss, and not only the death of the process.
  func makeSession(sync: Bool) throws -> Session
  /// Adds the two indexes to existing books. Returns when the indexes have all books.
  func buildIndexes() throws
}

extension ObjectEngine {
  static var hasSessionsForThreads: Bool { false }
}

/// One thread's session with the store. All writes are inserts of books that do not exist.
///
/// Closures return the next book or id, so that no engine is passed an array that it would not need.
protocol ObjectSession: AnyObject, SendableMetatype {
  /// Inserts `count` books in one transaction, through the synchronous API.
  func insert(_ count: Int, _ next: () -> Book) throws
  /// Inserts one book in its own transaction through the asynchronous API, or the synchronous one if there is no other.
  ///
  /// `objectinserttasks` calls it from several tasks at once.
  func insertSuspended(_ book: Book) async throws

  /// Reads `count` books by id, one after another, in one transaction, and decodes and touches each. Returns how many
  /// exist.
  func read(_ count: Int, _ next: () -> UUID) throws -> Int
  /// Reads books as `read` does, but touches their stored bytes instead of decoding them.
  func readRaw(_ count: Int, _ next: () -> UUID) throws -> Int
  /// Reads books without decoding, as `readRaw` does, by one call for all ids, which must differ.
  func readBatch(_ ids: [UUID]) throws -> Int
  /// Reads one book through the asynchronous API, or the synchronous one if there is no other, and decodes and touches
  /// it. Returns whether it exists.
  func readSuspended(_ id: UUID) async throws -> Bool
  /// Iterates the books in the order of their ids, and decodes and touches each, until `body` returns false.
  func scan(_ body: () -> Bool) throws

  /// Reads `count` books by the unique index, each in its own transaction, and decodes and touches them. Returns how
  /// many exist.
  ///
  /// If `direct` is true, it uses the index that contains the rows, if there is one.
  func find(_ count: Int, direct: Bool, _ next: () -> UUID) throws -> Int
  /// Iterates `count` entries of the date index from a date on, without their books. Returns how many there were.
  func scanDates(from date: Date, count: Int) throws -> Int
  /// Iterates `count` books by the date index from a date on, and decodes and touches them. Returns how many there
  /// were.
  func readByDate(from date: Date, count: Int, direct: Bool) throws -> Int
  /// Returns the number of books from a date on, counted by the index.
  func countDates(from date: Date) throws -> Int

  /// Returns the number of books. Called outside of the measured time, like `book(_:)`.
  func count() throws -> Int
  func book(_ id: UUID) throws -> Book?

  func close()
}
