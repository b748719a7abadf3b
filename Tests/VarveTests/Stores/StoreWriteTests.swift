import Foundation
import Testing
import Varve
import VarveTestSupport

@testable import ObjectFixtures

/// Tests of setting instances.
struct StoreWriteTests {
  private static let changed = Note(id: 1, text: "changed")

  @Test(arguments: StoreLocation.allCases)
  func `persist sets an instance, and returns the former one`(location: StoreLocation) async throws {
    let open = try location.open()
    let notes = Store<NoteFormat>(in: open.database)
    #expect(try await notes.persist(Note(1)) == nil)
    #expect(try await notes.persist(Self.changed) == Note(1))
    #expect(try await notes.load(1) == Self.changed)
    try open.writing { tx throws in
      #expect(try notes.persist(Note(1), in: tx) == Self.changed)
      #expect(try notes.persist(Note(2), in: tx) == nil)
      #expect(try notes.load(1, in: tx) == Note(1))
      #expect(try notes.count(in: tx) == 2)
    }
  }

  @Test(arguments: StoreLocation.allCases)
  func `persist keeps stored metadata, or sets it if given, and set of the row API clears it`(
    location: StoreLocation
  ) async throws {
    let open = try location.open()
    let notes = Store<NoteFormat>(in: open.database)
    try await notes.persist(Note(1), metadata: Stars(stars: 3))
    try await notes.persist(Self.changed)
    #expect(try await notes.metadata(of: 1) == Stars(stars: 3))
    #expect(try await notes.load(1) == Self.changed)
    try await notes.persist(Note(1), metadata: Stars(stars: 5))
    #expect(try await notes.metadata(of: 1) == Stars(stars: 5))
    try await notes.setMetadata(Stars(stars: 1), of: 1)
    #expect(try await notes.metadata(of: 1) == Stars(stars: 1))
    try await notes.persist(Self.changed, metadata: nil)
    #expect(try await notes.metadata(of: 1) == nil)
    try await notes.setMetadata(Stars(stars: 2), of: 1)
    try open.writing { tx in try tx.set(Note(1), key: 1, in: "notes") }
    #expect(try await notes.metadata(of: 1) == nil)
    #expect(await errorCode { try await notes.setMetadata(nil, of: 9) } == .notFound)
  }

  @Test(arguments: StoreLocation.allCases)
  func `insert refuses an existing instance, and update a missing one`(location: StoreLocation) async throws {
    let open = try location.open()
    let notes = Store<NoteFormat>(in: open.database)
    try await notes.insert(Note(1))
    #expect(await errorCode { try await notes.insert(Self.changed) } == .alreadyExists)
    #expect(await errorCode { try await notes.insert(Self.changed, metadata: Stars(stars: 1)) } == .alreadyExists)
    #expect(try await notes.load(1) == Note(1))
    #expect(try await notes.metadata(of: 1) == nil)
    #expect(await errorCode { try await notes.update(Note(2)) } == .notFound)
    #expect(await errorCode { try await notes.update(Note(2), metadata: nil) } == .notFound)
    #expect(try await notes.count == 1)
    try await notes.insert(Note(2), metadata: Stars(stars: 2))
    #expect(try await notes.update(Note(id: 2, text: "two")) == Note(2))
    #expect(try await notes.metadata(of: 2) == Stars(stars: 2))
    #expect(try await notes.update(Note(2), metadata: nil).text == "two")
    #expect(try await notes.metadata(of: 2) == nil)
    try open.writing { tx throws in
      #expect(errorCode { try notes.insert(Self.changed, in: tx) } == .alreadyExists)
      #expect(errorCode { try notes.insert(Self.changed, metadata: nil, in: tx) } == .alreadyExists)
      #expect(errorCode { try notes.update(Note(3), in: tx) } == .notFound)
      #expect(errorCode { try notes.update(Note(3), metadata: nil, in: tx) } == .notFound)
      try notes.insert(Note(3), in: tx)
      #expect(try notes.update(Note(id: 3, text: "three"), in: tx) == Note(3))
      try notes.delete(3, in: tx)
      #expect(errorCode { try notes.update(Note(3), in: tx) } == .notFound)
      try notes.insert(Note(3), metadata: Stars(stars: 3), in: tx)
      #expect(try notes.metadata(of: 3, in: tx) == Stars(stars: 3))
    }
    #expect(try await notes.count == 3)
  }

  @Test func `the error names the instance that is missing or exists already`() async throws {
    let open = try StoreLocation.memory.open()
    let notes = Store<NoteFormat>(in: open.database)
    try await notes.insert(Note(42))
    for body: () async throws -> Void in [
      { try await notes.insert(Note(42)) }, { _ = try await notes.delete(7) },
      { _ = try await notes.modify(7) { _ in } },
    ] {
      do {
        try await body()
        Issue.record("it should throw")
      } catch let error as DatabaseError {
        #expect(error.collection == "notes")
        #expect(error.key == "42" || error.key == "7")
      }
    }
  }

  @Test(arguments: StoreLocation.allCases)
  func `modify changes an instance, keeps its metadata, and returns the result`(location: StoreLocation) async throws {
    let open = try location.open()
    let notes = Store<NoteFormat>(in: open.database)
    try await notes.persist(Note(1), metadata: Stars(stars: 3))
    #expect(try await notes.modify(1) { $0.text += "!" }.text == "note 1!")
    try open.writing { tx throws in
      #expect(try notes.modify(1, in: tx) { $0.text += "?" }.text == "note 1!?")
      #expect(errorCode { try notes.modify(2, in: tx) { _ in } } == .notFound)
    }
    #expect(try await notes.load(1)?.text == "note 1!?")
    #expect(try await notes.metadata(of: 1) == Stars(stars: 3))
    #expect(await errorCode { try await notes.modify(2) { _ in } } == .notFound)
  }

