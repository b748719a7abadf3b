import Foundation
import Testing
import VarveEngine

/// Tests that no option and no range is ignored in silence, and that help says what commands do.
struct IgnoredOptionTests {
  private let directory = TemporaryDirectory()
  private var database: String { directory.path + "/db" }

  @Test(arguments: [
    ["scan", "{db}"], ["export", "{db}", "-"], ["compact", "{db}"], ["objects", "{books}", "books"],
    ["export", "{books}", "-", "--collection", "books"],
  ])
  func `a range that ends before it begins is a usage error, and an empty one is not`(arguments: [String]) throws {
    try Tool.good(["put", database, "a", "1", "--create"])
    let books = directory.path + "/books"
    try ObjectFixture.makeBooks(books)
    let command = arguments.map { $0.replacing("{db}", with: database).replacing("{books}", with: books) }
    let reversed = try Tool.run(command + ["--from", "z", "--to", "b"])
    #expect(reversed.status == 2 && reversed.errors.contains("ends before it begins"), "\(reversed)")
    #expect(try Tool.run(command + ["--from", "b", "--to", "b"]).status == 0)
    guard command[0] != "objects", !command.contains("--collection") else { return }
    // Digits of either case are compared as bytes.
    #expect(try Tool.run(command + ["--hex", "--from", "aA", "--to", "Ab"]).status == 0)
    #expect(try Tool.run(command + ["--hex", "--from", "ab", "--to", "AA"]).status == 2)
  }

  @Test func `a compaction of an empty range rewrites nothing, and one of a reversed range is an error`() throws {
    let engine = try Engine.open(at: database)
    for key in ["a", "b", "c"] { try engine.put(Array(key.utf8), [1]) }
    try engine.flush()
    let (b, c) = (Array("b".utf8), Array("c".utf8))
    try engine.compact(from: b, to: b)
    try engine.compact(from: nil, to: [])
    #expect(engine.statistics.levels[0].fileCount == 1)
    let error = #expect(throws: EngineError.self) { try engine.compact(from: c, to: b) }
    #expect(error?.code == .invalidArgument && error?.message.contains("before it begins") == true, "\(error as Any)")
    #expect(engine.statistics.levels[0].fileCount == 1)
    // A bound may be longer than any key.
    try engine.compact(from: b, to: [UInt8](repeating: 0xff, count: 1 << 17))
    #expect(engine.statistics.levels[0].fileCount == 0)
    try engine.close()
  }

  @Test(arguments: [
    ["stats", "--count", "3"], ["stats", "--interval", "5"], ["stats", "--answer-within", "5"],
    ["tasks", "list", "--outputs", "3"], ["tasks", "queues", "--interval", "5"],
    ["tasks", "release", "--timeout", "5"],
    ["edges", "--depth", "2"], ["edges", "--count", "--limit", "1"],
  ])
  func `an option that has no effect without another one is a usage error`(arguments: [String]) throws {
    try Tool.good(["put", database, "a", "1", "--create"])
    let result = try Tool.run(arguments + [database])
    #expect(result.status == 2 && result.errors.contains(/: use (it|them) with/), "\(result)")
  }

  @Test func `help says which families a command acts on`() throws {
    for command in ["compact", "export"] {
      let help = try Tool.good([command, "--help"])
      #expect(help.contains("Only this column family; without it, all."), "\(help)")
      #expect(!help.contains("without it the default one"), "\(help)")
    }
    #expect(try Tool.good(["scan", "--help"]).contains("without it the default one"))
  }

  @Test func `help says that an export replaces a file, and how keys with escapes are named`() throws {
    let words = try Tool.good(["export", "--help"]).split(whereSeparator: \.isWhitespace).joined(separator: " ")
    #expect(words.contains("A file that has the name already is replaced then"), "\(words)")
    for command in ["scan", "get", "delete", "put"] {
      #expect(try Tool.good([command, "--help"]).contains("\\xNN"), "\(command)")
    }
  }

