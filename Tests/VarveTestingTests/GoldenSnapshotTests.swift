import Foundation
import Testing
import Varve

@testable import VarveTesting

/// Tests of databases of older versions that the present version opens.
struct GoldenSnapshotTests {
  private static func old(_ id: Int, author: String = "Jane Austen") -> OldBook {
    OldBook(id: id, title: "book \(id)", author: author)
  }

  private static func golden(_ count: Int = 3) throws -> Golden {
    try Golden {
      for id in 0..<count {
        Fixture(OldBookFormat.self, old(id), metadata: id.isMultiple(of: 2) ? id : nil)
      }
    }
  }

  @Test func `rows of an older version are migrated before the closure receives the database`() throws {
    let golden = try Self.golden(2_500)
    let before = try golden.files()
    let definition = DatabaseDefinition { BookFormat.self }
    let version = try golden.snapshot.open(definition: definition) { database in
      let books = Store<BookFormat>(in: database)
      let all = try database.read { tx in try Array(books.load(..., in: tx)) }
      #expect(all == (0..<2_500).map { Book(id: $0, title: "book \($0)", authors: ["Jane Austen"]) })
      #expect(try database.read { tx in try books.metadata(of: 4, in: tx) } == Stars(stars: 4))
      #expect(try books.migrate() == 0, "nothing is left")
      return try database.read { tx in tx.version }
    }
    #expect(version > .zero)
    #expect(try golden.files() == before)
    #expect(golden.leftovers.isEmpty)
  }

  @Test func `the writes of a test do not change the snapshot, which may be opened again and concurrently`()
    async throws
  {
    let golden = try Self.golden()
    let before = try golden.files()
    let definition = DatabaseDefinition { BookFormat.self }
    try await golden.snapshot.open(definition: definition) { first in
      let books = Store<BookFormat>(in: first)
      try await books.delete(...)
      try await golden.snapshot.open(definition: definition) { second in
        #expect(first.path != second.path)
        #expect(try await Store<BookFormat>(in: second).count == 3)
        try await second.close()
      }
      #expect(try await books.count == 0)
    }
    #expect(try golden.files() == before)
    #expect(golden.leftovers.isEmpty)
  }

  @Test func `read-only files of a snapshot are copied as writable files`() throws {
    let golden = try Self.golden()
    for name in try golden.files().keys {
      try FileManager.default.setAttributes([.posixPermissions: 0o444], ofItemAtPath: golden.path + "/" + name)
    }
    try golden.snapshot.open(definition: DatabaseDefinition { BookFormat.self }) { database in
      let path = database.path
      for name in try FileManager.default.contentsOfDirectory(atPath: path) {
        let attributes = try FileManager.default.attributesOfItem(atPath: path + "/" + name)
        #expect((attributes[.posixPermissions] as? NSNumber).map { $0.intValue & 0o200 } == 0o200)
      }
      try Store<BookFormat>(in: database).database.fill {
        Fixture(BookFormat.self, Book(id: 100, title: "new", authors: []))
      }
    }
  }

