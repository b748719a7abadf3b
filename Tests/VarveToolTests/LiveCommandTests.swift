import EngineTestSupport
import Foundation
import Testing

/// Tests of commands that ask the process which has the database open.
struct LiveCommandTests {
  private let directory = TemporaryDirectory()
  private var database: String { directory.path + "/db" }

  /// A process that writes until it is killed.
  private final class Writer {
    let process = Process()
    private let pipe = Pipe()

    init(_ database: String) throws {
      process.executableURL = Tool.built("varve-kill-target")
      process.arguments = [database, "1"]
      process.standardOutput = pipe
      try process.run()
      // It has committed something.
      _ = pipe.fileHandleForReading.readData(ofLength: 8)
      // The process's output is read, because it would stop writing if the pipe were full.
      pipe.fileHandleForReading.readabilityHandler = { _ = $0.availableData }
    }

    var number: String { "\(process.processIdentifier)" }

    func signal(_ signal: Int32) { kill(process.processIdentifier, signal) }

    func end() {
      signal(SIGKILL)
      process.waitUntilExit()
      pipe.fileHandleForReading.readabilityHandler = nil
    }

    deinit { end() }
  }

  /// The patience of a test on a machine that is slow.
  private static let patient = ["--answer-within", "86400"]

  /// The requests and answers in the directory of the database.
  private func left() throws -> [String] {
    try FileManager.default.contentsOfDirectory(atPath: database).filter {
      $0.contains(".request") || $0.contains(".taken") || $0.contains(".answer")
    }
  }

  @Test func `a process that writes makes checkpoints and compacts while it continues to write`() throws {
    let writer = try Writer(database)
    let copy = directory.path + "/copy"
    let report = try Tool.objects(["checkpoint", database, copy, "--json"] + Self.patient)
    let sequence = try #require(report.first?["sequence"] as? Int)
    #expect(sequence > 0 && report.first?["segmentsCopied"] != nil)
    #expect(try Tool.good(["verify", copy]) == "no damage found\n")
    #expect(try Tool.objects(["info", copy, "--json"]).first?["sequence"] as? Int == sequence)
    let again = try Tool.run(["checkpoint", database, copy] + Self.patient)
    #expect(again.status == 3 && again.errors.contains("an empty directory"), "\(again)")
    let compacted = try Tool.objects(["compact", database, "--json"] + Self.patient)
    #expect(compacted.first?["tableBytesAfter"] as? Int != nil)
    #expect(try Tool.good(["flush", database] + Self.patient) == "flushed\n")
    #expect(try Tool.good(["flush", database, "--json"] + Self.patient) == "{\"flushed\":true}\n")
    let fresh = try #require(try Tool.objects(["stats", database, "--fresh", "--json"] + Self.patient).first)
    let log = (fresh["statistics"] as? [String: Any])?["log"] as? [String: Any]
    #expect(log?["visibleSequence"] as? Int ?? 0 > sequence)
    #expect(writer.process.isRunning)
    #expect(try left() == [])
    writer.end()
    #expect(try Tool.good(["verify", database]) == "no damage found\n")
  }

  @Test func `a checkpoint elsewhere is refused, and the message says how to permit it`() throws {
    let elsewhere = TemporaryDirectory()
    let writer = try Writer(database)
    let result = try Tool.run(["checkpoint", database, elsewhere.path + "/copy"] + Self.patient)
    #expect(result.status == 3 && result.errors.contains("backupFolders"), "\(result)")
    // The message names the process, and the folder that the user has named.
    #expect(result.errors.contains("process \(writer.number), which has the database open"), "\(result)")
    let backup = try Tool.run(["backup", "create", database, elsewhere.path + "/backups"] + Self.patient)
    #expect(backup.status == 3 && backup.errors.contains("process \(writer.number), which"), "\(backup)")
    #expect(backup.errors.contains("(\(elsewhere.path)/backups)") && !backup.errors.contains(".part"), "\(backup)")
    #expect(try FileManager.default.contentsOfDirectory(atPath: elsewhere.path) == [])
    // A folder that was there before stays.
    try FileManager.default.createDirectory(atPath: elsewhere.path + "/mine", withIntermediateDirectories: false)
    #expect(try Tool.run(["backup", "create", database, elsewhere.path + "/mine"] + Self.patient).status == 3)
    #expect(try FileManager.default.contentsOfDirectory(atPath: elsewhere.path + "/mine") == ["LOCK"])
    try FileManager.default.removeItem(atPath: elsewhere.path + "/mine")
    writer.end()
    // Without another process, the command may write wherever its user may.
    try Tool.good(["checkpoint", database, elsewhere.path + "/copy"])
  }

  @Test func `a change that only the writer could make names its process`() throws {
    let writer = try Writer(database)
    let result = try Tool.run(["put", database, "a", "1"])
    #expect(result.status == 3 && result.errors.contains("process \(writer.number) holds the lock"), "\(result)")
    writer.end()
    try Tool.good(["put", database, "a", "1"])
  }

  @Test func `a process that does not answer is reported after the bound, and the request is withdrawn`() throws {
    let writer = try Writer(database)
    writer.signal(SIGSTOP)
    let result = try Tool.run(["flush", database, "--answer-within", "0.1"])
    #expect(result.status == 3 && result.errors.contains("process \(writer.number) has the database open"), "\(result)")
    #expect(try left() == [])
    writer.signal(SIGCONT)
    try Tool.good(["flush", database] + Self.patient)
  }

  @Test func `a command whose process dies before it answers makes the change itself`() throws {
    let writer = try Writer(database)
    writer.signal(SIGSTOP)
    let command = try RunningTool(["checkpoint", database, directory.path + "/copy"] + Self.patient)
    while try left().isEmpty { usleep(1_000) }
    writer.end()
    #expect(command.status() == 0)
    #expect(try Tool.good(["verify", directory.path + "/copy"]) == "no damage found\n")
    #expect(try left() == [])
  }

  @Test func `a request whose command was killed is not carried out, and is removed`() throws {
    let writer = try Writer(database)
    writer.signal(SIGSTOP)
    let copy = directory.path + "/copy"
    let command = try RunningTool(["checkpoint", database, copy] + Self.patient)
    while try !left().contains(where: { $0.hasSuffix(".request") }) { usleep(1_000) }
    command.end()
    writer.signal(SIGCONT)
    try Tool.good(["flush", database] + Self.patient)
    #expect(!FileManager.default.fileExists(atPath: copy))
    #expect(try left() == [])
  }
}

/// A process of the tool that runs during the test.
final class RunningTool {
  private let process = Process()

  init(_ arguments: [String]) throws {
    process.executableURL = Tool.built("varve")
    process.arguments = arguments
    process.standardInput = FileHandle.nullDevice
    process.standardOutput = FileHandle.nullDevice
    process.standardError = FileHandle.nullDevice
    try process.run()
  }

  /// Waits for the end, and returns the exit status.
  func status() -> Int32 {
    process.waitUntilExit()
    return process.terminationStatus
  }

  private func signal(_ number: Int32) { Foundation.kill(process.processIdentifier, number) }

  func end() {
    signal(SIGKILL)
    process.waitUntilExit()
  }
}
