import EngineTestSupport
import Foundation
import Synchronization
import Testing
import VarveEngine
import VarveTestSupport

@testable import ObjectFixtures
@testable import Varve

/// Tests of renaming a collection while the database is open.
struct RenamingTests {
  private func fill(_ database: Database, _ collection: String = "books", _ keys: Range<Int> = 0..<10) throws {
    try database.change { tx in
      for key in keys { try tx.set("\(collection) \(key)", key: key, in: collection, metadata: key) }
    }
  }

  private func keys(_ database: Database, _ collection: String) throws -> [Int] {
    try database.look { tx in
      let keys = try tx.keys(Int.self, in: collection)
      #expect(try tx.count(in: collection) == keys.count)
      return keys
    }
  }

  private func rename(_ database: Database, _ name: String, to newName: String) throws {
    try database.renameCollection(name, to: newName)
  }

  @Test func `a renamed collection has its rows, numbers and metadata under the new name alone, even after reopening`()
    throws
  {
    let directory = try TemporaryDirectory()
    var database = try OpenDatabase.database(in: directory)
    try fill(database)
    try fill(database, "others")
    let id = try database.look { tx in try tx.row(key: 3, in: "books")?.id }
    try rename(database, "books", to: "volumes")
    for _ in 0..<2 {
      #expect(try keys(database, "books") == [] && keys(database, "volumes") == Array(0..<10))
      #expect(try keys(database, "others") == Array(0..<10))
      try database.look { tx throws in
        #expect(try tx.collections() == ["others", "volumes"])
        #expect(try tx.count() == 20)
        let row = try #require(try tx.row(key: 3, in: "volumes"))
        #expect(try row.object(as: String.self) == "books 3" && row.metadata(as: Int.self) == 3)
        #expect(row.id == id && row.key.collection == "volumes")
      }
      try database.endNow()
      database = try OpenDatabase.database(in: directory)
    }
    // The former name is free, for keys of another type too.
    try database.change { tx in try tx.set("new", key: "text", in: "books") }
    #expect(try database.look { tx in try tx.keys(String.self, in: "books") } == ["text"])
    #expect(try keys(database, "volumes") == Array(0..<10))
    try database.endNow()
  }

  @Test func `a renamed collection with its own families keeps them`() throws {
    let shared = try SharedBackend()
    let definition = DatabaseDefinition {
      CollectionDefinition("books", String.self, key: Int.self, storage: .own())
    }
    let first = try shared.open(definition)
    try fill(first)
    try first.endNow()
    let families = try shared.families().map(\.name).filter { $0.hasPrefix("c.") }.sorted()
    let database = try shared.open()
    try rename(database, "books", to: "volumes")
    #expect(try keys(database, "volumes") == Array(0..<10))
    #expect(try shared.families().map(\.name).filter { $0.hasPrefix("c.") }.sorted() == families)
    try database.endNow()
  }

