import EngineTestSupport
import Foundation
import Synchronization
import Testing
import Varve

@testable import ObjectFixtures

/// Tests of rewriting rows of older versions.
struct MigrationTests {
  fileprivate struct Old: StoreFormat {
    static let collection = "things"
    enum Version: String, CaseIterable, Sendable { case old = "z" }
    static let currentVersion = Version.old
    struct Instance: Codable, Identifiable, Hashable, Sendable {
      var id: Int
      var number: Int
    }
    typealias Metadata = Int
    static func decode(_ stored: StoredValue, version: Version) throws -> Instance { try stored.decode() }
    static func decodeMetadata(_ stored: StoredValue, version: Version) throws -> Int { try stored.decode() }
  }

  fileprivate struct Middle: StoreFormat {
    static let collection = "things"
    enum Version: String, CaseIterable, Sendable { case old = "z", middle = "y" }
    static let currentVersion = Version.middle
    struct Instance: Codable, Identifiable, Hashable, Sendable {
      var id: Int
      var text: String
    }
    typealias Metadata = String
    static func decode(_ stored: StoredValue, version: Version) throws -> Instance {
      switch version {
      case .old:
        let old = try stored.decode(Old.Instance.self)
        if old.number < 0 { throw StoreStop() }
        return Instance(id: old.id, text: "\(old.number)")
      case .middle: return try stored.decode()
      }
    }
    static func decodeMetadata(_ stored: StoredValue, version: Version) throws -> String {
      switch version {
      case .old: "\(try stored.decode(Int.self))"
      case .middle: try stored.decode()
      }
    }
  }

  /// A format that stores the same rows as `Middle`; it reads what `Middle` wrote, and no older versions.
  fileprivate struct New: StoreFormat {
    static let collection = "things"
    enum Version: String, CaseIterable, Sendable { case old = "z", middle = "y", new = "x" }
    static let currentVersion = Version.new
    typealias Instance = Middle.Instance
    typealias Metadata = String
    static func decode(_ stored: StoredValue, version: Version) throws -> Instance {
      if version == .old { throw StoreStop() }
      return try stored.decode()
    }
    static func decodeMetadata(_ stored: StoredValue, version: Version) throws -> String {
      if version == .old { throw StoreStop() }
      return try stored.decode()
    }
  }

  private static func filled(_ count: Int) throws -> SharedBackend {
    let backend = try SharedBackend()
    let open = OpenDatabase(try backend.open(), nil)
    let store = Store<Old>(in: open.database)
    try open.writing { tx in
      for id in 0..<count {
        try store.persist(Old.Instance(id: id, number: id), metadata: id.isMultiple(of: 3) ? id : nil, in: tx)
      }
    }
    return backend
  }

  /// Checks all rows by a format that cannot read rows that were not migrated.
  private static func checkNew(_ backend: SharedBackend, _ count: Int) async throws {
    let store = Store<New>(in: try backend.open())
    #expect(try await store.load(...).collect().map(\.text) == (0..<count).map(String.init))
    #expect(try await store.metadata(of: 0) == "0")
    #expect(try await store.metadata(of: 1) == nil)
    #expect(try await store.metadata(of: count - count % 3) == (count % 3 == 0 ? nil : "\(count - count % 3)"))
  }

  @Test func `each row of an older version is rewritten once, a thousand a transaction, with progress`()
    async throws
  {
    let backend = try Self.filled(2_500)
    let store = Store<Middle>(in: try backend.open())
    try await store.persist(Middle.Instance(id: 10, text: "10"))
    backend.setBack()
    let announced = Mutex<[BuildProgress]>([])
    #expect(try await store.migrate { progress in announced.withLock { $0.append(progress) } } == 2_499)
    #expect(backend.asked.commits == 3)
    let fractions = announced.withLock { $0.map(\.fraction) }
    #expect(fractions.count == 3 && fractions == fractions.sorted() && fractions.last == 1)
    #expect(announced.withLock { $0.allSatisfy { $0.rowsTotal == 2_500 } })
    backend.setBack()
    announced.withLock { $0 = [] }
    #expect(try await store.migrate { progress in announced.withLock { $0.append(progress) } } == 0)
    #expect(backend.asked.commits == 0)
    #expect(announced.withLock { $0.map(\.fraction) } == [1])
    try await Self.checkNew(backend, 2_500)
  }

