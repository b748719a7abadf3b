import ArgumentParser
import VarveEngine

struct BackupRestoreCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "restore",
    abstract: "Make a database of the newest backup, or of one.",
    discussion: """
      The target must not exist, or must be an empty directory; nothing is overwritten. The database appears there in \
      one step, once every checksum of it was found right. On the file system of the backup its tables are hard links, \
      which are never changed; --copy copies them. The backup stays as it is.

      The tasks of a restored database are held until varve tasks release releases them, because the original may \
      still run them.

      Example: varve backup restore /backup/example /data/restored.varve
      """)

  @OptionGroup var source: BackupFolderArgument
  @Argument(help: "The directory of the restored database.", completion: .directory) var target: String
  @Option(help: "The number of the backup; without it, the newest.") var backup: Int?
  @Flag(help: "Copy the tables instead of linking them.") var copy = false
  @OptionGroup var output: OutputOption

  func run() throws {
    try DatabaseLocation.check(target, for: "a restored database")
    let backup = try source.folder.backup(backup)
    let fileSystem = PosixFileSystem()
    let directory = DirectoryUnderConstruction(
      target, purpose: "a restored database", suffix: "restore", fileSystem)
    try directory.prepare()
    let result: Result
    do {
      let lock = try fileSystem.lock(directory.workspace + "/LOCK")
      defer { lock.release() }
      result = try fill(directory.workspace, from: backup, fileSystem)
      let found = try DatabaseVerification(path: directory.workspace, output).run()
      guard found.count == 0 else {
        for fault in found.faults { StandardError.write(fault.text + "\n") }
        throw ToolError(
          .answerIsNo,
          "backup \(backup.number) is damaged: \(found.text); nothing was restored, and varve salvage copies what can "
            + "be read", file: backup.databasePath)
      }
      try directory.install()
    } catch {
      directory.discard()
      throw error
    }
    let sink = try ByteSink.standardOutput()
    try output.json ? sink.writeJSON(result) : sink.writeLine("\(target): \(result.text)")
    try sink.finish()
  }

  private func fill(
    _ workspace: String, from backup: BackupFolder.Backup, _ fileSystem: PosixFileSystem
  ) throws -> Result {
    var result = Result(backup: backup.number, sequence: backup.record?.sequence)
    var bar = ProgressBar("restore", isQuiet: output.json)
    defer { bar.end() }
    let total = backup.byteCount
    var done: UInt64 = 0
    var canLink = !copy
    for name in try fileSystem.list(backup.databasePath).sorted() where name != "LOCK" {
      let (from, to) = (backup.databasePath + "/" + name, workspace + "/" + name)
      guard let found = try fileSystem.attributes(from), !found.isDirectory else { continue }
      // Tables never change. The log and the MANIFEST are written on.
      if canLink, name.hasSuffix(".sst") {
        do {
          try fileSystem.link(from, to: to)
          result.tablesLinked += 1
          done += found.size
          continue
        } catch {
          // Another device, or a file system without hard links.
          canLink = false
        }
      }
      try fileSystem.copyFile(from, to: to, size: found.size)
      result.filesCopied += 1
      result.bytesCopied += found.size
      done += found.size
      bar.show(done, of: total)
    }
    try fileSystem.syncDirectory(workspace)
    return result
  }

  private struct Result: Encodable {
    let backup: Int
    let sequence: UInt64?
    var tablesLinked = 0
    var filesCopied = 0
    var bytesCopied: UInt64 = 0

    var text: String {
      var text = "restored from backup \(backup)"
      if let sequence { text += ", everything up to commit \(sequence)" }
      text += "; \(Count.text(tablesLinked, "table")) linked, \(Count.text(filesCopied, "file")) copied "
      return text + "(\(SizeText.text(bytesCopied)))"
    }
  }
}
