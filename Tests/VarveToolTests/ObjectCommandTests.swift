import Foundation
import Testing
import Varve

/// Tests of `collections`, `objects` and `dump catalog` as a script sees them.
struct ObjectCommandTests {
  private let directory = TemporaryDirectory()
  private var database: String { directory.path + "/db" }

  private static let reading = [["collections"], ["objects"], ["dump", "catalog"], ["export"]]

  private func words(_ command: [String]) -> [String] {
    switch command[0] {
    case "objects": command + [database, "books"]
    case "export": command + [database, "-", "--collection", "books"]
    default: command + [database]
    }
  }

  // MARK: - Where there is nothing to show

  @Test(arguments: reading)
  func `a missing path is an error, and so is a database without objects`(command: [String]) throws {
    #expect(try Tool.run(words(command)).status == 3)
    #expect(!FileManager.default.fileExists(atPath: database))
    try Tool.good(["put", database, "a", "1", "--create"])
    let result = try Tool.run(words(command) + ["--json"])
    #expect(result.status == 3 && result.errors.hasPrefix("{\"error\":{\"code\":\"notADatabase\""), "\(result)")
    #expect(try Tool.good(["info", database]).contains("catalog") == false, "a look makes no family")
  }

  @Test func `a load that can't start creates no database`() throws {
    let file = try directory.file("rows", "{\"key\":\"a\",\"keyType\":\"string\",\"coder\":\"json\",\"object\":1}")
    let load = ["load", database, file, "--collection", "books"]
    #expect(try Tool.run(load).status == 3)
    #expect(
      try Tool.run(["load", database, directory.path + "/none", "--collection", "books", "--create"]).status == 3)
    let broken = try directory.file("broken", "\n{\"key\":\"a\"\n")
    let result = try Tool.run(["load", database, broken, "--collection", "books", "--create"])
    #expect(result.status == 3 && result.errors.contains("line 2: not valid JSON"), "\(result)")
    #expect(!FileManager.default.fileExists(atPath: database))
    try Tool.good(["put", database, "a", "1", "--create"])
    #expect(try Tool.run(load).status == 3)
    let refused = try Tool.run(load + ["--create"])
    #expect(refused.status == 3 && refused.errors.contains("holds no database of objects"), "\(refused)")
    try FileManager.default.removeItem(atPath: database)
    try ObjectFixture.makeKeys(database)
    let missing = try Tool.run(load)
    #expect(missing.status == 3 && missing.errors.contains("(collection \"books\")"), "\(missing)")
    try Tool.good(load + ["--create"])
    #expect(try Tool.good(["objects", database, "books", "--key", "a"]).hasSuffix("\t-\t1\t-\n"))
  }

  @Test func `the help of each command has an example`() throws {
    for command in [["collections"], ["objects"], ["dump", "catalog"], ["load"], ["export"], ["put"], ["delete"]] {
      let result = try Tool.run(command + ["--help"])
      #expect(result.status == 0 && result.output.contains("Example: varve") && result.output.contains("--json"))
    }
    for command in ["put", "delete", "load"] {
      #expect(try Tool.run([command, "--help"]).output.contains("--raw"))
    }
    for command in ["load", "export"] {
      #expect(try Tool.run([command, "--help"]).output.contains("--collection books"))
    }
  }

  @Test(arguments: [
    ["objects", "db"], ["objects", "db", "c", "--limit", "-1"], ["objects", "db", "c", "--key", "a", "--from", "b"],
    ["objects", "db", "c", "--prefix", "a", "--to", "b"], ["export", "db", "-", "--collection", "c", "--binary"],
    ["export", "db", "-", "--collection", "c", "--family", "f"],
    ["export", "db", "x", "--collection", "c", "--resume"],
    ["load", "db", "-", "--collection", "c", "--raw"], ["load", "db", "-", "--collection", "c", "--resume"],
    ["load", "db", "-", "--collection", "c", "--binary"], ["dump", "catalog"],
  ])
  func `an invalid command line exits with status 2`(arguments: [String]) throws {
    #expect(try Tool.run(arguments).status == 2)
  }

  // MARK: - Collections

  @Test func `collections are listed with their catalog records, row counts and sizes`() throws {
    let definition = DatabaseDefinition {
      CollectionDefinition("sizes", ObjectFixture.Size.self, key: Compound<Int, String>.self, storage: .own())
      CollectionDefinition("blobs", Data.self, key: UUID.self, coder: .raw)
    }
    try ObjectFixture.with(database, definition) { database in
      try database.write { tx in
        for number in 0..<100 { try tx.set(ObjectFixture.Size(pages: number), key: Compound(number, "x"), in: "sizes") }
        try tx.set(ObjectFixture.emma, key: "emma", in: "a \"b\"\tc", metadata: 1)
        try tx.remove(key: Compound(0, "x"), in: "sizes")
      }
    }
    let rows = try Tool.objects(["collections", database, "--json"])
    #expect(rows.map { $0["name"] as? String } == ["a \"b\"\tc", "blobs", "sizes"])
    #expect(rows.map { $0["rows"] as? Int } == [1, 0, 99])
    #expect(rows.map { $0["keyType"] as? String } == ["string", "uuid", "compound(int,string)"])
    #expect(rows.map { $0["coder"] as? String } == ["binary", "raw", "binary"])
    #expect(rows.map { $0["storage"] as? String } == ["shared", "shared", "own"])
    #expect(Set(rows.compactMap { $0["id"] as? Int }) == [1, 2, 3])
    let bytes = rows.compactMap { $0["bytes"] as? Int }
    #expect(bytes.count == 3 && bytes[0] > 100 && bytes[1] == 0 && bytes[2] > bytes[0], "\(bytes)")
    #expect(rows.allSatisfy { $0.count == 7 })

    let table = Tool.lines(try Tool.good(["collections", database]))
    #expect(table.count == 4 && table[0].hasPrefix("name ") && table[0].hasSuffix("  bytes"))
    #expect(table[0].split(separator: " ") == ["name", "id", "rows", "keys", "coder", "storage", "bytes"])
    #expect(table[1].hasPrefix("a \"b\"\\x09c  "), "\(table[1])")
    #expect(table[3].contains("  99    compound(int,string)  binary  own "), "\(table[3])")
  }

  @Test func `a database without collections lists none`() throws {
    try ObjectFixture.with(database) { _ in }
    #expect(try Tool.good(["collections", database]) == "no collections\n")
    #expect(try Tool.good(["collections", database, "--json"]) == "")
    let catalog = try Tool.good(["dump", "catalog", database])
    #expect(catalog == "format 1\n")
  }

  // MARK: - Objects

  @Test func `rows are printed without their Swift type, one per line`() throws {
    try ObjectFixture.with(database) { database in
      try database.write { tx in
        try tx.set(ObjectFixture.Size(pages: 5, by: .init(name: "x\ty\u{9b}")), key: "b", in: "sizes")
        try tx.set(ObjectFixture.Size(pages: -5), key: "a", in: "sizes", metadata: ["k": 1.5])
      }
    }
    #expect(
      try Tool.good(["objects", database, "sizes"])
        == "\"a\"\t2\t-\t{\"pages\":-5}\t{\"k\":1.5}\n\"b\"\t1\t-\t{\"pages\":5,\"by\":{\"name\":\"x\\u0009y\\u009b\"}}\t-\n"
    )
    #expect(try Tool.good(["objects", database, "sizes", "--keys-only", "--reverse"]) == "\"b\"\n\"a\"\n")
    #expect(try Tool.good(["objects", database, "sizes", "--keys-only", "--limit", "1"]) == "\"a\"\n")
    #expect(try Tool.good(["objects", database, "sizes", "--limit", "0"]) == "")
    #expect(
      try Tool.good(["objects", database, "sizes", "--keys-only", "--json", "--key", "b"])
        == "{\"key\":\"b\",\"keyText\":\"\\\"b\\\"\"}\n")
    let row = try #require(try Tool.objects(["objects", database, "sizes", "--json", "--key", "a"]).first)
    #expect(row["id"] as? Int == 2 && row["keyText"] as? String == "\"a\"" && row["coder"] as? String == "binary")
    #expect((row["object"] as? [String: Int]) == ["pages": -5] && (row["metadata"] as? [String: Double]) == ["k": 1.5])
    #expect(row["shape"] as? [String] == ["pages", "by"] && row["version"] == nil)
  }

  @Test(arguments: ObjectFixture.coders)
  func `an object of any coder is printed with the same fields`(coder: CoderKind) throws {
    try ObjectFixture.makeBooks(database, coder: coder)
    let rows = try Tool.objects(["objects", database, "books", "--json"])
    #expect(rows.map { $0["key"] as? String } == ["emma", "moby"])
    for (row, book) in zip(rows, [ObjectFixture.emma, ObjectFixture.moby]) {
      let object = try #require(row["object"] as? [String: Any])
      #expect(object["title"] as? String == book.title)
      #expect(object["year"] as? Int == -1851 && object["isRead"] as? Bool == true)
      #expect(object["limits"] as? [Int] == [Int.min, Int.max, 0])
      #expect((object["chapters"] as? [[String: Any]])?.map { $0["pages"] as? Int } == book.chapters.map(\.pages))
      #expect(object["id"] as? String == book.id.uuidString)
      #expect(object["cover"] as? String == "AAH/" && object["parts"] as? [String: String] == ["a": "1", "b": "2"])
      let born = (object["author"] as? [String: Any])?["born"]
      #expect(coder == .json ? born as? Double == -5_743_008_000.125 : born as? String == "1819-01-05T23:59:59.875Z")
    }
    #expect((rows[1]["metadata"] as? [String: Any])?["pages"] as? Int == 635 && rows[0]["metadata"] == nil)
    let text = Tool.lines(try Tool.good(["objects", database, "books"]))
    #expect(text.count == 2 && text.allSatisfy { $0.split(separator: "\t").count == 5 }, "\(text)")
  }

  @Test func `bytes of the raw coder are printed as text if they are UTF-8`() throws {
    try ObjectFixture.with(database, coder: .raw) { database in
      try database.write { tx in
        try tx.set(Data("line\nline é".utf8), key: 1, in: "blobs", metadata: ObjectFixture.Size(pages: 7))
        try tx.set(Data([0xff, 0x41]), key: 2, in: "blobs")
      }
    }
    #expect(
      try Tool.good(["objects", database, "blobs"]) == "1\t1\t-\tline\\x0aline é\t{\"pages\":7}\n2\t2\t-\t\\xffA\t-\n")
    let rows = try Tool.objects(["objects", database, "blobs", "--json"])
    #expect(rows[0]["object"] as? String == "line\nline é" && rows[0]["metadata"] as? [String: Int] == ["pages": 7])
    #expect(rows[1]["object"] == nil && rows[1]["objectHex"] as? String == "ff41")
  }

  @Test func `a row is found by the printed text of its key, for keys of every type`() throws {
    try ObjectFixture.makeKeys(database)
    for collection in ObjectFixture.keyCollections {
      let rows = try Tool.objects(["objects", database, collection, "--json"])
      #expect(rows.isEmpty == false)
      for row in rows {
        let text = try #require(row["keyText"] as? String)
        let found = try Tool.run(["objects", database, collection, "--key=" + text, "--json"])
        #expect(
          found.status == 0 && found.output.contains("\"id\":\(row["id"] as? Int ?? 0),"), "\(collection) \(text)")
      }
    }
    let absent = try Tool.run(["objects", database, "strings", "--key", "absent"])
    #expect(absent.status == 1 && absent.output.isEmpty && absent.errors == "varve: the key is absent\n")
    #expect(try Tool.run(["objects", database, "ints", "--key", "x"]).status == 2)
    #expect(try Tool.run(["objects", database, "nothing"]).status == 3)
  }

  @Test func `ranges select keys, and prefixes select text or the first parts of keys`() throws {
    try ObjectFixture.makeKeys(database)
    func keys(_ arguments: String...) throws -> [String] {
      Tool.lines(try Tool.good(["objects", database] + arguments + ["--keys-only"]))
    }
    #expect(try keys("ints", "--from=-1", "--to", "2") == ["-1", "0", "1"])
    #expect(try keys("ints", "--from=-1", "--to", "2", "--reverse", "--limit", "2") == ["1", "0"])
    #expect(try keys("strings", "--prefix", "a") == ["\"a\"", "\"a\\0\"", "\"a\\0b\""])
    #expect(try keys("strings", "--prefix", "\"a\\0\"") == ["\"a\\0\"", "\"a\\0b\""])
    #expect(try keys("strings", "--prefix", "e\u{301}") == ["\"é\"", "\"été\""])
    #expect(try keys("strings", "--from", "b", "--to", "nim") == ["\"nil\""])
    #expect(try keys("maybe", "--prefix", "n") == ["\"nil\""])
    #expect(try keys("compounds", "--prefix", "(1)") == ["(1, \"a\")", "(1, \"a\\0\")"])
    #expect(try keys("compounds", "--prefix", "(1, \"a\")") == ["(1, \"a\")"])
    #expect(try keys("compounds", "--to", "(1)") == ["(-1, \"\")"])
    #expect(try keys("dates", "--from", "2001-01-01T00:00:00.5Z", "--to", "2027-01-01T00:00:00Z").count == 2)
    for arguments in [["ints", "--prefix", "1"], ["ints", "--from", "a"], ["compounds", "--prefix", "1, 2, 3"]] {
      let result = try Tool.run(["objects", database] + arguments)
      #expect(result.status == 2, "\(result)")
    }
    let some = try Tool.good(["export", database, "-", "--collection", "ints", "--from=-1", "--to", "2"])
    #expect(Tool.lines(some).count == 3)
  }

  // MARK: - The catalog, and other processes

  @Test func `dump catalog lists collections that were dropped`() throws {
    try ObjectFixture.with(database) { database in
      try database.write { tx in try tx.set("Emma", key: 1, in: "books") }
      try database.dropCollection("books")
    }
    let lines = Tool.lines(try Tool.good(["dump", "catalog", database]))
    #expect(lines.contains("collection id 1 was dropped: \"books\""))
    #expect(!lines.contains { $0.hasPrefix("collection \"books\"") })
  }

  @Test func `dump catalog prints every row of the catalog as text`() throws {
    try ObjectFixture.makeBooks(database)
    try ObjectFixture.with(database) { database in
      try database.waitUntilReady(try database.register(Counter(), as: "counter \"1\""))
      try database.waitUntilReady(try database.register(Counter(dependencies: ["counter \"1\""]), as: "second"))
    }
    let lines = Tool.lines(try Tool.good(["dump", "catalog", database]))
    #expect(lines.contains("format 1"))
    #expect(lines.contains("collection \"books\": id 1, keys string, coder binary, storage shared"))
    #expect(lines.contains("next collection id: 2") && lines.contains("next extension number: 3"))
    #expect(lines.contains("first row id that is not reserved: 65537"))
    #expect(lines.contains("changes of collections and versions: 1"))
    #expect(lines.contains { $0.hasPrefix("shape ") && $0.hasSuffix(": {\"pages\", \"by\"}") })
    let part = ", part \"keys\" version \"1\""
    #expect(lines.contains("extension \"counter \\\"1\\\"\": number 1, ready, layout 1, version \"v\"" + part))
    let second = "extension \"second\": number 2, ready, layout 1, version \"v\", built on \"counter \\\"1\\\"=v#"
    #expect(lines.contains { $0.hasPrefix(second) && $0.hasSuffix(part) })
    let setting = "setting \"rows\" of extension number 1: "
    #expect(
      lines.contains { $0 == setting + "2" }
        && lines.contains { $0 == "setting \"data\" of extension number 1: 0x00ff" })
    #expect(
      Set(try Tool.objects(["dump", "catalog", database, "--json"]).compactMap { $0["text"] as? String }) == Set(lines))
  }

  @Test func `a database that a process has open can be read, and not written`() throws {
    try ObjectFixture.with(database) { open in
      try open.write { tx in try tx.set(7, key: "a", in: "numbers") }
      #expect(try Tool.good(["objects", database, "numbers"]) == "\"a\"\t1\t-\t7\t-\n")
      try open.write { tx in try tx.set(8, key: "b", in: "numbers") }
      #expect(try Tool.objects(["collections", database, "--json"]).first?["rows"] as? Int == 2)
      let file = directory.path + "/rows"
      #expect(try Tool.good(["export", database, file, "--collection", "numbers", "--json"]).contains("\"rows\":2"))
      #expect(try Tool.good(["dump", "catalog", database]).contains("\"numbers\""))
      let load = try Tool.run(["load", database, file, "--collection", "numbers", "--json"])
      #expect(load.status == 3 && load.errors.contains("\"code\":\"locked\""), "\(load)")
      #expect(try open.read { tx in try tx.count() } == 2)
    }
  }
}

