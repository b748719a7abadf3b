import Foundation
import Testing

/// Tests of the tool as a script sees it: its output, and its exit status.
struct CommandLineTests {
  private let directory = TemporaryDirectory()
  private var database: String { directory.path + "/db" }

  @Test(arguments: [
    "info", "get", "scan", "export", "compact", "flush", "verify", "delete", "put", "load", "dump manifest",
    "checkpoint", "repair", "salvage", "stats",
  ])
  func `a missing path is an error, and no database is created`(command: String) throws {
    let words = command.split(separator: " ").map(String.init)
    let rest =
      switch command {
      case "get", "delete": ["key"]
      case "put": ["key", "value"]
      case "load": [try directory.file("entries", "")]
      case "export": ["-"]
      case "checkpoint", "salvage": [directory.path + "/copy"]
      default: [String]()
      }
    let result = try Tool.run(words + [database] + rest)
    #expect(result.status == 3, "\(result)")
    #expect(result.errors.isEmpty == false)
    #expect(!FileManager.default.fileExists(atPath: database))
  }

  @Test func `every command has help with an example`() throws {
    for command in [
      "info", "get", "put", "delete", "scan", "load", "export", "dump sst", "compact", "flush", "verify", "checkpoint",
      "backup create", "backup list", "backup verify", "backup restore", "backup prune", "repair",
      "salvage", "stats",
    ] {
      let result = try Tool.run(command.split(separator: " ").map(String.init) + ["--help"])
      #expect(result.status == 0, "\(command)")
      #expect(result.output.contains("Example: varve"), "\(command)")
      #expect(result.output.contains("--json"), "\(command)")
    }
  }

  @Test(arguments: [
    ["nonsense"], ["get"], ["scan", "db", "--limit", "many"], ["scan", "db", "--prefix", "a", "--from", "b"],
    ["get", "db", "key", "--raw", "--json"], ["get", "db", "0", "--hex"],
  ])
  func `an invalid command line exits with status 2`(arguments: [String]) throws {
    #expect(try Tool.run(arguments).status == 2)
  }

  @Test func `keys that were put are read, scanned and deleted`() throws {
    try Tool.good(["put", database, "b", "2", "--create"])
    try Tool.good(["put", database, "a", "1"])
    try Tool.good(["put", database, "6300ff", "03", "--hex"])
    #expect(try Tool.good(["get", database, "a"]) == "1\n")
    #expect(try Tool.good(["get", database, "a", "--raw"]) == "1")
    #expect(try Tool.good(["get", database, "6300ff", "--hex"]) == "03\n")
    #expect(try Tool.good(["scan", database]) == "a\t1\nb\t2\nc\\x00\\xff\t\\x03\n")
    #expect(try Tool.good(["scan", database, "--reverse", "--limit", "2", "--keys-only", "--hex"]) == "6300ff\n62\n")
    #expect(try Tool.good(["scan", database, "--from", "a", "--to", "b"]) == "a\t1\n")
    #expect(try Tool.good(["scan", database, "--prefix", "b", "--json"]) == "{\"key\":\"b\",\"value\":\"2\"}\n")
    #expect(try Tool.good(["scan", database, "--limit", "0"]) == "")
    try Tool.good(["delete", database, "a"])
    #expect(try Tool.run(["get", database, "a"]).status == 1)
    #expect(try Tool.run(["delete", database, "a"]).status == 1)
  }

  @Test func `a checkpoint is an independent database, and an existing target is an error`() throws {
    try Tool.good(["put", database, "a", "1", "--create"])
    try Tool.good(["compact", database])
    try Tool.good(["put", database, "b", "2"])
    let copy = directory.path + "/copy"
    let report = try Tool.good(["checkpoint", database, copy, "--json"])
    #expect(report.contains("\"tablesLinked\":1") && report.contains("\"tablesCopied\":0"), "\(report)")
    try Tool.good(["put", database, "c", "3"])
    #expect(try Tool.good(["scan", copy]) == "a\t1\nb\t2\n")
    try Tool.good(["verify", copy])
    let taken = try Tool.run(["checkpoint", database, copy, "--json"])
    #expect(taken.status == 3 && taken.errors.contains("alreadyExists"), "\(taken)")
    #expect(try Tool.good(["checkpoint", database, copy + "2"]).hasPrefix(copy + "2: everything up to commit 3"))
  }

