import EngineTestSupport
import Foundation
import Varve
import VarveTestSupport

/// The location of a test's database: tests of the API that supports several locations run in each of them.
enum StoreLocation: CaseIterable, Sendable {
  case memory, disk
  /// A storage other than the engine, whose commits become durable late.
  case toy

  /// Opens a database that is closed and removed when the returned object is deallocated.
  func open(_ definition: DatabaseDefinition = DatabaseDefinition()) throws -> OpenDatabase {
    switch self {
    case .memory: return OpenDatabase(try Database.inMemory(definition: definition), nil)
    case .toy:
      var faults = ToyFaults(seed: 7)
      faults.lateOneIn = 2
      faults.yieldMaximum = 2
      faults.atOnceOneIn = 2
      let limits = StorageLimits(keySize: 65_535, valueSize: 1 << 30, batchSize: 1 << 30)
      let backend = ToyBackend(limits: limits, faults: faults)
      return OpenDatabase(try Database.open(backend, path: "toy", definition: definition), nil)
    case .disk:
      let directory = try TemporaryDirectory()
      return OpenDatabase(try OpenDatabase.database(in: directory, definition), directory)
    }
  }
}

/// A database and its directory, which have the same lifetime.
final class OpenDatabase: Sendable {
  let database: Database
  private let directory: TemporaryDirectory?

  init(_ database: Database, _ directory: TemporaryDirectory?) {
    self.database = database
    self.directory = directory
  }

  deinit { try? OpenDatabase.close(database) }

  /// Calls the synchronous `read` and `write`. Names without asynchronous overloads let asynchronous tests call them.
  func reading<Result>(_ body: (ReadTransaction) throws -> Result) throws -> Result { try database.read(body) }
  @discardableResult
  func writing<Result>(_ body: (WriteTransaction) throws -> Result) throws -> Result { try database.write(body) }

  static func database(
    in directory: TemporaryDirectory, _ definition: DatabaseDefinition = DatabaseDefinition(),
    options: DatabaseOptions = DatabaseOptions()
  ) throws -> Database {
    try Database.open(at: directory.path + "/database", definition: definition, options: options)
  }

  static func close(_ database: Database) throws { try database.close() }
}

/// A format with the versions of a book from the seed document, two of which have shipped.
struct BookFormat: StoreFormat {
  static let collection = "books"
  static let currentVersion = Version.current
  enum Version: String, CaseIterable, Sendable { case v1 = "2024-04-01", current = "2024-04-09" }

  typealias Instance = Book

  struct BookV1: Codable, Identifiable, Sendable {
    var id: UUID
    var title: String
    var author: String
  }

  struct Book: Codable, Identifiable, Hashable, Sendable {
    var id: UUID
    var title: String
    var authors: [String]
    var year: Int = 0
  }

  static func decode(_ stored: StoredValue, version: Version) throws -> Book {
    switch version {
    case .v1: try Book(stored.decode(BookV1.self))
    case .current: try stored.decode()
    }
  }
}

extension BookFormat.Book {
  init(_ book: BookFormat.BookV1) { self.init(id: book.id, title: book.title, authors: [book.author]) }
}

typealias Book = BookFormat.Book

/// A format with one version, metadata, and an integer identifier.
struct NoteFormat: StoreFormat {
  static let collection = "notes"
  struct Instance: Codable, Identifiable, Hashable, Sendable {
    var id: Int
    var text: String
  }
  struct Metadata: Codable, Hashable, Sendable { var stars: Int }
}

typealias Note = NoteFormat.Instance
typealias Stars = NoteFormat.Metadata

extension Note {
  init(_ id: Int) { self.init(id: id, text: "note \(id)") }
}

/// A persistable type with a collection.
struct Item: Persistable, Hashable {
  static let collection = "items"
  var id: String
  var count: Int
}

/// A persistable type with a collection, and with metadata that is stored separately.
struct Photo: Persistable, Hashable {
  struct Size: Codable, Hashable, Sendable { var width: Int }
  static let collection = "photos"
  var id: Int
  var name: String
  @StoredSeparately var metadata: Size? = nil
}

struct StoreStop: Error {}

/// Returns the code of the `DatabaseError` that `body` throws, or `nil` if it throws none or another error.
func errorCode(_ body: () throws -> Void) -> DatabaseError.Code? {
  do { try body() } catch { return (error as? DatabaseError)?.code }
  return nil
}

/// Returns the code of the `DatabaseError` that an asynchronous body throws, or `nil` if it throws none or another
/// error.
func errorCode(_ body: () async throws -> Void) async -> DatabaseError.Code? {
  do { try await body() } catch { return (error as? DatabaseError)?.code }
  return nil
}
