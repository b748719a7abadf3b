import EngineTestSupport
import Testing
import VarveEngine

@testable import ObjectFixtures
@testable import Varve

/// Tests of damage in the data of extensions: their records, and the feed from which they catch up.
struct ExtensionDamageTests {
  @Test func `the record of a stale extension keeps its position, and damage in it is found`() throws {
    for state in [
      ExtensionRecord.State.stale(nil), .stale(FeedPosition(version: 7, part: 8, step: 9)), .ready,
      .building(watermark: [1]),
      .ingesting(
        ExtensionRecord.IngestionMark(
          position: FeedPosition(version: 7, part: 8, step: 9), runCount: 1, watermark: [1])),
    ] {
      var record = ExtensionRecord(number: 3, state: state, layout: 2, versionTag: "tag", kind: "k", scope: "*")
      #expect(try ExtensionRecord(record.bytes, name: "x") == record)
      record.parts = [ExtensionRecord.Part(PartDefinition("a")), ExtensionRecord.Part(PartDefinition("b"))]
      record.parts[1].watermark = [2]
      #expect(try ExtensionRecord(record.bytes, name: "x") == record)
    }
    let bytes = ExtensionRecord(
      number: 3, state: .stale(FeedPosition(version: 7, part: 8, step: 9)), layout: 2, versionTag: "",
      kind: "k", scope: "*"
    ).bytes
    // Without its last 16 bytes, the record would be a valid one without a position.
    for size in Array(1..<33) + Array(34..<49) {
      let error = #expect(throws: DatabaseError.self) { try ExtensionRecord(Array(bytes.prefix(size)), name: "x") }
      #expect(error?.code == .corruption)
    }
  }

  @Test func `an extension that reads a damaged feed has the right contents`() throws {
    let directory = try TemporaryDirectory()
    func with(_ body: (Database) throws -> Void) throws {
      let database = try Database.open(at: directory.path + "/db")
      try body(database)
      try database.close()
    }
    func fill(_ database: Database, _ range: Range<Int>, _ text: String) throws {
      try database.write { tx in for number in range { try tx.set(text, key: number, in: "notes") } }
    }
    try with { database in
      try fill(database, 0..<100, "note")
      _ = try database.registerReady(WordCount(), as: "words")
    }
    try with { database in
      try fill(database, 5..<7, "changed")
      try fill(database, 8..<9, "changed")
    }
    try with { database in
      let feed = database.core.catalog.families.feed
      var cursor = FamilyCursor(
        FeedKey.range(after: .zero), in: feed, of: try database.core.backend.snapshot(), isReverse: true)
      let last = try #require(try cursor.next())
      var batch = StorageBatch()
      batch.put(last.key, [UInt8](last.value.dropLast(2)), in: feed)
      _ = try database.core.backend.commit(batch, check: nil, durability: .process)
      let words = try database.registerReady(WordCount(), as: "words")
      try database.read { tx throws in
        #expect(try tx[words].count(of: "changed") == 3)
        #expect(try tx[words].count(of: "note") == 97)
      }
    }
  }
}
