import Foundation
import Testing
import Varve
import VarveEngine

/// Tests of what commands say to someone who does not know the database.
struct MessageTests {
  private let directory = TemporaryDirectory()
  private var database: String { directory.path + "/db" }

  @Test func `a scan or a put of the empty default family says where the data is`() throws {
    try ObjectFixture.makeBooks(database)
    for arguments in [["scan", database], ["scan", database, "--json"]] {
      let result = try Tool.run(arguments)
      #expect(result.status == 0 && result.output.isEmpty && result.errors.contains("which is empty"), "\(result)")
      #expect(result.errors.contains("collections and objects"), "\(result)")
    }
    let put = try Tool.run(["put", database, "a", "1"])
    #expect(put.status == 0 && put.errors.contains("this writes to the family \"default\""), "\(put)")
    // It is not empty any more.
    let scan = try Tool.run(["scan", database])
    #expect(scan.output == "a\t1\n" && scan.errors.isEmpty, "\(scan)")
  }

  @Test func `a database of families is named, and one without others has no message`() throws {
    let first = try Tool.run(["put", database, "a", "1", "--family", "f", "--create"])
    #expect(first.errors.isEmpty)
    let scan = try Tool.run(["scan", database])
    #expect(scan.errors.contains("the database has 1 more, and --family chooses another one"), "\(scan)")
    #expect(try Tool.run(["scan", database, "--family", "f"]).errors.isEmpty)
    let plain = directory.path + "/plain"
    #expect(try Tool.run(["put", plain, "a", "1", "--create"]).errors.isEmpty)
    #expect(try Tool.run(["delete", plain, "a"]).errors.isEmpty)
    #expect(try Tool.run(["scan", plain]).errors.isEmpty)
  }

  @Test(arguments: [[String](), ["--binary"], ["--collection", "books"]])
  func `an export into a directory that is not there says so, with the name that was written`(form: [String]) throws {
    try ObjectFixture.makeBooks(database)
    let result = try Tool.run(["export", database, directory.path + "/none/x"] + form)
    #expect(result.status == 3 && result.errors.contains("No such file or directory"), "\(result)")
    #expect(result.errors.contains("(\(directory.path)/none/x)"), "\(result)")
    #expect(!result.errors.contains("NSCocoaErrorDomain") && !result.errors.contains(".partial"), "\(result)")
  }

  @Test func `an export of the families of a database of objects says that it is not a backup`() throws {
    try ObjectFixture.makeBooks(database)
    let file = directory.path + "/file"
    for form in [["--binary"], []] {
      let result = try Tool.run(["export", database, file] + form)
      #expect(result.status == 0 && result.errors.contains("backup create"), "\(result)")
    }
    #expect(try Tool.run(["export", database, file, "--collection", "books"]).errors.isEmpty)
  }

  @Test func `one thing is not several`() throws {
    let file = try directory.file("one", "{\"key\":\"a\",\"value\":\"1\"}\n")
    #expect(try Tool.good(["load", database, file, "--create"]).hasPrefix("loaded 1 entry from "))
    #expect(try Tool.good(["export", database, directory.path + "/out"]).hasPrefix("exported 1 entry, "))
    try Tool.good(["flush", database])
    let info = try Tool.good(["info", database])
    #expect(info.contains("in 1 file\n") && info.contains("level 0: 1 file, "), "\(info)")
    #expect(info.contains(", 1 entry\n"), "\(info)")
    let stats = try Tool.good(["stats", database])
    #expect(stats.contains("in 1 file of 1 family;"), "\(stats)")
  }

  @Test func `range tombstones are counted in tables`() throws {
    let engine = try Engine.open(at: database)
    try engine.put([1], [2])
    for number in 10..<13 { try engine.deleteRange(from: [UInt8(number)], to: [UInt8(number), 1]) }
    try engine.flush()
    #expect(engine.statistics.levels[0].rangeTombstoneCount == 3)
    try engine.close()
    for command in ["info", "stats"] {
      #expect(try Tool.good([command, database]).contains(", 3 range tombstones"), "\(command)")
    }
    let row = try #require(try Tool.objects(["info", database, "--json"]).first)
    #expect((row["levels"] as? [[String: Any]])?.first?["rangeTombstones"] as? Int == 3)
  }
}
