import EngineTestSupport
import Foundation
import Testing
import VarveEngine
import VarveTestSupport

@testable import ObjectFixtures
@testable import Varve

/// Tests of dropping a collection.
struct DroppingTests {
  private static func database(_ storage: CollectionStorage = .shared) throws -> Database {
    let definition = DatabaseDefinition {
      CollectionDefinition("books", String.self, key: Int.self, storage: storage)
    }
    return try Database.inMemory(definition: definition)
  }

  private func fill(_ database: Database, _ collection: String = "books", _ keys: Range<Int> = 0..<10) throws {
    try database.write { tx in
      for key in keys { try tx.set("\(collection) \(key)", key: key, in: collection, metadata: key) }
    }
  }

  private func keys(_ database: Database, _ collection: String = "books") throws -> [Int] {
    try database.read { tx in
      let keys = try tx.keys(Int.self, in: collection)
      #expect(try tx.count(in: collection) == keys.count)
      return keys
    }
  }

  @Test(arguments: [CollectionStorage.shared, .own()])
  func `dropping removes one collection's rows, and its definition recreates it`(storage: CollectionStorage) throws {
    let database = try Self.database(storage)
    try fill(database)
    try fill(database, "others")
    #expect(try database.dropCollection("books"))
    #expect(try keys(database) == [])
    #expect(try keys(database, "others") == Array(0..<10))
    #expect(try database.read { tx in try tx.collections() } == ["others"])
    #expect(try !database.dropCollection("books"))
    #expect(errorCode { try database.write { tx in try tx.set("a", key: "text", in: "books") } } == .keyTypeDiffers)
    try fill(database, "books", 5..<7)
    #expect(try keys(database) == [5, 6])
    try database.close()
  }

  @Test func `a name without a definition is free for keys of another type`() throws {
    let database = try Database.inMemory()
    try fill(database, "loose")
    #expect(try database.dropCollection("loose"))
    try database.write { tx in try tx.set("a", key: "text", in: "loose") }
    #expect(try database.read { tx in try tx.keys(String.self, in: "loose") } == ["text"])
    // The drop also removes the name's binding to a type.
    try database.write { tx in _ = try Item(id: "a", count: 1).persist(in: tx) }
    #expect(try database.dropCollection(Item.collection))
    try database.write { tx in try tx.set("a", key: 1, in: Item.collection) }
    #expect(try keys(database, Item.collection) == [1])
    try database.close()
  }

  @Test(arguments: [CollectionStorage.shared, .own()])
  func `an open snapshot keeps a dropped collection, even if a new one of its name exists`(
    storage: CollectionStorage
  ) throws {
    let database = try Self.database(storage)
    try fill(database)
    let connection = database.connection()
    try connection.beginLongLivedRead()
    #expect(try database.dropCollection("books"))
    func held() throws -> [Int] { try connection.read { tx in try tx.keys(Int.self, in: "books") } }
    #expect(try held() == Array(0..<10))
    try fill(database, "books", 5..<7)
    #expect(try held() == Array(0..<10))
    #expect(try connection.read { tx in try tx.object(String.self, key: 3, in: "books") } == "books 3")
    #expect(try connection.read { tx in try tx.collections() } == ["books"])
    try connection.advance()
    #expect(try held() == [5, 6])
    #expect(try connection.read { tx in try tx.object(String.self, key: 3, in: "books") } == nil)
    #expect(try connection.read { tx in try tx.object(String.self, key: 5, in: "books") } == "books 5")
    connection.endLongLivedRead()
    try database.close()
  }

  @Test(arguments: [CollectionStorage.shared, .own()])
  func `a dropped collection and its families do not exist after reopening, and the feed still names it`(
    storage: CollectionStorage
  ) throws {
    let directory = try TemporaryDirectory()
    let path = directory.path + "/db"
    let definition = DatabaseDefinition {
      CollectionDefinition("books", String.self, key: Int.self, storage: storage)
    }
    var database = try Database.open(at: path, definition: definition)
    try fill(database)
    try fill(database, "others")
    let location = try database.read { $0.version }
    #expect(try database.dropCollection("books"))
    try database.close()
    database = try Database.open(at: path)
    let events = try database.feed(after: .zero)
    #expect(events.map { $0.changes?.changedCollections } == [["books"], ["others"], ["books"]])
    #expect(try database.feed(after: location).first?.changes?.isCleared("books") == true)
    let families = try database.core.backend.families().map(\.name)
    #expect(!families.contains { $0.hasPrefix("c.") }, "\(families)")
    #expect(try database.read { tx in try tx.collections() } == ["others"])
    try database.write { tx in try tx.set("a", key: "text", in: "books") }
    #expect(try database.read { tx in try tx.keys(String.self, in: "books") } == ["text"])
    try database.close()
  }

