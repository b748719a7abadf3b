import Foundation
import Testing
import Varve

/// Tests of the rules that protect the families of the object layer, and of their effect on extensions.
struct RawRuleTests {
  private let directory = TemporaryDirectory()
  private var database: String { directory.path + "/db" }

  private static let reserved = [
    "catalog", "objects", "metadata", "counts", "feed", "x.1.rows", "c.7.objects", "volatile.x.1.settings",
    "tasks.live",
  ]

  @Test(arguments: reserved)
  func `families of the object layer are not written without --raw`(family: String) throws {
    try ObjectFixture.makeBooks(database)
    let before = try Tool.good(["export", database, "-"])
    let file = try directory.file("file", "{\"family\":\"\(family)\",\"key\":\"a\",\"value\":\"b\"}\n")
    for command in [
      ["put", database, "a", "b", "--family", family], ["put", database, "a", "b", "--family", family, "--create"],
      ["delete", database, "a", "--family", family], ["load", database, file], ["load", database, file, "--create"],
    ] {
      let result = try Tool.run(command)
      #expect(result.status == 2, "\(result)")
      #expect(result.errors.contains("\"\(family)\" belongs to the database of objects"), "\(result)")
      #expect(result.errors.contains("--raw") && result.errors.contains("load --collection"), "\(result)")
    }
    #expect(try Tool.good(["export", database, "-"]) == before)
    #expect(
      try Tool.run(["put", database, "a", "b", "--family", family, "--json"]).errors.hasPrefix(
        "{\"error\":{\"code\":\"usage\""))
  }

  @Test(arguments: ["default", "f", "objects2", "x", "xy", "tasks", "feeds", "cats"])
  func `families outside the object layer are written without --raw`(family: String) throws {
    try Tool.good(["put", database, "a", "b", "--family", family, "--create"])
    try Tool.good(["delete", database, "a", "--family", family])
  }

  @Test func `families of the object layer are written as bytes with --raw`() throws {
    try ObjectFixture.makeBooks(database)
    let key = RawBytes.key("emma")
    let row = try RawBytes.get(database, "objects", key)
    try Tool.good(["delete", database, key, "--hex", "--raw", "--family", "objects"])
    #expect(try Tool.run(["objects", database, "books", "--key", "emma"]).status == 1)
    let line = "{\"family\":\"objects\",\"keyHex\":\"\(key)\",\"valueHex\":\"\(RawBytes.hex(row))\"}\n"
    try Tool.good(["load", database, try directory.file("file", line), "--raw"])
    #expect(try Tool.run(["objects", database, "books", "--key", "emma"]).status == 0)
  }

  @Test func `families created with --raw have the options that the object layer gives them`() throws {
    try ObjectFixture.with(database + "0") { database in try database.write { tx in try tx.set(1, key: "a", in: "c") } }
    let all = try directory.file("all", try Tool.good(["export", database + "0", "-"]))
    try Tool.good(["load", database, all, "--create", "--raw"])
    // A counter that was created without its operator could not be added to.
    try ObjectFixture.with(database) { database in
      try database.write { tx in try tx.set(2, key: "b", in: "c") }
      #expect(try database.read { tx in try tx.count(in: "c") } == 2)
    }
    let extensions = try Tool.run(["put", database, "a", "b", "--family", "x.1.rows", "--raw", "--create"])
    #expect(extensions.status == 3 && extensions.errors.contains("checkpoint"), "\(extensions)")
  }

  // MARK: - Extensions

  private func state(_ path: String) throws -> String? {
    Tool.lines(try Tool.good(["dump", "catalog", path])).first { $0.hasPrefix("extension \"counter\"") }
  }

  /// Returns the keys that the extension knows when the program opens the database again.
  private func keysKnown() throws -> [String] {
    try ObjectFixture.with(database) { database in
      let counter = try database.register(Counter(), as: "counter")
      try database.waitUntilReady(counter)
      return try database.read { tx in try tx[counter].keys() }
    }
  }

  private func loadOne(_ key: String) throws -> Tool.Result {
    let line = "{\"key\":\"\(key)\",\"keyType\":\"string\",\"coder\":\"json\",\"object\":1}"
    return try Tool.run(["load", database, try directory.file("line", line), "--collection", "numbers", "--create"])
  }

  @Test func `a load makes extensions stale, and they catch up when the program opens the database`() throws {
    try ObjectFixture.with(database, coder: .json) { database in
      try database.write { tx in try tx.set(1, key: "a", in: "numbers") }
      try database.waitUntilReady(try database.register(Counter(), as: "counter"))
    }
    #expect(try state(database)?.contains("ready") == true)
    let result = try loadOne("b")
    #expect(result.status == 0)
    #expect(
      result.output.hasSuffix("extension \"counter\" is stale until the program opens the database\n"), "\(result)")
    #expect(try state(database)?.contains("stale") == true)
    #expect(try keysKnown() == ["\"a\"", "\"b\""])
    #expect(try state(database)?.contains("ready") == true)
  }

  @Test func `an extension whose build was interrupted includes loaded rows when the program opens the database`()
    throws
  {
    try ObjectFixture.with(database, coder: .json) { database in
      try database.write { tx in for key in ["m", "z"] { try tx.set(1, key: key, in: "numbers") } }
      try database.waitUntilReady(try database.register(Counter(), as: "counter"))
    }
    // Simulates a process that ended after the first row: the record of the extension says so, and the next row is
    // unknown.
    let watermark: [UInt8] = [0, 0, 0, 1, 0x11, 0x6d, 0]
    let kind = Array(Counter.kind.utf8)
    let location: [UInt8] = [0, 0, 0, UInt8(watermark.count)] + watermark
    let part: [UInt8] = [0, 0, 0, 4] + Array("keys".utf8) + [0, 0, 0, 1, 0x31, 0, 2] + location
    let record: [UInt8] =
      [5, 0, 0, 0, 1, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0x76, 0, 0, 0, UInt8(kind.count)] + kind
      + [0, 0, 0, 1, 0x2A, 1] + part + [0, 0, 0, 0] + location
    try RawBytes.put(database, "catalog", RawBytes.hex(Array("ecounter".utf8)), record)
    try Tool.good(["delete", database, "117a00", "--hex", "--raw", "--family", "x.1.keys"])
    #expect(try state(database)?.contains("building, done up to collection id 1 key \"m\"") == true)
    #expect(try loadOne("b").status == 0)
    #expect(try keysKnown() == ["\"b\"", "\"m\"", "\"z\""], "the row before the watermark is known")
  }

  @Test func `a load without rows does not make extensions stale`() throws {
    try ObjectFixture.with(database, coder: .json) { database in
      try database.write { tx in try tx.set(1, key: "a", in: "numbers") }
      try database.waitUntilReady(try database.register(Counter(), as: "counter"))
    }
    let empty = try directory.file("empty", "\n \n")
    #expect(try Tool.good(["load", database, empty, "--collection", "numbers"]) == "loaded 0 rows from 3 B\n")
    #expect(try state(database)?.contains("ready") == true)
  }
}
