import Foundation
import Varve
import VarveEngine

extension Book: Persistable {
  static let collection = VarveObjects.collection
}

/// Varve's object database through its public API: the rows API with a typed struct, by the collection's definition.
///
/// Settings: those matched between all engines, through an engine that is opened as for the key-value workloads. The
/// object database has its defaults, including the durable feed of changes and the change sets, which the peers don't
/// have. A commit is `.process` by default: it survives the death of the process, and a power loss removes only the
/// last commits. With `--sync` it is `.power`.
final class VarveObjects: ObjectEngine, @unchecked Sendable {
  // Unchecked: mutable state changes only in `buildIndexes`, which one thread calls while no session is used.
  fileprivate static let collection = "books"

  private var database: Database
  private var backend: EngineBackend
  private let path: String
  private let settings: EngineSettings
  /// The table bytes written by the engine that was open before.
  private var writtenBefore: UInt64 = 0

  static var hasSessionsForThreads: Bool { true }
  static var version: String { VarveAdapter.version }
  static func fileUse(_ name: String) -> FileUse { VarveAdapter.fileUse(name) }

  init(path: String, settings: EngineSettings) throws {
    (self.path, self.settings) = (path, settings)
    (backend, database) = try Self.open(path, settings, settings.indexes)
  }

  private static func open(
    _ path: String, _ settings: EngineSettings, _ indexes: BookIndexes?
  ) throws -> (EngineBackend, Database) {
    let backend = try EngineBackend(VarveAdapter.openEngine(path: path, settings: settings))
    let definition =
      switch indexes {
      case nil: DatabaseDefinition { CollectionDefinition(collection, Book.self, key: UUID.self) }
      case .some(.none): DatabaseDefinition { BooksPlain.self }
      case .two: DatabaseDefinition { BooksTwo.self }
      case .five: DatabaseDefinition { BooksFive.self }
      case .lookups: DatabaseDefinition { BooksUnique.self }
      }
    return (backend, try Database.open(backend, path: path, definition: definition))
  }

  func makeSession(sync: Bool) throws -> VarveObjectSession {
    VarveObjectSession(database, sync: sync, settings.indexes)
  }

  /// Measures the next start of a program whose definition has indexes, including the opening.
  func buildIndexes() throws {
    writtenBefore = counters().tableBytesWritten
    try database.close()
    (backend, database) = try Self.open(path, settings, .two)
    try Store<BooksTwo>(in: database).warm()
  }

  func compact() throws { try backend.engine.compact() }

  func waitForCompaction() throws -> UInt64 {
    try backend.engine.waitForCompaction()
    return 0
  }

  func counters() -> EngineCounters {
    var counters = VarveAdapter.counters(backend.engine)
    counters.tableBytesWritten += writtenBefore
    return counters
  }
  func close() throws { try database.close() }
}

final class VarveObjectSession: ObjectSession {
  private let database: Database
  private let durability: StorageDurability
  private let collection = VarveObjects.collection
  private var sink = 0
  /// The insert by a typed store, if the books have indexes or are compared with books that have.
  private let insert: ((Book, WriteTransaction) throws -> Void)?

  init(_ database: Database, sync: Bool, _ indexes: BookIndexes?) {
    self.database = database
    insert = indexes.map { indexes in
      func by<Format: StoreFormat>(_ format: Format.Type) -> (Book, WriteTransaction) throws -> Void
      where Format.Instance == Book {
        let store = Store<Format>(in: database)
        return { book, tx in try store.insert(book, in: tx) }
      }
      return switch indexes {
      case .none: by(BooksPlain.self)
      case .two: by(BooksTwo.self)
      case .five: by(BooksFive.self)
      case .lookups: by(BooksUnique.self)
      }
    }
    durability = sync ? .power : .process
  }

  func insert(_ count: Int, _ next: () -> Book) throws {
    try database.write(durability: durability) { tx in
      for _ in 0..<count {
        let book = next()
        if let insert { try insert(book, tx) } else { try tx.set(book, key: book.id, in: collection) }
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

  private var store: Store<BooksUnique> { Store(in: database) }

  func find(_ count: Int, direct: Bool, _ next: () -> UUID) throws -> Int {
    let store = store
    var found = 0
    for _ in 0..<count {
      let number = next()
      let book = try database.read { tx in
        direct
          ? try store.load(.value(number), from: \.direct, in: tx)
          : try store.load(.value(number), from: \.number, in: tx)
      }
      sink &+= book?.touched ?? 0
      found += book == nil ? 0 : 1
    }
    return found
  }

  func scanDates(from date: Date, count: Int) throws -> Int {
    try database.read { tx in
      try store.query.filter { $0.updated >= date }.sorted(by: \.updated).limit(count).values(of: \.updated, in: tx)
        .count
    }
  }

  func readByDate(from date: Date, count: Int, direct: Bool) throws -> Int {
    try database.read { tx in
      var books =
        direct
        ? try store.load(.range(date...), from: \.rows, limit: count, in: tx)
        : try store.load(.range(date...), from: \.updated, limit: count, in: tx)
      var found = 0
      while let book = try books.next() {
        sink &+= book.touched
        found += 1
      }
      return found
    }
  }

  func countDates(from date: Date) throws -> Int {
    try database.read { tx in try store.count(.range(date...), from: \.updated, in: tx) }
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
