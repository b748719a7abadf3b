import Foundation
import Synchronization
import Testing
import Varve

@testable import ObjectFixtures

/// Tests of the examples of the documents that the project grew from, as far as they concern typed APIs: they
/// compile, run, and are no longer than there.
///
/// Those of extensions and of plain rows are in `SeedExtensionTests`; the articles *Coming from YapDatabase* and
/// *Coming from CodableDatastore* list them.
struct SeedTests {
  // MARK: - CodableDatastore

  struct SortableTitle: RawRepresentable, Codable, Hashable, Sendable, KeyCodable, ExpressibleByStringLiteral {
    var rawValue: String
    init(rawValue: String) { self.rawValue = rawValue }
    init(stringLiteral value: String) { rawValue = value }
  }

  struct AuthorID: RawRepresentable, Codable, Hashable, Sendable, KeyCodable { var rawValue: String }

  struct BookStore: DecoderTableFormat {
    static let collection = "BooksStore"
    static let currentVersion = Version.current

    enum Version: String, CaseIterable, Sendable {
      case v1 = "2024-04-01"
      case current = "2024-04-09"
    }

    typealias Instance = Book

    struct BookV1: Codable, Identifiable {
      var id: UUID
      var title: String
      var author: String
    }

    struct Book: Codable, Identifiable, Hashable, Sendable {
      var id: UUID
      var title: SortableTitle
      var authors: [AuthorID]
      var shelfID: Int?
    }

    static let decoders: Decoders = [
      .v1: { try Book($0.decode(BookV1.self)) },
      .current: { try $0.decode() },
    ]
  }

  struct AuthorStore: StoreFormat {
    static let collection = "AuthorStore"
    struct Instance: Codable, Identifiable, Hashable, Sendable {
      var id: AuthorID
      var fullname: String
    }
  }

  struct ShelfStore: StoreFormat {
    static let collection = "ShelfStore"
    struct Instance: Codable, Identifiable, Hashable, Sendable {
      var id: Int
      var genre: String
    }
  }

  typealias Book = BookStore.Book

  /// "Setup an actor or other manager to own your persistence and datastores."
  actor Library {
    let database: Database
    let books: Store<BookStore>
    let authors: Store<AuthorStore>
    let shelves: Store<ShelfStore>

    init() throws {
      database = try Database.inMemory()
      books = Store(in: database)
      authors = Store(in: database)
      shelves = Store(in: database)
    }
  }

  @Test func `a library reads, writes and deletes`() async throws {
    let library = try Library()
    let newBook = Book(id: UUID(), title: "A", authors: [])
    let oldBook = Book(id: UUID(), title: "B", authors: [])

    #expect(try await library.books.persist(newBook) == nil)
    let bookByID = try await library.books.load(newBook.id)
    #expect(bookByID == newBook)

    try await library.shelves.persist(ShelfStore.Instance(id: 1, genre: "novel"))
    let allShelves = try await library.shelves.load(...).reduce(into: []) { $0.append($1) }
    #expect(allShelves.map(\.genre) == ["novel"])
    guard let first = try await library.shelves.load(...).first(where: { _ in true }) else { throw StoreStop() }
    #expect(first.id == 1)

    let oldValue = try await library.books.persist(newBook)
    #expect(oldValue == newBook)
    try await library.books.persist(oldBook)
    #expect(try await library.books.delete(oldBook.id) == oldBook)
    #expect(try await library.books.deleteIfPresent(oldBook.id) == nil)
    #expect(try await library.books.delete(newBook) == newBook)
  }

  @Test func `a library writes an author and the books together, or nothing`() async throws {
    let library = try Library()
    let newAuthor = AuthorStore.Instance(id: AuthorID(rawValue: "d"), fullname: "Dimitri")
    let newBooks = [Book(id: UUID(), title: "A", authors: [newAuthor.id], shelfID: 1)]
    func addBooks() async throws {
      try await library.database.perform {
        try await library.authors.persist(newAuthor)
        for newBook in newBooks {
          guard let shelfID = newBook.shelfID, try await library.shelves.contains(shelfID) else { throw StoreStop() }
          try await library.books.persist(newBook)
        }
      }
    }
    await #expect(throws: StoreStop.self) { try await addBooks() }
    #expect(try await library.authors.count == 0)
    try await library.shelves.persist(ShelfStore.Instance(id: 1, genre: "novel"))
    try await addBooks()
    #expect(try await library.books.load(...).collect() == newBooks)
    #expect(try await library.authors.load(newAuthor.id) == newAuthor)
  }

