import Foundation
import Varve
import VarveTesting

/// The format of books in the first version of a program.
struct OldBookFormat: StoreFormat {
  static let collection = "books"
  static let currentVersion = Version.first
  enum Version: String, CaseIterable, Sendable { case first = "2025-05-01" }

  struct Instance: Codable, Identifiable, Hashable, Sendable {
    var id: Int
    var title: String
    var author: String
  }
  typealias Metadata = Int

  static func decode(_ stored: StoredValue, version: Version) throws -> Instance { try stored.decode() }
  static func decodeMetadata(_ stored: StoredValue, version: Version) throws -> Int { try stored.decode() }
}

/// The format of books in the present version of the program: several authors, and other metadata.
struct BookFormat: StoreFormat {
  static let collection = "books"
  static let currentVersion = Version.authors
  enum Version: String, CaseIterable, Sendable { case first = "2025-05-01", authors = "2026-02-11" }

  struct Instance: Codable, Identifiable, Hashable, Sendable {
    var id: Int
    var title: String
    var authors: [String]
  }
  struct Metadata: Codable, Hashable, Sendable { var stars: Int }

  static func decode(_ stored: StoredValue, version: Version) throws -> Instance {
    switch version {
    case .first:
      let old = try stored.decode(OldBookFormat.Instance.self)
      if old.author.isEmpty { throw NoAuthor() }
      return Instance(id: old.id, title: old.title, authors: [old.author])
    case .authors: return try stored.decode()
    }
  }

  static func decodeMetadata(_ stored: StoredValue, version: Version) throws -> Metadata {
    switch version {
    case .first: Metadata(stars: try stored.decode(Int.self))
    case .authors: try stored.decode()
    }
  }
}

struct NoAuthor: Error {}

typealias Book = BookFormat.Instance
typealias OldBook = OldBookFormat.Instance
typealias Stars = BookFormat.Metadata

/// A format with one version and no metadata.
struct ShelfFormat: StoreFormat {
  static let collection = "shelves"
  struct Instance: Codable, Identifiable, Hashable, Sendable {
    var id: String
    var subject: String
  }
}

typealias Shelf = ShelfFormat.Instance

/// A persistable type with a collection, and with metadata that is stored separately.
struct Photo: Persistable, Hashable {
  struct Size: Codable, Hashable, Sendable { var width: Int }
  static let collection = "photos"
  var id: Int
  var name: String
  @StoredSeparately var metadata: Size? = nil
}

/// Returns the error that a body throws, if it is a `DatabaseError`.
func databaseError(_ body: () throws -> Void) -> DatabaseError? {
  do { try body() } catch { return error as? DatabaseError }
  return nil
}

/// Returns the error that an asynchronous body throws, if it is a `DatabaseError`.
func databaseError(_ body: () async throws -> Void) async -> DatabaseError? {
  do { try await body() } catch { return error as? DatabaseError }
  return nil
}

/// Calls the blocking `read` on this thread, also from a task.
func reading<Result>(_ database: Database, _ body: (ReadTransaction) throws -> Result) throws -> Result {
  try database.read(body)
}
