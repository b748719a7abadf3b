import Testing
import Varve

@testable import ObjectFixtures

/// Tests of instances that are observed through their store.
struct StoreObservationTests {
  @Test func `an instance is observed with converted versions, through every change, and after its removal`()
    async throws
  {
    struct Old: StoreFormat {
      static let collection = "notes"
      struct Instance: Codable, Identifiable, Sendable {
        var id: Int
        var words: [String]
      }
    }
    struct New: StoreFormat {
      static let collection = "notes"
      enum Version: Int, CaseIterable, Sendable { case old, new }
      static let currentVersion = Version.new
      typealias Instance = Note
      static func decode(_ stored: StoredValue, version: Version) throws -> Note {
        switch version {
        case .old:
          let old = try stored.decode(Old.Instance.self)
          return Note(id: old.id, text: old.words.joined(separator: " "))
        case .new: return try stored.decode()
        }
      }
    }
    let backend = try SharedBackend()
    try await Store<Old>(in: try backend.open()).persist(Old.Instance(id: 1, words: ["two", "words"]))
    let notes = Store<New>(in: try backend.open())
    var one = notes.observe(1).makeAsyncIterator()
    var other = notes.observe(2).makeAsyncIterator()
    #expect(try await one.next() == .some(Note(id: 1, text: "two words")))
    #expect(try await other.next() == .some(nil))
    try await notes.modify(1) { $0.text = "changed" }
    #expect(try await one.next() == .some(Note(id: 1, text: "changed")))
    try await notes.persist(Note(2))
    #expect(try await other.next() == .some(Note(2)))
    try await notes.delete(1)
    #expect(try await one.next() == .some(nil))
  }

  @Test func `a store is observed with the keys that change in it, and in no other`() async throws {
    let database = try await Database.inMemory()
    let notes = Store<NoteFormat>(in: database)
    let others = Store<NoteFormat>(in: database, collection: "others")
    var changes = notes.observe().makeAsyncIterator()
    #expect(try await changes.next()?.isReload == true)
    try await others.persist(Note(7))
    try await notes.persist(Note(1))
    let change = try await changes.next()
    #expect(try change?.changedKeys.map { try $0.key(as: Int.self) } == [1])
    try await notes.delete(1)
    #expect(try await changes.next()?.removedKeys.map { try $0.key(as: Int.self) } == [1])
  }

  @Test(arguments: StoreLocation.allCases)
  func `an item is observed by its type, with its metadata, and its collection by the changed keys`(
    location: StoreLocation
  ) async throws {
    let open = try location.open()
    let database = open.database
    var one = Photo.observe(1, in: database).makeAsyncIterator()
    var all = Photo.store(in: database).observe().makeAsyncIterator()
    #expect(try await one.next() == .some(nil))
    #expect(try await all.next()?.isReload == true)
    try await Photo(id: 1, name: "sea", metadata: .init(width: 7)).persist(in: database)
    #expect(try await one.next() == .some(Photo(id: 1, name: "sea", metadata: .init(width: 7))))
    #expect(try await all.next()?.changedKeys.map { try $0.key(as: Int.self) } == [1])
    try await Photo(id: 1, name: "sea", metadata: .init(width: 8)).persist(in: database)
    #expect(try await one.next()??.metadata?.width == 8)
    try await Photo(id: 1, name: "sea").delete(in: database)
    #expect(try await one.next() == .some(nil))
    #expect(try await all.next()?.isReload == false)
  }
}