  @Test func `a follower sees that a collection was dropped, and what is created under its name`() throws {
    let directory = try TemporaryDirectory()
    let path = directory.path + "/db"
    let writer = try Database.open(at: path)
    try fill(writer)
    var options = DatabaseOptions()
    options.follows = true
    let follower = try Database.open(at: path, options: options)
    let connection = follower.connection()
    try connection.beginLongLivedRead()
    #expect(try keys(follower) == Array(0..<10))
    #expect(try writer.dropCollection("books"))
    #expect(try keys(follower) == [])
    try writer.write { tx in try tx.set("a", key: "text", in: "books") }
    #expect(try follower.read { tx in try tx.keys(String.self, in: "books") } == ["text"])
    #expect(try connection.read { tx in try tx.keys(Int.self, in: "books") } == Array(0..<10))
    connection.endLongLivedRead()
    #expect(errorCode { try follower.dropCollection("books") } == .readOnly)
    try follower.close()
    try writer.close()
  }

  @Test func `a follower continues when a collection with keys of another type takes the name`() throws {
    let directory = try TemporaryDirectory()
    let path = directory.path + "/db"
    let definition = DatabaseDefinition {
      CollectionDefinition("books", String.self, key: Int.self)
    }
    let writer = try Database.open(at: path)
    try fill(writer)
    try writer.write { tx in _ = try Item(id: "a", count: 1).persist(in: tx) }
    try fill(writer, "others")
    var options = DatabaseOptions()
    options.follows = true
    let follower = try Database.open(at: path, definition: definition, options: options)
    #expect(try follower.read { tx in try Item.load("a", in: tx)?.count } == 1)
    #expect(try keys(follower) == Array(0..<10))
    for name in ["books", Item.collection] {
      #expect(try writer.dropCollection(name))
      try writer.write { tx in try tx.set("new", key: true, in: name) }
    }
    #expect(try keys(follower, "others") == Array(0..<10))
    #expect(try follower.read { tx in try tx.object(String.self, key: true, in: "books") } == "new")
    #expect(errorCode { _ = try follower.read { tx in try Item.load("a", in: tx) } } != nil)
    #expect(try keys(follower, "others") == Array(0..<10))
    try follower.close()
    try writer.close()
  }

  // MARK: - Writers

  @Test func `a concurrent write that has read the dropped collection is retried`() throws {
    let database = try Self.database()
    try fill(database)
    var attempts = 0
    try database.writeConcurrently { tx in
      attempts += 1
      let isThere = try tx.contains(key: 3, in: "books")
      if attempts == 1 { Threads.start { _ in _ = try database.dropCollection("books") }.join() }
      try tx.set(isThere ? "was there" : "was not there", key: 11, in: "books")
    }
    // A writer that finds the collection missing and creates it conflicts as well.
    #expect(attempts > 1)
    #expect(try keys(database) == [11])
    #expect(try database.read { tx in try tx.object(String.self, key: 11, in: "books") } == "was not there")
    try database.close()
  }

  @Test func `a write concurrent with the drop of an empty collection lands in the current one`() throws {
    let database = try Self.database()
    try fill(database)
    try database.write { tx in _ = try tx.removeAll(in: "books") }
    var attempts = 0
    try database.writeConcurrently { tx in
      attempts += 1
      try tx.set("late", key: 11, in: "books")
      if attempts == 1 { Threads.start { _ in _ = try database.dropCollection("books") }.join() }
    }
    #expect(attempts == 2)
    #expect(try keys(database) == [11])
    try database.close()
  }

