import EngineTestSupport
import Testing
import VarveTestSupport

@testable import ObjectFixtures
@testable import Varve

/// Tests of the part of the result that an observer of a query with a limit keeps.
struct QueryWindowTests {
  private let database: Database
  private let volumes: Store<VolumeFormat>
  private static let count = 3_000

  init() throws {
    database = try Database.inMemory { VolumeFormat.self }
    volumes = Store(in: database)
    try database.write { [volumes] tx in
      let all = (0..<Self.count).map { Self.volume($0, at: $0) }
      try volumes.persist(contentsOf: all, in: tx)
    }
  }

  private static func volume(_ id: Int, at location: Int, year: Int = 2000) -> Volume {
    Volume(id: id, title: "\(10_000 + location)", year: year)
  }

  private func read<Result>(_ body: (ReadTransaction, CountingSnapshot) throws -> Result) throws -> Result {
    let snapshot = CountingSnapshot(try database.core.backend.snapshot())
    let tx = ReadTransaction(database: database.core, snapshot: snapshot)
    defer { tx.end() }
    return try body(tx, snapshot)
  }

  @Test(arguments: [false, true])
  func `a window is filled by one seek after its last instance`(isDescending: Bool) throws {
    let query = volumes.query.filter { $0.title >= "1" }.sorted(by: \.title, descending: isDescending).limit(1_000)
    let first = try read { tx, _ in try QueryWindow(query, tx) }
    // Two rows leave the window, by a removal and by moving past its end; one row enters it, and one changes without
    // moving.
    let (gone, moved) = isDescending ? (2_900, 2_500) : (100, 500)
    let (came, same) = isDescending ? (5, 2_700) : (2_995, 300)
    try database.write { [volumes] tx in
      _ = try volumes.delete(gone, in: tx)
      try volumes.persist(Self.volume(moved, at: isDescending ? 3 : 2_900), in: tx)
      try volumes.persist(Self.volume(came, at: isDescending ? 2_800 : 150), in: tx)
      try volumes.persist(Self.volume(same, at: same, year: 1990), in: tx)
    }
    var change = ObservedChange(version: CommitVersion(1))
    change.merge(
      ObservedChange(
        version: CommitVersion(2),
        rows: try Dictionary(
          uniqueKeysWithValues: [gone, moved, came, same].map {
            (try volumes.rowKey($0).bytes, ObservedChange.Row(isRemoved: $0 == gone))
          })))
    let (next, reads) = try read { tx, snapshot in
      let rows = try ChangedKeys(change, query, tx)
      return (
        try first.changed({ rows.contains($0.key) }, try rows.entries(), query, tx), snapshot.count
      )
    }
    #expect(next.entries.map(\.key) == (try read { tx, _ in try QueryWindow(query, tx) }).entries.map(\.key))
    #expect(next.entries.map(\.key) != first.entries.map(\.key))
    // The reads are the four rows, the collection's, and the entries that a seek in the index reads at once.
    #expect(reads < 100, "\(reads) entries were read")
  }

  @Test func `changes delivered after a snapshot are not seen with it`() async throws {
    let snapshot = try database.core.publication.snapshot()
    try await volumes.persist(Self.volume(1, at: 2))
    let last = database.core.changes.last
    #expect(last > snapshot.version)
    #expect(QueryDifferences<VolumeFormat>.seen(at: snapshot.version, delivered: last) == snapshot.version)
    #expect(QueryDifferences<VolumeFormat>.seen(at: last, delivered: snapshot.version) == snapshot.version)
  }

  @Test func `a complete window is not read again`() throws {
    let query = volumes.query.filter { $0.title < "10500" }.sorted(by: \.title).limit(1_000)
    let first = try read { tx, _ in try QueryWindow(query, tx) }
    #expect(first.entries.count == 500)
    try database.write { [volumes] tx in _ = try volumes.delete(7, in: tx) }
    let row = ObservedChange.Row(isRemoved: true)
    let change = ObservedChange(version: CommitVersion(1), rows: [try volumes.rowKey(7).bytes: row])
    let (next, reads) = try read { tx, snapshot in
      let rows = try ChangedKeys(change, query, tx)
      snapshot.reset()
      return (try first.changed({ rows.contains($0.key) }, try rows.entries(), query, tx), snapshot.count)
    }
    #expect(next.entries.count == 499 && reads == 0)
  }
}
