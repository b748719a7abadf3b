import Foundation
import Testing
import Varve

@testable import ObjectFixtures

/// Tests of rows that the program cannot decode, and of how they can be removed.
struct UndecodableTests {
  /// The format of another program under the same name.
  private struct Other: StoreFormat {
    static let collection = "notes"
    struct Instance: Codable, Identifiable, Sendable {
      var id: Int
      var isOther: Bool
    }
    typealias Metadata = NoteFormat.Metadata
  }

  /// Stores six rows that can't be decoded as notes, and one that can.
  private static func filled() async throws -> SharedBackend {
    let backend = try SharedBackend()
    let others = Store<Other>(in: try backend.open())
    for id in 1...6 { try await others.persist(Other.Instance(id: id, isOther: true), metadata: Stars(stars: id)) }
    let notes = Store<NoteFormat>(in: try backend.open())
    try await notes.persist(Note(7))
    return backend
  }

  private static func error(_ body: () async throws -> Void) async -> DatabaseError? {
    do { try await body() } catch { return error as? DatabaseError }
    return nil
  }

  @Test func `persist replaces undecodable rows, keeps their metadata, and returns nil for the former instance`()
    async throws
  {
    let notes = Store<NoteFormat>(in: try await Self.filled().open())
    #expect(try await notes.persist(Note(1)) == nil)
    #expect(try await notes.load(1) == Note(1))
    #expect(try await notes.metadata(of: 1) == Stars(stars: 1))
    #expect(try await notes.persist(Note(2), metadata: nil) == nil)
    #expect(try await notes.load(2) == Note(2))
    #expect(try await notes.metadata(of: 2) == nil)
    #expect(try await notes.persist(Note(7)) == Note(7), "what can be decoded is returned")
    #expect(try await notes.count == 7)
  }

  @Test func `deleteIfPresent removes undecodable rows, and returns nil for the former instance`() async throws {
    let notes = Store<NoteFormat>(in: try await Self.filled().open())
    #expect(try await notes.deleteIfPresent(1) == nil)
    #expect(try await notes.deleteIfPresent(Note(2)) == nil)
    #expect(try await notes.contains(1) == false)
    #expect(try await notes.contains(2) == false)
    #expect(try await notes.metadata(of: 1) == nil)
    #expect(try await notes.count == 5)
    #expect(try await notes.deleteIfPresent(7) == Note(7))
  }

  @Test func `calls that return an undecodable former instance throw, name an alternative, and change nothing`()
    async throws
  {
    let notes = Store<NoteFormat>(in: try await Self.filled().open())
    let deleted = await Self.error { try await notes.delete(3) }
    #expect(deleted?.code == .decodingFailed)
    #expect(deleted?.collection == "notes" && deleted?.key == "3")
    #expect(deleted?.message.contains("deleteIfPresent") == true, "\(String(describing: deleted))")
    let updated = await Self.error { try await notes.update(Note(3)) }
    #expect(updated?.code == .decodingFailed)
    #expect(updated?.collection == "notes" && updated?.key == "3")
    #expect(updated?.message.contains("persist") == true, "\(String(describing: updated))")
    #expect(await Self.error { try await notes.modify(3) { $0.text = "" } }?.code == .decodingFailed)
    #expect(await Self.error { _ = try await notes.load(3) }?.code == .decodingFailed)
    #expect(try await notes.count == 7)
    #expect(try await notes.metadata(of: 3) == Stars(stars: 3))
    #expect(await Self.error { try await notes.delete(9) }?.code == .notFound)
  }

  @Test func `calls that remove or set several rows, a range or all rows decode none of them`() async throws {
    let notes = Store<NoteFormat>(in: try await Self.filled().open())
    #expect(try await notes.delete(1...2) == 2)
    #expect(try await notes.delete(ids: [3]) == 1)
    try await notes.persist(contentsOf: [Note(4)])
    #expect(try await notes.load(4) == Note(4))
    #expect(try await notes.delete(...) == 4)
  }

  @Test func `items and the row API replace and remove undecodable rows too`() async throws {
    struct OtherItem: Persistable {
      static let collection = Item.collection
      var id: String
    }
    let backend = try SharedBackend()
    try await [OtherItem(id: "a"), OtherItem(id: "b"), OtherItem(id: "c")].persist(in: try backend.open())
    let database = try backend.open()
    #expect(await Self.error { _ = try await Item.load("a", in: database) }?.code == .decodingFailed)
    try await Item(id: "a", count: 1).persist(in: database)
    #expect(try await Item.load("a", in: database) == Item(id: "a", count: 1))
    #expect(try await Item(id: "b", count: 0).deleteIfPresent(in: database) == nil)
    #expect(try await !Item.store(in: database).contains("b"))
    try await database.write { tx in _ = try tx.remove(key: "c", in: Item.collection) }
    #expect(try await Item.load(..., in: database).collect() == [Item(id: "a", count: 1)])
  }

  @Test func `an extension that needs the former row refuses, and the error names the row`() async throws {
    let open = OpenDatabase(try await Self.filled().open(), nil)
    let notes = Store<NoteFormat>(in: open.database)
    var hooks = Hooks(scope: .only(["notes"]))
    hooks.willRemove = { _, change in _ = try #require(try change.old).object(as: Note.self) }
    hooks.willModify = { tx, change in
      guard change.event != .inserted else { return }
      _ = try tx.object(Note.self, key: try change.key.key(as: Int.self), in: "notes")
    }
    try await open.database.register(hooks, as: "needs the old one")
    for body: (WriteTransaction) throws -> Void in [
      { try notes.persist(Note(3), in: $0) }, { try notes.deleteIfPresent(3, in: $0) },
      { try notes.delete(3...3, in: $0) }, { try notes.persist(contentsOf: [Note(3)], in: $0) },
    ] {
      var thrown: DatabaseError?
      try open.writing { tx in
        do { try body(tx) } catch { thrown = error as? DatabaseError }
        try notes.persist(Note(8), in: tx)
      }
      #expect(thrown?.code == .decodingFailed)
      #expect(thrown?.collection == "notes" && thrown?.key == "3")
    }
    #expect(try await notes.count == 8, "each refused, and its transaction went on")
    try await open.database.unregister("needs the old one")
    #expect(try await notes.deleteIfPresent(3) == nil)
    #expect(try await notes.count == 7)
  }
}
