import EngineTestSupport
import Testing
import VarveEngine

@testable import ObjectFixtures
@testable import Varve

/// Tests of the records of the catalog: a damaged one is an error, and never another record.
struct CatalogRecordTests {
  private static let collection = CollectionRecord(id: 7, coder: 1, isOwn: true, keyType: "compound(int,stríng)")
  private static let switched = CollectionRecord(
    id: 7, coder: 1, writer: 16, isOwn: true, keyType: "compound(int,stríng)")
  private static let extensions = [
    ExtensionRecord.State.ready, .stale(nil), .stale(FeedPosition(version: 7, part: 8, step: 9)),
    .building(watermark: [0, 0, 0, 1, 9]),
    .ingesting(
      ExtensionRecord.IngestionMark(
        position: FeedPosition(version: 7, part: 8, step: 9), runCount: 3, watermark: [0, 0, 0, 1, 9])),
  ].map {
    var record = ExtensionRecord(number: 3, state: $0, layout: 2, versionTag: "é-1", kind: "k", scope: "*")
    record.parts = [
      ExtensionRecord.Part(name: "wörds", version: "1", form: .values, isVolatile: false, watermark: nil),
      ExtensionRecord.Part(name: "counts", version: "ñ", form: .sums, isVolatile: true, watermark: [0, 0, 0, 1, 9]),
    ]
    return record
  }
  private static let settings: [ExtensionSetting] = [
    .bool(true), .integer(-7), .double(0.5), .string("naïve"), .data([0, 0xFF]),
  ]

  @Test func `records are decoded as they were encoded`() throws {
    for record in [Self.collection, Self.switched] {
      #expect(try CollectionRecord(record.bytes, name: "c") == record)
    }
    #expect(Self.collection.bytes.prefix(7) == [1, 0, 0, 0, 7, 1, 1] && Self.collection.bytes[7] == UInt8(ascii: "c"))
    #expect(Self.switched.bytes.prefix(8) == [2, 0, 0, 0, 7, 1, 1, 16] && Self.switched.bytes[8] == UInt8(ascii: "c"))
    for record in Self.extensions { #expect(try ExtensionRecord(record.bytes, name: "e") == record) }
    for setting in Self.settings { #expect(try ExtensionSetting(setting.bytes) == setting) }
  }

  @Test func `text that is not UTF-8 is corrupt, and not repaired`() throws {
    func broken(_ bytes: [UInt8], _ text: String) throws -> [UInt8] {
      let location = try #require(bytes.firstRange(of: Array(text.utf8))).lowerBound
      var broken = bytes
      broken[location + 1] = 0x28
      return broken
    }
    let collection = try broken(Self.collection.bytes, "í")
    #expect(Self.code { _ = try CollectionRecord(collection, name: "c") } == .corruption)
    for record in Self.extensions {
      for text in ["é", "ö", "ñ"] {
        let bytes = try broken(record.bytes, text)
        #expect(Self.code { _ = try ExtensionRecord(bytes, name: "e") } == .corruption)
      }
    }
    let setting = try broken(ExtensionSetting.string("naïve").bytes, "ï")
    #expect(Self.code { _ = try ExtensionSetting(setting) } == .corruption)
  }

  @Test func `every truncation and every flipped bit is refused, or a record with exactly these bytes`() throws {
    func check(_ original: [UInt8], _ read: ([UInt8]) throws -> [UInt8]) {
      var inputs = original.indices.map { Array(original[..<$0]) }
      for location in original.indices {
        for bit in 0..<8 {
          var bytes = original
          bytes[location] ^= 1 << UInt8(bit)
          inputs.append(bytes)
        }
      }
      for bytes in inputs {
        do {
          let again = try read(bytes)
          #expect(again == bytes)
        } catch {
          let code = (error as? DatabaseError)?.code
          #expect(code == .corruption || code == .unsupportedVersion, "\(bytes): \(error)")
        }
      }
    }
    check(Self.switched.bytes) { try CollectionRecord($0, name: "c").bytes }
    check(Self.collection.bytes) { try CollectionRecord($0, name: "c").bytes }
    for record in Self.extensions { check(record.bytes) { try ExtensionRecord($0, name: "e").bytes } }
    for setting in Self.settings { check(setting.bytes) { try ExtensionSetting($0).bytes } }
  }

  @Test(arguments: ["c", "e", "o\u{10}", "v\0\0\0\u{1}\0\0\0\u{1}"])
  func `a name in the catalog that is not UTF-8 is corrupt, and not repaired`(key: String) throws {
    let environment = EngineEnvironment.inMemory()
    func open() throws -> Database {
      try Database.open(try EngineBackend(try Engine.open(at: "/db", environment: environment)), path: "/db")
    }
    let database = try open()
    try database.write { tx in try tx.set("x", key: 1, in: "books") }
    try database.close()
    let engine = try Engine.open(at: "/db", environment: environment)
    let catalog = try engine.family(named: "catalog")
    // The records are valid except for their names, so no other error can be found in them.
    let collection = CollectionRecord(id: 7, coder: 1, isOwn: false, keyType: "int")
    let record = key == "e" ? Self.extensions[0].bytes : collection.bytes
    if key.hasPrefix("v") || key.hasPrefix("o") {
      try engine.put(Array(key.utf8), [0x61, 0xFF], in: catalog)
    } else {
      try engine.put(Array(key.utf8) + [0x61, 0xFF], record, in: catalog)
    }
    try engine.close()
    #expect(Self.code { try open().close() } == .corruption)
  }

  private static func code(_ body: () throws -> Void) -> DatabaseError.Code? {
    do { try body() } catch { return (error as? DatabaseError)?.code }
    return nil
  }
}
