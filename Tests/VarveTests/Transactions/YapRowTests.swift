import EngineTestSupport
import Synchronization
import Testing
import Varve

@testable import ObjectFixtures

/// Tests of the behavior that programs coming from YapDatabase rely on: rows, transactions and connections.
/// `YapExtensionTests` has those about extensions.
struct YapRowTests {
  private struct Word: Codable, Hashable, Sendable { var text: String }

  private let backend: SharedBackend
  private let database: Database
  init() throws {
    backend = try SharedBackend()
    database = try backend.open()
  }

  private func reading<Result>(_ body: (ReadTransaction) throws -> Result) throws -> Result { try database.read(body) }
  private func writing<Result>(_ body: (WriteTransaction) throws -> Result) throws -> Result {
    try database.write(body)
  }
  private func words(_ names: [String: String], in collection: String = "words") throws {
    try writing { tx in for (key, text) in names { try tx.set(Word(text: text), key: key, in: collection) } }
  }

  // MARK: - 1.1

  @Test func `one key has an independent row in each collection, and a collection has a name`() throws {
    try writing { tx throws in
      for name in ["first", "second", "third"] { try tx.set(Word(text: name), key: "k", in: name) }
      try tx.remove(key: "k", in: "second")
      #expect(errorCode { try tx.set(Word(text: ""), key: "k", in: "") } == .invalidArgument)
    }
    let names = ["first", "second", "third"]
    let seen = try reading { tx in try names.map { try tx.object(Word.self, key: "k", in: $0)?.text } }
    #expect(seen == ["first", nil, "third"])
    let (count, collections) = try reading { tx in (try tx.count(), try tx.collections()) }
    #expect(count == 2 && collections == ["first", "third"])
  }

  @Test func `the number of a row is never reused, not even after a restart`() throws {
    var given: [RowID] = []
    for _ in 0..<3 {
      let database = try backend.open()
      try database.write { tx in
        for key in ["a", "b"] { try tx.set(Word(text: ""), key: key, in: "words") }
        given += try ["a", "b"].compactMap { try tx.row(key: $0, in: "words")?.id }
        try tx.removeAll(in: "words")
      }
    }
    #expect(given.count == 6 && Set(given).count == 6)
  }

  @Test func `a second program that writes at one path is refused with an error`() throws {
    let directory = try TemporaryDirectory()
    let first = try OpenDatabase.database(in: directory)
    #expect(errorCode { _ = try OpenDatabase.database(in: directory) } == .locked)
    try OpenDatabase.close(first)
    let next = try OpenDatabase.database(in: directory)
    try OpenDatabase.close(next)
  }

  @Test func `iterating all rows is ordered by collection and key, and text keys are found by prefix`()
    throws
  {
    try words(["b": "", "ab": "", "abc": "", "ac": ""])
    try words(["x": ""], in: "a collection")
    let (all, found) = try reading { tx in
      var rows = try tx.rows()
      var found = try tx.rows(in: "words", keyPrefix: "ab", descending: true)
      return (try rows.compactMap { "\($0.key)" }, try found.compactMap { try $0.key(as: String.self) })
    }
    #expect(all == ["a collection/\"x\"", "words/\"ab\"", "words/\"abc\"", "words/\"ac\"", "words/\"b\""])
    #expect(found == ["abc", "ab"])
  }

  @Test func `a transaction has a field for the program, and reports in order when it was committed`() throws {
    let announced = Mutex<[Int]>([])
    try writing { tx throws in
      #expect(tx.userInfo == nil)
      tx.userInfo = 5
      for number in 1...3 { tx.onCommit { announced.withLock { $0.append(number) } } }
      try tx.set(Word(text: ""), key: "a", in: "words")
      #expect(tx.userInfo as? Int == 5)
      #expect(announced.withLock { $0 }.isEmpty)
    }
    #expect(announced.withLock { $0 } == [1, 2, 3])
    #expect(try reading { tx in tx.userInfo == nil })
  }

