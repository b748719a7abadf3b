import EngineTestSupport
import Foundation
import Testing

/// Tests of `varve backup` as a script sees it.
struct BackupCommandTests {
  private let directory = TemporaryDirectory()
  private var database: String { directory.path + "/db" }
  private var folder: String { directory.path + "/backups" }

  private func files(_ path: String) throws -> [String] {
    try FileManager.default.contentsOfDirectory(atPath: path).sorted()
  }

  private func put(_ key: String) throws {
    try Tool.good(["put", database, key, "1", "--create"])
    try Tool.good(["flush", database])
  }

  /// Changes a byte in the middle of a table.
  private func damage(_ path: String) throws {
    let name = try #require(try files(path).first { $0.hasSuffix(".sst") })
    let url = URL(fileURLWithPath: path + "/" + name)
    var bytes = try Data(contentsOf: url)
    bytes[bytes.count / 4] ^= 0xff
    // The new file has no other name, so the original is unchanged.
    try FileManager.default.removeItem(at: url)
    try bytes.write(to: url)
  }

  @Test func `a folder has the backups of one database, unless that one is gone`() throws {
    try put("a")
    try Tool.good(["backup", "create", database, folder])
    let other = directory.path + "/other"
    try Tool.good(["put", other, "b", "1", "--create"])
    let result = try Tool.run(["backup", "create", other, folder, "--keep", "1"])
    #expect(result.status == 2 && result.errors.contains("another database"), "\(result)")
    #expect(try files(folder) == ["000001", "LOCK"])
    // The same database by another path.
    try Tool.good(["backup", "create", directory.path + "/./db", folder])
    try FileManager.default.moveItem(atPath: database, toPath: directory.path + "/moved")
    try Tool.good(["backup", "create", directory.path + "/moved", folder])
    #expect(try files(folder) == ["000001", "000002", "000003", "LOCK"])
  }

  @Test func `backups are numbered, listed, verified, restored and pruned`() throws {
    for key in ["a", "b", "c"] {
      try put(key)
      let text = try Tool.good(["backup", "create", database, folder])
      #expect(text.hasPrefix("backup "), "\(text)")
    }
    #expect(try files(folder) == ["000001", "000002", "000003", "LOCK"])
    let rows = try Tool.objects(["backup", "list", folder, "--json"])
    #expect(rows.map { $0["number"] as? Int } == [1, 2, 3])
    #expect(rows.allSatisfy { $0["database"] as? String == database && $0["created"] is String })
    // Tables of the same file system are not copied.
    #expect(rows.allSatisfy { ($0["tablesLinked"] as? Int ?? 0) > 0 && $0["tablesCopied"] as? Int == 0 })
    let table = try Tool.good(["backup", "list", folder]).split(separator: "\n")
    #expect(table.count == 4 && table[0].hasPrefix("backup  made"))
    #expect(try Tool.good(["backup", "verify", folder]) == "backup 3: no damage found\n")
    let verified = try Tool.objects(["backup", "verify", folder, "--all", "--json"])
    #expect(verified.map { $0["faults"] as? Int } == [0, 0, 0])

    let restored = directory.path + "/restored"
    let report = try Tool.good(["backup", "restore", folder, restored, "--backup", "2"])
    #expect(report.hasPrefix("\(restored): restored from backup 2"), "\(report)")
    #expect(try Tool.good(["scan", restored]) == "a\t1\nb\t1\n")
    try Tool.good(["put", restored, "d", "1"])
    // What is written to the restored database and to the original does not reach a backup.
    #expect(try Tool.good(["backup", "verify", folder, "--all"]).contains("fault") == false)
    try Tool.good(["backup", "restore", folder, directory.path + "/copied", "--copy"])
    #expect(try Tool.good(["scan", directory.path + "/copied"]) == "a\t1\nb\t1\nc\t1\n")

    #expect(try Tool.objects(["backup", "prune", folder, "--keep", "2", "--json"])[0]["removed"] as? [Int] == [1])
    #expect(try files(folder) == ["000002", "000003", "LOCK"])
    #expect(try Tool.good(["backup", "create", database, folder, "--keep", "1"]).contains("removed backup 2"))
    #expect(try files(folder) == ["000004", "LOCK"])
    let last = try Tool.objects(["backup", "restore", folder, directory.path + "/last", "--json"])
    #expect(last.first?["backup"] as? Int == 4)
  }

