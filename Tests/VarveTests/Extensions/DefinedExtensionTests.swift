import EngineTestSupport
import Testing
import Varve

@testable import ObjectFixtures

/// Tests of extensions that a database definition names: they are registered when the database is opened.
struct DefinedExtensionTests {
  private let directory: TemporaryDirectory
  private var path: String { directory.path + "/db" }

  init() throws { directory = try TemporaryDirectory() }

  private func count(_ database: Database, _ words: ExtensionHandle<WordCount>, _ word: String) throws -> Int {
    try database.read { tx in try tx[words].count(of: word) }
  }

  @Test func `a defined extension receives the first write, and has the rows from before`() throws {
    let plain = try Database.open(at: path)
    try plain.write { tx in for number in 0..<1_500 { try tx.set("sea", key: number, in: "notes") } }
    try plain.close()
    let words = WordCount().named("words")
    let definition = DatabaseDefinition {
      words
    }
    for expected in [1_501, 1_502] {
      let database = try Database.open(at: path, definition: definition)
      #expect(database.registeredExtensions == ["words"])
      try database.write { tx in try tx.set("sea", key: expected, in: "notes") }
      try database.waitUntilReady(words)
      #expect(try count(database, words, "sea") == expected)
      try database.close()
    }
  }

  @Test func `a database in memory has its defined extensions too`() throws {
    let words = WordCount().named("words")
    let definition = DatabaseDefinition {
      words
    }
    let database = try Database.inMemory(definition: definition)
    try database.write { tx in try tx.set("sea", key: 1, in: "notes") }
    #expect(try count(database, words, "sea") == 1)
  }

  @Test func `a database opened in a task has its defined extensions too, and so has a read-only one`() async throws {
    let words = WordCount().named("words")
    let definition = DatabaseDefinition {
      words
    }
    let first = try await Database.open(at: path, definition: definition)
    try await first.write { tx in try tx.set("sea ship", key: 1, in: "notes") }
    try await first.close()
    var options = DatabaseOptions()
    options.isReadOnly = true
    let second = try await Database.open(at: path, definition: definition, options: options)
    #expect(try count(second, words, "ship") == 1)
    try await second.close()
  }

  @Test
  func `a failed build is reported at each use, and a failed registration keeps the database closed`()
    throws
  {
    let plain = try Database.open(at: path)
    try plain.write { tx in try tx.set("forbidden", key: 1, in: "notes") }
    try plain.close()
    let words = WordCount(stopsAt: "forbidden").named("words")
    let definition = DatabaseDefinition {
      words
    }
    let opened = try Database.open(at: path, definition: definition)
    #expect(throws: BadWord.self) { try opened.waitUntilReady(words) }
    #expect(errorCode { _ = try count(opened, words, "forbidden") } == .notReady)
    try opened.close()
    let hooks = Hooks().named("words")
    let refused = DatabaseDefinition {
      hooks
    }
    #expect(errorCode { _ = try Database.open(at: path, definition: refused) } == .extensionMismatch)
    #expect(hooks.name == "words")
    // The failed opening must have closed the database.
    let database = try Database.open(at: path)
    #expect(database.knownExtensions == ["words"])
    try database.unregister("words")
    try database.close()
    var options = DatabaseOptions()
    options.isReadOnly = true
    // A read-only database cannot build the extension: the rows can be read, and each use of the extension throws the
    // reason.
    let reading = try Database.open(at: path, definition: definition, options: options)
    #expect(try reading.read { tx in try tx.count(in: "notes") } == 1)
    #expect(errorCode { _ = try count(reading, words, "forbidden") } == .unknownExtension)
    try reading.close()
  }

  @Test func `names of extensions are unique, and dependencies of an extension are defined before it`() throws {
    struct Dependent: DatabaseExtension {
      static let kind = "test.dependent"
      var configuration: ExtensionConfiguration {
        var configuration = ExtensionConfiguration(version: "1")
        configuration.dependencies = ["words"]
        return configuration
      }
      func makeTransaction(_ context: ExtensionContext<Self>) -> DependentTransaction { DependentTransaction() }
    }
    final class DependentTransaction: ExtensionTransaction {
      typealias Definition = Dependent
      func didChange(_ change: borrowing RowChange) {}
    }
    let dependent = Dependent().named("dependent")
    let twice = DatabaseDefinition {
      dependent
      dependent
    }
    #expect(errorCode { _ = try Database.inMemory(definition: twice) } == .alreadyDefined)
    #expect(
      errorCode {
        _ = try Database.inMemory {
          dependent
          WordCount().named("words")
        }
      } == .unknownExtension)
    let ordered = DatabaseDefinition {
      WordCount().named("words")
      Dependent().named("dependent")
    }
    let database = try Database.inMemory(definition: ordered)
    #expect(database.registeredExtensions == ["words", "dependent"])
    #expect(errorCode { try database.registerReady(WordCount(), as: "words") } == .alreadyDefined)
  }
}