  @Test func `a write through a pinned connection does not advance it, and loses no change`() throws {
    let connection = database.connection()
    try words(["a": "old"])
    try connection.beginLongLivedRead()
    try connection.write { tx in try tx.set(Word(text: "new"), key: "a", in: "words") }
    let before = try connection.read { tx in try tx.object(Word.self, key: "a", in: "words")?.text }
    #expect(before == "old")
    let changes = try connection.advance()
    #expect(try changes.compactMap(\.changes).map { try $0.hasChange(key: "a", in: "words") } == [true])
    let later = try connection.read { tx in try tx.object(Word.self, key: "a", in: "words")?.text }
    #expect(later == "new")
    #expect(try connection.advance().isEmpty)
  }

  // MARK: - Recommendations

  @Test func `replacing the metadata of a missing row creates none, and is not reported`() throws {
    try words(["a": ""])
    let before = try reading { tx in tx.version }
    #expect(try writing { tx in try tx.replaceMetadata(1, key: "none", in: "words") } == false)
    #expect(try writing { tx in try tx.replaceObject(Word(text: ""), key: "none", in: "words") } == false)
    #expect(try writing { tx in try tx.replaceObject(Word(text: ""), key: "a", in: "no such collection") } == false)
    let (version, count, collections) = try reading { tx in (tx.version, try tx.count(), try tx.collections()) }
    #expect(version == before && count == 1 && collections == ["words"])
  }

  @Test func `a write without changes commits nothing, and its onCommit callbacks run`() throws {
    try words(["a": ""])
    backend.setBack()
    let before = try reading { tx in tx.version }
    let announced = Mutex(0)
    try writing { tx throws in
      tx.onCommit { announced.withLock { $0 += 1 } }
      #expect(try tx.remove(key: "none", in: "words") == false)
    }
    #expect(announced.withLock { $0 } == 1)
    #expect(backend.asked.commits == 0)
    #expect(try reading { tx in tx.version } == before)
  }

  @Test(arguments: [DatabaseError.Code.storage, .outcomeUnknown])
  func `a commit that fails throws, and no reader, cache or observer uses it`(
    code: DatabaseError.Code
  ) async throws {
    let definition = DatabaseDefinition {
      CollectionDefinition("words", Word.self, key: String.self)
    }
    let open = OpenDatabase(try backend.open(definition), nil)
    let connection = open.database.connection()
    func text() throws -> String? {
      try connection.read { tx in try tx.object(Word.self, key: "a", in: "words")?.text }
    }
    try open.writing { tx in try tx.set(Word(text: "old"), key: "a", in: "words") }
    #expect(try text() == "old")
    let version = try open.reading { tx in tx.version }
    let announced = Mutex(0)
    backend.refuseNext(DatabaseError(code, "the disk is full"))
    let thrown = errorCode {
      try open.writing { tx in
        tx.onCommit { announced.withLock { $0 += 1 } }
        try tx.set(Word(text: "new"), key: "a", in: "words")
        try tx.set(Word(text: "new"), key: "b", in: "words")
      }
    }
    #expect(thrown == code)
    #expect(announced.withLock { $0 } == 0)
    #expect(try text() == "old")
    #expect(try open.reading { tx in try tx.count(in: "words") } == 1)
    #expect(try open.reading { tx in tx.version } == version)
    #expect(try await open.database.feed(after: version).isEmpty)
    // A commit that is known not to have happened is retried; no later commit may build on one with an unknown
    // outcome.
    let again = errorCode { try open.writing { tx in try tx.set(Word(text: "again"), key: "a", in: "words") } }
    #expect(again == (code == .storage ? nil : .outcomeUnknown))
    #expect(try text() == (code == .storage ? "again" : "old"))
  }

  @Test func `a pinned connection keeps old objects, and another has the new ones`() throws {
    let definition = DatabaseDefinition {
      CollectionDefinition("words", Word.self, key: String.self)
    }
    let open = OpenDatabase(try backend.open(definition), nil)
    func text(_ connection: Connection) throws -> String? {
      try connection.read { tx in try tx.object(Word.self, key: "a", in: "words")?.text }
    }
    let (held, sibling) = (open.database.connection(), open.database.connection())
    try open.writing { tx in try tx.set(Word(text: "old"), key: "a", in: "words") }
    try held.beginLongLivedRead()
    #expect(try text(held) == "old" && text(sibling) == "old")
    try open.writing { tx in try tx.set(Word(text: "new"), key: "a", in: "words") }
    #expect(try text(held) == "old" && text(sibling) == "new")
    #expect(held.cachedCount == 1)
    try held.advance()
    #expect(try text(held) == "new")
  }

