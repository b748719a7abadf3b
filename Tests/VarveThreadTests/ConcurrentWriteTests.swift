import EngineTestSupport
import Foundation
import Testing
import VarveTestSupport

@testable import ObjectFixtures
@testable import Varve

/// Tests that concurrent writes are serializable: a write runs again if another one has changed what it read.
struct ConcurrentWriteTests {
  private struct Note: Codable, Hashable, Sendable { var text: String }

  private typealias Body = @Sendable (WriteTransaction) throws -> Void

  private struct Meeting: Sendable {
    let name: String
    /// Whether the closure has to run again.
    let isConflict: Bool
    let body: Body
    /// The changes of another writer between the closure and its commit.
    let other: Body
  }

  private static func insert(_ key: Int, in collection: String = "rows") -> Body {
    { try $0.set("new", key: key, in: collection) }
  }

  private static func insertItem(_ id: String) -> Body { { tx in _ = try Item(id: id, count: 1).persist(in: tx) } }

  private static let meetings: [Meeting] = [
    Meeting(name: "nothing read, another key", isConflict: false, body: insert(10), other: insert(11)),
    Meeting(name: "the same key", isConflict: true, body: insert(10), other: insert(10)),
    Meeting(
      name: "a row", isConflict: true, body: { _ = try $0.object(String.self, key: 1, in: "rows") },
      other: { try $0.set("new", key: 1, in: "rows") }),
    Meeting(
      name: "a row, another changed", isConflict: false, body: { _ = try $0.object(String.self, key: 1, in: "rows") },
      other: { try $0.set("new", key: 2, in: "rows") }),
    Meeting(
      name: "a missing row", isConflict: true, body: { _ = try $0.contains(key: 10, in: "rows") }, other: insert(10)),
    Meeting(
      name: "several rows", isConflict: true, body: { _ = try $0.rows(keys: [1, 10], in: "rows") }, other: insert(10)),
    Meeting(
      name: "a range", isConflict: true, body: { _ = try Array($0.rows(in: "rows", 3..<20)) }, other: insert(10)),
    Meeting(
      name: "a range beside", isConflict: false, body: { _ = try Array($0.rows(in: "rows", 3..<10)) },
      other: insert(10)),
    Meeting(name: "all rows", isConflict: true, body: { _ = try Array($0.rows(in: "rows")) }, other: insert(10)),
    Meeting(name: "a count", isConflict: true, body: { _ = try $0.count(in: "rows") }, other: insert(10)),
    Meeting(
      name: "a count, a row changed", isConflict: false, body: { _ = try $0.count(in: "rows") },
      other: { try $0.set("new", key: 1, in: "rows") }),
    Meeting(
      name: "a count after an insertion of one's own", isConflict: true,
      body: { tx in
        try tx.set("own", key: 20, in: "rows")
        _ = try tx.count(in: "rows")
      }, other: insert(10)),
    Meeting(
      name: "metadata", isConflict: true, body: { _ = try $0.metadata(Note.self, key: 2, in: "rows") },
      other: { _ = try $0.replaceMetadata(Note(text: "new"), key: 2, in: "rows") }),
    Meeting(
      name: "metadata of a row, when it is asked for", isConflict: true,
      body: { tx in _ = try tx.row(key: 2, in: "rows")?.metadata(as: Note.self) },
      other: { _ = try $0.replaceMetadata(Note(text: "new"), key: 2, in: "rows") }),
    Meeting(
      name: "a row whose metadata is not asked for", isConflict: false,
      body: { _ = try $0.row(key: 2, in: "rows")?.object(as: String.self) },
      other: { _ = try $0.replaceMetadata(Note(text: "new"), key: 2, in: "rows") }),
    Meeting(
      name: "a touched row", isConflict: true, body: { _ = try $0.touchRow(key: 1, in: "rows") },
      other: { _ = try $0.remove(key: 1, in: "rows") }),
    Meeting(
      name: "a range removed", isConflict: true, body: { _ = try $0.remove(in: "rows", 3..<20) }, other: insert(10)),
    Meeting(
      name: "a collection removed", isConflict: true, body: { _ = try $0.removeAll(in: "rows") }, other: insert(10)),
    Meeting(
      name: "a collection removed, and a row changed", isConflict: true, body: { _ = try $0.removeAll(in: "rows") },
      other: { try $0.set("new", key: 1, in: "rows") }),
    // The collection did not exist, which is a read, too.
    Meeting(
      name: "a row of a collection that is made", isConflict: true, body: { _ = try $0.contains(key: 1, in: "late") },
      other: insert(1, in: "late")),
    Meeting(
      name: "the count of a collection that is made", isConflict: true, body: { _ = try $0.count(in: "late") },
      other: insert(1, in: "late")),
    Meeting(
      name: "the count of all", isConflict: true, body: { _ = try $0.count() }, other: insert(1, in: "late")),
    Meeting(name: "the names", isConflict: true, body: { _ = try $0.collections() }, other: insert(1, in: "late")),
    Meeting(
      name: "a scan over all", isConflict: true, body: { _ = try Array($0.rows()) }, other: insert(1, in: "late")),
    Meeting(
      name: "everything removed", isConflict: true, body: { _ = try $0.removeAll() }, other: insert(1, in: "late")),
    Meeting(
      name: "both make a collection", isConflict: false, body: insert(1, in: "late"), other: insert(2, in: "late")),
    Meeting(
      name: "an item of a collection that is made", isConflict: true, body: { _ = try Item.load("a", in: $0) },
      other: insertItem("a")),
    Meeting(
      name: "all items of a collection that is made", isConflict: true,
      body: { tx in _ = try Array(Item.load(..., in: tx)) }, other: insertItem("a")),
    Meeting(
      name: "an instance of a store whose collection is made", isConflict: true,
      body: { tx in _ = try Store<NoteFormat>(in: Database(tx.database)).load(1, in: tx) },
      other: { tx in try Store<NoteFormat>(in: Database(tx.database)).persist(NoteFormat.Instance(1), in: tx) }),
    Meeting(
      name: "data of a collection that is made", isConflict: true,
      body: { tx in
        _ = try Store(of: Data.self, key: Int.self, in: Database(tx.database), collection: "late").load(1, in: tx)
      },
      other: { tx in
        try Store(of: Data.self, key: Int.self, in: Database(tx.database), collection: "late").persist(
          Data([1]), for: 1, in: tx)
      }),
    Meeting(
      name: "both make a collection by its type", isConflict: false, body: insertItem("a"), other: insertItem("b")),
  ]

