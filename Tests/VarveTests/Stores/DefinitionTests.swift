import EngineTestSupport
import Foundation
import Synchronization
import Testing
import Varve

@testable import ObjectFixtures

/// Tests of errors of a format, a type or a key, and of when they are reported.
struct FormatDefinitionTests {
  /// A format with the collection of notes and another type of identifier.
  private struct OtherKeys: StoreFormat {
    static let collection = "notes"
    struct Instance: Codable, Identifiable, Sendable { var id: String }
  }

  private struct OtherCoder: StoreFormat {
    static let collection = "notes"
    static let coder = CoderKind.json
    typealias Instance = Note
    typealias Metadata = Stars
  }

  private struct OtherStorage: StoreFormat {
    static let collection = "notes"
    static let storage = CollectionStorage.own()
    typealias Instance = Note
    typealias Metadata = Stars
  }

  private static func check<Format: StoreFormat>(
    _ format: Format.Type, on backend: SharedBackend, _ what: String
  ) async throws {
    let definition = DatabaseDefinition {
      format
    }
    do {
      _ = try backend.open(definition)
      Issue.record("it should not open")
    } catch let error as DatabaseError {
      #expect(error.code == .definitionDiffers)
      #expect(error.collection == "notes")
      #expect(error.message.contains(what), "\(error)")
    }
    let store = Store<Format>(in: try backend.open())
    #expect(await errorCode { _ = try await store.count } == .definitionDiffers)
    #expect(await errorCode { _ = try await store.load(...).collect() } == .definitionDiffers)
    #expect(await errorCode { try await store.delete(...) } == .definitionDiffers)
  }

  @Test func `another type of key, coder or storage is an error at open or at first use, never an empty store`()
    async throws
  {
    let backend = try SharedBackend()
    try await Store<NoteFormat>(in: try backend.open()).persist(Note(1))
    try await Self.check(OtherKeys.self, on: backend, "key type is int")
    try await Self.check(OtherCoder.self, on: backend, "coder is binary")
    try await Self.check(OtherStorage.self, on: backend, "storage is shared")
    #expect(try await Store<NoteFormat>(in: try backend.open()).load(1) == Note(1))
  }