  @Test func `repair restores a database without CURRENT, and salvage copies it into a new one`() throws {
    try Tool.good(["put", database, "a", "1", "--create"])
    try Tool.good(["compact", database])
    try Tool.good(["put", database, "b", "2", "--family", "f", "--create"])
    #expect(try Tool.good(["repair", database]) == "nothing to repair\n")
    try FileManager.default.removeItem(atPath: database + "/CURRENT")
    #expect(try Tool.run(["scan", database]).status == 3)
    let copy = directory.path + "/saved"
    let salvage = try Tool.good(["salvage", database, copy, "--json"])
    #expect(salvage.contains("\"isComplete\":true") && salvage.contains("CURRENT"), "\(salvage)")
    let report = try Tool.good(["repair", database])
    #expect(
      report.contains("damaged: \(database)/CURRENT: the file is missing") && report.contains("kept: "), "\(report)")
    for path in [database, copy] {
      #expect(try Tool.good(["scan", path]) == "a\t1\n")
      #expect(try Tool.good(["scan", path, "--family", "f"]) == "b\t2\n")
      try Tool.good(["verify", path])
    }
    // A table is truncated to half its size: data is lost, and the status shows it.
    let name = try FileManager.default.contentsOfDirectory(atPath: database).first { $0.hasSuffix(".sst") } ?? ""
    let bytes = try Data(contentsOf: URL(fileURLWithPath: database + "/" + name))
    try bytes.prefix(20).write(to: URL(fileURLWithPath: database + "/" + name))
    let damaged = try Tool.run(["verify", database])
    #expect(damaged.status == 1 && damaged.output.contains(name), "\(damaged)")
    let lossy = try Tool.run(["repair", database, "--json"])
    #expect(lossy.status == 1 && lossy.output.contains("\"holdsEntries\":true"), "\(lossy)")
    #expect(try Tool.good(["scan", database]) == "")
    try Tool.good(["verify", database])
  }

  @Test func `keys of different families are separate, and an unknown family is an error`() throws {
    try Tool.good(["put", database, "a", "1", "--create", "--family", "f"])
    #expect(try Tool.run(["get", database, "a"]).status == 1)
    #expect(try Tool.good(["get", database, "a", "--family", "f"]) == "1\n")
    let unknown = try Tool.run(["get", database, "a", "--family", "g", "--json"])
    #expect(unknown.status == 3)
    #expect(unknown.errors.hasPrefix("{\"error\":{\"code\":\"unknownFamily\""), "\(unknown.errors)")
  }

  @Test func `a key above the size limit is a usage error, and is not written`() throws {
    let key = String(repeating: "k", count: 65_536)
    try Tool.good(["put", database, String(key.dropLast()), "1", "--create"])
    #expect(try Tool.run(["put", database, key, "1"]).status == 2)
    #expect(try Tool.good(["scan", database, "--keys-only"]).count == 65_536)
  }

  @Test(arguments: [[String](), ["--binary"]])
  func `loading an export creates an equal database`(form: [String]) throws {
    let lines =
      (0..<5_000).map { "{\"key\":\"key\($0)\",\"value\":\"value \($0 * 7)\"}" } + [
        "{\"keyHex\":\"ff\",\"valueHex\":\"00ff\"}", "{\"family\":\"f\",\"key\":\"a\",\"value\":\"\"}",
      ]
    let input = try directory.file("entries", lines.joined(separator: "\n"))
    #expect(try Tool.good(["load", database, input, "--create", "--json"]).contains("\"entries\":5002"))
    let exported = directory.path + "/exported"
    try Tool.good(["export", database, exported] + form)
    try Tool.good(["load", database + "2", exported, "--create"] + form)
    #expect(try Tool.good(["export", database + "2", "-"]) == Tool.good(["export", database, "-"]))
    #expect(try Tool.good(["scan", database, "--keys-only"]).split(separator: "\n").count == 5_001)
    #expect(try Tool.good(["info", database]).contains("varve.load") == false)
  }

  @Test func `an export follows a link, writes to pipes and devices, and replaces none of them`() throws {
    try Tool.good(["put", database, "key", "value", "--create"])
    let entries = try Tool.good(["export", database, "-"])
    let files = FileManager.default
    let (real, link) = (directory.path + "/real", directory.path + "/link")
    try "old".write(toFile: real, atomically: false, encoding: .utf8)
    try files.createSymbolicLink(atPath: link, withDestinationPath: "real")
    try Tool.good(["export", database, link])
    #expect(try files.destinationOfSymbolicLink(atPath: link) == "real")
    #expect(try String(contentsOfFile: real, encoding: .utf8) == entries)

    let lost = directory.path + "/lost"
    try files.createSymbolicLink(atPath: lost, withDestinationPath: "nowhere")
    let refused = try Tool.run(["export", database, lost])
    #expect(refused.status != 0 && refused.errors.contains(lost), "\(refused.errors)")
    #expect(try files.destinationOfSymbolicLink(atPath: lost) == "nowhere")

    let pipe = directory.path + "/pipe"
    let made = unsafe mkfifo(pipe, 0o600)
    #expect(made == 0)
    let reader = Process()
    reader.executableURL = URL(fileURLWithPath: "/bin/cat")
    reader.arguments = [pipe]
    let copy = directory.path + "/copy"
    #expect(files.createFile(atPath: copy, contents: nil))
    reader.standardOutput = try FileHandle(forWritingTo: URL(fileURLWithPath: copy))
    try reader.run()
    try Tool.good(["export", database, pipe])
    reader.waitUntilExit()
    #expect(try String(contentsOfFile: copy, encoding: .utf8) == entries)
    #expect(try files.attributesOfItem(atPath: pipe)[.type] as? FileAttributeType == .typeUnknown)

    let device = try Tool.run(["export", database, "/dev/null"])
    #expect(device.status == 0 && device.output.isEmpty && device.errors.contains("exported 1 entry,"))
    // The standard output of the tool keeps what it has, and is continued from its position.
    let output = directory.path + "/output"
    try "before\n".write(toFile: output, atomically: false, encoding: .utf8)
    let shell = Process()
    shell.executableURL = URL(fileURLWithPath: "/bin/sh")
    shell.arguments = ["-c", "\"$0\" export \"$1\" /dev/stdout && echo after", Tool.built("varve").path, database]
    let appending = try #require(FileHandle(forWritingAtPath: output))
    try appending.seekToEnd()
    shell.standardOutput = appending
    shell.standardError = FileHandle.nullDevice
    try shell.run()
    shell.waitUntilExit()
    #expect(shell.terminationStatus == 0)
    #expect(try String(contentsOfFile: output, encoding: .utf8) == "before\n" + entries + "after\n")

    let resumed = try Tool.run(["export", database, pipe, "--resume"])
    #expect(resumed.status != 0 && resumed.errors.contains("--resume needs a file"), "\(resumed.errors)")
    #expect(try files.contentsOfDirectory(atPath: directory.path).filter { $0.contains("partial") }.isEmpty)
  }

  @Test func `a load resumes where it stopped, and refuses another input`() throws {
    let first = (0..<25_000).map { "{\"key\":\"key\($0)\",\"value\":\"old\"}\n" }.joined()
    let rest = (25_000..<26_000).map { "{\"key\":\"key\($0)\",\"value\":\"old\"}\n" }.joined()
    let input = try directory.file("entries", first + "broken\n")
    let broken = try Tool.run(["load", database, input, "--create"])
    #expect(broken.status == 3)
    #expect(broken.errors.contains("line 25001"), "\(broken.errors)")

    _ = try directory.file("entries", "x" + first + rest)
    #expect(try Tool.run(["load", database, input, "--resume"]).status == 3)
    _ = try directory.file("entries", first + rest)
    let result = try Tool.good(["load", database, input, "--resume", "--json"])
    #expect(result.contains("\"entries\":6000"), "\(result)")
    #expect(result.contains("\"skipped\":20000"), "\(result)")
    #expect(try Tool.good(["scan", database, "--keys-only"]).split(separator: "\n").count == 26_000)
  }

  @Test(arguments: [[String](), ["--binary"]])
  func `an export resumes from any byte at which it was interrupted`(form: [String]) throws {
    let lines = (0..<40).map {
      "{\"family\":\($0 % 2 == 0 ? "\"f\"" : "null"),\"key\":\"k\($0)\",\"value\":\"v\($0)\"}\n"
    }
    try Tool.good(["load", database, try directory.file("entries", lines.joined()), "--create"])
    let whole = directory.path + "/whole"
    try Tool.good(["export", database, whole] + form)
    let bytes = try Data(contentsOf: URL(fileURLWithPath: whole))

    let file = directory.path + "/resumed"
    for size in stride(from: 0, through: bytes.count, by: max(1, bytes.count / 12)) {
      // An export that cannot finish, because a directory has its name, leaves the same files as an interrupted one.
      try FileManager.default.createDirectory(atPath: file, withIntermediateDirectories: false)
      #expect(try Tool.run(["export", database, file] + form).status == 3)
      try FileManager.default.removeItem(atPath: file)
      try bytes.prefix(size).write(to: URL(fileURLWithPath: file + ".partial"))
      try Tool.good(["export", database, file, "--resume"] + form)
      #expect(try Data(contentsOf: URL(fileURLWithPath: file)) == bytes, "interrupted at \(size)")
      try FileManager.default.removeItem(atPath: file)
    }
    #expect(
      try FileManager.default.contentsOfDirectory(atPath: directory.path).contains { $0.contains("partial") } == false)
  }

  @Test func `resuming an export is refused if the database has changed since`() throws {
    try Tool.good(["put", database, "a", "1", "--create"])
    let file = directory.path + "/exported"
    try FileManager.default.createDirectory(atPath: file, withIntermediateDirectories: false)
    #expect(try Tool.run(["export", database, file]).status == 3)
    try FileManager.default.removeItem(atPath: file)
    try Tool.good(["put", database, "b", "2"])
    #expect(try Tool.run(["export", database, file, "--resume"]).status == 3)
    try Tool.good(["export", database, file])
    #expect(try Tool.good(["export", database, "-"]) == String(contentsOfFile: file, encoding: .utf8))
  }

  @Test func `verify finds no damage in an intact database, and each of its files can be dumped`() throws {
    try Tool.good(["put", database, "a", "1", "--create"])
    try Tool.good(["compact", database])
    #expect(try Tool.good(["verify", database]) == "no damage found\n")
    #expect(try Tool.good(["dump", "manifest", database]).isEmpty == false)
    for name in try FileManager.default.contentsOfDirectory(atPath: database) {
      let file = database + "/" + name
      if name.hasSuffix(".sst") { try Tool.good(["dump", "sst", file, "--verify"]) }
      if name.hasSuffix(".log") { try Tool.good(["dump", "log", file, "--verify"]) }
    }
  }

  @Test func `damage is reported with its file and offset, and exit status 1`() throws {
    try Tool.good(["put", database, "a", String(repeating: "v", count: 1000), "--create"])
    try Tool.good(["compact", database])
    let names = try FileManager.default.contentsOfDirectory(atPath: database)
    let table = database + "/" + (try #require(names.first { $0.hasSuffix(".sst") }))
    var bytes = try Data(contentsOf: URL(fileURLWithPath: table))
    bytes[bytes.startIndex + 5] ^= 1
    try bytes.write(to: URL(fileURLWithPath: table))
    let result = try Tool.run(["verify", database, "--json"])
    #expect(result.status == 1, "\(result)")
    #expect(result.output.contains(".sst"), "\(result.output)")
    #expect(result.output.contains("\"offset\":"), "\(result.output)")
    #expect(try Tool.run(["dump", "sst", table, "--verify"]).status == 1)
  }

  @Test func `a file instead of a database directory is an error`() throws {
    let file = try directory.file("plain", "text")
    #expect(try Tool.run(["info", file]).status == 3)
    #expect(try Tool.run(["put", file, "a", "1", "--create"]).status == 3)
  }
}