  @Test func `a blocking migration also rewrites each row once, in commits of a thousand rows`() throws {
    let backend = try Self.filled(1_200)
    let open = OpenDatabase(try backend.open(), nil)
    let store = Store<Middle>(in: open.database)
    // The versions and the shape get their numbers in separate commits.
    try open.writing { tx in try store.insert(Middle.Instance(id: 5_000, text: ""), in: tx) }
    backend.setBack()
    #expect(try store.migrate() == 1_200)
    #expect(backend.asked.commits == 2)
    #expect(try store.migrate() == 0)
    let new = Store<New>(in: try backend.open(), collection: "things")
    #expect(try OpenDatabase(new.database, nil).reading { tx in try Array(new.load(..., in: tx)).count } == 1_201)
  }

  @Test func `an interrupted migration keeps what it has done, and the next one continues`() async throws {
    let backend = try Self.filled(3_300)
    let interrupted = Store<Middle>(in: try backend.open())
    let task = Task {
      try await interrupted.migrate { _ in unsafe withUnsafeCurrentTask { task in unsafe task?.cancel() } }
    }
    await #expect(throws: CancellationError.self) { try await task.value }
    // Another start of the program continues.
    let store = Store<Middle>(in: try backend.open())
    backend.setBack()
    #expect(try await store.load(3_299)?.text == "3299", "reads convert meanwhile")
    #expect(try await store.migrate() == 2_300)
    #expect(backend.asked.commits == 3)
    try await Self.checkNew(backend, 3_300)
  }

  @Test func `a row that can't be converted is named at the end, and all others are rewritten`() async throws {
    let backend = try Self.filled(2_500)
    let old = Store<Old>(in: try backend.open())
    try await old.modify(1_700) { $0.number = -1 }
    let store = Store<Middle>(in: try backend.open())
    do {
      try await store.migrate()
      Issue.record("it should throw")
    } catch let error as DatabaseError {
      #expect(error.code == .decodingFailed)
      #expect(error.key == "1700")
      #expect(error.message.contains("the row is left as it is, and 2499 others are rewritten"))
    }
    try await old.modify(1_700) { $0.number = 1_700 }
    #expect(try await store.migrate() == 1)
    try await Self.checkNew(backend, 2_500)
  }

  @Test func `rows that others write between the steps of a migration are kept`() async throws {
    let backend = try Self.filled(2_500)
    let open = OpenDatabase(try backend.open(), nil)
    let store = Store<Middle>(in: open.database)
    let isFirst = Mutex(true)
    let rewritten = try await store.migrate { _ in
      guard
        isFirst.withLock({ first in
          defer { first = false }
          return first
        })
      else { return }
      do {
        try open.writing { tx in
          try store.delete(5, in: tx)
          try store.delete(2_000, in: tx)
          try store.persist(Middle.Instance(id: 2_100, text: "written meanwhile"), in: tx)
          try store.persist(Middle.Instance(id: -1, text: "new"), in: tx)
        }
      } catch {
        Issue.record(error)
      }
    }
    // Of the remaining rows, 2,000 was removed. The object of 2,100 is current, but its metadata is not.
    #expect(rewritten == 2_499)
    #expect(try await store.migrate() == 0)
    let new = Store<New>(in: try backend.open())
    #expect(try await new.count == 2_499)
    #expect(try await new.load(2_100)?.text == "written meanwhile")
    #expect(try await new.metadata(of: 2_100) == "2100")
    #expect(try await new.load(...).collect().count == 2_499)
  }

  /// Runs a writer between the read that finds outdated rows and the write that rewrites them.
  private static func writeBetween(
    _ open: OpenDatabase, _ backend: SharedBackend, _ body: @escaping @Sendable (WriteTransaction) throws -> Void
  ) {
    backend.whenPaged {
      // The write runs on another thread, because the reading thread cannot write.
      do { try otherThread { try open.writing(body) } } catch { Issue.record(error) }
    }
  }

