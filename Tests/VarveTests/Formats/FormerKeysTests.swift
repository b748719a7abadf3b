import EngineTestSupport
import Foundation
import Testing
import VarveTestSupport

@testable import ObjectFixtures
@testable import Varve

/// Tests of formats whose collection had another name in an earlier version of the program.
struct FormerKeysTests {
  private let shared: SharedBackend

  init() throws { shared = try SharedBackend() }

  fileprivate struct OldFormat: StoreFormat {
    typealias Instance = Volume
    static let collection = "books"
    let title = Index(\.title)
    let isbn = OneToOneIndex(\.isbn)
  }

  fileprivate struct NewFormat: StoreFormat {
    typealias Instance = Volume
    static let collection = "volumes"
    static let formerKeys = ["books", "titles"]
    let title = Index(\.title)
    let isbn = OneToOneIndex(\.isbn)
  }

  private func fill(_ database: Database, _ collection: String = "books", _ count: Int = 40) throws {
    try database.change { tx throws in
      for id in 1...count {
        try tx.set(Volume(id: id, title: "t\(id % 5)", isbn: "i\(id)"), key: id, in: collection)
      }
    }
  }

  private func makeOld() throws {
    let database = try shared.open(DatabaseDefinition { OldFormat.self })
    try fill(database)
    try database.endNow()
  }

  private func names() throws -> [String] {
    let database = try shared.open()
    defer { try? database.endNow() }
    return database.core.catalog.collections.map(\.name).sorted()
  }

  private func openCode(_ definition: DatabaseDefinition) -> DatabaseError? {
    do {
      try shared.open(definition).endNow()
      return nil
    } catch { return error as? DatabaseError }
  }

  @Test func `a format with a changed collection name finds the former rows and indexes, without a rebuild`() throws {
    try makeOld()
    let families = try shared.families().map(\.name).sorted()
    for _ in 0..<2 {
      let database = try shared.open(DatabaseDefinition { NewFormat.self })
      let store = Store<NewFormat>(in: database)
      #expect(database.core.extensions.list[IndexesName.name(for: "volumes")]?.record.state == .ready)
      try database.look { tx throws in
        #expect(try store.count(.value("t1"), from: \.title, in: tx) == 8)
        #expect(try store.load(.value("i7"), from: \.isbn, in: tx)?.id == 7)
        #expect(try store.indexDifferences(in: tx).isEmpty)
        #expect(try tx.collections() == ["volumes"])
      }
      #expect(try shared.families().map(\.name).sorted() == families)
      #expect(database.core.extensionCatalog.names == [IndexesName.name(for: "volumes")])
      try database.change { tx throws in
        #expect(errorCode { try store.insert(Volume(id: 900, title: "", isbn: "i7"), in: tx) } == .notUnique)
      }
      try database.endNow()
    }
    #expect(try names() == ["volumes"])
  }

  @Test func `rows that a program without the format wrote before are in the indexes too`() throws {
    try makeOld()
    let plain = try shared.open()
    try plain.change { tx throws in
      try tx.set(Volume(id: 3, title: "changed"), key: 3, in: "books")
      try tx.remove(key: 4, in: "books")
    }
    try plain.endNow()
    let database = try shared.open(DatabaseDefinition { NewFormat.self })
    let store = Store<NewFormat>(in: database)
    try warm(store)
    try database.look { tx throws in
      #expect(try store.count(.value("changed"), from: \.title, in: tx) == 1)
      #expect(try store.count(.all, from: \.title, in: tx) == 39)
      #expect(try store.indexDifferences(in: tx).isEmpty)
    }
    try database.endNow()
  }

  @Test func `a definition is refused if the present and a former collection exist, or two former ones`() throws {
    try makeOld()
    let plain = try shared.open()
    try fill(plain, "volumes", 1)
    try plain.endNow()
    var error = openCode(DatabaseDefinition { NewFormat.self })
    #expect(error?.code == .invalidDefinition && error?.collection == "volumes")
    #expect(error?.message.contains("\"books\"") == true, "\(error as Any)")
    #expect(try names() == ["books", "volumes"])

    let again = try shared.open()
    _ = try again.core.dropCollection("volumes")
    try fill(again, "titles", 1)
    try again.endNow()
    error = openCode(DatabaseDefinition { NewFormat.self })
    #expect(error?.code == .invalidDefinition)
    #expect(error?.message.contains("\"titles\"") == true && error?.collection == "books", "\(error as Any)")
    #expect(try names() == ["books", "titles"])
  }

  @Test func `a collection that does not match the definition keeps its name`() throws {
    struct TextKeys: StoreFormat {
      struct Instance: Codable, Identifiable, Sendable { var id: String }
      static let collection = "volumes"
      static let formerKeys = ["books"]
    }
    try makeOld()
    let error = openCode(DatabaseDefinition { TextKeys.self })
    #expect(error?.code == .definitionDiffers)
    #expect(error?.message == "its key type is int on disk and string in the definition", "\(error as Any)")
    #expect(try names() == ["books"])
  }