  @Test func `a concurrent write to a collection that it created, and that is dropped meanwhile, is not lost`() throws {
    let database = try Database.inMemory()
    var attempts = 0
    try database.writeConcurrently { tx in
      attempts += 1
      try tx.set("late", key: 11, in: "books")
      if attempts == 1 {
        Threads.start { _ in _ = try database.dropCollection("books") }.join()
      }
    }
    #expect(attempts == 2)
    #expect(try keys(database) == [11])
    try database.close()
  }

  @Test func `the first use of a store at a snapshot from before the drop creates no collection`() throws {
    let database = try Database.inMemory()
    try database.write { tx in try tx.set(Item(id: "a", count: 1), key: "a", in: Item.collection) }
    let connection = database.connection()
    try connection.beginLongLivedRead()
    #expect(try database.dropCollection(Item.collection))
    #expect(errorCode { try connection.read { tx in _ = try Item.load("a", in: tx) } } == .snapshotTooOld)
    #expect(database.core.catalog.collection(Item.collection) == nil)
    // For a concurrent write, the connection's snapshot is out of date.
    connection.endLongLivedRead()
    var found: [Int?] = []
    try database.write { tx in try tx.set(Item(id: "a", count: 1), key: "a", in: Item.collection) }
    try database.writeConcurrently { tx in
      if found.isEmpty {
        Threads.start { _ in _ = try database.dropCollection(Item.collection) }.join()
      }
      found.append(nil)
      found[found.count - 1] = try Item.load("a", in: tx)?.count
    }
    #expect(found == [nil, nil])
    try database.close()
  }

  @Test func `a concurrent write that found nothing in a dropped collection conflicts with its replacement`() throws {
    let database = try Self.database()
    try fill(database)
    // Without rows, the drop removes none; removals would conflict too.
    try database.write { tx in _ = try tx.removeAll(in: "books") }
    var found: [String?] = []
    try database.writeConcurrently { tx in
      let row = try tx.object(String.self, key: 100, in: "books")
      if found.isEmpty {
        Threads.start { _ in
          _ = try database.dropCollection("books")
          try database.write { tx in try tx.set("new", key: 100, in: "books") }
        }.join()
      }
      found.append(row)
      try tx.set(row ?? "nothing", key: 1, in: "answers")
    }
    #expect(found.first == .some(nil) && found.last == "new")
    #expect(try database.read { tx in try tx.object(String.self, key: 1, in: "answers") } == "new")
    try database.close()
  }

  @Test func `dropping inside a transaction is refused`() async throws {
    let database = try Self.database()
    try fill(database)
    func drop() throws { try database.dropCollection("books") }
    try Blocking.write(database) { _ in #expect(errorCode(drop) == .invalidArgument) }
    try await database.perform {
      #expect(await errorCode { try await database.dropCollection("books") } == .invalidArgument)
    }
    #expect(try await database.dropCollection("books"))
    try await database.close()
  }

  // MARK: - Extensions

  @Test func `hooks receive the rows of a drop, and one that refuses keeps the collection`() throws {
    let database = try Self.database()
    try fill(database)
    let called = Called()
    var hooks = Hooks()
    hooks.willRemove = { _, change in if change.key.text == "7" && called.all.isEmpty { throw Refused() } }
    hooks.didRemove = { _, change in called.add(change.key.text) }
    try database.registerReady(hooks, as: "hooks")
    #expect(throws: Refused.self) { try database.dropCollection("books") }
    #expect(try keys(database) == Array(0..<10))
    called.add("from now on")
    #expect(try database.dropCollection("books"))
    #expect(called.all.dropFirst().sorted() == (0..<10).map { "\($0)" })
    try database.close()
  }

  @Test func `rows that a hook writes during a drop stay, and so does the collection`() throws {
    let database = try Self.database()
    try fill(database)
    var hooks = Hooks()
    hooks.didRemove = { tx, change in if change.key.text == "7" { try tx.set("kept", key: 70, in: "books") } }
    try database.registerReady(hooks, as: "hooks")
    #expect(errorCode { try database.dropCollection("books") } == .doesNotSettle)
    #expect(try keys(database) == [70])
    try database.close()
  }

  private struct Refused: Error {}
}

/// The blocking forms of calls, which a task could not name otherwise.
private enum Blocking {
  static func write(_ database: Database, _ body: (WriteTransaction) throws -> Void) throws { try database.write(body) }
}
