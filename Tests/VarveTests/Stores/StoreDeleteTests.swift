import Testing
import Varve

@testable import ObjectFixtures

/// Tests of removing instances.
struct StoreDeleteTests {
  private func filled(_ location: StoreLocation) throws -> (OpenDatabase, Store<NoteFormat>) {
    let open = try location.open()
    let notes = Store<NoteFormat>(in: open.database)
    try open.writing { tx in
      for id in 1...10 { try notes.insert(Note(id), metadata: Stars(stars: id), in: tx) }
    }
    return (open, notes)
  }

  private func remaining(_ notes: Store<NoteFormat>) async throws -> [Int] {
    let ids = try await notes.load(...).collect().map(\.id)
    #expect(try await notes.count == ids.count, "the count is kept")
    for id in 1...10 where !ids.contains(id) { #expect(try await notes.metadata(of: id) == nil) }
    return ids
  }

  @Test(arguments: StoreLocation.allCases)
  func `delete returns the removed instance, and throws if there was none`(location: StoreLocation) async throws {
    let (open, notes) = try filled(location)
    #expect(try await notes.delete(1) == Note(1))
    #expect(await errorCode { try await notes.delete(1) } == .notFound)
    #expect(try await notes.delete(Note(id: 2, text: "as the program has it")) == Note(2))
    #expect(await errorCode { try await notes.delete(Note(2)) } == .notFound)
    #expect(try await notes.deleteIfPresent(3) == Note(3))
    #expect(try await notes.deleteIfPresent(3) == nil)
    #expect(try await notes.deleteIfPresent(Note(4)) == Note(4))
    #expect(try await notes.deleteIfPresent(Note(4)) == nil)
    try open.writing { tx throws in
      #expect(try notes.delete(5, in: tx) == Note(5))
      #expect(errorCode { try notes.delete(5, in: tx) } == .notFound)
      #expect(try notes.delete(Note(6), in: tx) == Note(6))
      #expect(try notes.deleteIfPresent(7, in: tx) == Note(7))
      #expect(try notes.deleteIfPresent(Note(7), in: tx) == nil)
    }
    #expect(try await remaining(notes) == [8, 9, 10])
  }

  @Test(arguments: StoreLocation.allCases)
  func `several instances are deleted, each once`(location: StoreLocation) async throws {
    let (open, notes) = try filled(location)
    #expect(try await notes.delete(ids: [2, 3, 2, 77]) == 2)
    #expect(try open.writing { tx in try notes.delete(ids: [2, 4, 5], in: tx) } == 2)
    #expect(try await remaining(notes) == [1, 6, 7, 8, 9, 10])
  }

  @Test(arguments: StoreLocation.allCases)
  func `a range of instances is deleted`(location: StoreLocation) async throws {
    let (open, notes) = try filled(location)
    #expect(try await notes.delete(3..<5) == 2)
    #expect(try await notes.delete(3...5) == 1)
    try open.writing { tx throws in
      #expect(try notes.delete(9..., in: tx) == 2)
      #expect(try notes.delete(..<2, in: tx) == 1)
      #expect(try notes.delete(100..<200, in: tx) == 0)
    }
    #expect(try await remaining(notes) == [2, 6, 7, 8])
  }

  @Test(arguments: StoreLocation.allCases)
  func `a delete of all removes all of the store, and nothing else`(location: StoreLocation) async throws {
    let (open, notes) = try filled(location)
    let others = Store<NoteFormat>(in: open.database, collection: "others")
    try await others.persist(Note(1))
    #expect(try await notes.delete(...) == 10)
    #expect(try await remaining(notes) == [])
    try await notes.persist(Note(5))
    #expect(try open.writing { tx in try notes.delete(..., in: tx) } == 1)
    #expect(try await notes.delete(...) == 0)
    #expect(try await others.count == 1)
  }

  @Test func `a deletion in a savepoint that throws is undone`() throws {
    let (open, notes) = try filled(.memory)
    try open.writing { tx throws in
      for body: () throws -> Void in [
        { _ = try notes.delete(2..<5, in: tx) }, { _ = try notes.delete(..., in: tx) },
        { _ = try notes.delete(ids: [1, 2], in: tx) }, { _ = try notes.delete(1, in: tx) },
      ] {
        #expect(throws: StoreStop.self) {
          try tx.savepoint {
            try body()
            #expect(try notes.count(in: tx) < 10)
            throw StoreStop()
          }
        }
        #expect(try notes.count(in: tx) == 10)
        #expect(try Array(notes.load(..., in: tx)).count == 10)
        #expect(try notes.metadata(of: 1, in: tx) == Stars(stars: 1))
      }
    }
  }
}
