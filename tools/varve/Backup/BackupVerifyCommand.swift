import ArgumentParser
import VarveEngine

struct BackupVerifyCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "verify",
    abstract: "Check every checksum of the newest backup, of one, or of all.",
    discussion: """
      The command checks what verify checks in a database, and changes nothing. It prints one line for each fault, and \
      the exit status is 1 if there is one.

      Example: varve backup verify /backup/example --all
      """)

  @OptionGroup var source: BackupFolderArgument
  @Option(help: "The number of the backup; without it, the newest.") var backup: Int?
  @Flag(help: "Check all backups.") var all = false
  @OptionGroup var output: OutputOption

  func validate() throws {
    if all, backup != nil { throw ValidationError("--all and --backup exclude each other") }
  }

  func run() throws {
    let chosen = all ? try source.folder.backups() : [try source.folder.backup(backup)]
    let sink = try ByteSink.standardOutput()
    var isDamaged = false
    for backup in chosen {
      let found = try DatabaseVerification(path: backup.databasePath, output).run()
      isDamaged = isDamaged || found.count > 0
      for fault in found.faults { try output.json ? sink.writeJSON(fault) : sink.writeLine(fault.text) }
      if output.json {
        try sink.writeJSON(Summary(backup: backup.number, faults: found.count))
      } else {
        try sink.writeLine("backup \(backup.number): \(found.text)")
      }
    }
    try sink.finish()
    if isDamaged { throw ExitStatus.answerIsNo.asError }
  }

  private struct Summary: Encodable {
    let backup: Int
    let faults: Int
  }
}
