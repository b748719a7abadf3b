import Foundation
import Testing
import Varve

@testable import ObjectFixtures

/// Tests of loading by identifiers.
struct StoreReadTests {
  private static let ids = [3, 1, 2, 1, 99]
  private static let texts: [String?] = ["note 3", "note 1", "note 2", "note 1", nil]

  private func filled(_ location: StoreLocation) throws -> (OpenDatabase, Store<NoteFormat>) {
    let open = try location.open()
    let notes = Store<NoteFormat>(in: open.database)
    try open.writing { tx in
      try notes.persist(contentsOf: (1...5).map(Note.init), in: tx)
      try notes.setMetadata(Stars(stars: 4), of: 2, in: tx)
    }
    return (open, notes)
  }

  @Test(arguments: StoreLocation.allCases)
  func `an instance is loaded, counted and found in a transaction`(location: StoreLocation) throws {
    let (open, notes) = try filled(location)
    try open.reading { tx throws in
      #expect(try notes.load(3, in: tx) == Note(3))
      #expect(try notes.load(99, in: tx) == nil)
      #expect(try notes.contains(5, in: tx) && !notes.contains(6, in: tx))
      #expect(try notes.count(in: tx) == 5)
      #expect(try notes.count(2..<4, in: tx) == 2)
      #expect(try notes.count(...2, in: tx) == 2)
      #expect(try notes.metadata(of: 2, in: tx) == Stars(stars: 4))
      #expect(try notes.metadata(of: 3, in: tx) == nil)
      #expect(try notes.metadata(of: 99, in: tx) == nil)
    }
  }

  @Test(arguments: StoreLocation.allCases)
  func `an instance is loaded, counted and found by single calls`(location: StoreLocation) async throws {
    let (open, notes) = try filled(location)
    defer { withExtendedLifetime(open) {} }
    #expect(try await notes.load(3) == Note(3))
    #expect(try await notes.load(99) == nil)
    #expect(try await notes.contains(5))
    #expect(try await !notes.contains(6))
    #expect(try await notes.count == 5)
    #expect(try await notes.count(2..<4) == 2)
    #expect(try await notes.metadata(of: 2) == Stars(stars: 4))
    #expect(try await notes.metadata(of: 3) == nil)
  }

  @Test(arguments: StoreLocation.allCases)
  func `several instances come in the order of their identifiers, with nil for missing ones`(
    location: StoreLocation
  ) async throws {
    let (open, notes) = try filled(location)
    #expect(try open.reading { tx in try notes.load(ids: Self.ids, in: tx).map { $0?.text } } == Self.texts)
    #expect(try await notes.load(ids: Self.ids).map { $0?.text } == Self.texts)
    #expect(try await notes.load(ids: []).isEmpty)
  }

  @Test(arguments: StoreLocation.allCases)
  func `several instances in a write include its own writes`(location: StoreLocation) throws {
    let (open, notes) = try filled(location)
    try open.writing { tx throws in
      try notes.delete(3, in: tx)
      try notes.persist(Note(id: 1, text: "changed"), in: tx)
      try notes.insert(Note(99), in: tx)
      #expect(
        try notes.load(ids: Self.ids, in: tx).map { $0?.text } == [nil, "changed", "note 2", "changed", "note 99"])
    }
  }

  @Test(arguments: StoreLocation.allCases)
  func `a store of a collection never written to is empty, and reads do not create it`(location: StoreLocation)
    async throws
  {
    let open = try location.open()
    let notes = Store<NoteFormat>(in: open.database)
    #expect(try await notes.load(1) == nil)
    #expect(try await notes.load(ids: [1, 2]) == [nil, nil])
    #expect(try await notes.count == 0)
    #expect(try await notes.count(1...) == 0)
    #expect(try await notes.metadata(of: 1) == nil)
    #expect(try await notes.load(...).collect().isEmpty)
    #expect(try await notes.load(..., descending: true).first == nil)
    #expect(try await notes.deleteIfPresent(1) == nil)
    #expect(try await notes.delete(ids: [1, 2]) == 0)
    #expect(try await notes.delete(1..<5) == 0)
    #expect(try await notes.delete(...) == 0)
    #expect(await errorCode { try await notes.delete(1) } == .notFound)
    #expect(await errorCode { try await notes.update(Note(1)) } == .notFound)
    #expect(try open.reading { tx in try tx.collections() }.isEmpty)
  }

  @Test func `two stores of one format are separated by their key`() async throws {
    let open = try StoreLocation.memory.open()
    let notes = Store<NoteFormat>(in: open.database)
    let others = Store<NoteFormat>(in: open.database, collection: "other notes")
    try await notes.persist(Note(1))
    try await others.persist(Note(2))
    #expect(try await notes.load(...).collect() == [Note(1)])
    #expect(try await others.load(...).collect() == [Note(2)])
    #expect(try open.reading { tx in try tx.collections() } == ["notes", "other notes"])
  }

  @Test func `the transaction of another database is refused`() throws {
    let (open, notes) = try filled(.memory)
    defer { withExtendedLifetime(open) {} }
    let other = try StoreLocation.memory.open()
    #expect(errorCode { try other.reading { tx in _ = try notes.load(1, in: tx) } } == .invalidArgument)
    #expect(errorCode { try other.writing { tx in _ = try notes.persist(Note(1), in: tx) } } == .invalidArgument)
  }

  @Test func `a transaction that has ended is refused`() throws {
    let (open, notes) = try filled(.memory)
    var kept: ReadTransaction?
    try open.reading { tx in kept = tx }
    let ended = try #require(kept)
    #expect(errorCode { _ = try notes.load(1, in: ended) } == .transactionEnded)
    #expect(errorCode { _ = try notes.count(in: ended) } == .transactionEnded)
  }

  @Test func `rows written by the row API are instances, and instances are rows`() throws {
    let (open, notes) = try filled(.memory)
    try open.writing { tx throws in
      try tx.set(Note(id: 7, text: "by key"), key: 7, in: "notes", metadata: Stars(stars: 1))
      #expect(try notes.load(7, in: tx)?.text == "by key")
      #expect(try notes.metadata(of: 7, in: tx) == Stars(stars: 1))
      #expect(try tx.object(Note.self, key: 2, in: "notes") == Note(2))
      #expect(try tx.metadata(Stars.self, key: 2, in: "notes") == Stars(stars: 4))
    }
    #expect(errorCode { try open.writing { tx in try tx.set("no note", key: 8, in: "notes") } } == .invalidArgument)
    #expect(
      errorCode { try open.writing { tx in try tx.set(Note(8), key: 8, in: "notes", metadata: "no stars") } }
        == .invalidArgument)
    #expect(
      errorCode { try open.reading { tx in _ = try tx.metadata(String.self, key: 2, in: "notes") } } == .decodingFailed)
  }
}
