import Foundation
import Testing
import Varve

/// Tests of `export --collection` and `load --collection`: the second database must have the content of the first.
struct ObjectRoundTripTests {
  private let directory = TemporaryDirectory()
  private var database: String { directory.path + "/db" }
  private var copy: String { directory.path + "/copy" }

  /// Exports a collection, loads it into a second database, and compares what both export.
  private func move(_ collection: String) throws -> [String] {
    let file = directory.path + "/" + collection
    try Tool.good(["export", database, file, "--collection", collection])
    try Tool.good(["load", copy, file, "--collection", collection, "--create"])
    let lines = try String(contentsOfFile: file, encoding: .utf8)
    #expect(try Tool.good(["export", copy, "-", "--collection", collection]) == lines, "\(collection)")
    for line in Tool.lines(lines) { _ = try JSONSerialization.jsonObject(with: Data(line.utf8)) }
    return Tool.lines(lines)
  }

  /// Returns the bytes of all rows of a collection, after their headers, and of their metadata.
  private func bytes(_ path: String, _ collection: String) throws -> [[[UInt8]]] {
    try ObjectFixture.with(path) { database in
      try database.read { tx in
        var rows = try tx.rows(in: collection)
        return try rows.compactMap { row in [row.key.bytes, row.objectBytes, try row.metadataBytes() ?? [0]] }
      }
    }
  }

