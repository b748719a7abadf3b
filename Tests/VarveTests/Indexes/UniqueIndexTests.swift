import Foundation
import Testing
import VarveTestSupport

@testable import ObjectFixtures
@testable import Varve

/// Tests of the uniqueness of the values of a unique index.
struct UniqueIndexTests {
  private let database: Database
  private let volumes: Store<VolumeFormat>

  init() throws {
    database = try Database.inMemory { VolumeFormat.self }
    volumes = Store(in: database)
    try database.write { [volumes] tx in
      try volumes.persist(Volume(id: 1, title: "A", isbn: "a", codes: [1, 2]), in: tx)
      try volumes.persist(Volume(id: 2, title: "B", isbn: "b", codes: [3]), in: tx)
    }
  }

  @Test func `a call that would violate a unique index throws, names the row with the value, and changes nothing`()
    throws
  {
    try database.write { tx throws in
      let error = #expect(throws: DatabaseError.self) {
        try volumes.persist(Volume(id: 3, title: "C", isbn: "a"), in: tx)
      }
      #expect(error?.code == .notUnique)
      #expect(error?.message == "the value \"a\" of index \"isbn\" belongs to the row 1")
      #expect(error?.collection == "volumes" && error?.key == "3")
      #expect(errorCode { try volumes.insert(Volume(id: 3, title: "C", codes: [9, 3]), in: tx) } == .notUnique)
      #expect(errorCode { try volumes.modify(2, in: tx) { $0.isbn = "a" } } == .notUnique)
      #expect(errorCode { try tx.set(Volume(id: 4, title: "D", isbn: "b"), key: 4, in: "volumes") } == .notUnique)
      try volumes.persist(Volume(id: 5, title: "E", isbn: "e"), in: tx)
    }
    #expect(try database.read { tx in try Array(volumes.load(..., in: tx)).map(\.id) } == [1, 2, 5])
    #expect(try database.read { tx in try volumes.indexDifferences(in: tx) }.isEmpty)
  }

  @Test func `a row may set its own value again, take a released one, and share nil with others`() throws {
    try database.write { tx throws in
      try volumes.persist(Volume(id: 1, title: "A again", isbn: "a", codes: [2, 1]), in: tx)
      try volumes.modify(1, in: tx) { $0.isbn = "c" }
      try volumes.modify(2, in: tx) { $0.isbn = "a" }
      try volumes.modify(1, in: tx) { $0.codes = [7] }
      try volumes.modify(2, in: tx) { $0.codes = [1, 2, 3] }
      try volumes.delete(1, in: tx)
      try volumes.persist(Volume(id: 3, title: "C", isbn: "c", codes: [7]), in: tx)
      for id in 10..<13 { try volumes.persist(Volume(id: id, title: "nil"), in: tx) }
      #expect(try volumes.load(.value("a"), from: \.isbn, in: tx)?.id == 2)
    }
    #expect(try database.read { tx in try volumes.count(.value(nil), from: \.isbn, in: tx) } == 3)
  }

  @Test func `undoing a savepoint releases a value, and keeping one does not`() throws {
    try database.write { tx throws in
      try? database.write { tx throws in
        try volumes.persist(Volume(id: 3, title: "C", isbn: "c"), in: tx)
        throw StoreStop()
      }
      try volumes.persist(Volume(id: 4, title: "D", isbn: "c"), in: tx)
      try database.write { tx in try volumes.modify(4, in: tx) { $0.isbn = "d" } }
      try volumes.persist(Volume(id: 5, title: "E", isbn: "c"), in: tx)
      #expect(errorCode { try volumes.modify(5, in: tx) { $0.isbn = "d" } } == .notUnique)
    }
  }

  @Test func `a deferred index lets rows swap values, and refuses a commit in which two share one`() throws {
    let database = try Database.inMemory { OtherVolumeFormat.self }
    let volumes = Store<OtherVolumeFormat>(in: database)
    try database.write { tx throws in
      try volumes.persist(Volume(id: 1, title: "A", isbn: "a"), in: tx)
      try volumes.persist(Volume(id: 2, title: "B", isbn: "b"), in: tx)
    }
    try database.write { tx throws in
      try volumes.modify(1, in: tx) { $0.isbn = "b" }
      try volumes.modify(2, in: tx) { $0.isbn = "a" }
    }
    #expect(try database.read { tx in try volumes.load(.value("a"), from: \.late, in: tx)?.id } == 2)
    #expect(
      errorCode { _ = try database.write { tx in try volumes.modify(1, in: tx) { $0.isbn = "a" } } } == .notUnique)
    #expect(try database.read { tx in try volumes.load(.value("b"), from: \.late, in: tx)?.id } == 1)
  }

  @Test func `duplicates from before the index make it unusable and are named; writes continue`() throws {
    let shared = try SharedBackend()
    let plain = try shared.open(DatabaseDefinition { BareVolumeFormat.self })
    try plain.write { tx throws in
      let store = Store<BareVolumeFormat>(in: plain)
      for id in 1...4 { try store.persist(Volume(id: id, title: "\(id)", isbn: id < 4 ? "same" : nil), in: tx) }
    }
    try plain.close()
    let database = try shared.open(DatabaseDefinition { VolumeFormat.self })
    let volumes = Store<VolumeFormat>(in: database)
    try warm(volumes)
    let error = #expect(throws: DatabaseError.self) {
      try database.read { tx in try volumes.load(.value("same"), from: \.isbn, in: tx) }
    }
    #expect(error?.code == .notUnique)
    let collisions = try #require(error?.cause as? IndexCollisions)
    #expect(collisions.count == 2 && collisions.index == "isbn")
    #expect(
      collisions.pairs.map { [$0.value, $0.first.text, $0.second.text] } == [
        ["\"same\"", "1", "2"], ["\"same\"", "1", "3"],
      ])
    #expect(errorCode { try rebuild(volumes) } == .notUnique)
    // Other indexes can be read, and no write is refused.
    try database.write { tx throws in
      #expect(try volumes.load(.value("3"), from: \.title, in: tx).count() == 1)
      try volumes.modify(4, in: tx) { $0.isbn = "same" }
      for id in 2...4 { try volumes.modify(id, in: tx) { $0.isbn = "other \(id)" } }
    }
    #expect(
      errorCode { _ = try database.read { tx in try volumes.load(.value("same"), from: \.isbn, in: tx) } } == .notUnique
    )
    try rebuild(volumes, \.isbn)
    #expect(try database.read { tx in try volumes.load(.value("same"), from: \.isbn, in: tx)?.id } == 1)
    #expect(
      errorCode { _ = try database.write { tx in try volumes.modify(2, in: tx) { $0.isbn = "same" } } } == .notUnique)
    try database.close()
  }

  @Test func `the next start retries an index that could not be used`() throws {
    let shared = try SharedBackend()
    let plain = try shared.open(DatabaseDefinition { BareVolumeFormat.self })
    try plain.write { tx throws in
      for id in 1...2 {
        try Store<BareVolumeFormat>(in: plain).persist(Volume(id: id, title: "", isbn: "same"), in: tx)
      }
    }
    try plain.close()
    for isMended in [false, true] {
      let database = try shared.open(DatabaseDefinition { VolumeFormat.self })
      let volumes = Store<VolumeFormat>(in: database)
      try warm(volumes)
      let code = errorCode { _ = try database.read { tx in try volumes.load(.value("same"), from: \.isbn, in: tx) } }
      #expect(code == (isMended ? nil : .notUnique))
      try database.write { tx throws in _ = try volumes.deleteIfPresent(2, in: tx) }
      try database.close()
    }
  }

  @Test func `only one of eight concurrent writers enters a value`() async throws {
    let wins = try await withThrowingTaskGroup(of: Int.self) { group in
      for writer in 0..<8 {
        group.addTask { [database, volumes] in
          var wins = 0
          for value in 0..<40 {
            do {
              let volume = Volume(id: 100 + writer * 100 + value, title: "", isbn: "won \(value)")
              if value % 2 == 0 {
                try await database.write { tx in try volumes.insert(volume, in: tx) }
              } else {
                try await database.writeConcurrently { tx in try volumes.insert(volume, in: tx) }
              }
              wins += 1
            } catch let error as DatabaseError where error.code == .notUnique {}
          }
          return wins
        }
      }
      return try await group.reduce(0, +)
    }
    #expect(wins == 40)
    #expect(try await volumes.verifyIndexes().isEmpty)
    #expect(try await volumes.count(.all, from: \.isbn) == 42)
  }
}

/// The same collection without an index.
struct BareVolumeFormat: StoreFormat {
  typealias Instance = Volume
  static let collection = "volumes"
}

/// Calls the blocking form of `warm`, in contexts in which overload resolution would select the asynchronous one.
func warm<Format: StoreFormat>(_ store: Store<Format>) throws { try store.warm() }

func rebuild<Format: StoreFormat, Index: StoreIndex>(_ store: Store<Format>, _ index: KeyPath<Format, Index>) throws {
  try store.rebuild(index)
}

/// Calls the blocking form of `rebuild`.
private func rebuild(_ volumes: Store<VolumeFormat>) throws { try volumes.rebuild(\.isbn) }