  @Test func `a restore overwrites nothing`() throws {
    try put("a")
    try Tool.good(["backup", "create", database, folder])
    let occupied = directory.path + "/occupied"
    try FileManager.default.createDirectory(atPath: occupied, withIntermediateDirectories: true)
    _ = try directory.file("occupied/mine", "text")
    for target in [database, occupied, occupied + "/mine"] {
      let result = try Tool.run(["backup", "restore", folder, target])
      #expect(result.status == 3, "\(result)")
    }
    #expect(try files(occupied) == ["mine"])
    #expect(try Tool.good(["scan", database]) == "a\t1\n")
    // A path that the user did not write is in no message.
    let missing = try Tool.run(["backup", "restore", folder, directory.path + "/none/x"])
    #expect(missing.status == 3 && !missing.errors.contains("x.restore"), "\(missing)")
    let checkpoint = try Tool.run(["checkpoint", database, directory.path + "/none/x"])
    #expect(checkpoint.status == 3 && !checkpoint.errors.contains("x.checkpoint"), "\(checkpoint)")
  }

  @Test func `damage is found by verify, and a damaged backup is not restored`() throws {
    try put("a")
    try Tool.good(["backup", "create", database, folder])
    try Tool.good(["backup", "create", database, folder])
    try damage(folder + "/000002/database")
    let found = try Tool.run(["backup", "verify", folder])
    #expect(found.status == 1 && found.output.contains("backup 2: ") && found.output.contains(".sst:"), "\(found)")
    #expect(try Tool.run(["backup", "verify", folder, "--backup", "1"]).status == 0)
    #expect(try Tool.run(["backup", "verify", folder, "--all", "--json"]).status == 1)
    let target = directory.path + "/restored"
    let refused = try Tool.run(["backup", "restore", folder, target])
    #expect(refused.status == 1 && refused.errors.contains("salvage"), "\(refused)")
    #expect(try files(directory.path) == ["backups", "db"])
    try Tool.good(["backup", "restore", folder, target, "--backup", "1"])
    #expect(try Tool.good(["scan", target]) == "a\t1\n")
  }

  @Test func `what an interrupted command left does not count, and is removed by the next one`() throws {
    try put("a")
    try Tool.good(["backup", "create", database, folder])
    try FileManager.default.moveItem(atPath: folder + "/000001", toPath: folder + "/000001.part")
    #expect(try Tool.good(["backup", "list", folder]) == "")
    #expect(try Tool.run(["backup", "verify", folder]).status == 1)
    #expect(try Tool.run(["backup", "restore", folder, directory.path + "/x"]).status == 1)
    try FileManager.default.createDirectory(atPath: folder + "/notes", withIntermediateDirectories: true)
    try Tool.good(["backup", "create", database, folder])
    #expect(try files(folder) == ["000001", "LOCK", "notes"])
    // A record that is lost makes no difference to the data.
    try FileManager.default.removeItem(atPath: folder + "/000001/backup.json")
    #expect(try Tool.good(["backup", "list", folder]).contains("?"))
    try Tool.good(["backup", "restore", folder, directory.path + "/restored"])
  }

  @Test func `directories with the names of backups that varve has not made do not count, and are not removed`() throws
  {
    try put("a")
    for name in ["000007", "000009.part", "000003.part/database"] {
      try FileManager.default.createDirectory(atPath: folder + "/" + name, withIntermediateDirectories: true)
    }
    let own = ["000007/file", "000009.part/f", "000003.part/notes"]
    for name in own { _ = try directory.file("backups/" + name, "precious") }
    #expect(try Tool.good(["backup", "list", folder]) == "")
    #expect(try Tool.run(["backup", "verify", folder]).status == 1)
    for number in 10...11 {
      // The number of a name that is taken is not given to a backup.
      #expect(try Tool.good(["backup", "create", database, folder, "--keep", "1"]).hasPrefix("backup \(number): "))
    }
    let rest = ["000003.part", "000007", "000009.part", "LOCK"]
    #expect(try files(folder) == (rest + ["000011"]).sorted())
    // A backup with other files stays, too.
    _ = try directory.file("backups/000011/notes", "precious")
    let result = try Tool.run(["backup", "create", database, folder, "--keep", "1"])
    #expect(result.status == 0 && result.errors.contains("000011/notes"), "\(result)")
    #expect(!result.output.contains("removed"), "\(result)")
    #expect(try Tool.objects(["backup", "prune", folder, "--keep", "1", "--json"])[0]["removed"] as? [Int] == [])
    #expect(try files(folder) == (rest + ["000011", "000012"]).sorted())
    for name in own + ["000011/notes"] {
      #expect(try String(contentsOfFile: folder + "/" + name, encoding: .utf8) == "precious")
    }
    try Tool.good(["backup", "verify", folder, "--all"])
  }

