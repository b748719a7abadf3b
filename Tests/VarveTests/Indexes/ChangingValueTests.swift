import Foundation
import Synchronization
import Testing
import VarveTestSupport

@testable import ObjectFixtures
@testable import Varve

/// Tests of indexes over values that do not follow from the stored row: decoding the row again gives others. No entry
/// of an earlier value may stay.
struct ChangingValueTests {
  /// A number that is greater at each use.
  private static let next = Atomic(0)
  private static func number() -> Int { next.add(1, ordering: .relaxed).newValue }

  private struct Old: Codable, Identifiable, Sendable {
    var id: Int
    var text: String
  }

  private struct OldFormat: StoreFormat {
    static let collection = "rows"
    typealias Instance = Old
  }

  private struct Salted: Codable, Identifiable, Sendable {
    var id: Int
    var text: String
    /// A field that a conversion and the initializer fill again, and that the row does not store.
    var token = ChangingValueTests.number()
    /// A property that is computed at each access.
    var computed: Int { ChangingValueTests.number() }
    private enum CodingKeys: CodingKey { case id, text }
  }

  private enum Version: String, CaseIterable, Sendable { case first, second }

  private struct SaltedFormat: StoreFormat {
    static let collection = "rows"
    typealias Version = ChangingValueTests.Version
    static let currentVersion = Version.second
    typealias Instance = Salted
    static func decode(_ stored: StoredValue, version: Version) throws -> Salted {
      switch version {
      case .first:
        let old = try stored.decode(Old.self)
        return Salted(id: old.id, text: old.text)
      case .second: return try stored.decode()
      }
    }
    let token = Index(\.token)
    let unique = OneToOneIndex(\.token)
    let computed = Index(\.computed, version: 1)
    let even = Index(\.text, where: { $0.token >= 0 })
    let both = Index(\.text, \.token)
  }

  /// The number of entries of each index, and what a scan of it finds.
  private static func check(
    _ rows: Store<SaltedFormat>, _ count: Int, _ tx: ReadTransaction, _ step: String,
    _ location: SourceLocation = #_sourceLocation
  ) throws {
    let counts = [
      try rows.count(.all, from: \.token, in: tx), try rows.count(.all, from: \.unique, in: tx),
      try rows.count(.all, from: \.computed, in: tx), try rows.count(.all, from: \.even, in: tx),
      try rows.count(.all, from: \.both, in: tx),
    ]
    #expect(counts == Array(repeating: count, count: 5), "\(step)", sourceLocation: location)
    #expect(try Array(rows.load(.all, from: \.token, in: tx)).count == count, "\(step)", sourceLocation: location)
  }

