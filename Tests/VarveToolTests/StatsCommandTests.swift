import Foundation
import Testing

/// Tests of `varve stats` while a process writes, and after it has ended.
struct StatsCommandTests {
  private let directory = TemporaryDirectory()
  private var database: String { directory.path + "/db" }

  private func row(_ line: some StringProtocol) throws -> [String: Any] {
    try #require(try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any])
  }

  private func number(_ row: [String: Any], _ path: String...) throws -> UInt64 {
    var value: Any = row
    for name in path { value = try #require((value as? [String: Any])?[name], "\(path)") }
    return try #require((value as? NSNumber)?.uint64Value)
  }

  @Test func `a database that no process writes is reported once, even with --watch`() throws {
    try Tool.good(["put", database, "a", "1", "--create"])
    let text = try Tool.good(["stats", database, "--watch"])
    #expect(text.contains("not open for writing"))
    for word in ["entries", "log", "tables", "work", "amplified", "cache", "memory", "readers"] {
      #expect(text.contains("\n\(word) "), "\(word)")
    }
    let json = try row(Tool.good(["stats", database, "--json"]))
    #expect(json["isLive"] as? Bool == false && json["process"] == nil)
    #expect(try number(json, "statistics", "log", "visibleSequence") >= 1)
  }

  @Test func `--fresh changes nothing of a database that no process has open, such as a backup`() throws {
    try Tool.good(["put", database, "a", "1", "--create"])
    try Tool.good(["backup", "create", database, directory.path + "/backups"])
    let backup = directory.path + "/backups/000001/database"
    for path in [database, backup] {
      let before = try files(path)
      let fresh = try Tool.good(["stats", path, "--fresh"])
      #expect(fresh.contains("not open for writing in any process"), "\(fresh)")
      #expect(try Tool.objects(["stats", path, "--fresh", "--json"]).first?["isLive"] as? Bool == false)
      #expect(try files(path) == before)
      #expect(fresh == (try Tool.good(["stats", path])))
    }
    #expect(try Tool.run(["stats", directory.path + "/none", "--fresh"]).status == 3)
  }

  /// The content of a file, and when it was changed.
  private struct Content: Equatable {
    let bytes: Data
    let date: Date?
  }

  private func files(_ path: String) throws -> [String: Content] {
    var files: [String: Content] = [:]
    for name in try FileManager.default.contentsOfDirectory(atPath: path) {
      let file = path + "/" + name
      files[name] = Content(
        bytes: try Data(contentsOf: URL(fileURLWithPath: file)),
        date: try FileManager.default.attributesOfItem(atPath: file)[.modificationDate] as? Date)
    }
    return files
  }

  @Test(arguments: [["--interval", "0"], ["--interval", "x"], ["--count", "0"]])
  func `an invalid interval or count is a usage error`(arguments: [String]) throws {
    #expect(try Tool.run(["stats", database] + arguments).status == 2)
  }

  @Test func `the statistics of a writing process are watched, and its death is reported`() throws {
    let process = Process()
    process.executableURL = Tool.built("varve-kill-target")
    process.arguments = [database, "1"]
    let pipe = Pipe()
    process.standardOutput = pipe
    try process.run()
    // The process's output is read, because it would stop writing if the pipe were full.
    pipe.fileHandleForReading.readabilityHandler = { _ = $0.availableData }
    defer {
      kill(process.processIdentifier, SIGKILL)
      process.waitUntilExit()
    }
    /// Returns the report once the process has committed more than `sequence`.
    func live(after sequence: UInt64) throws -> [String: Any] {
      while true {
        let result = try Tool.run(["stats", database, "--json"])
        if result.status == 0, let found = try? row(result.output), found["isLive"] as? Bool == true,
          try number(found, "statistics", "log", "visibleSequence") > sequence
        {
          return found
        }
        try #require(process.isRunning)
      }
    }
    #expect(try number(live(after: 0), "process") == UInt64(process.processIdentifier))
    let lines = try Tool.good(["stats", database, "--watch", "--json", "--interval", "0.1", "--count", "3"])
      .split(separator: "\n")
    #expect(lines.count == 3)
    let sequences = try lines.map { try number(try row($0), "statistics", "log", "visibleSequence") }
    #expect(sequences == sequences.sorted())
    let last = try number(live(after: sequences[2]), "statistics", "log", "visibleSequence")
    let text = try Tool.good(["stats", database])
    #expect(text.contains("process \(process.processIdentifier)") && text.contains("write "))

    kill(process.processIdentifier, SIGKILL)
    process.waitUntilExit()
    let left = try Tool.run(["stats", database, "--json"])
    #expect(left.status == 0)
    #expect(left.errors.contains("process \(process.processIdentifier) ended without closing"))
    let dead = try row(left.output)
    #expect(dead["isLive"] as? Bool == false)
    #expect(try number(dead, "diedProcess") == UInt64(process.processIdentifier))
    #expect(try number(dead, "statistics", "log", "visibleSequence") >= last, "nothing acknowledged is lost")
    // The next open for writing removes the statistics.
    try Tool.good(["put", database, "a", "1"])
    #expect(try Tool.run(["stats", database]).errors.isEmpty)
    #expect(!FileManager.default.fileExists(atPath: database + "/STATS"))
  }
}
