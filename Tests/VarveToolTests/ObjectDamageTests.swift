import Foundation
import Testing
import Varve

/// Tests of rows that are damaged: the tool prints a line for each, the other rows, and exits with status 1.
struct ObjectDamageTests {
  private let directory = TemporaryDirectory()
  private var database: String { directory.path + "/db" }

  /// A damage of a row, and what the tool prints about it.
  struct Damage: Sendable, CustomTestStringConvertible {
    let name: String
    let coder: CoderKind
    let family: String
    let reason: String
    /// Returns the damaged bytes of a row.
    let change: @Sendable ([UInt8]) -> [UInt8]

    init(
      _ name: String, _ coder: CoderKind = .binary, family: String = "objects", says reason: String,
      _ change: @escaping @Sendable ([UInt8]) -> [UInt8]
    ) {
      self.name = name
      self.coder = coder
      self.family = family
      self.reason = reason
      self.change = change
    }

    var testDescription: String { name }
  }

  /// A row begins with flags, version, shape and row number, each one byte here; metadata begins with version and
  /// shape.
  static let damages = [
    Damage("nothing", says: "it is empty") { _ in [] },
    Damage("flags", says: "its flags are 8") { [8] + $0.dropFirst() },
    Damage("a header that ends", says: "a number does not end") { Array($0.prefix(2)) },
    Damage("a version that no one named", says: "version 9, which the catalog does not name") {
      [$0[0], 9] + $0.dropFirst(2)
    },
    Damage("a shape that is not there", says: "no shape 99") { [$0[0], 0, 99] + $0.dropFirst(3) },
    Damage("an object that ends", says: "the row does not match its shape") { $0.dropLast() },
    Damage("an object that continues", says: "the row does not match its shape") { $0 + [0] },
    Damage("an object of an unknown kind", says: "the row does not match its shape") { $0.prefix(4) + [0xff] },
    Damage("metadata that ends", family: "metadata", says: "the row does not match its shape") { $0.dropLast() },
    Damage("metadata without its begin", family: "metadata", says: "a number does not end") { _ in [0] },
    Damage("a shape where none may be", .json, says: "must have none") { [$0[0], 0, 4] + $0.dropFirst(3) },
    Damage("JSON that ends", .json, says: "not valid JSON") { $0.dropLast() },
    Damage("JSON that is nothing", .json, says: "not valid JSON") { Array($0.prefix(4)) },
    Damage("JSON that is not text", .json, says: "not valid JSON") { $0.prefix(4) + [0x22, 0xff, 0x22] },
    Damage("JSON that is too deep", .json, says: "not valid JSON") {
      $0.prefix(4) + [UInt8](repeating: 0x5b, count: 50_000)
    },
    Damage("a list that ends", .propertyList, says: "not a binary property list") { $0.dropLast() },
    Damage("a list that holds itself", .propertyList, says: "not a binary property list") {
      Array($0[..<4]) + Array("bplist00".utf8) + [0xa2, 0, 0, 8] + [0, 0, 0, 0, 0, 0, 1, 1]
        + [UInt8](repeating: 0, count: 7) + [1] + [UInt8](repeating: 0, count: 15) + [11]
    },
  ]