  @Test func `a write between the read and the rewrite is not undone`() async throws {
    let backend = try Self.filled(10)
    let open = OpenDatabase(try backend.open(), nil)
    let store = Store<Middle>(in: open.database)
    try await store.persist(Middle.Instance(id: 4, text: "4"), metadata: nil)
    Self.writeBetween(open, backend) { tx in
      try store.persist(Middle.Instance(id: 5, text: "meanwhile"), metadata: "new", in: tx)
      try store.delete(6, in: tx)
    }
    #expect(try await store.migrate() == 7, "neither those that are current by then, nor the one that is gone")
    #expect(try await store.load(5)?.text == "meanwhile")
    #expect(try await store.metadata(of: 5) == "new")
    #expect(try await store.load(6) == nil)
    #expect(try await store.count == 9)
    #expect(try await store.migrate() == 0)
  }

  @Test func `a collection that takes the name of the migrated one is migrated alone`() async throws {
    let backend = try Self.filled(2_500)
    let open = OpenDatabase(try backend.open(), nil)
    let store = Store<Middle>(in: open.database)
    let made = Mutex(false)
    let rewritten = try await store.migrate { _ in
      guard
        made.withLock({ isMade in
          defer { isMade = true }
          return !isMade
        })
      else { return }
      do {
        try otherThread {
          // The other rows lie between the two collections, in the families that they share.
          try open.writing { tx in for key in 0..<50 { try tx.set("\(key)", key: key, in: "between") } }
          try open.database.dropCollection("things")
          try open.writing { tx in for id in 0..<20 { try store.persist(Middle.Instance(id: id, text: "new"), in: tx) }
          }
        }
      } catch { Issue.record(error) }
    }
    #expect(made.withLock { $0 })
    #expect(rewritten == 1_000, "one step, and none of the rows that came after it")
    #expect(try await store.count == 20)
    try open.reading { tx throws in
      for key in 0..<50 { #expect(try tx.object(String.self, key: key, in: "between") == "\(key)") }
    }
  }

  @Test func `a write by an older program between the read and the rewrite is not undone either`() async throws {
    let backend = try Self.filled(6)
    let open = OpenDatabase(try backend.open(), nil)
    let store = Store<Middle>(in: open.database)
    let older = OpenDatabase(try backend.open(), nil)
    let oldStore = Store<Old>(in: older.database)
    // The row is outdated before and after this write: the rewrite converts the current row.
    Self.writeBetween(older, backend) { tx in try oldStore.persist(Old.Instance(id: 2, number: 222), in: tx) }
    #expect(try await store.migrate() == 6)
    #expect(try await store.load(2)?.text == "222")
    #expect(try await store.metadata(of: 3) == "3")
    #expect(try await store.migrate() == 0)
  }

  @Test func `metadata older than its object is rewritten too`() async throws {
    let backend = try Self.filled(6)
    let store = Store<Middle>(in: try backend.open())
    try await store.persist(contentsOf: (0..<6).map { Middle.Instance(id: $0, text: "\($0)") })
    let new = Store<New>(in: try backend.open())
    #expect(await errorCode { _ = try await new.metadata(of: 3) } == .decodingFailed)
    #expect(try await store.migrate() == 2)
    #expect(try await store.migrate() == 0)
    #expect(try await new.metadata(of: 3) == "3")
  }

  @Test func `with a limit, rows of versions declared before it are rewritten, and the others stay`() async throws {
    let backend = try Self.filled(4)
    let middle = Store<Middle>(in: try backend.open())
    try await middle.persist(contentsOf: [Middle.Instance(id: 10, text: "10"), Middle.Instance(id: 11, text: "11")])
    let old = Store<NewReadsAll>(in: try backend.open())
    #expect(try await old.migrate(olderThan: .old) == 0)
    #expect(try await old.migrate(olderThan: .middle) == 4)
    #expect(try await old.migrate(olderThan: .middle) == 0)
    #expect(try await old.migrate() == 2)
    #expect(try await old.migrate(olderThan: .new) == 0)
  }

  /// A format that reads all versions.
  fileprivate struct NewReadsAll: StoreFormat {
    static let collection = "things"
    typealias Version = New.Version
    static let currentVersion = Version.new
    typealias Instance = Middle.Instance
    typealias Metadata = String
    static func decode(_ stored: StoredValue, version: Version) throws -> Instance {
      try version == .old ? Middle.decode(stored, version: .old) : stored.decode()
    }
    static func decodeMetadata(_ stored: StoredValue, version: Version) throws -> String {
      try version == .old ? Middle.decodeMetadata(stored, version: .old) : stored.decode()
    }
  }

  @Test func `a migration inside perform is part of its transaction, and undone with it`() async throws {
    let backend = try Self.filled(1_500)
    let store = Store<Middle>(in: try backend.open())
    await #expect(throws: StoreStop.self) {
      try await store.database.perform {
        #expect(try await store.migrate() == 1_500)
        #expect(try await store.migrate() == 0)
        throw StoreStop()
      }
    }
    #expect(try await store.migrate() == 1_500)
  }

