import Dispatch
import Synchronization
import Testing
import VarveTestSupport

@testable import ObjectFixtures
@testable import Varve

/// Tests of connections: caches and long-lived reads.
struct ConnectionTests {
  private struct Book: Codable, Hashable, Sendable { var title: String }

  private let database: Database
  init() throws {
    let definition = DatabaseDefinition {
      CollectionDefinition("books", Book.self, key: Int.self)
    }
    database = try Database.inMemory(definition: definition)
  }

  private func set(_ title: String, _ key: Int) throws {
    try database.write { tx in try tx.set(Book(title: title), key: key, in: "books") }
  }

  private func title(_ connection: Connection, _ key: Int) throws -> String? {
    try connection.read { tx in try tx.object(Book.self, key: key, in: "books")?.title }
  }

  @Test func `objects are cached until their row changes`() throws {
    let connection = database.connection()
    try set("Emma", 1)
    try set("Ulysses", 2)
    #expect(try title(connection, 1) == "Emma")
    #expect(try title(connection, 2) == "Ulysses")
    #expect(connection.cachedCount == 2)
    try set("Persuasion", 1)
    #expect(try title(connection, 1) == "Persuasion")
    try database.write { tx in _ = try tx.remove(key: 2, in: "books") }
    #expect(try title(connection, 2) == nil)
    #expect(connection.cachedCount == 1)
    try database.write { tx in _ = try tx.removeAll(in: "books") }
    #expect(try title(connection, 1) == nil)
    #expect(connection.cachedCount == 0)
  }

  @Test func `the least recently used objects are evicted first`() throws {
    let connection = database.connection(cacheLimit: 2)
    for key in 1...3 { try set("t\(key)", key) }
    for key in [1, 2, 1, 3] { _ = try title(connection, key) }
    #expect(connection.cachedCount == 2)
    let none = database.connection(cacheLimit: 0)
    #expect(try title(none, 1) == "t1")
    #expect(none.cachedCount == 0)
  }

  @Test func `a long-lived read keeps its snapshot and its cache`() throws {
    let connection = database.connection()
    try set("old", 1)
    try connection.beginLongLivedRead()
    let version = connection.pinnedVersion
    #expect(try title(connection, 1) == "old")
    try set("new", 1)
    try set("other", 2)
    connection.clearCache()
    #expect(try title(connection, 1) == "old")
    #expect(try title(connection, 2) == nil)
    #expect(database.longLivedReads.map(\.version) == [version])
    try connection.advance()
    #expect(try title(connection, 1) == "new")
    #expect(try title(connection, 2) == "other")
    connection.endLongLivedRead()
    try set("newest", 1)
    #expect(try title(connection, 1) == "newest")
    #expect(database.longLivedReads.isEmpty)
  }

  @Test func `a cache never returns a row of another snapshot`() throws {
    // Each commit sets all rows to the same number: a read that returns two numbers has mixed snapshots.
    let keys = 0..<8
    func commit(_ number: Int) throws {
      try database.write { tx in
        for key in keys { try tx.set(Book(title: "\(number)"), key: key, in: "books") }
      }
    }
    try commit(0)
    let connection = database.connection(cacheLimit: 6)
    let isDone = Atomic<Bool>(false)
    let failures = Mutex<[String]>([])
    let group = DispatchGroup()
    let queue = DispatchQueue(label: "readers", attributes: .concurrent)
    for _ in 0..<3 {
      queue.async(group: group) {
        while !isDone.load(ordering: .acquiring) {
          do {
            let titles = try connection.read { tx in
              try keys.map { try tx.object(Book.self, key: $0, in: "books")?.title ?? "none" }
            }
            if Set(titles).count != 1 { failures.withLock { $0.append("\(titles)") } }
          } catch {
            failures.withLock { $0.append("\(error)") }
          }
        }
      }
    }
    for number in 1...300 { try commit(number) }
    isDone.store(true, ordering: .releasing)
    group.wait()
    #expect(failures.withLock { $0 } == [])
    #expect(try title(connection, 3) == "300")
  }