  @Test func `adding a format twice is an error`() throws {
    let first = try DatabaseDefinition {
      NoteFormat.self
      try CollectionDefinition(NoteFormat.self, collection: "other notes")
      Item.self
      try CollectionDefinition(ValueFormat<String, Data, Never>.self, collection: "data")
    }
    try Database.inMemory(definition: first).close()
    func code(@DatabaseDefinitionBuilder _ second: () throws -> DatabaseDefinition) -> DatabaseError.Code? {
      errorCode {
        let second = try second()
        _ = try Database.inMemory {
          first
          second
        }
      }
    }
    #expect(code { NoteFormat.self } == .alreadyDefined)
    #expect(code { OtherKeys.self } == .alreadyDefined)
    #expect(code { CollectionDefinition("notes", Note.self, key: Int.self) } == .alreadyDefined)
    #expect(code { try CollectionDefinition(Item.self, coder: .json) } == .alreadyDefined)
    #expect(
      code { try CollectionDefinition(ValueFormat<Int, Data, Int>.self, collection: "data") } == .alreadyDefined)
    #expect(code { if false { NoteFormat.self } } == nil)
  }

  @Test func `a definition may branch and loop, and throws what its closure throws`() async throws {
    let names = ["a", "b", "c"]
    let isLarge = names.count > 2
    let database = try await Database.inMemory {
      for name in names { CollectionDefinition(name, String.self, key: Int.self, coder: .json) }
      if isLarge {
        NoteFormat.self
      } else {
        Item.self
      }
    }
    try await database.write { tx in for name in names { try tx.set("x", key: 1, in: name) } }
    #expect(
      try await database.read { tx in try names.map { try tx.objectBytes(key: 1, in: $0) } }
        == Array(repeating: Array("\"x\"".utf8), count: 3))
    #expect(await errorCode { try await Item(id: "a", count: 1).persist(in: database) } == nil)
    #expect(try await Store<NoteFormat>(in: database).persist(Note(1)) == nil)
    await #expect(throws: StoreStop.self) {
      _ = try await Database.inMemory {
        Item.self
        try { throw StoreStop() }() as CollectionDefinition
      }
    }
  }

  /// A synchronous function, in which the blocking forms are selected.
  private func openWaiting(_ backend: SharedBackend, _ path: String) throws -> Int {
    let databases = [
      try Database.inMemory { NoteFormat.self }, try Database.inMemory(),
      try Database.open(backend, path: "shared") { NoteFormat.self }, try Database.open(at: path) { NoteFormat.self },
    ]
    for database in databases { try database.close() }
    try Database.open(at: URL(fileURLWithPath: path)) { NoteFormat.self }.close()
    return databases.count
  }

  @Test func `databases are opened in tasks and in synchronous functions by the same calls`() async throws {
    let backend = try SharedBackend()
    let directory = try TemporaryDirectory()
    #expect(try openWaiting(backend, directory.path + "/waiting") == 4)
    // If these were not the asynchronous forms, the compiler would warn of each `await`.
    let databases = [
      try await Database.inMemory { NoteFormat.self }, try await Database.inMemory(),
      try await Database.open(backend, path: "shared") { NoteFormat.self },
      try await Database.open(backend, path: "shared"),
      try await Database.open(at: directory.path + "/task") { NoteFormat.self },
    ]
    for database in databases { try await database.close() }
    let url = URL(fileURLWithPath: directory.path + "/task")
    try await Database.open(at: url) { NoteFormat.self }.close()
  }

  private static func check<Format: StoreFormat>(
    _ format: Format.Type, in database: Database, _ what: String
  ) async where Format.Instance == Note {
    let error = await #expect(throws: DatabaseError.self) { _ = try await Database.inMemory { format } }
    #expect(error?.code == .invalidDefinition)
    #expect(error?.description.contains(what) == true)
    #expect(await errorCode { try await Store<Format>(in: database).persist(Note(1)) } == .invalidDefinition)
  }

  @Test func `a contradictory definition is refused, and so is a store of it`() async throws {
    struct Nameless: StoreFormat {
      static let collection = ""
      typealias Instance = Note
    }
    struct Forgetful: DecoderTableFormat {
      static let collection = "forgetful"
      enum Version: String, CaseIterable, Sendable { case first, second, third }
      static let currentVersion = Version.third
      typealias Instance = Note
      static let decoders: Decoders = [.second: { try $0.decode() }]
    }
    struct Doubled: StoreFormat {
      static let collection = "doubled"
      struct Version: RawRepresentable, CaseIterable, Hashable, Sendable {
        var rawValue: String
        var isOther = false
        init(rawValue: String) { self.rawValue = rawValue }
        init(_ isOther: Bool) {
          self.init(rawValue: "same")
          self.isOther = isOther
        }
        static let allCases = [Version(false), Version(true)]
      }
      static let currentVersion = Version(true)
      typealias Instance = Note
      static func decode(_ stored: StoredValue, version: Version) throws -> Note { try stored.decode() }
    }
    struct Homeless: StoreFormat {
      static let collection = "homeless"
      struct Version: RawRepresentable, CaseIterable, Hashable, Sendable {
        var rawValue: Int
        static let allCases = [Version(rawValue: 1)]
      }
      static let currentVersion = Version(rawValue: 2)
      typealias Instance = Note
      static func decode(_ stored: StoredValue, version: Version) throws -> Note { try stored.decode() }
    }
    let open = try StoreLocation.memory.open()
    await Self.check(Nameless.self, in: open.database, "empty")
    await Self.check(Forgetful.self, in: open.database, "\"first\", \"third\"")
    await Self.check(Doubled.self, in: open.database, "one raw value")
    await Self.check(Homeless.self, in: open.database, "current version")
    let nameless = Store(of: Data.self, key: Int.self, in: open.database, collection: "")
    #expect(await errorCode { try await nameless.persist(Data(), for: 1) } == .invalidDefinition)
    #expect(try open.reading { tx in try tx.collections() }.isEmpty)
  }

  /// A format that counts the calls of its decoder table, which the check of a definition makes once.
  private struct Counted: DecoderTableFormat {
    static let collection = "counted"
    enum Version: String, CaseIterable, Sendable { case first, second }
    static let currentVersion = Version.second
    typealias Instance = Note
    static let asked = Atomic(0)
    static let isWhole = Atomic(false)
    static var decoders: Decoders {
      asked.add(1, ordering: .relaxed)
      let second: Decoders = [.second: { try $0.decode() }]
      return isWhole.load(ordering: .relaxed) ? second.merging([.first: { try $0.decode() }]) { $1 } : second
    }
  }

  @Test func `each call refuses an invalid definition, even a read of a collection that does not exist yet`()
    async throws
  {
    let open = try StoreLocation.memory.open()
    let store = Store<Counted>(in: open.database)
    let calls: [(WriteTransaction) throws -> Void] = [
      { _ = try store.count(in: $0) }, { _ = try store.load(1, in: $0) }, { _ = try store.load(ids: [1], in: $0) },
      { _ = try store.contains(1, in: $0) }, { _ = try store.load(1...2, in: $0) },
      { _ = try store.metadata(of: 1, in: $0) }, { _ = try store.deleteIfPresent(1, in: $0) },
      { _ = try store.delete(1, in: $0) }, { _ = try store.delete(1...2, in: $0) },
      { _ = try store.delete(..., in: $0) },
    ]
    try open.writing { tx in
      for (number, call) in calls.enumerated() {
        #expect(errorCode { try call(tx) } == .invalidDefinition, "call \(number)")
      }
    }
    #expect(await errorCode { _ = try await store.load(...).collect() } == .invalidDefinition)
    #expect(
      await errorCode { _ = try await Store(of: Data.self, key: Int.self, in: open.database, collection: "").count }
        == .invalidDefinition)
    // A valid definition is checked once for each collection.
    Counted.isWhole.store(true, ordering: .relaxed)
    Counted.asked.store(0, ordering: .relaxed)
    for _ in 0..<3 { #expect(try await store.count == 0) }
    #expect(Counted.asked.load(ordering: .relaxed) == 1)
    #expect(try await Store<Counted>(in: open.database, collection: "other").load(1) == nil)
    #expect(Counted.asked.load(ordering: .relaxed) == 2)
    #expect(try open.reading { tx in try tx.collections() }.isEmpty, "a read makes nothing")
  }

  @Test(arguments: CoderKind.allCases.filter { $0 != .raw }, [CollectionStorage.shared, .own()])
  func `instances and metadata are stored by each coder and in each storage`(
    coder: CoderKind, storage: CollectionStorage
  ) async throws {
    let backend = try SharedBackend()
    let definition = try DatabaseDefinition {
      try CollectionDefinition(Photo.self, coder: coder, storage: storage)
    }
    for isLast in [false, true] {
      let database = try backend.open(definition)
      let photos = Photo.store(in: database)
      if isLast {
        #expect(try await photos.load(1) == Photo(id: 1, name: "one", metadata: Photo.Size(width: 7)))
        #expect(try await photos.load(2) == Photo(id: 2, name: "two"))
        #expect(try await photos.delete(...) == 2)
      } else {
        try await photos.persist(Photo(id: 1, name: "one", metadata: Photo.Size(width: 7)))
        try await photos.persist(Photo(id: 2, name: "two"))
      }
      try await database.close()
    }
  }

  @Test func `a type that is not in the definition uses the coder and the storage of its collection`() async throws {
    let backend = try SharedBackend()
    let definition = try DatabaseDefinition {
      try CollectionDefinition(Item.self, coder: .json, storage: .own())
      CollectionDefinition("data", Data.self, key: Int.self, coder: .raw, storage: .own())
    }
    var database = try backend.open(definition)
    try await Item(id: "a", count: 1).persist(in: database)
    try await Store(of: Data.self, key: Int.self, in: database, collection: "data").persist(Data([1]), for: 1)
    database = try backend.open()
    #expect(try await Item.load("a", in: database)?.count == 1)
    #expect(try await Store(of: Data.self, key: Int.self, in: database, collection: "data").load(1) == Data([1]))
    #expect(
      try await database.read { tx in try tx.objectBytes(key: "a", in: "items") }
        == Array(#"{"count":1,"id":"a"}"#.utf8))
  }

  @Test func `a new collection of a type that is not in the definition uses the coder of the options`() async throws {
    var options = DatabaseOptions()
    options.coder = .json
    let database = try await Database.inMemory(options: options)
    try await Item(id: "a", count: 1).persist(in: database)
    #expect(
      try await database.read { tx in try tx.objectBytes(key: "a", in: "items") }
        == Array(#"{"count":1,"id":"a"}"#.utf8))
  }

  @Test func `a type works with a collection that a format, or a plain definition, of the same type has`() async throws
  {
    struct Tagged: Persistable, Hashable {
      static let collection = "tagged"
      var id: Int
      var tag: String
    }
    struct TaggedFormat: StoreFormat {
      static let collection = "tagged"
      enum Version: Int, CaseIterable, Sendable { case one = 1, two }
      static let currentVersion = Version.two
      typealias Instance = Tagged
      static func decode(_ stored: StoredValue, version: Version) throws -> Tagged {
        switch version {
        case .one: Tagged(id: try stored.decode(Note.self).id, tag: "old")
        case .two: try stored.decode()
        }
      }
    }
    let backend = try SharedBackend()
    struct Older: StoreFormat {
      static let collection = "tagged"
      typealias Instance = Note
    }
    try await Store<Older>(in: try backend.open()).persist(Note(1))
    let definition = DatabaseDefinition {
      TaggedFormat.self
    }
    let database = try backend.open(definition)
    #expect(try await Tagged.load(1, in: database) == Tagged(id: 1, tag: "old"))
    try await Tagged(id: 2, tag: "new").persist(in: database)
    #expect(try await Store<TaggedFormat>(in: database).load(...).collect().map(\.tag) == ["old", "new"])
    #expect(try await Store<TaggedFormat>(in: database).migrate() == 1)

    let plain = DatabaseDefinition {
      CollectionDefinition("tagged", Tagged.self, key: Int.self)
    }
    let other = try await Database.inMemory(definition: plain)
    try await Tagged(id: 3, tag: "plain").persist(in: other)
    #expect(try await Tagged.load(..., in: other).collect() == [Tagged(id: 3, tag: "plain")])
    #expect(await errorCode { _ = try await Store<TaggedFormat>(in: other).load(3) } == .alreadyDefined)
  }

  @Test(arguments: [true, false])
  func `a type and its store work in either order of first use`(typeComesFirst: Bool) async throws {
    struct Plain: Persistable, Hashable {
      static let collection = "plain"
      var id: Int
      var text: String
    }
    struct PlainFormat: StoreFormat {
      static let collection = "plain"
      typealias Instance = Plain
    }
    let database = try await Database.inMemory()
    let store = Store<PlainFormat>(in: database)
    if typeComesFirst { try await Plain(id: 1, text: "type").persist(in: database) }
    try await store.persist(Plain(id: 2, text: "store"))
    if !typeComesFirst { try await Plain(id: 1, text: "type").persist(in: database) }
    #expect(try await store.load(...).collect().map(\.text) == ["type", "store"])
    #expect(try await Plain.load(..., in: database).collect().map(\.text) == ["type", "store"])
    #expect(try await store.load(1) == Plain.load(1, in: database))
  }
}
