import Foundation
import Varve
import VarveEngine

extension Book: Persistable {
  static let collection = VarveObjects.collection
}

/// Varve's object floor through its public API: the rows door and a typed struct, by the collection's definition.
///
/// Settings: those matched between all engines, through an engine that is opened as the key-value rows open it; of the
/// object floor its defaults, the durable feed of changes and the change sets included, which the peers don't have.
/// A commit is `.process` by default: it survives the process, and what a loss of power takes away is the last
/// commits and nothing else. With `--sync` it is `.power`.
final class VarveObjects: ObjectEngine {
  fileprivate static let collection = "books"

  private let database: Database
  private let backend: EngineBackend

  static var hasSessionsForThreads: Bool { true }
  static var version: String { VarveAdapter.version }
  static func fileUse(_ name: String) -> FileUse { VarveAdapter.fileUse(name) }

  init(path: String, settings: EngineSettings) throws {
    backend = try EngineBackend(VarveAdapter.openEngine(path: path, settings: settings))
    let definition = DatabaseDefinition {
      CollectionDefinition(Self.collection, Book.self, key: UUID.self)
    }
    database = try Database.open(backend, path: path, definition: definition)
  }

  func makeSession(sync: Bool) throws -> VarveObjectSession { VarveObjectSession(database, sync: sync) }
  func compact() throws { try backend.engine.compact() }

  func waitForCompaction() throws -> UInt64 {
    try backend.engine.waitForCompaction()
    return 0
  }

  func counters() -> EngineCounters { VarveAdapter.counters(backend.engine) }
  func close() throws { try database.close() }
}

final class VarveObjectSession: ObjectSession {
  private let database: Database
  private let durability: StorageDurability
  private let collection = VarveObjects.collection
  private var sink = 0

  init(_ database: Database, sync: Bool) {
    self.database = database
    durability = sync ? .power : .process
  }

  func insert(_ count: Int, _ next: () -> Book) throws {
    try database.write(durability: durability) { tx in
      for _ in 0..<count {
        let book = next()
        try tx.set(book, key: book.id, in: collection)
      }
    }
  }

  func insertSuspended(_ book: Book) async throws {
    try await database.write(durability: durability) { [collection] tx in
      try tx.set(book, key: book.id, in: collection)
    }
  }

  func read(_ count: Int, _ next: () -> UUID) throws -> Int {
    try database.read { tx in
      var found = 0
      for _ in 0..<count {
        guard let book = try tx.object(Book.self, key: next(), in: collection) else { continue }
        sink &+= book.touched
        found += 1
      }
      return found
    }
  }

  func readRaw(_ count: Int, _ next: () -> UUID) throws -> Int {
    try database.read { tx in
      var found = 0
      for _ in 0..<count {
        guard let bytes = try tx.objectBytes(key: next(), in: collection) else { continue }
        touch(bytes)
        found += 1
      }
      return found
    }
  }

  func readBatch(_ ids: [UUID]) throws -> Int {
    try database.read { tx in
      var found = 0
      for row in try tx.rows(keys: ids, in: collection) {
        guard let row else { continue }
        touch(row.objectBytes)
        found += 1
      }
      return found
    }
  }

  func readSuspended(_ id: UUID) async throws -> Bool {
    guard let book = try await Book.load(id, in: database) else { return false }
    sink &+= book.touched
    return true
  }

  func scan(_ body: () -> Bool) throws {
    try database.read { tx in
      var rows = try tx.rows(in: collection)
      while let row = try rows.next() {
        sink &+= try row.object(as: Book.self).touched
        guard body() else { return }
      }
    }
  }

  func count() throws -> Int { try database.read { tx in try tx.count(in: collection) } }
  func book(_ id: UUID) throws -> Book? { try database.read { tx in try tx.object(key: id, in: collection) } }
  func close() {}

  @inline(__always)
  private func touch(_ bytes: [UInt8]) {
    bytes.withUnsafeBytes { bytes in
      if let base = bytes.baseAddress { sink &+= Int(Touch.bytes(base, bytes.count)) }
    }
  }
}
