import Foundation
import Synchronization
import Testing
import Varve

@testable import ObjectFixtures

/// Tests of the examples with indexes from the CodableDatastore document that the project grew from, in its own
/// spelling; the other examples are in `SeedTests`.
struct SeedIndexTests {
  struct SortableTitle: RawRepresentable, Codable, Hashable, Comparable, Sendable, KeyCodable,
    ExpressibleByStringLiteral
  {
    var rawValue: String
    init(rawValue: String) { self.rawValue = rawValue }
    init(stringLiteral value: String) { rawValue = value }
    static func < (left: Self, right: Self) -> Bool { left.rawValue < right.rawValue }
  }

  struct AuthorID: RawRepresentable, Codable, Hashable, Sendable, KeyCodable { var rawValue: String }
  struct ISBN: RawRepresentable, Codable, Hashable, Sendable, KeyCodable {
    var rawValue: String
    /// Returns the ISBN of a book that had none.
    static func generate(for id: UUID) -> ISBN { ISBN(rawValue: "none \(id)") }
  }

  struct BookStore: DecoderTableFormat {
    static let defaultKey = "BooksStore"
    static let collection = defaultKey
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
      var isbn: ISBN
      var genre = "novel"
      var shelfID: Int?
    }

    static let decoders: Decoders = [
      .v1: { try Book($0.decode(BookV1.self)) },
      .current: { try $0.decode() },
    ]

    let title = Index(\.title)
    let author = ManyToManyIndex(\.authors)
    @Direct var isbn = OneToOneIndex(\.isbn)
  }

  typealias Book = BookStore.Book

  struct AuthorStore: StoreFormat {
    static let collection = "AuthorStore"
    struct Instance: Codable, Identifiable, Hashable, Sendable {
      var id: AuthorID
      var fullname: String
    }
    let fullname = Index(\.fullname)
  }

  struct ShelfStore: StoreFormat {
    static let collection = "ShelfStore"
    struct Instance: Codable, Identifiable, Hashable, Sendable {
      var id: Int
      var genre: String
    }
    let genre = OneToOneIndex(\.genre)
  }

  actor LibraryPersistence {
    let database: Database
    let books: Store<BookStore>
    let authors: Store<AuthorStore>
    let shelves: Store<ShelfStore>
    private(set) var lines: [String] = []

    init(_ backend: SharedBackend) async throws {
      database = try backend.open(
        DatabaseDefinition {
          BookStore.self
          AuthorStore.self
          ShelfStore.self
        })
      books = Store(in: database)
      authors = Store(in: database)
      shelves = Store(in: database)
      let printed = Mutex<[String]>([])
      try await books.warm { progress in
        switch progress {
        case .evaluating: printed.withLock { $0.append("Checking Books…") }
        case .working(let current, let total):
          printed.withLock { $0.append("  → Migrating \(current + 1)/\(total) Books…") }
        case .complete(let total): printed.withLock { $0.append("  ✓ Finished checking \(total) Books!") }
        }
      }
      try await authors.warm()
      try await shelves.warm()
      lines = printed.withLock { $0 }
    }
  }

  struct NotFound: Error {}

  @Test func `books are found by title, author and ISBN, and authors by name`() async throws {
    let library = try await LibraryPersistence(SharedBackend())
    #expect(await library.lines == ["Checking Books…", "  ✓ Finished checking 0 Books!"])
    let dimitri = AuthorStore.Instance(id: AuthorID(rawValue: "d"), fullname: "Dimitri Bouniol")
    let isbn = ISBN(rawValue: "978-0")
    let book = Book(id: UUID(), title: "Avalanche", authors: [dimitri.id], isbn: isbn)
    try await library.authors.persist(dimitri)
    try await library.books.persist(book)
    try await library.books.persist(Book(id: UUID(), title: "Boulder", authors: [], isbn: ISBN(rawValue: "978-1")))

    let bookByID = try await library.books.load(book.id)
    let bookByISBN = try await library.books.load(.value(isbn), from: \.isbn)
    #expect(bookByID == book && bookByISBN == book)
    for try await found in library.books.load(.range("A"..<"B"), from: \.title) { #expect(found.title == "Avalanche") }
    #expect(try await library.books.load(.range("A"..<"B"), from: \.title).collect() == [book])
    guard
      let found = try await library.authors.load(.value("Dimitri Bouniol"), from: \.fullname).first(where: { _ in true }
      )
    else { throw NotFound() }
    for try await written in library.books.load(.value(found.id), from: \.author) { #expect(written == book) }
    #expect(try await library.books.load(.value(found.id), from: \.author).collect() == [book])
    // The document says "A one to one index where every isbn points to exactly one book": here it is enforced.
    let double = Book(id: UUID(), title: "Double", authors: [], isbn: isbn)
    #expect(await errorCode { try await library.books.persist(double) } == .notUnique)
  }

  @Test func `books are put on the shelves of their genres, or nothing is written`() async throws {
    let library = try await LibraryPersistence(SharedBackend())
    let newAuthor = AuthorStore.Instance(id: AuthorID(rawValue: "d"), fullname: "Dimitri")
    let newBooks = [Book(id: UUID(), title: "A", authors: [newAuthor.id], isbn: ISBN(rawValue: "1"))]
    func addBooks() async throws {
      try await library.database.perform {
        try await library.authors.persist(newAuthor)
        for var newBook in newBooks {
          guard let shelf = try await library.shelves.load(.value(newBook.genre), from: \.genre) else {
            throw NotFound()
          }
          newBook.shelfID = shelf.id
          try await library.books.persist(newBook)
        }
      }
    }
    await #expect(throws: NotFound.self) { try await addBooks() }
    #expect(try await library.authors.load(.value("Dimitri"), from: \.fullname).collect().isEmpty)
    try await library.shelves.persist(ShelfStore.Instance(id: 7, genre: "novel"))
    try await addBooks()
    #expect(try await library.books.load(.value(ISBN(rawValue: "1")), from: \.isbn)?.shelfID == 7)
  }

  @Test func `books of the first version are in the indexes of the current one`() async throws {
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
    let first = try backend.open()
    try await Store<FirstStore>(in: first).persist(FirstStore.Instance(id: id, title: "Emma", author: "Austen"))
    try await first.close()

    let library = try await LibraryPersistence(backend)
    #expect(await library.lines.last == "  ✓ Finished checking 1 Books!")
    #expect(
      try await library.books.load(.value(AuthorID(rawValue: "Austen")), from: \.author).collect().map(\.id) == [id])
    #expect(try await library.books.load(.value(.generate(for: id)), from: \.isbn)?.title == "Emma")
  }
}

extension SeedIndexTests.BookStore.Book {
  init(_ book: SeedIndexTests.BookStore.BookV1) {
    self.init(
      id: book.id, title: SeedIndexTests.SortableTitle(rawValue: book.title),
      authors: [SeedIndexTests.AuthorID(rawValue: book.author)], isbn: .generate(for: book.id))
  }
}