  @Test func `modify that throws, or returns another identifier, changes nothing`() async throws {
    let open = try StoreLocation.memory.open()
    let notes = Store<NoteFormat>(in: open.database)
    try await notes.persist(Note(1))
    #expect(await errorCode { try await notes.modify(1) { $0.id = 2 } } == .invalidArgument)
    await #expect(throws: StoreStop.self) {
      try await notes.modify(1) { note in
        note.text = "changed"
        throw StoreStop()
      }
    }
    #expect(try await notes.load(...).collect() == [Note(1)])
  }

  @Test func `modify of a row that its own closure has removed sets it again`() throws {
    let open = try StoreLocation.memory.open()
    let notes = Store<NoteFormat>(in: open.database)
    try open.writing { tx throws in
      try notes.persist(Note(1), metadata: Stars(stars: 1), in: tx)
      try notes.modify(1, in: tx) { note in
        try notes.delete(1, in: tx)
        note.text = "again"
      }
      #expect(try notes.load(1, in: tx)?.text == "again")
      #expect(try notes.metadata(of: 1, in: tx) == nil)
      #expect(try notes.count(in: tx) == 1)
    }
  }

  @Test(arguments: StoreLocation.allCases)
  func `a sequence is persisted in one transaction`(location: StoreLocation) async throws {
    let open = try location.open()
    let notes = Store<NoteFormat>(in: open.database)
    try await notes.persist(Note(1), metadata: Stars(stars: 9))
    try await notes.persist(contentsOf: (1...300).map { Note(id: $0, text: "batch") })
    #expect(try await notes.count == 300)
    #expect(try await notes.load(1)?.text == "batch")
    #expect(try await notes.metadata(of: 1) == Stars(stars: 9))
  }

  @Test func `a sequence is persisted entirely or not at all, and its transaction continues`() throws {
    struct Number: Codable, Identifiable, Sendable {
      var id: Double
    }
    struct NumberFormat: StoreFormat {
      static let collection = "numbers"
      typealias Instance = Number
    }
    let open = try StoreLocation.memory.open()
    let numbers = Store<NumberFormat>(in: open.database)
    try open.writing { tx throws in
      try numbers.persist(Number(id: 0), in: tx)
      let batch = [1, 2, Double.nan, 4].map(Number.init)
      #expect(errorCode { try numbers.persist(contentsOf: batch, in: tx) } == .invalidKey)
      #expect(try numbers.count(in: tx) == 1)
      try numbers.persist(Number(id: 5), in: tx)
    }
    #expect(try open.reading { tx in try numbers.count(in: tx) } == 2)
  }

  @Test func `an instance that can't be encoded changes nothing`() async throws {
    struct Stubborn: Codable, Identifiable, Sendable {
      var id: Int
      var isStubborn: Bool
      func encode(to encoder: any Encoder) throws {
        if isStubborn { throw StoreStop() }
        var container = encoder.singleValueContainer()
        try container.encode(id)
      }
      init(id: Int, isStubborn: Bool) {
        self.id = id
        self.isStubborn = isStubborn
      }
      init(from decoder: any Decoder) throws {
        self.init(id: try decoder.singleValueContainer().decode(Int.self), isStubborn: false)
      }
    }
    struct StubbornFormat: StoreFormat {
      static let collection = "stubborn"
      typealias Instance = Stubborn
    }
    let open = try StoreLocation.memory.open()
    let store = Store<StubbornFormat>(in: open.database)
    #expect(await errorCode { try await store.persist(Stubborn(id: 1, isStubborn: true)) } == .encodingFailed)
    #expect(try await store.count == 0)
    try await store.persist(Stubborn(id: 1, isStubborn: false))
    #expect(await errorCode { try await store.modify(1) { $0.isStubborn = true } } == .encodingFailed)
    #expect(try await store.load(1) != nil)
  }

  @Test func `calls inside perform are one transaction, and undone together`() async throws {
    let open = try StoreLocation.memory.open()
    let notes = Store<NoteFormat>(in: open.database)
    try await open.database.perform {
      try await notes.persist(Note(1))
      try await notes.insert(Note(2))
      #expect(try await notes.count == 2)
      #expect(try open.reading { tx in try notes.count(in: tx) } == 2)
      await Threads.start { _ throws in #expect(try open.reading { tx in try notes.count(in: tx) } == 0) }.join()
    }
    await #expect(throws: StoreStop.self) {
      try await open.database.perform {
        try await notes.delete(1)
        try await notes.modify(2) { $0.text = "changed" }
        throw StoreStop()
      }
    }
    #expect(try await notes.load(...).collect() == [Note(1), Note(2)])
  }

  @Test func `a call that throws inside perform is undone alone`() async throws {
    let open = try StoreLocation.memory.open()
    let notes = Store<NoteFormat>(in: open.database)
    try await open.database.perform {
      try await notes.persist(Note(1))
      #expect(await errorCode { try await notes.insert(Note(1)) } == .alreadyExists)
      await #expect(throws: StoreStop.self) {
        try await notes.modify(1) { _ in throw StoreStop() }
      }
      try await notes.persist(Note(2))
    }
    #expect(try await notes.load(...).collect() == [Note(1), Note(2)])
  }
}
