import EngineTestSupport
import Foundation
import Synchronization
import Testing
import Varve
import VarveEngine

@testable import ObjectFixtures

/// An extension from its first registration to its last.
struct RegistrationTests {
  private func fill(_ database: Database, _ range: Range<Int>) throws {
    try database.write { tx in
      for number in range { try tx.set("note \(number % 7 == 0 ? "seven" : "other")", key: number, in: "notes") }
    }
  }

  private func count(_ database: Database, _ words: Registered<WordCount>, _ word: String) throws -> Int {
    try database.read { tx in try tx[words].count(of: word) }
  }

  @Test func `what is there when it is registered is given to it, in chunks, with progress`() throws {
    let database = try Database.inMemory()
    try fill(database, 0..<3_500)
    let heard = Mutex<[BuildProgress]>([])
    let words = try database.register(WordCount(), as: "words") { progress in heard.withLock { $0.append(progress) } }
    #expect(try count(database, words, "seven") == 500)
    #expect(try count(database, words, "other") == 3_000)
    let progress = heard.withLock { $0 }
    #expect(progress.count >= 4, "at most 1,000 rows a chunk")
    #expect(progress.last == BuildProgress(rowsDone: 3_500, rowsTotal: 3_500))
    #expect(progress.map(\.rowsDone) == progress.map(\.rowsDone).sorted())
  }

  @Test func `rows that others change while it is built are counted once, as they are at the end`() throws {
    let database = try Database.inMemory()
    try fill(database, 0..<5_000)
    let words = try database.register(WordCount(), as: "words") { progress in
      // Between two chunks, on the thread that builds: one row in front of the watermark, one behind it.
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

  @Test func `1.2: another version builds it anew, the same one keeps it`() throws {
    let directory = try TemporaryDirectory()
    let path = directory.path + "/db"
    for (version, isBuilt) in [("1", true), ("1", false), ("2", true), ("2", false)] {
      let database = try Database.open(at: path)
      let isEmpty = try database.read { tx in try tx.count() == 0 }
      if isEmpty { try fill(database, 0..<70) }
      let heard = Mutex(0)
      let words = try database.register(WordCount(version: version), as: "words") { progress in
        heard.withLock { $0 = max($0, progress.rowsDone) }
      }
      #expect(heard.withLock { $0 } == (isBuilt ? 70 : 0), "version \(version)")
      #expect(try count(database, words, "seven") == 10)
      try database.close()
    }
  }

  @Test func `1.2: one that missed a commit is stale, and built anew`() throws {
    let directory = try TemporaryDirectory()
    let path = directory.path + "/db"
    var database = try Database.open(at: path)
    try fill(database, 0..<70)
    _ = try database.register(WordCount(), as: "words")
    try database.close()
    database = try Database.open(at: path)
    try database.write { tx in try tx.set("seven", key: 1_000, in: "notes") }
    try database.close()
    database = try Database.open(at: path)
    #expect(database.knownExtensions == ["words"])
    let words = try database.register(WordCount(), as: "words")
    #expect(try count(database, words, "seven") == 11)
    try database.close()
  }

  @Test func `1.2: a build that throws leaves nothing`() throws {
    let database = try Database.inMemory()
    try fill(database, 0..<3_000)
    try database.write { tx in try tx.set("forbidden", key: 2_500, in: "notes") }
    #expect(throws: BadWord.self) { try database.register(WordCount(stopsAt: "forbidden"), as: "words") }
    #expect(database.knownExtensions == [])
    #expect(database.registeredExtensions == [])
    let words = try database.register(WordCount(), as: "words")
    #expect(try count(database, words, "forbidden") == 1)
  }

  @Test func `1.2: unregistering drops what it keeps, and a second registration begins anew`() throws {
    let database = try Database.inMemory()
    try fill(database, 0..<70)
    let words = try database.register(WordCount(), as: "words")
    #expect(try database.unregister("words") == ["words"])
    #expect(throws: DatabaseError.self) { try count(database, words, "seven") }
    try fill(database, 70..<140)
    let again = try database.register(WordCount(), as: "words")
    #expect(try count(database, again, "seven") == 20)
  }

  @Test func `a hook that throws dooms the transaction`() throws {
    let database = try Database.inMemory()
    let words = try database.register(WordCount(stopsAt: "forbidden"), as: "words")
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
    let words = try database.register(WordCount(), as: "words")
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