  @Test func `a read that continues after its connection has advanced adds nothing to the cache`() throws {
    let connection = database.connection()
    try set("old", 1)
    try set("other", 2)
    let seen = try connection.read { tx in
      // Runs on another thread, because the calls would be part of this read otherwise: a commit, and a read that
      // advances the connection to it.
      Threads.run(1) { _ in
        try set("new", 1)
        _ = try title(connection, 2)
      }
      return try tx.object(Book.self, key: 1, in: "books")?.title
    }
    #expect(seen == "old")
    #expect(try title(connection, 1) == "new")
  }

  @Test func `inside a write the cache is bypassed`() throws {
    let connection = database.connection()
    try set("a", 1)
    #expect(try title(connection, 1) == "a")
    var inside: String?
    try connection.write { tx in
      try tx.set(Book(title: "b"), key: 1, in: "books")
      inside = try title(connection, 1)
    }
    #expect(inside == "b")
    #expect(try title(connection, 1) == "b")
  }

  @Test func `an advance that fails stays at its snapshot, and the cache keeps nothing for a later one`() throws {
    let connection = database.connection()
    try set("Emma", 1)
    try connection.beginLongLivedRead()
    #expect(try title(connection, 1) == "Emma")
    try set("Ulysses", 1)
    // More commits than a connection buffers, so that the changes are read from the feed.
    for key in 0...ChangeLimits.heldChangeSets { try set("Dubliners", key + 2) }
    let feed = database.core.catalog.families.feed
    var cursor = FamilyCursor(
      FeedKey.range(after: .zero), in: feed, of: try database.core.backend.snapshot(), isReverse: true)
    let last = try #require(try cursor.next())
    var batch = StorageBatch()
    // An entry of a later version of the program is an error; corruption would be a gap.
    batch.put(last.key, [9, 9], in: feed)
    _ = try database.core.backend.commit(batch, check: nil, durability: .process)
    #expect(throws: DatabaseError.self) { try connection.advance() }
    #expect(try title(connection, 1) == "Emma")
    connection.endLongLivedRead()
    #expect(try title(connection, 1) == "Ulysses")
  }

  // MARK: - Changes in between

  @Test(arguments: [true, false])
  func `advance has the changes of extensions, and needs no feed`(hasFeed: Bool) throws {
    var options = DatabaseOptions()
    if !hasFeed { options.feed = nil }
    let database = try Database.inMemory(options: options)
    let probe = try database.registerReady(ChangingProbe(), as: "probe")
    let connection = database.connection()
    try database.write { tx in try tx.set(1, key: 1, in: "rows") }
    #expect(try connection.beginLongLivedRead().isEmpty)
    for key in 2...3 { try database.write { tx in try tx.set(key, key: key, in: "rows") } }
    let events = try connection.advance()
    #expect(events.map(\.text) == ["+2", "+3"])
    let changes = events.compactMap(\.changes).map { "\($0.changes(of: probe))" }
    #expect(changes == ["exact(\"rows/2\")", "exact(\"rows/3\")"])
    #expect(try connection.advance().isEmpty)
  }

  @Test func `calls that may wait for the disk have an asynchronous form`() async throws {
    let database = try await Database.inMemory()
    try await database.define(CollectionDefinition("numbers", Int.self, key: Int.self))
    let connection = database.connection()
    #expect(try await connection.beginLongLivedRead().isEmpty)
    try await database.write { tx in try tx.set(1, key: 1, in: "numbers") }
    #expect(try await connection.read { tx in try tx.count(in: "numbers") } == 0)
    #expect(try await connection.advance().map(\.text) == ["+1"])
    #expect(try await connection.read { tx in try tx.count(in: "numbers") } == 1)
    await #expect(throws: DatabaseError.self) {
      try await database.define(CollectionDefinition("numbers", String.self, key: Int.self))
    }
  }

  @Test func `a sequence of rows that is kept is listed among the open reads`() async throws {
    try set("Emma", 1)
    #expect(database.longLivedReads.isEmpty)
    var rows: Rows<FetchedRow>? = database.rows(in: "books")
    #expect(database.longLivedReads.count == 1)
    var iterator = rows?.makeAsyncIterator()
    rows = nil
    #expect(database.longLivedReads.count == 1, "an iterator holds it too")
    #expect(try await iterator?.next() != nil)
    iterator = nil
    #expect(database.longLivedReads.isEmpty)
  }
}