  @Test func `rows of several keys come in the order of the keys, each as often as requested`() throws {
    try words(["a": "1", "b": "2", "c": "3"])
    let rows = try reading { tx in
      try tx.rows(keys: ["c", "none", "a", "c"], in: "words").map { try $0?.object(as: Word.self).text }
    }
    #expect(rows == ["3", nil, "1", "3"])
    let none = try reading { tx in try tx.rows(keys: ["a", "b"], in: "no such collection").count { $0 == nil } }
    #expect(none == 2)
  }

  private struct Unencodable: Encodable {
    func encode(to encoder: any Encoder) throws {
      throw EncodingError.invalidValue(0, .init(codingPath: [], debugDescription: "never"))
    }
  }

  @Test func `a rule that returns nil for an object removes the row, and a later one gets what was set`() throws {
    let got = Mutex<[String]>([])
    let definition = DatabaseDefinition {
      CollectionDefinition("words", Word.self, key: String.self)
        .sanitized(before: { (word: Word) in word.text.isEmpty ? nil : Word(text: word.text.lowercased()) })
        .sanitized(after: { (word: Word) in got.withLock { $0.append(word.text) } })
    }
    let open = OpenDatabase(try backend.open(definition), nil)
    let heard = Mutex<[String]>([])
    var hooks = Hooks()
    hooks.didModify = { _, change in heard.withLock { $0.append("\(change.event) \(change.key)") } }
    hooks.didRemove = { _, change in heard.withLock { $0.append("\(change.event) \(change.key)") } }
    try open.database.registerReady(hooks, as: "hooks")
    try open.writing { tx throws in
      try tx.set(Word(text: "SEA"), key: "a", in: "words")
      #expect(try tx.object(Word.self, key: "a", in: "words") == Word(text: "sea"))
      try tx.set(Word(text: ""), key: "a", in: "words")
      #expect(try tx.contains(key: "a", in: "words") == false)
      // Metadata belongs to an object: there is none here, so this value must not be encoded.
      try tx.set(Word(text: ""), key: "b", in: "words", metadata: Unencodable())
      #expect(throws: (any Error).self) {
        try tx.set(Word(text: "B"), key: "b", in: "words", metadata: Unencodable())
      }
      try tx.set(Word(text: "C"), key: "c", in: "words")
      try tx.replaceObject(Word(text: ""), key: "c", in: "words")
    }
    #expect(got.withLock { $0 } == ["sea", "c"])
    #expect(
      heard.withLock { $0 } == [
        "inserted words/\"a\"", "removed words/\"a\"", "inserted words/\"c\"", "removed words/\"c\"",
      ])
    #expect(try open.reading { tx in try tx.count(in: "words") } == 0)
  }

  @Test func `a row that can't be decoded is an error with its key, and is present and counted`() throws {
    try writing { tx in
      try tx.set(Word(text: "good"), key: "a", in: "words")
      try tx.set(["no", "word"], key: "b", in: "words", metadata: 5)
    }
    try reading { tx throws in
      var thrown: DatabaseError?
      do { _ = try tx.object(Word.self, key: "b", in: "words") } catch { thrown = error as? DatabaseError }
      #expect(thrown?.code == .decodingFailed && thrown?.collection == "words" && thrown?.key == "\"b\"")
      #expect(try tx.contains(key: "b", in: "words"))
      #expect(try tx.count(in: "words") == 2)
      #expect(try tx.keys(String.self, in: "words") == ["a", "b"])
      #expect(try tx.metadata(Int.self, key: "b", in: "words") == 5)
      #expect(errorCode { _ = try tx.metadata(Word.self, key: "b", in: "words") } == .decodingFailed)
    }
  }
}
