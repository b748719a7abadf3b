import Foundation
import Testing
import Varve

/// A coder that a program defines, and that the tool does not have.
private struct MaskedCoder: ObjectCoder {
  static let storedName = "org.example.masked"

  static func encode<Value: Encodable>(_ value: Value) throws -> [UInt8] {
    let encoder = JSONEncoder()
    encoder.outputFormatting = .sortedKeys
    return [UInt8](try encoder.encode(value)).map { $0 ^ 0x5A }
  }

  static func decode<Value: Decodable>(_ type: Value.Type, from bytes: [UInt8]) throws -> Value {
    try JSONDecoder().decode(type, from: Data(bytes.map { $0 ^ 0x5A }))
  }
}

/// Tests of how the tool shows and moves rows that a program's own coder wrote.
struct OwnCoderRowTests {
  private struct Note: Codable, Hashable, Sendable { var text: String }

  private let directory = TemporaryDirectory()
  private var database: String { directory.path + "/db" }

  private static func definition(_ coder: CoderKind, _ formerCoders: [CoderKind] = []) -> DatabaseDefinition {
    DatabaseDefinition {
      CollectionDefinition("notes", Note.self, key: Int.self, coder: coder, formerCoders: formerCoders)
    }
  }

  private func write(_ definition: DatabaseDefinition, _ keys: ClosedRange<Int>, to path: String? = nil) throws {
    try ObjectFixture.with(path ?? database, definition) { database in
      try database.write { tx throws in
        for key in keys { try tx.set(Note(text: "n\(key)"), key: key, in: "notes", metadata: key == 2 ? ["m"] : nil) }
      }
    }
  }

  private func hex(_ value: some Encodable) throws -> String {
    try MaskedCoder.encode(value).map { String(format: "%02x", $0) }.joined()
  }

  @Test func `rows of a custom coder are printed as bytes, and their collection with the coder's stored name`() throws {
    try write(Self.definition(.own(MaskedCoder.self)), 1...2)
    let listed = try #require(try Tool.objects(["collections", database, "--json"]).first)
    #expect(listed["coder"] as? String == "org.example.masked" && listed["firstCoder"] == nil)
    #expect(try Tool.good(["collections", database]).contains("org.example.masked"))
    let rows = try Tool.objects(["objects", database, "notes", "--json"])
    #expect(rows.map { $0["coder"] as? String } == ["org.example.masked", "org.example.masked"])
    #expect(rows.map { $0["objectHex"] as? String } == [try hex(Note(text: "n1")), try hex(Note(text: "n2"))])
    #expect(rows.map { $0["metadataHex"] as? String } == [nil, try hex(["m"])])
    #expect(rows.allSatisfy { $0["object"] == nil && $0["shape"] == nil })
    #expect(Tool.lines(try Tool.good(["objects", database, "notes"])).count == 2)
    let catalog = try Tool.good(["dump", "catalog", database])
    #expect(catalog.contains("coder 16: \"org.example.masked\""), "\(catalog)")
    #expect(catalog.contains("collection \"notes\": id 1, keys int, coder \"org.example.masked\", "), "\(catalog)")
    #expect(try Tool.run(["verify", database]).status == 0)
  }

  @Test func `a collection whose coder was switched shows each row by the coder that wrote it`() throws {
    try write(Self.definition(.binary), 1...2)
    try write(Self.definition(.own(MaskedCoder.self), [.binary]), 3...3)
    let listed = try #require(try Tool.objects(["collections", database, "--json"]).first)
    #expect(listed["coder"] as? String == "org.example.masked" && listed["firstCoder"] as? String == "binary")
    #expect(try Tool.good(["collections", database]).contains("org.example.masked first binary"))
    let rows = try Tool.objects(["objects", database, "notes", "--json"])
    #expect(rows.map { $0["coder"] as? String } == ["binary", "binary", "org.example.masked"])
    #expect(rows[0]["object"] as? [String: String] == ["text": "n1"])
    #expect(rows[1]["metadata"] as? [String] == ["m"])
    #expect(rows[2]["objectHex"] as? String == (try hex(Note(text: "n3"))) && rows[2]["object"] == nil)
    let catalog = try Tool.good(["dump", "catalog", database])
    #expect(catalog.contains("coder \"org.example.masked\", first binary, "), "\(catalog)")
  }

  @Test func `rows of a custom coder are exported and loaded unchanged`() throws {
    let definition = Self.definition(.own(MaskedCoder.self))
    try write(definition, 1...5)
    let file = directory.path + "/rows"
    let other = directory.path + "/other"
    try Tool.good(["export", database, file, "--collection", "notes"])
    try Tool.good(["load", other, file, "--collection", "notes", "--create"])
    try ObjectFixture.with(other, definition) { database in
      try database.read { tx throws in
        #expect(try tx.object(Note.self, key: 4, in: "notes") == Note(text: "n4"))
        #expect(try tx.row(key: 2, in: "notes")?.metadata(as: [String].self) == ["m"])
        #expect(try tx.count(in: "notes") == 5)
      }
    }
  }

  @Test func `rows of a collection whose coder was switched load only into one with the same switch`() throws {
    let former = Self.definition(.binary)
    let present = Self.definition(.own(MaskedCoder.self), [.binary])
    let (file, other, third) = (directory.path + "/rows", directory.path + "/other", directory.path + "/third")
    for path in [database, other] {
      try write(former, 1...2, to: path)
      try write(present, 3...4, to: path)
    }
    try write(former, 1...1, to: third)
    try Tool.good(["export", database, file, "--collection", "notes"])
    try Tool.good(["load", other, file, "--collection", "notes"])
    try ObjectFixture.with(other, present) { database in
      let texts = try database.read { tx in
        try (1...4).map { try tx.object(Note.self, key: $0, in: "notes")?.text }
      }
      #expect(texts == ["n1", "n2", "n3", "n4"])
    }
    let refused = try Tool.run(["load", third, file, "--collection", "notes"])
    #expect(refused.status == 3, "\(refused)")
    #expect(refused.errors.contains("its coder is binary, and that of the rows org.example.masked"), "\(refused)")
  }
}
