import Foundation
import Synchronization
import Testing
import Varve

@testable import ObjectFixtures

/// The examples of the documents that the project grew from, as far as they concern typed doors: they compile, run, and
/// are as short, or shorter. Those of extensions and of plain rows are in `SeedExtensionTests`; the articles
/// *Coming from YapDatabase* and *Coming from CodableDatastore* have the list.
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

  @Test func `a book of the first version is read as one of the current`() async throws {
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

    // The program that knows both tells how far it is, and converts once.
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
    @KeptApart var metadata: MyCustomMetadata? = nil
  }

  private func functional(_ db: Database, _ item: MyCustomValue, _ items: [MyCustomValue]) throws {
    // Write a single item. Write an array of items, using one transaction.
    try db.write(item)
    try db.write(items)
    // Create a write transaction block for multiple writes.
    try db.write { transaction in
      try transaction.write(item)
      try transaction.write(items)
    }
    let index = try item.rowKey
    let keys = items.map(\.id)
    let indexes = try items.map { try $0.rowKey }
    if let found: MyCustomValue = try db.read(at: index) { #expect(found == item) }
    if let meta = try db.readMetadata(at: index, of: MyCustomValue.self) { #expect(meta.isRead) }
    let several: [MyCustomValue] = try db.read(at: indexes)
    #expect(several == items)
    let byKeys: [MyCustomValue] = try db.read(keys: keys)
    #expect(byKeys == items)
    let all: [MyCustomValue] = try db.readAll()
    #expect(all.count == 3)
    try db.read { transaction in
      let a: MyCustomValue? = try transaction.read(at: index)
      let b: MyCustomValue? = try transaction.read(item.id)
      let c: [MyCustomValue] = try transaction.read(at: indexes)
      let d: [MyCustomValue] = try transaction.read(keys: keys)
      let all: [MyCustomValue] = try transaction.readAll()
      let meta = try transaction.readMetadata(at: indexes, of: MyCustomValue.self)
      #expect(a == item && b == item && c == items && d == items && all.count == 3 && meta.isEmpty)
    }
  }

  private func persistable(_ db: Database, _ item: MyCustomValue, _ items: [MyCustomValue]) throws {
    try db.write { transaction in
      let written = try item.write(to: transaction)
      #expect(written == item)
    }
    let written = try item.write(to: db)
    #expect(written == item)
    let operation = item.writeOperation(to: db)
    operation.start()
    #expect(operation.error == nil)
    try items.write(to: db)

    let index = try item.rowKey
    let indexes = try items.map { try $0.rowKey }
    let someKeys = items.map(\.id) + [UUID()]
    try db.read { transaction in
      if let found = try MyCustomValue.read(from: transaction).at(index) { #expect(found == item) }
      let several = try MyCustomValue.read(from: transaction).at(indexes)
      #expect(several == items)
      if let found = try MyCustomValue.read(from: transaction).byKey(item.id) { #expect(found == item) }
      #expect(try MyCustomValue.read(from: transaction).byKeys(someKeys) == items)
      #expect(try MyCustomValue.read(from: transaction).all().count == 3)
      let (existing, missingKeys) = try MyCustomValue.read(from: transaction).filterExisting(someKeys)
      #expect(existing == items && missingKeys == [someKeys[2]])
    }
    let (existing, missingKeys) = try MyCustomValue.read(from: db).filterExisting(someKeys)
    #expect(existing.count == 2 && missingKeys.count == 1)
  }

  @Test func `both styles of persistable items work in transactions and on the database`() async throws {
    let item = MyCustomValue(id: UUID(), metadata: MyCustomMetadata(isRead: true))
    let items = [MyCustomValue(id: UUID()), MyCustomValue(id: UUID())]
    try functional(try Database.inMemory(), item, items)
    try persistable(try Database.inMemory(), item, items)

    // Write asynchronously.
    let db = try Database.inMemory()
    try await db.write(item)
    try await db.write(items)
    #expect(try await item.write(to: db) == item)
    #expect(try await MyCustomValue.read(from: db).all().count == 3)
    #expect(try await MyCustomValue.read(from: db).byKey(item.id)?.metadata?.isRead == true)
  }

  @Test func `both styles work on a connection, waiting and with completions`() async throws {
    let db = try Database.inMemory()
    let item = MyCustomValue(id: UUID(), metadata: MyCustomMetadata(isRead: true))
    let items = [MyCustomValue(id: UUID()), MyCustomValue(id: UUID(), metadata: MyCustomMetadata(isRead: false))]
    try onConnection(db.connection(), item, items)

    // Write asynchronously, and hear when it is done.
    let connection = db.connection()
    let done = Mutex<[String]>([])
    try await connection.write(item)
    try await connection.write { transaction in
      try transaction.write(item)
      try transaction.write(items)
      transaction.onCommit { done.withLock { $0.append("committed") } }
    }
    #expect(done.withLock { $0 } == ["committed"])
    let writing = items.writeOperation(to: connection)
    let queue = OperationQueue()
    await withCheckedContinuation { finished in
      writing.completionBlock = { finished.resume() }
      queue.addOperation(writing)
    }
    #expect(writing.error == nil && writing.isFinished)
    #expect(try await MyCustomValue.read(from: connection).byKey(items[1].id)?.metadata?.isRead == false)
    #expect(try await connection.readAll(MyCustomValue.self).count == 3)
  }

  private func onConnection(_ connection: Connection, _ item: MyCustomValue, _ items: [MyCustomValue]) throws {
    try connection.write(item)
    try connection.write(items)
    try connection.write { transaction in try transaction.write(item) }
    let index = try item.rowKey
    let keys = items.map(\.id)
    let byIndex: MyCustomValue? = try connection.read(at: index)
    let byKey: MyCustomValue? = try connection.read(item.id)
    let byKeys: [MyCustomValue] = try connection.read(keys: keys)
    let byIndexes: [MyCustomValue] = try connection.read(at: try MyCustomValue.rowKeys(keys))
    let all: [MyCustomValue] = try connection.readAll()
    #expect(byIndex == item && byKey == item && byKeys == items && byIndexes == items && all.count == 3)
    let metadata = try connection.readMetadata(at: index, of: MyCustomValue.self)
    let several = try connection.readMetadata(keys: keys, of: MyCustomValue.self)
    #expect(metadata?.isRead == true && several.map(\.isRead) == [false])

    #expect(try item.write(to: connection) == item)
    let at: MyCustomValue? = try MyCustomValue.read(from: connection).at(index)
    #expect(at == item)
    #expect(try MyCustomValue.read(from: connection).byKey(item.id) == item)
    #expect(try MyCustomValue.read(from: connection).all().count == 3)
    let missing = UUID()
    let found = try MyCustomValue.read(from: connection).filterExisting(keys + [missing])
    #expect(found.existing == items && found.missing == [missing])
    #expect(try items.remove(from: connection) == 2)
    #expect(try connection.readAll(MyCustomValue.self) == [item])
    try items.write(to: connection)
  }
}

extension SeedTests.Book {
  init(_ book: SeedTests.BookStore.BookV1) {
    self.init(
      id: book.id, title: SeedTests.SortableTitle(rawValue: book.title),
      authors: [SeedTests.AuthorID(rawValue: book.author)])
  }
}
