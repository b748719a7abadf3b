import EngineTestSupport
import Testing
import VarveEngine

@testable import ObjectFixtures
@testable import Varve

/// Changes to the catalog while it is reloaded.
struct CatalogLoadTests {
  private struct Book: Codable, Sendable { var title: String }

  @Test func `a definition that is added while the catalog is reloaded is kept`() throws {
    let database = try Database.inMemory()
    try database.write { tx in try tx.set(Book(title: "Emma"), key: 1, in: "books") }
    let catalog = database.core.catalog
    #expect(catalog.collection("books")?.definition == nil)
    let books = CollectionDefinition("books", Book.self, key: Int.self)
    let snapshot = InterruptedSnapshot(try database.core.backend.snapshot()) { key in
      // All collections have been read at this point.
      if key == CatalogKey.nextCollection { try database.define(books) }
    }
    try catalog.load(snapshot)
    #expect(catalog.collection("books")?.definition != nil)
    #expect(throws: DatabaseError.self) { try database.define(books) }
    try database.close()
  }

  @Test(arguments: [1, 2, 3], [false, true])
  func `a reader finds the collection as of its snapshot after a later reader has refreshed the catalog`(
    drops: Int, latestFirst: Bool
  ) throws {
    let database = try Database.inMemory()
    let backend = database.core.backend
    /// The catalog of a process that does not write.
    let follower = Catalog(backend: backend, families: database.core.catalog.families, definitions: [:])
    func fill() throws -> any StorageSnapshot {
      try database.write { tx in try tx.set("a", key: 1, in: "books") }
      return try backend.snapshot()
    }
    var snapshots = [try fill()]
    try follower.refresh(snapshots[0])
    for _ in 0..<drops {
      try database.dropCollection("books")
      snapshots.append(try fill())
    }
    let ids = try snapshots.map { snapshot in
      let record = try snapshot.value(of: CatalogKey.collection("books"), in: follower.families.catalog)
      return try CollectionRecord(#require(record), name: "books").id
    }
    #expect(Set(ids).count == drops + 1)
    // Simulates another thread that took a later snapshot and refreshed the catalog first.
    let later = try fill()
    try follower.refresh(later)
    let overtaken = Array(zip(snapshots, ids).dropFirst())
    for (snapshot, id) in latestFirst ? overtaken.reversed() : overtaken {
      try follower.refresh(snapshot)
      #expect(follower.collection("books", at: snapshot.version)?.record.id == id)
    }
    for (snapshot, id) in zip(snapshots, ids) {
      #expect(follower.collection("books", at: snapshot.version)?.record.id == id)
    }
    #expect(follower.collection("books", at: later.version)?.record.id == ids.last)
    #expect(follower.collection("books")?.record.id == ids.last)
    try database.close()
  }
}

/// A snapshot that runs other work before it returns a value.
private final class InterruptedSnapshot: StorageSnapshot {
  private let base: any StorageSnapshot
  private let body: @Sendable ([UInt8]) throws -> Void

  init(_ base: any StorageSnapshot, _ body: @escaping @Sendable ([UInt8]) throws -> Void) {
    self.base = base
    self.body = body
  }

  var version: CommitVersion { base.version }

  func visit(_ key: [UInt8], in family: StorageFamily, _ body: (RawSpan) throws -> Void) throws {
    try self.body(key)
    try base.visit(key, in: family, body)
  }

  func values(of keys: [[UInt8]], in family: StorageFamily) throws -> [[UInt8]?] {
    try base.values(of: keys, in: family)
  }

  func page(
    _ range: StorageRange, in family: StorageFamily, isReverse: Bool, keysOnly: Bool, byteLimit: Int, rowLimit: Int
  ) throws -> StoragePage {
    try base.page(
      range, in: family, isReverse: isReverse, keysOnly: keysOnly, byteLimit: byteLimit, rowLimit: rowLimit)
  }
}
