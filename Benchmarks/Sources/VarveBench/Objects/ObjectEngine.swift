import Foundation

/// A store of typed objects by a key.
protocol ObjectEngine: MeasuredEngine {
  associatedtype Session: ObjectSession

  /// Whether sessions are used by several threads at once: `objectreadthreads` is left out where they are not.
  static var hasSessionsForThreads: Bool { get }

  /// - Parameter sync: whether a commit survives a loss of power, and not only the death of the process.
  func makeSession(sync: Bool) throws -> Session
  /// Gives books that are there the two indexes; returns when these have all of them.
  func buildIndexes() throws
}

extension ObjectEngine {
  static var hasSessionsForThreads: Bool { false }
}

/// One thread's session with the store. All writes are inserts of books that are not there.
///
/// Closures give the next book or id, so that no engine is handed an array that it would not need.
protocol ObjectSession: AnyObject, SendableMetatype {
  /// Inserts `count` books in one transaction, through the synchronous API.
  func insert(_ count: Int, _ next: () -> Book) throws
  /// Inserts one book in a transaction of its own, through the asynchronous API, or the synchronous one if there is no other.
  /// Called from several tasks at once by `objectinserttasks`.
  func insertSuspended(_ book: Book) async throws

  /// Reads `count` books by id, one after another, in one transaction, each decoded and touched; how many were there.
  func read(_ count: Int, _ next: () -> UUID) throws -> Int
  /// The same without decoding: what the store has of a row is touched.
  func readRaw(_ count: Int, _ next: () -> UUID) throws -> Int
  /// The same by one call for all of them; the ids differ.
  func readBatch(_ ids: [UUID]) throws -> Int
  /// Reads one, decoded and touched, through the asynchronous API, or the synchronous one if there is no other. Returns whether it
  /// was there.
  func readSuspended(_ id: UUID) async throws -> Bool
  /// Iterates the books in the order of their ids, each decoded and touched, until `body` says false.
  func scan(_ body: () -> Bool) throws

  /// Reads `count` books by the unique index, each in a transaction of its own, decoded and touched; how many were there.
  /// `direct`: by the index that has the rows beside its keys, where there is one.
  func find(_ count: Int, direct: Bool, _ next: () -> UUID) throws -> Int
  /// Iterates `count` entries of the date index from a date on, without their books. Returns how many there were.
  func scanDates(from date: Date, count: Int) throws -> Int
  /// The same with the books, decoded and touched.
  func readByDate(from date: Date, count: Int, direct: Bool) throws -> Int
  /// How many books have a date from one on, by the index.
  func countDates(from date: Date) throws -> Int

  /// Outside of the measured time: how many books there are, and one of them.
  func count() throws -> Int
  func book(_ id: UUID) throws -> Book?

  func close()
}