  @Test(arguments: damages)
  func `a damaged row is reported with its collection and key, and the others are printed`(damage: Damage) throws {
    try ObjectFixture.makeBooks(database, coder: damage.coder)
    let key = RawBytes.key("moby")
    let bytes = try RawBytes.get(database, damage.family, key)
    try RawBytes.put(database, damage.family, key, damage.change(bytes))
    for command in [["objects", database, "books"], ["export", database, "-", "--collection", "books"]] {
      let result = try Tool.run(command)
      #expect(result.status == 1, "\(result)")
      #expect(Tool.lines(result.output).count == 1 && result.output.contains("emma"), "\(result)")
      let line = try #require(Tool.lines(result.errors).first)
      #expect(line.hasPrefix("varve: damaged: ") && line.contains(damage.reason), "\(line)")
      #expect(line.contains("(collection \"books\", key \"moby\")"), "\(line)")
    }
    let result = try Tool.run(["objects", database, "books", "--json", "--key", "moby"])
    #expect(result.status == 1 && result.output.isEmpty)
    let error = try #require(
      JSONSerialization.jsonObject(with: Data(result.errors.utf8)) as? [String: [String: String]])
    #expect(error["error"]?["collection"] == "books" && error["error"]?["key"] == "\"moby\"")
    #expect(try Tool.run(["objects", database, "books", "--keys-only"]).status == 0, "keys are whole")
  }

  @Test func `missing metadata and invalid keys are reported as damage`() throws {
    try ObjectFixture.makeBooks(database)
    try Tool.good(["delete", database, RawBytes.key("moby"), "--hex", "--raw", "--family", "metadata"])
    let missing = try Tool.run(["objects", database, "books"])
    #expect(missing.status == 1 && missing.errors.contains("has metadata, and it has none"), "\(missing)")
    let row = try RawBytes.get(database, "objects", RawBytes.key("emma"))
    try RawBytes.put(database, "objects", "00000001ff00", row)
    try RawBytes.put(database, "objects", RawBytes.hex([0, 0, 0, 1, 0x30]), row)
    for arguments in [[], ["--keys-only"]] {
      let result = try Tool.run(["objects", database, "books"] + arguments)
      #expect(result.status == 1 && result.errors.contains("key <invalid 0xff00>"), "\(result)")
      #expect(
        result.errors.contains("keyTypeDiffers") || result.errors.contains("the keys of the collection are string"))
      #expect(result.output.contains("\"emma\""))
    }
  }

  @Test func `an export of a damaged collection contains all undamaged rows`() throws {
    try ObjectFixture.makeBooks(database)
    try RawBytes.put(database, "objects", RawBytes.key("moby"), [8])
    let file = directory.path + "/file"
    let result = try Tool.run(["export", database, file, "--collection", "books", "--json"])
    #expect(
      result.status == 1 && result.output.contains("\"damaged\":1") && result.output.contains("\"rows\":1"), "\(result)"
    )
    #expect(
      try Tool.good(["load", database + "2", file, "--collection", "books", "--create"]).hasPrefix("loaded 1 row "))
  }

  @Test func `each damaged row of the catalog is reported, and the others are printed`() throws {
    try ObjectFixture.makeBooks(database)
    func catalog(_ key: [UInt8], _ value: [UInt8]) throws {
      try RawBytes.put(database, "catalog", RawBytes.hex(key), value)
    }
    try catalog(Array("cbad".utf8), [1, 0])
    try catalog(Array("cnewer".utf8), [2, 0, 0, 0, 9, 1, 0])
    try catalog(Array("ccoder".utf8), [1, 0, 0, 0, 8, 77, 0] + Array("string".utf8))
    try catalog(Array("cown".utf8), [1, 0, 0, 0, 7, 1, 1] + Array("string".utf8))
    try catalog([0x63, 0xff], [1, 0, 0, 0, 9, 1, 0])
    try catalog(Array("eext".utf8), [1, 0, 0, 0, 1, 1, 0])
    try catalog(Array("s".utf8) + [0, 0, 0, 50], [1, 2, 1, 0x61, 1, 0x61])
    try catalog(Array("s".utf8), [])
    try catalog(Array("v".utf8) + [0, 0, 0, 1, 0, 0, 0, 1], [0xff])
    try catalog(Array("x".utf8) + [0, 0, 0, 1, 0x61], [2, 0])
    try catalog(Array("i".utf8), [0])
    try catalog(Array("zunknown".utf8), [])
    let dump = try Tool.run(["dump", "catalog", database])
    #expect(dump.status == 1)
    #expect(Tool.lines(dump.errors).count == 10, "\(dump.errors)")
    #expect(Tool.lines(dump.errors).allSatisfy { $0.hasPrefix("varve: damaged: catalog row 0x") })
    #expect(dump.output.contains("collection \"books\": id 1") && dump.output.contains("format 1"))
    #expect(dump.output.contains("collection \"coder\": id 8, keys string, coder unknown (77), storage shared"))
    let json = try Tool.run(["dump", "catalog", database, "--json"])
    #expect(Tool.lines(json.errors).allSatisfy { $0.hasPrefix("{\"error\":{\"code\":") })

    let list = try Tool.run(["collections", database, "--json"])
    #expect(list.status == 1 && Tool.lines(list.errors).count == 4, "\(list.errors)")
    #expect(list.output.contains("\"name\":\"books\"") && list.output.contains("\"coder\":\"unknown(77)\""))
    #expect(Tool.lines(try Tool.good(["objects", database, "books"])).count == 2, "the catalog's damage is elsewhere")
    #expect(try Tool.run(["objects", database, "bad"]).status == 3)
    #expect(try Tool.run(["objects", database, "coder"]).status == 3)
  }

  @Test func `a newer format of the object layer is refused`() throws {
    try ObjectFixture.makeBooks(database)
    try RawBytes.put(database, "catalog", "66", [0, 0, 0, 2])
    for command in [["collections", database], ["objects", database, "books"], ["dump", "catalog", database]] {
      let result = try Tool.run(command + ["--json"])
      #expect(result.status == 3 && result.errors.contains("\"code\":\"unsupportedVersion\""), "\(result)")
    }
  }

  @Test func `a damaged count of rows is reported`() throws {
    try ObjectFixture.makeBooks(database)
    try RawBytes.put(database, "counts", "00000001", [1])
    let result = try Tool.run(["collections", database])
    #expect(result.status == 1 && result.errors.contains("count of rows is damaged"), "\(result)")
  }
}