  @Test func `an error of the closure is rethrown, and no files remain`() async throws {
    let golden = try Self.golden()
    let definition = DatabaseDefinition { BookFormat.self }
    func stop() throws { throw NoAuthor() }
    await #expect(throws: NoAuthor.self) {
      try await golden.snapshot.open(definition: definition) { _ in try stop() }
    }
    #expect(golden.leftovers.isEmpty)
  }

  // MARK: - What is refused

  private static func error(_ golden: Golden, _ definition: DatabaseDefinition) -> DatabaseError? {
    do {
      try golden.snapshot.open(definition: definition) { _ in _ = Issue.record("the closure should not run") }
    } catch {
      return error as? DatabaseError
    }
    return nil
  }

  @Test func `a row that the current version can't convert is named by the error`() throws {
    let golden = try Golden {
      Fixture(OldBookFormat.self, Self.old(1), Self.old(42, author: ""))
    }
    let error = Self.error(golden, DatabaseDefinition { BookFormat.self })
    #expect(error?.code == .decodingFailed)
    #expect(error?.collection == "books")
    #expect(error?.key == "42")
    #expect(error?.cause is NoAuthor)
    #expect(golden.leftovers.isEmpty)
  }

  @Test func `a row of the current version that can't be decoded is named by the error`() throws {
    struct Narrow: StoreFormat {
      static let collection = "shelves"
      struct Instance: Codable, Identifiable, Sendable {
        var id: String
        var subject: Int
      }
    }
    let golden = try Golden(DatabaseDefinition { ShelfFormat.self }) {
      Fixture(ShelfFormat.self, Shelf(id: "a", subject: "novels"))
    }
    let error = Self.error(golden, DatabaseDefinition { Narrow.self })
    #expect(error?.code == .decodingFailed)
    #expect(error?.collection == "shelves" && error?.key == "\"a\"")
    #expect(golden.leftovers.isEmpty)
  }

  @Test func `the error of metadata that can't be decoded names its row`() throws {
    struct Narrow: StoreFormat {
      static let collection = "photos"
      struct Instance: Codable, Identifiable, Sendable {
        var id: Int
        var name: String
      }
      struct Metadata: Codable, Sendable { var height: Int }
    }
    let golden = try Golden(DatabaseDefinition()) {
      Photo(id: 1, name: "Bath")
      Photo(id: 2, name: "Lyme", metadata: Photo.Size(width: 640))
    }
    let error = Self.error(golden, DatabaseDefinition { Narrow.self })
    #expect(error?.code == .decodingFailed)
    #expect(error?.collection == "photos" && error?.key == "2")
  }

  @Test func `a row of a version that the program does not know is refused, and the error names it`() throws {
    let golden = try Golden(DatabaseDefinition { BookFormat.self }) {
      Fixture(BookFormat.self, Book(id: 7, title: "from the future", authors: []))
    }
    let error = Self.error(golden, DatabaseDefinition { OldBookFormat.self })
    #expect(error?.code == .unsupportedVersion)
    #expect(error?.collection == "books" && error?.key == "7")
    #expect(error?.message.contains("2026-02-11") == true)
    #expect(golden.leftovers.isEmpty)
  }

  @Test func `a conversion that changes an identifier is an error`() throws {
    struct Renumbered: StoreFormat {
      static let collection = "shelves"
      typealias Instance = Shelf
      static func decode(_ stored: StoredValue, version: SingleVersion) throws -> Shelf {
        var shelf = try stored.decode(Shelf.self)
        if shelf.id == "b" { shelf.id = "c" }
        return shelf
      }
    }
    let golden = try Golden(DatabaseDefinition { ShelfFormat.self }) {
      Fixture(ShelfFormat.self, Shelf(id: "a", subject: "novels"), Shelf(id: "b", subject: "poems"))
    }
    let error = Self.error(golden, DatabaseDefinition { Renumbered.self })
    #expect(error?.code == .decodingFailed)
    #expect(error?.collection == "shelves" && error?.key == "\"b\"")
  }

  @Test func `another type of key is refused`() throws {
    struct Numbered: StoreFormat {
      static let collection = "shelves"
      struct Instance: Codable, Identifiable, Sendable { var id: Int }
    }
    let golden = try Golden(DatabaseDefinition { ShelfFormat.self }) {
      Fixture(ShelfFormat.self, Shelf(id: "a", subject: "novels"))
    }
    #expect(Self.error(golden, DatabaseDefinition { Numbered.self })?.code == .definitionDiffers)
    #expect(golden.leftovers.isEmpty)
  }

  @Test func `rows without a format are decoded as the type in the definition, or else only read as bytes`() throws {
    let golden = try Golden(DatabaseDefinition()) {
      Fixture("greetings", [1: "hello", 2: "good day"])
      Fixture("dates", key: true, Date(timeIntervalSince1970: 0), metadata: "epoch")
    }
    func definition<Object: Codable & Sendable>(_ type: Object.Type) throws -> DatabaseDefinition {
      let definition = DatabaseDefinition {
        CollectionDefinition("greetings", type, key: Int.self)
      }
      return definition
    }
    try golden.snapshot.open(definition: try definition(String.self)) { database in
      let count = try database.read { tx in try tx.count() }
      #expect(count == 3)
    }
    let error = Self.error(golden, try definition(Int.self))
    #expect(error?.code == .decodingFailed)
    #expect(error?.collection == "greetings" && error?.key == "1")
  }

  @Test(arguments: [".sst", "MANIFEST-000001", "CURRENT"])
  func `a damaged snapshot is an error, never an empty database`(suffix: String) throws {
    let golden = try Self.golden(200)
    #expect(try golden.damage(suffix) > 0)
    let before = try golden.files()
    var options = DatabaseOptions()
    options.onCorruption = .renameAside
    options.isReadOnly = true
    let error = databaseError {
      try golden.snapshot.open(definition: DatabaseDefinition { BookFormat.self }, options: options) { _ in }
    }
    #expect(error?.code == .corruption, "\(String(describing: error))")
    #expect(try golden.files() == before)
    #expect(golden.leftovers.isEmpty)
  }

  @Test func `a missing snapshot is an error, not an empty database`() throws {
    let golden = try Golden()
    #expect(Self.error(golden, DatabaseDefinition())?.code == .notFound)
    try FileManager.default.createDirectory(atPath: golden.path, withIntermediateDirectories: true)
    #expect(Self.error(golden, DatabaseDefinition())?.code == .notADatabase)
    #expect(golden.leftovers.isEmpty)
    let url = try #require(URL(string: "https://example.com/golden"))
    #expect(databaseError { _ = try GoldenSnapshot(at: url) }?.code == .invalidArgument)
  }

  // MARK: - Writing

  @Test func `a written snapshot is small, and opens like any other database`() throws {
    let golden = try Self.golden(1_000)
    let files = try golden.files()
    #expect(files.values.reduce(0) { $0 + $1.count } < 100_000, "\(files.mapValues(\.count))")
    #expect(golden.leftovers.isEmpty)
    // The snapshot is a database like any other.
    let database = try Database.open(at: golden.path, definition: DatabaseDefinition { OldBookFormat.self })
    #expect(try database.read { tx in try tx.count(in: "books") } == 1_000)
    try database.close()
  }

  @Test func `an asynchronous closure can write a snapshot`() async throws {
    let golden = try Golden()
    try await golden.snapshot.write(definition: DatabaseDefinition { OldBookFormat.self }) { database in
      try await Store<OldBookFormat>(in: database).persist(Self.old(1))
    }
    let count = try await golden.snapshot.open(definition: DatabaseDefinition { BookFormat.self }) { database in
      try await Store<BookFormat>(in: database).count
    }
    #expect(count == 1)
    #expect(golden.leftovers.isEmpty)
  }

  @Test func `an existing snapshot is never overwritten`() throws {
    let golden = try Self.golden()
    let before = try golden.files()
    let error = databaseError {
      try golden.snapshot.write(definition: DatabaseDefinition()) { _ in _ = Issue.record("the closure should not run")
      }
    }
    #expect(error?.code == .alreadyExists)
    #expect(try golden.files() == before)
    #expect(golden.leftovers.isEmpty)
  }

  @Test func `a snapshot whose writing fails leaves no files`() throws {
    let golden = try Golden()
    #expect(throws: NoAuthor.self) {
      try golden.snapshot.write(definition: DatabaseDefinition()) { database in
        try database.fill { Fixture("greetings", key: 1, "hello") }
        throw NoAuthor()
      }
    }
    #expect(!FileManager.default.fileExists(atPath: golden.path))
    #expect(golden.leftovers.isEmpty)
  }

  @Test func `the path of a snapshot is relative to the source file that names it`() {
    let file: String = #filePath
    let folder = file.split(separator: "/").dropLast().joined(separator: "/")
    #expect(GoldenSnapshot("Golden/2025-05").path == "/\(folder)/Golden/2025-05")
    #expect(GoldenSnapshot(at: "/golden").path == "/golden")
  }
}