  @Test(arguments: ObjectFixture.coders)
  func `exported objects and metadata of every coder are loaded and decode to equal values`(coder: CoderKind) throws {
    try ObjectFixture.makeBooks(database, coder: coder)
    // The copy already has other shapes, so that those of the file get other numbers.
    try ObjectFixture.with(copy) { copy in
      try copy.write { tx in try tx.set(["x": ["y": ObjectFixture.Size(pages: 1)]], key: 1, in: "others") }
    }
    #expect(try move("books").count == 2)
    try ObjectFixture.with(copy) { copy in
      try copy.read { tx throws in
        #expect(try tx.object(ObjectFixture.Book.self, key: "moby", in: "books") == ObjectFixture.moby)
        #expect(try tx.object(ObjectFixture.Book.self, key: "emma", in: "books") == ObjectFixture.emma)
        let size = ObjectFixture.Size(pages: 635, by: .init(name: "me"))
        #expect(try tx.metadata(ObjectFixture.Size.self, key: "moby", in: "books") == size)
        #expect(try tx.row(key: "emma", in: "books")?.hasMetadata == false)
        #expect(try tx.count(in: "books") == 2)
      }
    }
    // The binary coder's bytes name shapes by the numbers of their catalog.
    if coder != .binary { #expect(try bytes(copy, "books") == bytes(database, "books")) }
  }

  @Test func `values that are not records keep the shapes of the records inside them`() throws {
    typealias Person = ObjectFixture.Book.Person
    let people = [[Person(name: "a")], [], [Person(name: "b", born: .distantFuture), Person(name: "")]]
    try ObjectFixture.with(database) { database in
      try database.write { tx in
        try tx.set(ObjectFixture.Size(pages: 1), key: "first shape", in: "mixed")
        try tx.set(people, key: "arrays", in: "mixed", metadata: ["m": Person(name: "n")])
        try tx.set(Optional<Int>.none, key: "null", in: "mixed", metadata: Optional<Int>.none)
        try tx.set(Double.nan, key: "nan", in: "mixed")
        try tx.set([-Double.infinity, -0.0], key: "infinity", in: "mixed")
        try tx.set(UInt128.max, key: "wide", in: "mixed")
        try tx.set(Data(), key: "data", in: "mixed")
        try tx.set([String: Int](), key: "empty", in: "mixed")
      }
    }
    let lines = try move("mixed")
    #expect(lines.first { $0.contains("\"key\":\"arrays\"") }?.contains("\"shapes\":[[\"name\",\"born\"]]") == true)
    try ObjectFixture.with(copy) { copy in
      try copy.read { tx throws in
        #expect(try tx.object([[Person]].self, key: "arrays", in: "mixed") == people)
        #expect(try tx.metadata([String: Person].self, key: "arrays", in: "mixed") == ["m": Person(name: "n")])
        #expect(try tx.object(Double.self, key: "nan", in: "mixed")?.isNaN == true)
        #expect(try tx.object(UInt128.self, key: "wide", in: "mixed") == .max)
      }
    }
  }

  @Test func `keys of every type are exported and loaded unchanged`() throws {
    try ObjectFixture.makeKeys(database)
    for collection in ObjectFixture.keyCollections {
      _ = try move(collection)
      #expect(try bytes(copy, collection) == bytes(database, collection), "\(collection)")
    }
    let types = try [database, copy].map { path in
      try Tool.objects(["collections", path, "--json"]).compactMap { $0["keyType"] as? String }
    }
    #expect(types[0].count == ObjectFixture.keyCollections.count && types[0] == types[1])
  }

  @Test func `bytes of the raw coder are exported and loaded unchanged, whether they are text or not`() throws {
    let values = [Data(), Data([0]), Data("text \u{2028}\u{0}é\"\\".utf8), Data([0xc3]), Data([0xed, 0xa0, 0x80])]
    try ObjectFixture.with(database, coder: .raw) { database in
      try database.write { tx in
        for (number, value) in values.enumerated() {
          try tx.set(value, key: number, in: "blobs", metadata: number == 1 ? [Data("m".utf8)] : nil)
        }
      }
    }
    _ = try move("blobs")
    #expect(try bytes(copy, "blobs") == bytes(database, "blobs"))
  }

  @Test func `stored JSON is exported and loaded unchanged, with its whitespace and numbers`() throws {
    let texts = [
      "{ \"b\" : 1.50,\t\"a\":[ ] }", "\n1e2\n", "12345678901234567890123456789", "\"\\u00e9\\/\\ud83d\\ude00\"",
      "null",
      "{\"a\":{\"\":0.1e-7}}", " 7",
    ]
    try ObjectFixture.with(database, coder: .json) { database in
      try database.write { tx in
        for (number, text) in texts.enumerated() {
          try tx.setBytes(
            Array(text.utf8), metadata: number == 0 ? Array(texts[1].utf8) : nil, key: number, in: "texts")
        }
      }
    }
    let lines = try move("texts")
    #expect(try bytes(copy, "texts") == bytes(database, "texts"))
    #expect(lines[2].contains("\"object\":12345678901234567890123456789") && !lines[2].contains("objectHex"))
    #expect(lines[1].contains("\"objectHex\":\"0a3165320a\""))
  }

  @Test func `exported lines may be reordered, and their JSON edited, before they are loaded`() throws {
    try ObjectFixture.makeBooks(database, coder: .json)
    let lines = Tool.lines(try Tool.good(["export", database, "-", "--collection", "books"]))
    let edited = lines[0].replacing("\"Emma\"", with: "\"Persuasion\"").replacing("\"emma\"", with: "\"anne\"")
    let file = try directory.file("mixed", "\r\n" + lines[1] + "\n\n" + edited)
    #expect(
      try Tool.good(["load", copy, file, "--collection", "other name", "--create", "--json"]).contains("\"rows\":2"))
    try ObjectFixture.with(copy) { copy in
      try copy.read { tx throws in
        #expect(try tx.object(ObjectFixture.Book.self, key: "anne", in: "other name")?.title == "Persuasion")
        #expect(try tx.keys(String.self, in: "other name") == ["anne", "moby"])
      }
    }
  }