  @Test func `updates and removals leave no entry of an old value`() throws {
    let shared = try SharedBackend()
    do {
      let database = try shared.open(DatabaseDefinition { OldFormat.self })
      let rows = Store<OldFormat>(in: database)
      try database.write { tx in for id in 0..<20 { try rows.persist(Old(id: id, text: "text"), in: tx) } }
      try database.close()
    }
    let database = try shared.open(DatabaseDefinition { SaltedFormat.self })
    let rows = Store<SaltedFormat>(in: database)
    try warm(rows)
    try database.read { tx in try Self.check(rows, 20, tx, "built") }
    try database.write { tx throws in
      for id in 0..<10 { _ = try rows.modify(id, in: tx) { $0.text = "changed" } }
      try Self.check(rows, 20, tx, "changed")
      // A second change in the same transaction replaces what the first one has entered.
      for id in 0..<5 { _ = try rows.modify(id, in: tx) { $0.text = "changed again" } }
      try Self.check(rows, 20, tx, "changed again")
      for id in 0..<3 { _ = try rows.delete(id, in: tx) }
      try Self.check(rows, 17, tx, "changed and deleted")
      for id in 0..<3 { try rows.insert(Salted(id: id, text: "inserted"), in: tx) }
      for id in 0..<2 { _ = try rows.delete(id, in: tx) }
      try Self.check(rows, 18, tx, "inserted and deleted")
    }
    try database.read { tx in try Self.check(rows, 18, tx, "committed") }
    struct Undone: Error {}
    try database.write { tx throws in
      _ = try rows.modify(19, in: tx) { $0.text = "first" }
      #expect(throws: Undone.self) {
        try database.write { tx throws in
          _ = try rows.modify(19, in: tx) { $0.text = "undone" }
          _ = try rows.modify(18, in: tx) { $0.text = "undone" }
          throw Undone()
        }
      }
      _ = try rows.modify(19, in: tx) { $0.text = "second" }
      _ = try rows.modify(18, in: tx) { $0.text = "second" }
      try Self.check(rows, 18, tx, "after a savepoint")
    }
    try database.read { tx in try Self.check(rows, 18, tx, "after a savepoint, committed") }
    #expect(try migrate(rows) == 8)
    try database.read { tx in try Self.check(rows, 18, tx, "migrated") }
    try database.write { tx throws in
      #expect(try rows.query.filter { $0.text == "text" }.scan().delete(in: tx) > 0)
      let left = try rows.count(in: tx)
      try Self.check(rows, left, tx, "deleted by a query")
      _ = try rows.delete(..., in: tx)
      try Self.check(rows, 0, tx, "emptied")
    }
    try database.read { tx in try Self.check(rows, 0, tx, "emptied, committed") }
    try database.close()
  }

  private func migrate(_ rows: Store<SaltedFormat>) throws -> Int { try rows.migrate() }

  // MARK: - Indexes of rows

  private static func rowIndex(_ calls: Called) -> RowIndex<Int> {
    RowIndex("salted", in: "lines", version: 1) { row in
      calls.add(try row.object(as: String.self))
      return number()
    }
  }

  @Test func `the closure of an index runs for no row that is removed, and once for one that is set`() throws {
    let calls = Called()
    let index = Self.rowIndex(calls)
    let database = try Database.inMemory(
      definition: try DatabaseDefinition {
        try CollectionDefinition("lines", String.self, key: Int.self).indexed(by: index)
      })
    try database.write { tx in for key in 0..<50 { try tx.set("line", key: key, in: "lines") } }
    #expect(calls.all.count == 50)
    try database.write { tx in for key in 0..<50 { try tx.set("other", key: key, in: "lines") } }
    #expect(calls.all.count == 100)
    #expect(try database.read { tx in try tx.count(.all, from: index) } == 50)
    try database.write { tx throws in
      for key in 0..<10 { try tx.set("again", key: key, in: "lines") }
      #expect(try tx.count(.all, from: index) == 50)
      #expect(try tx.remove(in: "lines", 0..<30) == 30)
      #expect(try tx.count(.all, from: index) == 20)
    }
    #expect(calls.all.count == 110)
    #expect(try database.read { tx in try tx.count(.all, from: index) } == 20)
    try database.write { tx throws in
      for key in 30..<50 { try tx.remove(key: key, in: "lines") }
    }
    #expect(calls.all.count == 110)
    #expect(try database.read { tx in try tx.count(.all, from: index) } == 0)
    try database.close()
  }

  @Test func `a value that depends on the time is found where it was when the row was set`() throws {
    let calls = Called()
    let index = Self.rowIndex(calls)
    let database = try Database.open(
      try StorageSite(.toy).open(), path: "/toy",
      definition: try DatabaseDefinition {
        try CollectionDefinition("lines", String.self, key: Int.self).indexed(by: index)
      })
    try database.write { tx throws in
      for key in 0..<4 { try tx.set("line", key: key, in: "lines") }
      for key in 0..<2 { try tx.set("again", key: key, in: "lines") }
      try tx.remove(key: 0, in: "lines")
      #expect(try tx.count(.all, from: index) == 3)
    }
    #expect(try database.read { tx in try tx.count(.all, from: index) } == 3)
    try database.close()
  }
}
