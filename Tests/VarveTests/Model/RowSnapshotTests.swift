import Testing
import VarveTestSupport

@testable import ObjectFixtures
@testable import Varve

/// Tests that a row and a cursor keep the state in which they were created, whatever the transaction writes
/// meanwhile.
struct RowSnapshotTests {
  private struct Note: Codable, Hashable, Sendable { var text: String }

  private static let old = Note(text: "old")
  private static let new = Note(text: "new")

  private static let changes: [@Sendable (WriteTransaction) throws -> Void] = [
    { try $0.set("new", key: 1, in: "rows", metadata: new) },
    { try $0.set("new", key: 1, in: "rows") },
    { _ = try $0.replaceMetadata(new, key: 1, in: "rows") },
    { _ = try $0.replaceMetadata(Note?.none, key: 1, in: "rows") },
    { _ = try $0.remove(key: 1, in: "rows") },
    { _ = try $0.removeAll(in: "rows") },
    { _ = try $0.removeAll() },
    {
      _ = try $0.remove(key: 1, in: "rows")
      try $0.set("new", key: 1, in: "rows", metadata: new)
    },
  ]

  /// The row was written by the transaction itself, or before it.
  @Test(arguments: changes.indices, [false, true])
  func `a row keeps its object and metadata after later changes`(index: Int, isOwn: Bool) throws {
    let database = try Database.open(try StorageSite(.toy).open(), path: "toy")
    if !isOwn { try database.write { try $0.set("old", key: 1, in: "rows", metadata: Self.old) } }
    try database.write { tx in
      if isOwn { try tx.set("old", key: 1, in: "rows", metadata: Self.old) }
      let row = try #require(try tx.row(key: 1, in: "rows"))
      let several = try #require(try tx.rows(keys: [1], in: "rows")[0])
      var scan = try tx.rows(in: "rows")
      var range = try tx.rows(in: "rows", 0...1, descending: true)
      try Self.changes[index](tx)
      let scanned = try #require(try scan.next())
      let ranged = try #require(try range.next())
      for found in [row, several, scanned, ranged] {
        #expect(try found.metadata(as: Note.self) == Self.old)
        #expect(try found.object(as: String.self) == "old")
        #expect(found.hasMetadata)
      }
      #expect(try scan.next() == nil)
    }
    try database.close()
  }

  @Test func `undone nested writes are not visible to a later cursor`() throws {
    struct Stop: Error {}
    let database = try Database.open(try StorageSite(.toy).open(), path: "toy")
    try database.write { tx in
      for _ in 0..<3 {
        #expect(throws: Stop.self) {
          try database.write { inner in
            try inner.set("undone", key: 1, in: "rows", metadata: Self.new)
            throw Stop()
          }
        }
      }
      try tx.set("kept", key: 1, in: "rows", metadata: Self.old)
      #expect(try tx.keys(Int.self, in: "rows") == [1])
      #expect(try tx.rows(in: "rows").count(where: { _ in true }) == 1)
      #expect(try tx.row(key: 1, in: "rows")?.metadata(as: Note.self) == Self.old)
    }
    try database.close()
  }

  @Test func `a nested write that throws also undoes its change set object and its callbacks`() throws {
    struct Stop: Error {}
    let database = try Database.open(try StorageSite(.toy).open(), path: "toy")
    let called = Called()
    try database.write { tx in
      try tx.set("a", key: 1, in: "rows")
      try tx.setCustomObject("outer")
      tx.onCommit { called.add("outer") }
      let before = tx.custom
      #expect(throws: Stop.self) {
        try database.write { inner in
          try inner.setCustomObject("inner")
          inner.onCommit { called.add("inner") }
          throw Stop()
        }
      }
      #expect(tx.custom == before)
    }
    #expect(called.all == ["outer"])
    try database.close()
  }
}

extension RowCursor {
  fileprivate func count(where isMeant: (Row) -> Bool) throws -> Int {
    var cursor = self
    return try cursor.compactMap { isMeant($0) ? true : nil }.count
  }
}