  @Test func `a definition whose former names contradict others is refused before anything is written`() throws {
    let name = CollectionDefinition("volumes", String.self, key: Int.self)
    #expect(
      openCode(
        DatabaseDefinition {
          name.formerly("books")
          CollectionDefinition("books", String.self, key: Int.self)
        })?.code == .invalidDefinition)
    #expect(
      openCode(
        DatabaseDefinition {
          name.formerly("books")
          CollectionDefinition("titles", String.self, key: Int.self).formerly("books")
        })?.code == .invalidDefinition)
    #expect(openCode(DatabaseDefinition { name.formerly("volumes") })?.code == .invalidDefinition)
    #expect(try names() == [])
  }

  @Test func `a plain definition renames a collection by its former names`() throws {
    let first = try shared.open()
    try first.change { tx throws in for key in 0..<5 { try tx.set("text \(key)", key: key, in: "mails") } }
    try first.endNow()
    let definition = CollectionDefinition("letters", String.self, key: Int.self).formerly("messages", "mails")
    let database = try shared.open(DatabaseDefinition { definition })
    #expect(try database.look { tx in try tx.object(String.self, key: 4, in: "letters") } == "text 4")
    #expect(try database.look { tx in try tx.count(in: "mails") } == 0)
    try database.endNow()
  }

  @Test func `a store that the database was not opened with never appears empty`() throws {
    struct Bare: StoreFormat {
      typealias Instance = Volume
      static let collection = "volumes"
      static let formerKeys = ["books"]
    }
    let first = try shared.open()
    try fill(first)
    try first.endNow()
    let database = try shared.open()
    let store = Store<Bare>(in: database)
    for _ in 0..<2 {
      #expect(errorCode { _ = try database.look { tx in try store.load(1, in: tx) } } == .invalidDefinition)
      #expect(
        errorCode { try database.change { tx in _ = try store.persist(Volume(id: 1, title: ""), in: tx) } }
          == .invalidDefinition)
    }
    #expect(
      errorCode {
        try database.define(CollectionDefinition("volumes", Volume.self, key: Int.self).formerly("books"))
      } == .invalidDefinition)
    // The former names do not apply in a collection other than the format's own.
    let others = Store(Bare.self, in: database, collection: "others")
    try database.change { tx in _ = try others.persist(Volume(id: 1, title: ""), in: tx) }
    try database.endNow()
    #expect(try names() == ["books", "others"])
  }

  @Test func `a read-only program can't use the new name until a writing one has renamed the collection`() throws {
    try makeOld()
    let definition = DatabaseDefinition { NewFormat.self }
    let reader = try shared.readOnly().open(definition)
    let store = Store<NewFormat>(in: reader)
    do {
      _ = try reader.look { tx in try store.load(1, in: tx) }
      Issue.record("an empty store was read")
    } catch let error as DatabaseError {
      #expect(error.code == .readOnly && error.collection == "volumes")
      #expect(error.message.contains("\"books\""), "\(error)")
    }
    #expect(errorCode { _ = try reader.look { tx in try tx.contains(key: 1, in: "volumes") } } == .readOnly)
    try shared.open(definition).endNow()
    let again = try shared.readOnly().open(definition)
    let found = Store<NewFormat>(in: again)
    #expect(try again.look { tx in try found.count(.value("t1"), from: \.title, in: tx) } == 8)
  }

  @Test func `a follower that has the new format reads once the writer was updated`() throws {
    let directory = try TemporaryDirectory()
    let writer = try OpenDatabase.database(in: directory, DatabaseDefinition { OldFormat.self })
    try fill(writer)
    var options = DatabaseOptions()
    options.follows = true
    let follower = try OpenDatabase.database(in: directory, DatabaseDefinition { NewFormat.self }, options: options)
    let store = Store<NewFormat>(in: follower)
    #expect(errorCode { _ = try follower.look { tx in try store.load(1, in: tx) } } == .readOnly)
    try writer.endNow()
    let updated = try OpenDatabase.database(in: directory, DatabaseDefinition { NewFormat.self })
    #expect(try follower.look { tx in try store.load(1, in: tx)?.title } == "t1")
    #expect(try follower.look { tx in try store.count(.value("t1"), from: \.title, in: tx) } == 8)
    try follower.endNow()
    try updated.endNow()
  }

  @Test func `a subscription that resumes from before the renaming receives a gap`() async throws {
    try makeOld()
    let database = try shared.open(DatabaseDefinition { NewFormat.self })
    let events = try database.feedEvents()
    #expect(events.map(\.text) == ["gap"])
    let store = Store<NewFormat>(in: database)
    try database.change { tx in _ = try store.persist(Volume(id: 77, title: "new"), in: tx) }
    #expect(try database.feedEvents().map { $0.changes?.changedCollections } == [nil, ["volumes"]])
    try database.endNow()
  }

  private func warm<Format: StoreFormat>(_ store: Store<Format>) throws { try store.warm() }
}
