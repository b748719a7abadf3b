import EngineTestSupport
import Foundation
import Synchronization
import Testing
import VarveEngine
import VarveTestSupport

@testable import ObjectFixtures
@testable import Varve

/// Tests of the life of an extension, from its first registration to its last.
struct RegistrationTests {
  private func fill(_ database: Database, _ range: Range<Int>) throws {
    try database.write { tx in
      for number in range { try tx.set("note \(number % 7 == 0 ? "seven" : "other")", key: number, in: "notes") }
    }
  }

  private func count(_ database: Database, _ words: ExtensionHandle<WordCount>, _ word: String) throws -> Int {
    try database.read { tx in try tx[words].count(of: word) }
  }

  @Test func `waiting for a handle of another type throws`() async throws {
    let database = try await Database.inMemory()
    try await database.waitUntilReady(try await database.register(WordCount(), as: "words"))
    await #expect(throws: DatabaseError.self) {
      do { try await database.waitUntilReady(Scripted(events: []).named("words")) } catch let error as DatabaseError {
        #expect(error.code == .definitionDiffers)
        #expect(error.message.contains("WordCount") && error.message.contains("Scripted"), "\(error)")
        throw error
      }
    }
  }

  @Test func `existing rows are delivered at registration, in chunks, with progress`() throws {
    let database = try Database.inMemory()
    try fill(database, 0..<3_500)
    let heard = Mutex<[BuildProgress]>([])
    let words = try database.registerReady(WordCount(), as: "words") { progress in
      heard.withLock { $0.append(progress) }
    }
    #expect(try count(database, words, "seven") == 500)
    #expect(try count(database, words, "other") == 3_000)
    let progress = heard.withLock { $0 }
    #expect(progress.count >= 4, "at most 1,000 rows a chunk")
    #expect(progress.last == BuildProgress(rowsDone: 3_500, rowsTotal: 3_500))
    #expect(progress.map(\.rowsDone) == progress.map(\.rowsDone).sorted())
  }

  @Test func `rows that others change during a build are counted once, in their final state`() throws {
    let database = try Database.inMemory()
    try fill(database, 0..<5_000)
    let words = try database.registerReady(WordCount(), as: "words") { progress in
      // Called between two chunks, on the building thread; the rows are on both sides of the watermark.
      let done = progress.rowsDone
      guard done > 0, done < 5_000 else { return }
      try? database.write { tx in
        try tx.set("changed", key: done - 1, in: "notes")
        try tx.set("changed", key: 4_999, in: "notes")
        try tx.remove(key: done - 2, in: "notes")
        try tx.set("changed", key: -done, in: "notes")
        try tx.set("changed", key: 10_000 + done, in: "notes")
      }
    }
    var expected: [String: Int] = [:]
    try database.read { tx in
      var rows = try tx.rows(in: "notes")
      while let row = try rows.next() {
        for word in Set(try row.object(as: String.self).split(separator: " ")) {
          expected[String(word), default: 0] += 1
        }
      }
    }
    #expect(expected["changed", default: 0] > 10)
    for (word, wanted) in expected { #expect(try count(database, words, word) == wanted, "\(word)") }
  }

  @Test func `registering another version rebuilds the extension, and registering the same version keeps it`()
    throws
  {
    let directory = try TemporaryDirectory()
    let path = directory.path + "/db"
    for (version, isBuilt) in [("1", true), ("1", false), ("2", true), ("2", false)] {
      let database = try Database.open(at: path)
      let isEmpty = try database.read { tx in try tx.count() == 0 }
      if isEmpty { try fill(database, 0..<70) }
      let heard = Mutex(0)
      let words = try database.registerReady(WordCount(version: version), as: "words") { progress in
        heard.withLock { $0 = max($0, progress.rowsDone) }
      }
      #expect(heard.withLock { $0 } == (isBuilt ? 70 : 0), "version \(version)")
      #expect(try count(database, words, "seven") == 10)
      try database.close()
    }
  }

  @Test func `an extension that missed a commit is stale, and rebuilt`() throws {
    let directory = try TemporaryDirectory()
    let path = directory.path + "/db"
    var database = try Database.open(at: path)
    try fill(database, 0..<70)
    _ = try database.registerReady(WordCount(), as: "words")
    try database.close()
    database = try Database.open(at: path)
    try database.write { tx in try tx.set("seven", key: 1_000, in: "notes") }
    try database.close()
    database = try Database.open(at: path)
    #expect(database.knownExtensions == ["words"])
    let words = try database.registerReady(WordCount(), as: "words")
    #expect(try count(database, words, "seven") == 11)
    try database.close()
  }

  @Test func `a failed build leaves only its error, even after a restart, until a retry`()
    throws
  {
    let kept = KeptDatabase()
    var database = try kept.open()
    try fill(database, 0..<3_000)
    try database.write { tx in try tx.set("forbidden", key: 2_500, in: "notes") }
    #expect(throws: BadWord.self) { try database.registerReady(WordCount(stopsAt: "forbidden"), as: "words") }
    let words = WordCount().named("words")
    #expect(throws: BadWord.self) { try database.waitUntilReady(words) }
    let error = #expect(throws: DatabaseError.self) { try database.read { tx in _ = try tx[words] } }
    #expect(error?.code == .notReady && error?.message.contains("BadWord") == true)
    #expect(try database.core.backend.families().allSatisfy { !$0.name.hasPrefix("x.") })
    // The extension receives no changes, and they do not make it stale.
    try database.write { tx in try tx.set("forbidden", key: 2_501, in: "notes") }
    try database.close()
    database = try kept.open()
    let progress = Lines()
    let again = try #require(
      throws: DatabaseError.self,
      performing: {
        try database.registerReady(WordCount(stopsAt: "forbidden"), as: "words") { progress.add("\($0.rowsDone)") }
      })
    #expect(again.code == .extensionFailed && again.message.contains("BadWord"))
    #expect(progress.take() == [], "it was not built again")
    try database.write { tx in for key in 2_500...2_501 { try tx.set("fine", key: key, in: "notes") } }
    try database.retry(words)
    try database.waitUntilReady(words)
    #expect(try count(database, words, "fine") == 2)
    try database.close()
  }

  @Test func `another version replaces an extension whose build has failed`() throws {
    let database = try Database.inMemory()
    try fill(database, 0..<100)
    try database.write { tx in try tx.set("forbidden", key: 200, in: "notes") }
    #expect(throws: BadWord.self) { try database.registerReady(WordCount(stopsAt: "forbidden"), as: "words") }
    #expect(errorCode { try database.registerReady(WordCount(), as: "words") } == .alreadyDefined)
    let words = try database.registerReady(WordCount(version: "2"), as: "words")
    #expect(try count(database, words, "forbidden") == 1)
    #expect(database.registeredExtensions == ["words"])
  }

  @Test func `dependents of an extension whose build failed wait, and are built when that succeeds`() throws {
    let database = try Database.inMemory()
    try database.change { tx in for key in 0..<300 { try tx.set(key, key: key, in: "c") } }
    let isBroken = Mutex(true)
    struct Stop: Error {}
    func scripted(_ dependencies: [String], _ check: @escaping Scripted.Hook) -> Scripted {
      var it = Scripted(events: .inserts)
      it.configuration.build = .background
      it.configuration.parts = [PartDefinition("keys")]
      it.configuration.dependencies = dependencies
      it.did = { tx, change in
        try check(tx, change)
        try tx.part("keys").put(change.key.bytes, [])
      }
      return it
    }
    let parent = try database.register(
      scripted([]) { _, change in
        if change.key.text == "200", isBroken.withLock({ $0 }) { throw Stop() }
      }, as: "parent")
    let child = try database.register(scripted(["parent"]) { _, _ in }, as: "child")
    #expect(throws: Stop.self) { try database.waitUntilReady(parent) }
    #expect(errorCode { try database.waitUntilReady(child) } == .notReady)
    #expect(database.registeredExtensions == ["parent", "child"])
    isBroken.withLock { $0 = false }
    try database.retry(parent)
    try database.waitUntilReady(parent)
    try database.waitUntilReady(child)
    #expect(try database.read { tx in try tx[child].part("keys").count() } == 300)
  }

  @Test func `an error thrown once all rows were delivered ends the build`() throws {
    let database = try Database.inMemory()
    try database.change { tx in for key in 0..<1_500 { try tx.set(key % 1_400, key: key, in: "c") } }
    struct Twice: Error { let count: Int }
    // A value that two rows have is recorded, and the build ends with an error that counts all of them.
    var unique = Scripted(events: .inserts)
    unique.configuration.build = .background
    unique.configuration.parts = [PartDefinition("values"), PartDefinition("twice")]
    unique.did = { tx, change in
      guard let value = try change.row?.object(as: Int.self).encoded() else { return }
      if try tx.part("values").get(value) != nil { try tx.part("twice").put(value, []) }
      try tx.part("values").put(value, change.key.bytes)
    }
    unique.finish = { tx in
      let count = try tx.part("twice").count()
      if count > 0 { throw Twice(count: count) }
    }
    let error = #expect(throws: Twice.self) { try database.registerReady(unique, as: "unique") }
    #expect(error?.count == 100)
    try database.change { tx in for key in 1_400..<1_500 { try tx.remove(key: key, in: "c") } }
    let handle = Scripted().named("unique")
    try database.retry(handle)
    try database.waitUntilReady(handle)
    #expect(try database.read { tx in try tx[handle].part("values").count() } == 1_400)
  }

  @Test func `a definition's extension is built after the open, and close ends its build between chunks`()
    throws
  {
    let kept = KeptDatabase()
    var database = try kept.open()
    try database.change { tx in for key in 0..<20_000 { try tx.set("a word", key: key, in: "notes") } }
    try database.close()
    let words = WordCount().named("words")
    let definition = DatabaseDefinition {
      words
    }
    database = try kept.open(definition: definition)
    let error = errorCode { _ = try database.read { tx in try tx[words].count(of: "word") } }
    #expect(error == .notReady, "twenty thousand rows are not built by then")
    // The build is not a transaction, which `close` would refuse.
    try database.close()
    database = try kept.open(definition: definition)
    try database.waitUntilReady(words)
    #expect(try count(database, words, "word") == 20_000)
    try database.close()
  }

  @Test(arguments: StorageKind.allCases)
  func `progress starts with what a build had before a restart, and is reported to the continuing call`(
    kind: StorageKind
  ) throws {
    let site = try StorageSite(kind)
    var database = try Database.open(try site.open(), path: "words")
    try database.change { tx in
      for key in 0..<1_500 { try tx.set("early", key: key, in: "another") }
      for key in 0..<4_000 { try tx.set("a word", key: key, in: "notes") }
    }
    let announced = Mutex<[[BuildProgress]]>([[], [], []])
    let stops = Mutex<Int?>(2_500)
    func mirror() -> Scripted {
      var mirror = Scripted(events: .inserts)
      mirror.configuration.build = .background
      mirror.configuration.parts = [PartDefinition("keys")]
      mirror.did = { tx, change in
        // An error of the storage ends a build without failing it.
        if change.collection == "notes", try change.key.key(as: Int.self) == stops.withLock({ $0 }) {
          throw CancellationError()
        }
        try tx.part("keys").put(change.key.bytes, [])
      }
      return mirror
    }
    func register(_ call: Int) throws {
      try database.registerReady(mirror(), as: "mirror") { progress in announced.withLock { $0[call].append(progress) }
      }
    }
    #expect(throws: CancellationError.self) { try register(0) }
    try database.close()
    database = try Database.open(try site.open(), path: "words")
    stops.withLock { $0 = 3_500 }
    #expect(throws: CancellationError.self) { try register(1) }
    // Within the same program, the call that continues the build receives its progress.
    stops.withLock { $0 = nil }
    try register(2)
    let calls = announced.withLock { $0 }
    for call in calls {
      #expect(call.allSatisfy { $0.rowsTotal == 5_500 })
      #expect(call.map(\.rowsDone) == call.map(\.rowsDone).sorted())
    }
    let (first, second, third) = (calls[0].map(\.rowsDone), calls[1].map(\.rowsDone), calls[2].map(\.rowsDone))
    #expect((1...1_000).contains(first.first ?? 0), "\(first)")
    #expect((first.last ?? 0) + 1...(first.last ?? 0) + 1_000 ~= second.first ?? 0, "\(first) \(second)")
    #expect((second.last ?? 0)...(second.last ?? 0) + 1_000 ~= third.first ?? 0, "\(second) \(third)")
    #expect(third.last == 5_500)
    #expect(database.progress(of: "mirror") == BuildProgress(rowsDone: 5_500, rowsTotal: 5_500))
    try database.close()
  }

  @Test func `unregistering drops an extension's contents, and a second registration builds it again`() throws {
    let database = try Database.inMemory()
    try fill(database, 0..<70)
    let words = try database.registerReady(WordCount(), as: "words")
    #expect(try database.unregister("words") == ["words"])
    #expect(throws: DatabaseError.self) { try count(database, words, "seven") }
    try fill(database, 70..<140)
    let again = try database.registerReady(WordCount(), as: "words")
    #expect(try count(database, again, "seven") == 20)
  }

  @Test func `a hook that throws dooms the transaction`() throws {
    let database = try Database.inMemory()
    let words = try database.registerReady(WordCount(stopsAt: "forbidden"), as: "words")
    var codes: [DatabaseError.Code?] = []
    do {
      try database.write { tx in
        try tx.set("fine", key: 1, in: "notes")
        do { try tx.set("forbidden", key: 2, in: "notes") } catch is BadWord { codes.append(nil) }
        do { try tx.set("late", key: 3, in: "notes") } catch let error as DatabaseError { codes.append(error.code) }
      }
    } catch let error as DatabaseError {
      codes.append(error.code)
    }
    #expect(codes == [nil, .doomed, .doomed])
    #expect(try count(database, words, "fine") == 0)
  }

  @Test func `a nested write that throws is undone in the extension too`() throws {
    let database = try Database.inMemory()
    let words = try database.registerReady(WordCount(), as: "words")
    struct Stop: Error {}
    var counts: [Int] = []
    try database.write { tx in
      try tx.set("one two", key: 1, in: "notes")
      try? database.write { inner in
        try inner.set("two three", key: 2, in: "notes")
        counts.append(try inner[words].count(of: "two"))
        throw Stop()
      }
      counts.append(try tx[words].count(of: "two"))
    }
    #expect(counts == [2, 1])
    #expect(try count(database, words, "two") == 1)
    #expect(try count(database, words, "three") == 0)
  }
}
