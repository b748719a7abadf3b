import EngineTestSupport
import Testing
import VarveTestSupport

@testable import ObjectFixtures
@testable import Varve

/// Tests of extensions of a database that another process writes: each transaction that uses them refreshes them.
struct FollowedExtensionTests {
  private static func pair(_ site: StorageSite) throws -> (writer: Database, follower: Database) {
    let writer = try Database.open(try site.open(), path: "writer")
    var options = DatabaseOptions()
    options.follows = true
    return (writer, try Database.open(try site.follow(), path: "follower", options: options))
  }

  private static func count(_ database: Database, _ word: String) throws -> Int {
    try database.core.read { tx in try tx[WordCount().named("words")].count(of: word) }
  }

  private static func put(_ database: Database, _ text: String, _ key: Int) throws {
    try database.core.write(WriteTerms()) { tx in try tx.set(text, key: key, in: "notes") }
  }

  @Test(arguments: StorageKind.allCases)
  func `a follower reads parts that are created later, and rebuilt ones`(kind: StorageKind) throws {
    let site = try StorageSite(kind)
    let (writer, follower) = try Self.pair(site)
    try writer.registerReady(WordCount(), as: "words")
    try follower.registerReady(WordCount(), as: "words")
    #expect(try Self.count(follower, "sea") == 0)
    try Self.put(writer, "sea", 1)
    #expect(try Self.count(follower, "sea") == 1)
    // The extension is dropped and created again, with other families.
    try writer.unregister("words")
    #expect(errorCode { _ = try Self.count(follower, "sea") } == .unknownExtension)
    try writer.registerReady(WordCount(), as: "words")
    try Self.put(writer, "sea", 2)
    #expect(try Self.count(follower, "sea") == 2)
    try follower.close()
    try writer.close()
    withExtendedLifetime(site) {}
  }

  @Test(arguments: StorageKind.allCases)
  func `an extension that another program leaves stale, or stores differently, is not read`(kind: StorageKind) throws {
    let site = try StorageSite(kind)
    var (writer, follower) = try Self.pair(site)
    try writer.registerReady(WordCount(), as: "words")
    try Self.put(writer, "sea", 1)
    try follower.registerReady(WordCount(), as: "words")
    #expect(errorCode { try follower.registerReady(WordCount(), as: "words") } == .alreadyDefined)
    #expect(try Self.count(follower, "sea") == 1)
    try follower.close()
    try writer.close()
    // A program that does not register the extension.
    (writer, follower) = try Self.pair(site)
    try follower.registerReady(WordCount(), as: "words")
    #expect(try Self.count(follower, "sea") == 1)
    try Self.put(writer, "sea", 2)
    #expect(errorCode { _ = try Self.count(follower, "sea") } == .definitionDiffers)
    try writer.registerReady(WordCount(), as: "words")
    #expect(try Self.count(follower, "sea") == 2)
    try writer.unregister("words")
    try writer.registerReady(WordCount(version: "2"), as: "words")
    #expect(errorCode { _ = try Self.count(follower, "sea") } == .definitionDiffers)
    try follower.close()
    try writer.close()
    withExtendedLifetime(site) {}
  }

  @Test(arguments: StorageKind.allCases)
  func `one transaction of a follower gets one answer, whatever other readers do meanwhile`(
    kind: StorageKind
  ) throws {
    let site = try StorageSite(kind)
    let (writer, follower) = try Self.pair(site)
    let words = try writer.registerReady(WordCount(), as: "words")
    try Self.put(writer, "sea", 1)
    _ = try follower.registerReady(WordCount(), as: "words")
    try follower.core.read { tx in
      #expect(try tx[words].count(of: "sea") == 1)
      try otherThread {
        // The extension is dropped and created again, with other families, which a later reader uses.
        try writer.unregister("words")
        try writer.registerReady(WordCount(), as: "words")
        try Self.put(writer, "sea", 2)
        #expect(try Self.count(follower, "sea") == 2)
      }
      // The families of the snapshot are gone: the read must throw, and never return the result of another snapshot.
      #expect(errorCode { _ = try tx[words].count(of: "sea") } == .snapshotTooOld)
    }
    #expect(try Self.count(follower, "sea") == 2)
    try follower.close()
    try writer.close()
    withExtendedLifetime(site) {}
  }

  @Test func `an extension kept in each program's memory has no contents in a read-only program`() throws {
    struct InMemory: DatabaseExtension {
      static let kind = "test.inMemory"
      var configuration: ExtensionConfiguration {
        var configuration = ExtensionConfiguration(version: "1")
        var words = PartDefinition("words")
        words.isVolatile = true
        configuration.parts = [words]
        return configuration
      }
      func makeTransaction(_ context: ExtensionContext<Self>) -> InMemoryTransaction { InMemoryTransaction() }
    }
    final class InMemoryTransaction: ExtensionTransaction {
      typealias Definition = InMemory
      func didChange(_ change: borrowing RowChange) {}
    }
    let site = try StorageSite(.disk)
    let (writer, follower) = try Self.pair(site)
    try writer.registerReady(InMemory(), as: "volatile")
    #expect(errorCode { try follower.registerReady(InMemory(), as: "volatile") } == .definitionDiffers)
    try follower.close()
    try writer.close()
    withExtendedLifetime(site) {}
  }

  @Test(arguments: StorageKind.allCases)
  func `a follower may define a collection before it exists, and still reads other collections`(kind: StorageKind)
    throws
  {
    let site = try StorageSite(kind)
    let (writer, follower) = try Self.pair(site)
    try follower.define(CollectionDefinition("books", String.self, key: Int.self))
    try writer.core.write(WriteTerms()) { tx in try tx.set("other", key: 1, in: "others") }
    #expect(try follower.core.read { tx in try tx.contains(key: 1, in: "others") })
    try writer.core.write(WriteTerms()) { tx in try tx.set("Emma", key: 1, in: "books") }
    try follower.core.read { tx throws in
      #expect(try tx.row(key: 1, in: "books")?.definedObject() as? String == "Emma")
    }
    #expect(
      errorCode { try follower.define(CollectionDefinition("books", String.self, key: Int.self)) } == .alreadyDefined)
    try writer.core.write(WriteTerms()) { tx in try tx.set("more", key: 1, in: "more") }
    try follower.core.read { tx throws in
      #expect(try tx.row(key: 1, in: "books")?.definedObject() as? String == "Emma")
      #expect(try tx.contains(key: 1, in: "more"))
    }
    try follower.close()
    try writer.close()
    withExtendedLifetime(site) {}
  }

  @Test(arguments: StorageKind.allCases)
  func `calls after the database was closed throw`(kind: StorageKind) throws {
    let site = try StorageSite(kind)
    let (writer, follower) = try Self.pair(site)
    try writer.registerReady(WordCount(), as: "words")
    try Self.put(writer, "sea", 1)
    for database in [follower, writer] {
      try database.close()
      #expect(errorCode { try database.registerReady(WordCount(), as: "late") } == .closed)
      #expect(errorCode { try database.define(CollectionDefinition("late", String.self, key: Int.self)) } == .closed)
      #expect(errorCode { _ = try database.core.backend.snapshot() } == .closed)
      #expect(errorCode { _ = try database.core.backend.families() } == .closed)
    }
    #expect(errorCode { try writer.unregister("words") } == .closed)
    withExtendedLifetime(site) {}
  }
}