/// The tool's process, started from the directory in which the test bundle was built.
enum Tool {
  struct Result {
    let status: Int32
    let output: String
    let errors: String
  }

  /// Runs the tool, which must exit with 0, and returns its output.
  @discardableResult
  static func good(_ arguments: [String], sourceLocation: SourceLocation = #_sourceLocation) throws -> String {
    let result = try run(arguments)
    #expect(result.status == 0, "\(arguments.prefix(3)): \(result.errors)", sourceLocation: sourceLocation)
    return result.output
  }

  /// Returns the URL of a program that was built next to the running tests.
  static func built(_ name: String) -> URL {
    let folder = URL(fileURLWithPath: CommandLine.arguments[0]).resolvingSymlinksInPath().deletingLastPathComponent()
    return folder.appending(path: name)
  }

  static func run(_ arguments: [String]) throws -> Result {
    let process = Process()
    process.executableURL = built("varve")
    process.arguments = arguments
    process.standardInput = FileHandle.nullDevice
    // The streams are files instead of pipes, so that neither can fill up while the other is read.
    let streams = TemporaryDirectory()
    let output = try streams.handle("output")
    let errors = try streams.handle("errors")
    process.standardOutput = output
    process.standardError = errors
    try process.run()
    process.waitUntilExit()
    return Result(
      status: process.terminationReason == .exit ? process.terminationStatus : -process.terminationStatus,
      output: try streams.text("output"), errors: try streams.text("errors"))
  }
}

/// A temporary directory that is removed when the last reference is released.
final class TemporaryDirectory: Sendable {
  let path = NSTemporaryDirectory() + "varve-tool-\(UUID().uuidString)"

  init() { try? FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true) }
  deinit { try? FileManager.default.removeItem(atPath: path) }

  func file(_ name: String, _ text: String) throws -> String {
    try Data(text.utf8).write(to: URL(fileURLWithPath: path + "/" + name))
    return path + "/" + name
  }

  func handle(_ name: String) throws -> FileHandle {
    try FileHandle(forWritingTo: URL(fileURLWithPath: try file(name, "")))
  }

  func text(_ name: String) throws -> String {
    String(decoding: try Data(contentsOf: URL(fileURLWithPath: path + "/" + name)), as: UTF8.self)
  }
}