  @Test func `an invalid renaming is refused, and nothing has changed`() async throws {
    let shared = try SharedBackend()
    let definition = DatabaseDefinition { CollectionDefinition("defined", String.self, key: Int.self) }
    let database = try shared.open(definition)
    for name in ["books", "others", "defined"] { try fill(database, name) }
    func code(_ name: String, _ newName: String) -> DatabaseError.Code? {
      errorCode { try rename(database, name, to: newName) }
    }
    #expect(code("missing", "volumes") == .notFound)
    #expect(code("books", "others") == .alreadyExists)
    #expect(code("books", "books") == .alreadyExists)
    #expect(code("books", "") == .invalidArgument)
    #expect(code("defined", "volumes") == .alreadyDefined)
    try database.change { _ throws in #expect(code("books", "volumes") == .invalidArgument) }
    try await database.perform {
      #expect(await errorCode { try await database.renameCollection("books", to: "volumes") } == .invalidArgument)
    }
    let reader = try shared.readOnly().open()
    #expect(errorCode { try rename(reader, "books", to: "volumes") } == .readOnly)
    #expect(try database.look { tx in try tx.collections() } == ["books", "defined", "others"])
    #expect(try database.feedEvents().count == 3, "the feed is as it was")
    try await database.renameCollection("books", to: "volumes")
    #expect(try keys(database, "volumes") == Array(0..<10))
    try database.endNow()
  }

  @Test func `an open snapshot keeps a collection's name as of its version, however often it is renamed`() throws {
    let database = try Database.inMemory()
    try fill(database)
    var held: [(connection: Connection, name: String)] = []
    var name = "books"
    for next in ["volumes", "books", "titles"] {
      let connection = database.connection()
      try connection.beginLongLivedRead()
      held.append((connection, name))
      try rename(database, name, to: next)
      name = next
    }
    try fill(database, "books", 20..<22)
    func check(_ tx: ReadTransaction, _ expected: [String: [Int]]) throws {
      for name in ["books", "volumes", "titles"] {
        #expect(try tx.keys(Int.self, in: name) == expected[name] ?? [], "\(name)")
      }
      #expect(try tx.collections() == expected.keys.sorted())
    }
    for (connection, name) in held {
      try connection.read { tx throws in try check(tx, [name: Array(0..<10)]) }
    }
    try database.look { tx throws in try check(tx, ["titles": Array(0..<10), "books": [20, 21]]) }
    for (connection, _) in held { connection.endLongLivedRead() }
    try database.endNow()
  }

  @Test func `a concurrent write that has read a collection by its former name is retried`() throws {
    let database = try Database.inMemory()
    try fill(database)
    var attempts = 0
    try database.besides { tx in
      attempts += 1
      let isThere = try tx.contains(key: 3, in: "books")
      if attempts == 1 { try otherThread { try database.renameCollection("books", to: "volumes") } }
      try tx.set(isThere ? "was there" : "was not there", key: 11, in: "log")
    }
    #expect(attempts == 2)
    #expect(try database.look { tx in try tx.object(String.self, key: 11, in: "log") } == "was not there")
    #expect(try keys(database, "volumes") == Array(0..<10))
    try database.endNow()
  }

  @Test func `a renamed collection is not bound to its type any more, and the former name is free`() throws {
    let database = try Database.inMemory()
    try database.change { tx in _ = try Item(id: "a", count: 1).persist(in: tx) }
    try rename(database, Item.collection, to: "kept")
    #expect(try database.look { tx in try Item.load("a", in: tx) } == nil)
    try database.change { tx in try tx.set("a", key: 1, in: Item.collection) }
    #expect(try database.look { tx in try tx.object(Item.self, key: "a", in: "kept")?.count } == 1)
    try database.endNow()
  }

  // MARK: - Observers

  @Test func `subscriptions and observations receive a gap, and a feed that is read again starts with one`()
    async throws
  {
    let database = try inMemory()
    try fill(database)
    let start = try database.lastVersion()
    var changes = database.changes().makeAsyncIterator()
    var resumed = database.changes(after: .zero).makeAsyncIterator()
    var former = database.observe(String.self, key: 3, in: "books").makeAsyncIterator()
    var present = database.observe(String.self, key: 3, in: "volumes").makeAsyncIterator()
    #expect(try await former.next() == .some("books 3"))
    #expect(try await present.next() == .some(nil))
    try rename(database, "books", to: "volumes")
    try fill(database, "volumes", 20..<21)
    guard case .gap(let from, let to) = try await changes.next() else { throw Unexpected(what: "no gap came") }
    #expect(from <= start && to > start)
    #expect(try await changes.nextChanges().changedCollections == ["volumes"])
    #expect(try await resumed.next(2).first == "gap")
    #expect(try await former.next() == .some(nil))
    #expect(try await present.next() == .some("books 3"))
    let events = try database.feedEvents()
    #expect(events.map { $0.changes?.changedCollections } == [nil, ["volumes"]])
    #expect(try database.feedEvents(after: to).map { $0.changes?.changedCollections } == [["volumes"]])
    try database.endNow()
  }

  @Test func `without a feed a subscription receives the gap as well`() async throws {
    var options = DatabaseOptions()
    options.feed = nil
    let database = try inMemory(options)
    try fill(database)
    var changes = database.changes().makeAsyncIterator()
    try rename(database, "books", to: "volumes")
    try fill(database, "volumes", 20..<21)
    guard case .gap = try await changes.next() else { throw Unexpected(what: "no gap came") }
    #expect(try await changes.nextChanges().changedCollections == ["volumes"])
    try database.endNow()
  }

  @Test func `a connection keeps no cached object of the former name`() throws {
    let database = try Database.inMemory()
    try fill(database)
    let connection = database.connection()
    func text() throws -> String? { try connection.read { tx in try tx.object(String.self, key: 3, in: "books") } }
    #expect(try text() == "books 3")
    try rename(database, "books", to: "volumes")
    try fill(database, "books", 3..<4)
    try database.change { tx in try tx.set("another", key: 3, in: "books") }
    #expect(try text() == "another")
    try database.endNow()
  }

  @Test func `a follower uses the new name, its open snapshots use the former, and it receives a gap`() async throws {
    let directory = try TemporaryDirectory()
    let writer = try OpenDatabase.database(in: directory)
    try fill(writer)
    try fill(writer, "others")
    var options = DatabaseOptions()
    options.follows = true
    let follower = try OpenDatabase.database(in: directory, options: options)
    #expect(try keys(follower, "books") == Array(0..<10))
    let connection = follower.connection()
    try hold(connection)
    var changes = follower.changes().makeAsyncIterator()
    try rename(writer, "books", to: "volumes")
    guard case .gap = try await changes.next() else { throw Unexpected(what: "no gap came") }
    #expect(try keys(follower, "books") == [] && keys(follower, "volumes") == Array(0..<10))
    #expect(try follower.look { tx in try tx.count() } == 20)
    try reading(connection) { tx throws in
      #expect(try tx.keys(Int.self, in: "books") == Array(0..<10))
      #expect(try tx.keys(Int.self, in: "volumes") == [])
    }
    connection.endLongLivedRead()
    try fill(writer, "volumes", 30..<31)
    #expect(try await changes.nextChanges().changedCollections == ["volumes"])
    try follower.endNow()
    try writer.endNow()
  }

  @Test func `a follower's reader overtaken by later ones finds each name as of its snapshot`() throws {
    let database = try Database.inMemory()
    let backend = database.core.backend
    let follower = Catalog(backend: backend, families: database.core.catalog.families, definitions: [:])
    try fill(database)
    let before = try backend.snapshot()
    try follower.refresh(before)
    let id = try #require(follower.collection("books")?.record.id)
    try rename(database, "books", to: "volumes")
    let after = try backend.snapshot()
    try rename(database, "volumes", to: "titles")
    let last = try backend.snapshot()
    // The latest snapshot is read first, and then the earlier ones.
    for snapshot in [last, after, before] { try follower.refresh(snapshot) }
    for (snapshot, name) in [(before, "books"), (last, "titles")] {
      for other in ["books", "volumes", "titles"] {
        let found = follower.collection(other, at: snapshot.version)?.record.id
        #expect(found == (other == name ? id : nil), "\(other) where it is \(name)")
      }
    }
    try database.endNow()
  }

  // MARK: - Extensions

  @Test func `indexes that the program has not registered stay with the rows, and are not rebuilt`() throws {
    let shared = try SharedBackend()
    let first = try shared.open(DatabaseDefinition { VolumeFormat.self })
    let volumes = Store<VolumeFormat>(in: first)
    try first.change { tx throws in
      for id in 1...50 { try volumes.persist(Volume(id: id, title: "t\(id % 5)"), in: tx) }
    }
    try warm(volumes)
    try first.endNow()
    let families = Set(try shared.families().map(\.name))

    let plain = try shared.open()
    try rename(plain, "volumes", to: "moved")
    // The indexes catch up with rows that are written meanwhile, as usual.
    try plain.change { tx in try tx.set(Volume(id: 70, title: "t1"), key: 70, in: "moved") }
    try plain.endNow()

    let moved = try CollectionDefinition(VolumeFormat.self, collection: "moved")
    let database = try shared.open(DatabaseDefinition { moved })
    let store = Store(VolumeFormat.self, in: database, collection: "moved")
    let given = try warm(store)
    #expect(!given.contains { if case .working(_, let total) = $0 { total > 1 } else { false } }, "\(given)")
    try database.look { tx throws in
      #expect(try store.count(.value("t1"), from: \.title, in: tx) == 11)
      #expect(try store.indexDifferences(in: tx).isEmpty)
    }
    #expect(families.isSubset(of: try shared.families().map(\.name)), "its parts are the same families")
    try database.endNow()
  }

  @Test func `an extension that stores collection names is rebuilt, and one that receives neither name is not`() throws
  {
    let database = try Database.inMemory()
    try fill(database)
    try fill(database, "others")
    let all = try database.registerReady(NamesOfRows(), as: "all")
    let others = try database.registerReady(NamesOfRows(scope: .only(["others"])), as: "others")
    let former = try database.registerReady(NamesOfRows(scope: .only(["books"])), as: "former")
    let later = try database.registerReady(NamesOfRows(scope: .only(["volumes"])), as: "later")
    let given = others.definition.given.all.count
    try rename(database, "books", to: "volumes")
    try fill(database, "volumes", 20..<21)
    for handle in [all, others, former, later] { try database.waitReady(handle) }
    try database.look { tx throws in
      #expect(try tx[all].counts() == ["others": 10, "volumes": 11])
      #expect(try tx[others].counts() == ["others": 10])
      #expect(try tx[former].counts() == [:])
      #expect(try tx[later].counts() == ["volumes": 11])
    }
    #expect(others.definition.given.all.count == given)
    try database.endNow()
  }

  @Test func `a build waits for a dependency whose build starts again`() throws {
    let database = try Database.inMemory()
    try fill(database, "books", 0..<3_000)
    let first = try database.registerReady(NamesOfRows(), as: "first")
    let steps = Mutex(0)
    // Called between two chunks of the build, on its thread.
    let second = try database.core.register(NamesOfRows(dependencies: ["first"]), "second") { _ in
      let step = steps.withLock { steps in
        steps += 1
        return steps
      }
      if step > 2 { return }
      do {
        try database.renameCollection(step == 1 ? "books" : "volumes", to: step == 1 ? "volumes" : "titles")
      } catch { Issue.record(error) }
    }
    try database.waitReady(second)
    try database.look { tx throws in
      #expect(try tx[first].counts() == ["titles": 3_000])
      #expect(try tx[second].counts() == ["titles": 3_000])
    }
    #expect(steps.withLock { $0 } > 2)
    try database.endNow()
  }

  @Test func `an extension that was not registered during a renaming is rebuilt when it is registered`() throws {
    let shared = try SharedBackend()
    let first = try shared.open()
    try fill(first)
    _ = try first.registerReady(NamesOfRows(), as: "all")
    try first.endNow()
    let plain = try shared.open()
    try rename(plain, "books", to: "volumes")
    try plain.endNow()
    let database = try shared.open()
    let all = try database.registerReady(NamesOfRows(), as: "all")
    #expect(try database.look { tx in try tx[all].counts() } == ["volumes": 10])
    try database.endNow()
  }

  @Test func `hooks receive changes by the new name, and row numbers lead to rows by it`() throws {
    let database = try Database.inMemory()
    let called = Called()
    var hooks = Hooks()
    hooks.scope = .only(["volumes"])
    hooks.didModify = { _, change in called.add("\(change.key.collection) \(change.key.text)") }
    try database.registerReady(hooks, as: "hooks")
    try fill(database, "books", 0..<1)
    try rename(database, "books", to: "volumes")
    try fill(database, "volumes", 1..<2)
    #expect(called.all == ["volumes 1"])
    try database.endNow()
  }

  private func inMemory(_ options: DatabaseOptions = DatabaseOptions()) throws -> Database {
    try Database.inMemory(options: options)
  }

  private func hold(_ connection: Connection) throws { try connection.beginLongLivedRead() }

  private func reading(_ connection: Connection, _ body: (ReadTransaction) throws -> Void) throws {
    try connection.read(body)
  }

  /// Returns the progress that `warm` reported.
  @discardableResult
  private func warm<Format: StoreFormat>(_ store: Store<Format>) throws -> [WarmProgress] {
    let seen = Mutex<[WarmProgress]>([])
    try store.warm { progress in seen.withLock { $0.append(progress) } }
    return seen.withLock { $0 }
  }
}