  @Test func `a key that is named as it is printed, with an escape, is not found, and the message says why`() throws {
    try Tool.good(["put", database, "68006b", "31", "--hex", "--create"])
    #expect(try Tool.good(["scan", database]) == "h\\x00k\t1\n")
    for arguments in [["get", database, "h\\x00k"], ["delete", database, "h\\x00k"]] {
      let result = try Tool.run(arguments)
      #expect(result.status == 1 && result.errors.contains("is named with --hex"), "\(result)")
    }
    let scan = try Tool.run(["scan", database, "--prefix", "h\\x00"])
    #expect(scan.status == 0 && scan.output.isEmpty && scan.errors.contains("is named with --hex"), "\(scan)")
    // A key without an escape is just absent.
    #expect(try Tool.run(["get", database, "h"]).errors == "varve: the key is absent\n")
    #expect(try Tool.run(["scan", database, "--prefix", "z"]).errors.isEmpty)
    #expect(try Tool.good(["scan", database, "--prefix", "6800", "--hex"]) == "68006b\t31\n")
  }

  @Test(arguments: [
    ["checkpoint", "{db}", "{db}/x"], ["salvage", "{db}", "{db}/x"], ["export", "{db}", "{db}/x"],
    ["put", "{db}/x", "a", "1", "--create"], ["load", "{db}/deep/x", "{entries}", "--create"],
    ["backup", "restore", "{backups}", "{db}/x"], ["backup", "restore", "{backups}", "{backups}/000001/database/x"],
    ["backup", "create", "{db}", "{db}"], ["backup", "create", "{db}", "{db}/x"],
    ["backup", "create", "{db}", "{link}"],
    ["backup", "create", "{db}", "{other}"], ["backup", "create", "{db}", "{other}/x"], ["backup", "list", "{db}"],
    ["backup", "prune", "{db}", "--keep", "1"],
  ])
  func `nothing is made in the directory of a database`(arguments: [String]) throws {
    let (other, backups, link) = (directory.path + "/other", directory.path + "/backups", directory.path + "/link")
    for path in [database, other] { try Tool.good(["put", path, "a", "1", "--create"]) }
    try Tool.good(["backup", "create", database, backups])
    try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: database)
    let before = try files(directory.path)
    let entries = try directory.file("entries", "{\"key\":\"a\",\"value\":\"1\"}\n")
    let values = ["db": database, "other": other, "backups": backups, "link": link, "entries": entries]
    let command = arguments.map { word in
      values.reduce(word) { $0.replacing("{\($1.key)}", with: $1.value) }
    }
    let result = try Tool.run(command)
    #expect(result.status == 2 && result.errors.contains("database"), "\(result)")
    try FileManager.default.removeItem(atPath: entries)
    #expect(try files(directory.path) == before)
    for path in [database, other] { #expect(try Tool.good(["verify", path]) == "no damage found\n") }
    #expect(try Tool.good(["backup", "verify", backups, "--all"]).hasSuffix("no damage found\n"))
  }

  private func files(_ path: String) throws -> [String] {
    try FileManager.default.subpathsOfDirectory(atPath: path).filter { !$0.hasSuffix("/LOCK") }.sorted()
  }

  @Test func `a database is opened by the path of the working directory`() throws {
    try Tool.good(["put", database, "a", "1", "--create"])
    let process = Process()
    process.executableURL = Tool.built("varve")
    process.arguments = ["put", ".", "b", "2", "--create"]
    process.currentDirectoryURL = URL(fileURLWithPath: database)
    try process.run()
    process.waitUntilExit()
    #expect(process.terminationStatus == 0)
    #expect(try Tool.good(["scan", database]) == "a\t1\nb\t2\n")
  }

  @Test func `a database that does not exist is not called one that is read-only`() throws {
    let error = #expect(throws: EngineError.self) { try Engine.follow(at: database) }
    #expect(error?.code == .notFound && error?.message.contains("readOnly") == false, "\(error as Any)")
    #expect(error?.message.hasPrefix("no database exists here") == true, "\(error as Any)")
  }
}