  @Test func `the JSON that the objects command prints can be loaded, even over existing rows`() throws {
    try ObjectFixture.makeBooks(database)
    let file = try directory.file("rows", try Tool.good(["objects", database, "books", "--json"]))
    try ObjectFixture.with(database) { database in
      try database.write { tx in
        try tx.set(ObjectFixture.moby, key: "emma", in: "books", metadata: 1)
        try tx.remove(key: "moby", in: "books")
      }
    }
    for _ in 0..<2 {
      #expect(try Tool.good(["load", database, file, "--collection", "books"]) == "loaded 2 rows from \(size(file))\n")
      try ObjectFixture.with(database) { database in
        try database.read { tx throws in
          #expect(try tx.object(ObjectFixture.Book.self, key: "emma", in: "books") == ObjectFixture.emma)
          #expect(try tx.row(key: "emma", in: "books")?.hasMetadata == false)
          #expect(try tx.object(ObjectFixture.Book.self, key: "moby", in: "books") == ObjectFixture.moby)
          #expect(try tx.count(in: "books") == 2)
        }
      }
    }
  }

  private func size(_ file: String) -> String {
    let bytes = FileManager.default.contents(atPath: file)?.count ?? 0
    let tenths = (bytes * 10 + 512) / 1024
    return "\(tenths / 10).\(tenths % 10) KiB"
  }