  @Test func `a book of the first version is read as one of the current version`() async throws {
    struct FirstStore: StoreFormat {
      static let collection = "BooksStore"
      enum Version: String, CaseIterable, Sendable { case v1 = "2024-04-01" }
      static let currentVersion = Version.v1
      struct Instance: Codable, Identifiable, Sendable {
        var id: UUID
        var title: String
        var author: String
      }
      static func decode(_ stored: StoredValue, version: Version) throws -> Instance { try stored.decode() }
    }
    let backend = try SharedBackend()
    let id = UUID()
    let old = FirstStore.Instance(id: id, title: "Emma", author: "Austen")
    try await Store<FirstStore>(in: try backend.open()).persist(old)

    // The program that knows both versions reports its progress, and converts once.
    let books = Store<BookStore>(in: try backend.open())
    #expect(try await books.load(id)?.authors == [AuthorID(rawValue: "Austen")])
    let rewritten = try await books.migrate { progress in
      #expect(progress.rowsDone == 1 && progress.rowsTotal == 1)
    }
    #expect(rewritten == 1)
  }

  // MARK: - YapDatabaseExtensions

  struct MyCustomMetadata: Codable, Hashable, Sendable { var isRead: Bool }

  struct MyCustomValue: Persistable, Hashable {
    static let collection = "MyCustomValues"
    let id: UUID
    @StoredSeparately var metadata: MyCustomMetadata? = nil
  }

  /// Calls this project's equivalents of `read.byKey`, `byKeys`, `all`, `filterExisting`, `atIndex`, `write` and
  /// `remove`.
  private func inTransactions(_ db: Database, _ item: MyCustomValue, _ items: [MyCustomValue]) throws {
    try db.write { transaction in
      try item.persist(in: transaction)
      try items.persist(in: transaction)
    }
    let index = try item.rowKey
    let someKeys = items.map(\.id) + [UUID()]
    try db.read { transaction in
      let a = try MyCustomValue.load(try MyCustomValue.identifier(of: index), in: transaction)
      let b = try MyCustomValue.load(item.id, in: transaction)
      let several = try MyCustomValue.load(ids: someKeys, in: transaction)
      let all = try Array(MyCustomValue.load(..., in: transaction))
      let missingKeys = zip(someKeys, several).filter { $0.1 == nil }.map(\.0)
      let metadata = try MyCustomValue.metadata(of: item.id, in: transaction)
      #expect(a == item && b == item && several.compactMap(\.self) == items && all.count == 3)
      #expect(missingKeys == [someKeys[2]] && metadata?.isRead == true)
    }
    try db.write { transaction in
      let count = try items.delete(in: transaction)
      #expect(count == 2)
      try items.persist(in: transaction)
    }
  }

  @Test func `persistable items work in transactions, by themselves and in operations`() async throws {
    let item = MyCustomValue(id: UUID(), metadata: MyCustomMetadata(isRead: true))
    let items = [MyCustomValue(id: UUID()), MyCustomValue(id: UUID())]
    let db = try await Database.inMemory()
    try inTransactions(db, item, items)

    // Write asynchronously.
    try await item.persist(in: db)
    try await items.persist(in: db)
    #expect(try await MyCustomValue.load(..., in: db).collect().count == 3)
    #expect(try await MyCustomValue.load(item.id, in: db)?.metadata?.isRead == true)

    // Write in an operation of the program's queue.
    let failure = Mutex<(any Error)?>(nil)
    let writing = BlockOperation {
      do {
        try db.write { transaction in try items.persist(in: transaction) }
      } catch {
        failure.withLock { $0 = error }
      }
    }
    let queue = OperationQueue()
    await withCheckedContinuation { finished in
      writing.completionBlock = { finished.resume() }
      queue.addOperation(writing)
    }
    #expect(failure.withLock { $0 == nil } && writing.isFinished)
  }

  @Test func `persistable items work on a connection, blocking and with completions`() async throws {
    let db = try await Database.inMemory()
    let item = MyCustomValue(id: UUID(), metadata: MyCustomMetadata(isRead: true))
    let items = [MyCustomValue(id: UUID()), MyCustomValue(id: UUID(), metadata: MyCustomMetadata(isRead: false))]
    try onConnection(db.connection(), item, items)

    // Write asynchronously, and be notified when it is done.
    let connection = db.connection()
    let done = Mutex<[String]>([])
    try await connection.write { transaction in
      try item.persist(in: transaction)
      try items.persist(in: transaction)
      transaction.onCommit { done.withLock { $0.append("committed") } }
    }
    #expect(done.withLock { $0 } == ["committed"])
    #expect(
      try await connection.read { tx in try MyCustomValue.load(items[1].id, in: tx)?.metadata?.isRead } == false)
  }

  private func onConnection(_ connection: Connection, _ item: MyCustomValue, _ items: [MyCustomValue]) throws {
    try connection.write { transaction in
      try item.persist(in: transaction)
      try items.persist(in: transaction)
    }
    let found = try connection.read { tx in try MyCustomValue.load(ids: items.map(\.id), in: tx) }
    #expect(found == items)
    let all = try connection.read { tx in try Array(MyCustomValue.load(..., in: tx)) }
    #expect(all.count == 3)
  }
}

extension SeedTests.Book {
  init(_ book: SeedTests.BookStore.BookV1) {
    self.init(
      id: book.id, title: SeedTests.SortableTitle(rawValue: book.title),
      authors: [SeedTests.AuthorID(rawValue: book.author)])
  }
}