  @Test func `what an interrupted command left of any step is removed, and no number is left after the last`() throws {
    try put("a")
    for name in ["000001.part", "000002.part/database.checkpoint", "000003.part/database"] {
      try FileManager.default.createDirectory(atPath: folder + "/" + name, withIntermediateDirectories: true)
    }
    for name in ["000003.part/backup.json", "000003.part/backup.json.partial"] {
      _ = try directory.file("backups/" + name, "{}")
    }
    try Tool.good(["backup", "create", database, folder])
    #expect(try files(folder) == ["000001", "LOCK"])
    for name in ["9223372036854775807", "999999999999999"] {
      try FileManager.default.createDirectory(atPath: folder + "/" + name, withIntermediateDirectories: true)
    }
    let result = try Tool.run(["backup", "create", database, folder])
    #expect(result.status == 3 && result.errors.contains("no number is left"), "\(result)")
  }

  @Test(arguments: [
    ["create", "{db}", "{folder}", "--keep", "0"], ["prune", "{folder}"], ["prune", "{folder}", "--keep", "0"],
    ["verify", "{folder}", "--all", "--backup", "1"], ["restore", "{folder}"],
  ])
  func `a wrong command line is a usage error`(arguments: [String]) throws {
    let result = try Tool.run(
      ["backup"] + arguments.map { $0.replacing("{db}", with: database).replacing("{folder}", with: folder) })
    #expect(result.status == 2, "\(result)")
  }

  @Test func `a missing database makes no folder, and a missing folder no backup`() throws {
    #expect(try Tool.run(["backup", "create", database, folder]).status == 3)
    #expect(!FileManager.default.fileExists(atPath: folder))
    for command in ["list", "verify"] { #expect(try Tool.run(["backup", command, folder]).status == 3) }
    try put("a")
    #expect(try Tool.run(["backup", "create", database, folder + "/deep/er"]).status == 3)
    try Tool.good(["backup", "create", database, folder])
    #expect(try Tool.run(["backup", "verify", folder, "--backup", "7"]).status == 1)
  }

  @Test func `a database in use is backed up by its process, and the backup can be verified and restored`() throws {
    let process = Process()
    process.executableURL = Tool.built("varve-kill-target")
    process.arguments = [database, "1"]
    let pipe = Pipe()
    process.standardOutput = pipe
    try process.run()
    _ = pipe.fileHandleForReading.readData(ofLength: 8)
    pipe.fileHandleForReading.readabilityHandler = { _ = $0.availableData }
    defer {
      kill(process.processIdentifier, SIGKILL)
      process.waitUntilExit()
    }
    let create = ["backup", "create", database, folder, "--keep", "2", "--answer-within", "86400"]
    for _ in 0..<3 { try Tool.good(create) }
    #expect(process.isRunning)
    #expect(try files(folder) == ["000002", "000003", "LOCK"])
    #expect(try Tool.objects(["backup", "verify", folder, "--all", "--json"]).map { $0["faults"] as? Int } == [0, 0])
    let sequences = try Tool.objects(["backup", "list", folder, "--json"]).compactMap { $0["sequence"] as? Int }
    #expect(sequences.count == 2 && sequences[0] < sequences[1])
    let restored = directory.path + "/restored"
    try Tool.good(["backup", "restore", folder, restored])
    #expect(try Tool.objects(["info", restored, "--json"])[0]["sequence"] as? Int == sequences[1])
  }
}