  @Test func `loaded rows keep the names of their versions and the storage of their collection`() throws {
    let lines = [
      "{\"key\":[1,\"a\"],\"keyType\":\"compound(int,string)\",\"coder\":\"json\",\"storage\":\"own\",\"version\":\"2024-04-09\",\"object\":{}}",
      "{\"key\":[2,\"\"],\"object\":{},\"version\":\"1\",\"metadata\":[],\"metadataVersion\":\"2024-04-09\"}",
      "{\"key\":[3,\"\"],\"object\":0}",
    ]
    // The versions first appear in another order, so their numbers differ between the two databases.
    let first = try directory.file("first", lines.joined(separator: "\n"))
    try Tool.good(["load", database, first, "--collection", "v", "--create"])
    let other = try directory.file("other", lines[0].replacing("[1,", with: "[0,").replacing("2024-04-09", with: "1"))
    try Tool.good(["load", copy, other, "--collection", "v", "--create"])
    let file = directory.path + "/file"
    try Tool.good(["export", database, file, "--collection", "v"])
    try Tool.good(["load", copy, file, "--collection", "v"])
    #expect(
      try Tool.good(["export", copy, "-", "--collection", "v", "--from", "(1)"])
        == String(contentsOfFile: file, encoding: .utf8))
    let rows = try Tool.objects(["objects", copy, "v", "--json"])
    #expect(rows.map { $0["version"] as? String } == ["1", "2024-04-09", "1", nil])
    #expect(rows.map { $0["metadataVersion"] as? String } == [nil, nil, "2024-04-09", nil])
    #expect(rows.allSatisfy { $0["storage"] as? String == "own" })
    #expect(try Tool.good(["objects", copy, "v", "--key", "(2, \"\")"]).hasSuffix("\t1\t{}\t[]\n"))
    let versions = Tool.lines(try Tool.good(["dump", "catalog", copy])).filter { $0.hasPrefix("version ") }
    #expect(versions == ["version 1 of collection id 1: \"1\"", "version 2 of collection id 1: \"2024-04-09\""])
  }

  @Test func `many rows are loaded in several commits`() throws {
    let lines = (0..<25_000).map {
      "{\"key\":\($0),\"keyType\":\"int\",\"coder\":\"json\",\"object\":{\"n\":\($0)}}\n"
    }
    let file = try directory.file("many", lines.joined())
    let report = try Tool.good(["load", database, file, "--collection", "numbers", "--create", "--json"])
    #expect(report.contains("\"rows\":25000"))
    #expect(try Tool.objects(["collections", database, "--json"]).first?["rows"] as? Int == 25_000)
    #expect(try Tool.good(["objects", database, "numbers", "--key", "24999"]) == "24999\t25000\t-\t{\"n\":24999}\t-\n")
    _ = try move("numbers")
  }

  // MARK: - Lines that are refused

  @Test(arguments: [
    ("{\"object\":1}", "the key is missing"), ("{\"key\":\"b\"}", "neither object nor objectHex"),
    ("[]", "not the JSON object of a row"), ("{\"key\":\"b\",\"object\":1,\"key\":\"c\"}", "there twice"),
    ("{\"key\":\"b\",\"object\":1,\"metdata\":2}", "no member \"metdata\""),
    ("{\"key\":1,\"object\":1}", "keyTypeDiffers"),
    ("{\"key\":[\"b\",\"c\"],\"object\":1}", "keyTypeDiffers"), ("{\"key\":1.5,\"object\":1}", "not an integer"),
    ("{\"key\":{\"uid\":\"b\"},\"object\":1}", "of no kind"),
    ("{\"key\":\"b\",\"object\":1,\"coder\":\"json\"}", "go together"),
    ("{\"key\":\"b\",\"object\":1,\"coder\":\"json\",\"keyType\":\"int\"}", "definitionDiffers"),
    ("{\"key\":\"b\",\"object\":1,\"coder\":\"raw\",\"keyType\":\"string\"}", "definitionDiffers"),
    ("{\"key\":\"b\",\"object\":1,\"coder\":\"xml\",\"keyType\":\"string\"}", "and that of the rows xml"),
    ("{\"key\":\"b\",\"objectHex\":\"7\"}", "even number"), ("{\"key\":\"b\",\"objectHex\":\"7b\"}", "corruption"),
    ("{\"key\":\"b\",\"object\":2,\"objectHex\":\"31\"}", "something else than objectHex"),
    ("{\"key\":\"b\",\"object\":2,\"shape\":[\"a\"]}", "must have none"),
    ("{\"key\":\"b\",\"object\":2,\"metadataVersion\":\"1\"}", "what belongs to them"),
    ("{\"key\":\"b\",\"object\":\"\\x\"}", "not valid JSON"),
  ])
  func `a line that is not a row is reported, and earlier rows of its commit are not loaded`(
    line: String, reason: String
  ) throws {
    let good = "{\"key\":\"a\",\"keyType\":\"string\",\"coder\":\"json\",\"object\":1}"
    let file = try directory.file("rows", good + "\n" + line + "\n")
    let result = try Tool.run(["load", database, file, "--collection", "c", "--create"])
    #expect(result.status == 3 && result.errors.contains("line 2: ") && result.errors.contains(reason), "\(result)")
    #expect(try Tool.good(["objects", database, "c"]) == "")
  }

  @Test func `a row of the binary coder needs objectHex, and is refused if its readable object differs`() throws {
    try ObjectFixture.makeBooks(database)
    let line = Tool.lines(try Tool.good(["export", database, "-", "--collection", "books"]))[0]
    func load(_ line: String) throws -> Tool.Result {
      try Tool.run(["load", copy, try directory.file("line", line), "--collection", "books", "--create"])
    }
    let changed = try load(line.replacing("\"Emma\"", with: "\"Anna\""))
    #expect(changed.status == 3 && changed.errors.contains("object says something else than objectHex"), "\(changed)")
    // Another spelling of the same JSON, with sorted keys and spaces, has the same meaning.
    let object = try #require(JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any])
    let pretty = try JSONSerialization.data(withJSONObject: object, options: .sortedKeys)
    #expect(try load(String(decoding: pretty, as: UTF8.self)).status == 0)
    let bare = object.filter { $0.key != "object" }
    #expect(try load(String(decoding: try JSONSerialization.data(withJSONObject: bare), as: UTF8.self)).status == 0)
    let readable = object.filter { $0.key != "objectHex" }
    let refused = try load(String(decoding: try JSONSerialization.data(withJSONObject: readable), as: UTF8.self))
    #expect(refused.status == 3 && refused.errors.contains("objectHex is missing"), "\(refused)")
    #expect(
      try Tool.good(["objects", copy, "books"]) == Tool.lines(try Tool.good(["objects", database, "books"]))[0]
        .replacing("\"emma\"\t2\t", with: "\"emma\"\t1\t") + "\n")
  }
}