/// An extension that counts, in a setting, the rows that it received.
struct Counter: DatabaseExtension {
  static let kind = "test.counter"
  var dependencies: [String] = []

  var configuration: ExtensionConfiguration {
    var configuration = ExtensionConfiguration(version: "v")
    configuration.events = .inserts
    configuration.parts = [PartDefinition("keys")]
    configuration.dependencies = dependencies
    return configuration
  }

  func makeTransaction(_ context: ExtensionContext<Self>) throws -> CounterTransaction {
    try CounterTransaction(context)
  }
}

final class CounterTransaction: ExtensionTransaction {
  typealias Definition = Counter
  private let context: ExtensionContext<Counter>
  private let keysPart: Part

  init(_ context: ExtensionContext<Counter>) throws {
    self.context = context
    keysPart = try context.part("keys")
  }

  /// Returns the number of rows that the extension received since it was created.
  func count() throws -> Int {
    guard case .integer(let count) = try context.setting("rows") else { return 0 }
    return count
  }

  func didChange(_ change: borrowing RowChange) throws {
    try context.set(.integer(try count() + 1), for: "rows")
    try context.set(.data([0, 255]), for: "data")
    try keysPart.put(change.key.bytes, [])
  }

  /// Returns the keys of all rows that the extension knows.
  func keys() throws -> [String] {
    var cursor = try keysPart.cursor()
    var keys: [String] = []
    while let (key, _) = try cursor.next() { keys.append(KeyText.text(of: key)) }
    return keys
  }
}
