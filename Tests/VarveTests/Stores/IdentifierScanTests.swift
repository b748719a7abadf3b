import Foundation
import Testing
import Varve

@testable import ObjectFixtures

/// Tests of identifiers and keys without their rows, metadata of several rows, and observed bytes.
struct IdentifierScanTests {
  @Test(arguments: StoreLocation.allCases)
  func `identifiers are iterated in order, both ways, in ranges, and with pending writes`(
    location: StoreLocation
  ) throws {
    let open = try location.open()
    let notes = Store<NoteFormat>(in: open.database)
    #expect(try open.reading { tx in try Array(notes.ids(in: tx)) }.isEmpty)
    try open.writing { tx in try notes.persist(contentsOf: (0..<1_000).map { Note($0) }, in: tx) }
    try open.writing { tx throws in
      try notes.persist(Note(1_000), in: tx)
      try notes.persist(Note(id: 5, text: "five"), in: tx)
      _ = try notes.delete(10..<990, in: tx)
      var begun = try notes.ids(in: tx)
      _ = try notes.delete(..., in: tx)
      #expect(try begun.next() == 0)
      #expect(try Array(begun) == Array(1..<10) + Array(990...1_000))
      #expect(try Array(notes.ids(in: tx)).isEmpty)
      try notes.persist(contentsOf: [Note(3), Note(-3), Note(2)], in: tx)
      #expect(try Array(notes.ids(in: tx)) == [-3, 2, 3])
      #expect(try Array(notes.ids(descending: true, limit: 2, in: tx)) == [3, 2])
      #expect(try Array(notes.ids(...2, descending: true, in: tx)) == [2, -3])
      #expect(try notes.count(0..., in: tx) == 2)
      #expect(try tx.keys(Int.self, in: "notes") == [-3, 2, 3])
      #expect(try tx.keys(in: "notes", 0..., descending: true) == [3, 2])
      #expect(errorCode { _ = try tx.keys(String.self, in: "notes") } == .keyTypeDiffers)
      #expect(errorCode { _ = try notes.ids(limit: -1, in: tx) } == .invalidArgument)
    }
  }

  @Test(arguments: StoreLocation.allCases)
  func `identifiers and keys are asynchronous sequences of one snapshot`(location: StoreLocation) async throws {
    let open = try location.open()
    let notes = Store<NoteFormat>(in: open.database)
    try await notes.persist(contentsOf: (0..<600).map { Note($0) })
    let all = notes.ids()
    try await notes.delete(100..<200)
    #expect(try await all.collect() == Array(0..<600))
    #expect(try await notes.ids(98..<202).collect() == [98, 99, 200, 201])
    #expect(try await notes.ids(descending: true, limit: 2).collect() == [599, 598])
    await #expect(throws: DatabaseError.self) { try await notes.ids(limit: -1).first }

    let bytes = Store(of: Data.self, key: String.self, in: open.database, collection: "bytes")
    try await bytes.persist(contentsOf: ["b": Data([1]), "a": Data(repeating: 2, count: 100_000), "c": Data()])
    #expect(try await bytes.ids().collect() == ["a", "b", "c"])
    #expect(try await bytes.ids("b"..., descending: true).collect() == ["c", "b"])
    #expect(try open.reading { tx in try Array(bytes.ids(limit: 1, in: tx)) } == ["a"])
    #expect(try open.reading { tx in try Array(bytes.ids(..<"c", in: tx)) } == ["a", "b"])
  }

  @Test func `a row that can't be decoded still has an identifier`() throws {
    let backend = try SharedBackend()
    let before = OpenDatabase(try backend.open(), nil)
    try before.writing { tx in try tx.set(["no", "note"], key: 2, in: "notes") }
    let after = OpenDatabase(try backend.open(), nil)
    let notes = Store<NoteFormat>(in: after.database)
    try after.writing { tx throws in
      try notes.persist(Note(1), in: tx)
      #expect(try Array(notes.ids(in: tx)) == [1, 2])
      #expect(errorCode { _ = try Array(notes.load(..., in: tx)) } == .decodingFailed)
    }
  }

  @Test(arguments: StoreLocation.allCases)
  func `metadata of several rows is in the requested order, with nil where there is none`(
    location: StoreLocation
  ) async throws {
    let open = try location.open()
    let notes = Store<NoteFormat>(in: open.database)
    #expect(try await notes.metadata(ids: [1, 2]) == [nil, nil])
    for id in 1...5 { try await notes.persist(Note(id), metadata: id.isMultiple(of: 2) ? nil : Stars(stars: id)) }
    #expect(try await notes.metadata(ids: [5, 2, 9, 1, 5]).map { $0?.stars } == [5, nil, nil, 1, 5])
    #expect(try open.reading { tx in try notes.metadata(ids: 3...4, in: tx) }.map { $0?.stars } == [3, nil])
    let bytes = Store(of: Data.self, key: Int.self, metadata: Stars.self, in: open.database, collection: "bytes")
    try await bytes.persist(Data([1]), for: 1, metadata: Stars(stars: 1))
    #expect(try await bytes.metadata(ids: [2, 1]) == [nil, Stars(stars: 1)])
    #expect(try open.reading { tx in try bytes.metadata(ids: [1, 2], in: tx) } == [Stars(stars: 1), nil])
  }

  @Test(arguments: StoreLocation.allCases)
  func `bytes are observed through every change`(location: StoreLocation) async throws {
    let open = try location.open()
    let bytes = Store(of: Data.self, key: Int.self, in: open.database, collection: "bytes")
    var one = bytes.observe(1).makeAsyncIterator()
    var all = bytes.observe().makeAsyncIterator()
    #expect(try await one.next() == .some(nil))
    #expect(try await all.next()?.isReload == true)
    try await bytes.persist(Data([1]), for: 1)
    #expect(try await one.next() == .some(Data([1])))
    #expect(try await all.next()?.isReload == false)
    try await bytes.delete(1)
    #expect(try await one.next() == .some(nil))
  }
}