  @Test(arguments: StoreLocation.allCases)
  func `a format with one version has nothing to rewrite, nor has an empty store`(location: StoreLocation) async throws
  {
    let open = try location.open()
    let notes = Store<NoteFormat>(in: open.database)
    let announced = Mutex(0)
    #expect(try await notes.migrate { _ in announced.withLock { $0 += 1 } } == 0)
    try await notes.persist(Note(1), metadata: Stars(stars: 1))
    #expect(try await notes.migrate { _ in announced.withLock { $0 += 1 } } == 0)
    #expect(announced.withLock { $0 } == 2)
  }

  @Test func `large rows are rewritten fewer at a time`() async throws {
    let backend = try SharedBackend()
    struct Large: StoreFormat {
      static let collection = "large"
      enum Version: Int, CaseIterable, Sendable { case one = 1, two }
      static let currentVersion = Version.two
      struct Instance: Codable, Identifiable, Sendable {
        var id: Int
        var text: String
      }
      static func decode(_ stored: StoredValue, version: Version) throws -> Instance { try stored.decode() }
    }
    struct Unversioned: StoreFormat {
      static let collection = "large"
      typealias Instance = Large.Instance
    }
    let text = String(repeating: "x", count: 1 << 20)
    try await Store<Unversioned>(in: try backend.open()).persist(
      contentsOf: (0..<20).map { Large.Instance(id: $0, text: text) })
    let store = Store<Large>(in: try backend.open())
    backend.setBack()
    #expect(try await store.migrate() == 20)
    // Eight rows are rewritten in each commit, and one more commit numbers the versions.
    #expect(backend.asked.commits == 3 + 1)
  }

  @Test func `a database on disk is migrated across starts`() async throws {
    let directory = try TemporaryDirectory()
    do {
      let database = try OpenDatabase.database(in: directory)
      let store = Store<Old>(in: database)
      try await store.persist(contentsOf: (0..<1_100).map { Old.Instance(id: $0, number: $0) })
      try await database.close()
    }
    let definition = DatabaseDefinition {
      Middle.self
    }
    for expected in [1_100, 0] {
      let database = try OpenDatabase.database(in: directory, definition)
      let store = Store<Middle>(in: database)
      #expect(try await store.load(1_099)?.text == "1099")
      #expect(try await store.migrate() == expected)
      try await database.close()
    }
  }

  @Test func `extensions receive the rows that are rewritten`() async throws {
    let backend = try Self.filled(5)
    let open = OpenDatabase(try backend.open(), nil)
    let store = Store<Middle>(in: open.database)
    let heard = Mutex<[Int: String]>([:])
    try await open.database.register(Listening { id, text in heard.withLock { $0[id] = text } }, as: "listening")
    heard.withLock { $0 = [:] }
    #expect(try await store.migrate() == 5)
    #expect(heard.withLock { $0 } == Dictionary(uniqueKeysWithValues: (0..<5).map { ($0, "\($0)") }))
  }

  private struct Listening: DatabaseExtension {
    static let kind = "test.listening"
    let heard: @Sendable (Int, String) -> Void
    init(_ heard: @escaping @Sendable (Int, String) -> Void) { self.heard = heard }
    var configuration: ExtensionConfiguration {
      var configuration = ExtensionConfiguration(version: "1")
      configuration.events = .updates
      return configuration
    }
    func makeTransaction(_ context: ExtensionContext<Self>) -> ListeningTransaction { ListeningTransaction(heard) }
  }

  private final class ListeningTransaction: ExtensionTransaction {
    typealias Definition = Listening
    private let heard: @Sendable (Int, String) -> Void
    init(_ heard: @escaping @Sendable (Int, String) -> Void) { self.heard = heard }
    func didChange(_ change: borrowing RowChange) throws {
      let row = try #require(try change.row)
      heard(try row.key(), try row.object(as: Middle.Instance.self).text)
    }
  }
}
