import EngineTestSupport
import Foundation
import Synchronization
import Testing
import Varve

@testable import ObjectFixtures

/// Tests of the rules of a definition for the objects that formats and types with a collection write.
struct ObjectRuleTests {
  /// A rule that trims notes, removes a note without text, and refuses one that is too long.
  private static func rule(_ note: Note) throws -> Note? {
    if note.text.count > 20 { throw TooLong() }
    return note.text == "" ? nil : Note(id: note.id, text: note.text.lowercased())
  }

  private struct TooLong: Error {}

  private static func notes(_ heard: @escaping @Sendable (Note) -> Void = { _ in }) throws -> DatabaseDefinition {
    let definition = try DatabaseDefinition {
      try CollectionDefinition(NoteFormat.self).sanitized(before: { try rule($0) }).sanitized(after: heard)
    }
    return definition
  }

  @Test(arguments: StoreLocation.allCases)
  func `every write of a store applies the rule of its format`(location: StoreLocation) async throws {
    let heard = Mutex<[Note]>([])
    let open = try location.open(try Self.notes { note in heard.withLock { $0.append(note) } })
    let notes = Store<NoteFormat>(in: open.database)
    try await notes.persist(Note(id: 1, text: "ONE"), metadata: Stars(stars: 1))
    try await notes.insert(Note(id: 2, text: "TWO"))
    try await notes.persist(contentsOf: [Note(id: 3, text: "THREE"), Note(id: 4, text: "")])
    try await notes.update(Note(id: 2, text: "Deux"))
    #expect(try await notes.modify(3) { $0.text += " AND MORE" } == Note(id: 3, text: "three and more"))
    #expect(try await notes.load(...).collect().map(\.text) == ["one", "deux", "three and more"])
    #expect(heard.withLock { $0.map(\.text) } == ["one", "two", "three", "deux", "three and more"])
    // A row that the rule removes loses its metadata too.
    try await notes.persist(Note(id: 1, text: ""))
    #expect(try await notes.load(1) == nil)
    #expect(try await notes.metadata(of: 1) == nil)
    #expect(try await notes.modify(2) { $0.text = "" } == Note(id: 2, text: ""))
    #expect(try await notes.count == 1)
  }

  @Test func `a rule that throws fails the write and nothing else`() async throws {
    let open = try StoreLocation.memory.open(try Self.notes())
    let notes = Store<NoteFormat>(in: open.database)
    try await notes.persist(Note(1))
    let long = Note(id: 1, text: String(repeating: "x", count: 21))
    await #expect(throws: TooLong.self) { try await notes.persist(long) }
    try open.writing { tx throws in
      #expect(throws: TooLong.self) { try notes.persist(long, in: tx) }
      try notes.persist(Note(2), in: tx)
    }
    #expect(try await notes.load(...).collect() == [Note(1), Note(2)])
  }

  @Test(arguments: StoreLocation.allCases)
  func `an item's own metadata is that of the rule's result`(location: StoreLocation) throws {
    let definition = try DatabaseDefinition {
      try CollectionDefinition(Photo.self).sanitized(before: { (photo: Photo) in
        var photo = photo
        photo.metadata = photo.metadata.map { Photo.Size(width: min($0.width, 100)) }
        return photo
      })
    }
    let open = try location.open(definition)
    var photo = Photo(id: 1, name: "sea")
    photo.metadata = Photo.Size(width: 4_000)
    try open.writing { tx in try photo.persist(in: tx) }
    #expect(try open.reading { tx in try Photo.load(1, in: tx)?.metadata } == Photo.Size(width: 100))
  }

  @Test func `a rule for objects of another type is an error of the definition`() throws {
    func code(_ collection: CollectionDefinition) -> DatabaseError.Code? {
      errorCode { _ = try Database.inMemory { collection } }
    }
    let notes = try CollectionDefinition(NoteFormat.self)
    #expect(code(notes.sanitized(before: { (item: Item) in item })) == .invalidDefinition)
    #expect(code(notes.sanitized(after: { (_: String) in })) == .invalidDefinition)
    let words = CollectionDefinition("words", String.self, key: Int.self)
    #expect(code(words.sanitized(before: { (word: Int) in word })) == .invalidDefinition)
  }

  // MARK: - Classes

  private class Animal: Codable, @unchecked Sendable {
    let name: String
    init(name: String) { self.name = name }
  }

  private final class Dog: Animal, @unchecked Sendable {}

  @Test func `a rule that replaces an object by one of another class fails, and removes nothing`() throws {
    let definition = DatabaseDefinition {
      CollectionDefinition("animals", Dog.self, key: Int.self)
        .sanitized(before: { (animal: Animal) in animal.name == "Rex" ? animal : Animal(name: "Rex") })
    }
    let open = try StoreLocation.memory.open(definition)
    try open.writing { tx throws in
      try tx.set(Dog(name: "Rex"), key: 1, in: "animals")
      #expect(errorCode { try tx.set(Dog(name: "Max"), key: 1, in: "animals") } == .encodingFailed)
      #expect(try tx.object(Dog.self, key: 1, in: "animals")?.name == "Rex")
    }
  }
}