  private static func open(_ kind: StorageKind) throws -> (StorageSite, Database) {
    let site = try StorageSite(kind)
    let database = try Database.open(try site.open(), path: "\(kind)")
    try database.write { tx in
      for key in 1...5 { try tx.set("old", key: key, in: "rows", metadata: key == 2 ? Note(text: "old") : nil) }
    }
    return (site, database)
  }

  @Test(arguments: [StorageKind.memory, .toy])
  func `a closure runs again exactly if another write has changed what it read`(kind: StorageKind) throws {
    for meeting in Self.meetings {
      let (site, database) = try Self.open(kind)
      var runCount = 0
      try database.writeConcurrently { tx in
        runCount += 1
        try meeting.body(tx)
        try tx.set("done \(runCount)", key: 0, in: "results")
        if runCount == 1 { Threads.run(1) { _ in try database.write(meeting.other) } }
      }
      #expect(runCount == (meeting.isConflict ? 2 : 1), "\(meeting.name), over \(kind)")
      try database.read { tx throws in
        #expect(try tx.object(String.self, key: 0, in: "results") == "done \(runCount)")
        var rows = try tx.rows(in: "rows")
        #expect(try tx.count(in: "rows") == rows.compactMap { $0.key }.count, "\(meeting.name), over \(kind)")
      }
      try database.close()
      withExtendedLifetime(site) {}
    }
  }

  @Test(arguments: [StorageKind.memory, .toy])
  func `a write that conflicts repeatedly gets the writer exclusively`(kind: StorageKind) throws {
    let (site, database) = try Self.open(kind)
    var isChecked: [Bool] = []
    let called = Called()
    let result = try database.writeConcurrently { tx in
      isChecked.append(tx.reads != nil)
      let before = try tx.object(String.self, key: 1, in: "rows") ?? ""
      try tx.set(before + "!", key: 1, in: "rows")
      tx.onCommit { called.add("committed") }
      let number = isChecked.count
      if tx.reads != nil {
        Threads.run(1) { _ in try database.write { try $0.set("\(number)", key: 1, in: "rows") } }
      }
      return before
    }
    #expect(isChecked == Array(repeating: true, count: DatabaseCore.concurrentAttempts) + [false])
    #expect(result == "\(DatabaseCore.concurrentAttempts)")
    #expect(called.all == ["committed"])
    #expect(try database.core.read { try $0.object(String.self, key: 1, in: "rows") } == result + "!")
    try database.close()
    withExtendedLifetime(site) {}
  }

  /// Refusals for a storage's own reasons are handled like conflicts.
  @Test func `a commit that the storage refuses is retried until it succeeds`() throws {
    let backend = ToyBackend()
    let database = try Database.open(backend, path: "toy")
    for refusals in [1, 7, 8] {
      for _ in 0..<refusals { backend.inject(.conflict) }
      var runCount = 0
      try database.writeConcurrently { tx in
        runCount += 1
        try tx.set(runCount, key: refusals, in: "rows")
      }
      #expect(runCount == refusals + 1)
      #expect(try database.core.read { try $0.object(Int.self, key: refusals, in: "rows") } == runCount)
    }
    try database.close()
  }

  @Test func `a closure that throws or rolls back runs once, and changes nothing`() throws {
    struct Stop: Error {}
    let (site, database) = try Self.open(.toy)
    var runCount = 0
    #expect(throws: Stop.self) {
      try database.writeConcurrently { tx in
        runCount += 1
        _ = try tx.removeAll()
        throw Stop()
      }
    }
    let error = #expect(throws: DatabaseError.self) {
      try database.writeConcurrently { tx in
        runCount += 1
        _ = try tx.removeAll()
        tx.onCommit { Issue.record("a transaction that was rolled back was committed") }
        try tx.rollBack()
      }
    }
    #expect(error?.code == .rolledBack)
    #expect(runCount == 2)
    #expect(try database.core.read { try $0.count() } == 5)
    try database.close()
    withExtendedLifetime(site) {}
  }

  @Test func `a write inside a concurrent one is a savepoint of it`() throws {
    struct Stop: Error {}
    let (site, database) = try Self.open(.toy)
    try database.writeConcurrently { tx in
      try tx.set("outer", key: 10, in: "rows")
      try database.write { inner in
        #expect(inner === tx)
        try inner.set("kept", key: 11, in: "rows")
      }
      #expect(throws: Stop.self) {
        try database.writeConcurrently { inner in
          try inner.set("undone", key: 12, in: "rows")
          throw Stop()
        }
      }
      #expect(try database.core.read { try $0.keys(Int.self, in: "rows") } == [1, 2, 3, 4, 5, 10, 11])
    }
    #expect(try database.core.read { try $0.keys(Int.self, in: "rows") } == [1, 2, 3, 4, 5, 10, 11])
    try database.close()
    withExtendedLifetime(site) {}
  }
}
