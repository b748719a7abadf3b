import ArgumentParser
import VarveEngine

/// Copies a database to another directory, with hard links to its tables if the file system supports them.
struct CheckpointCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "checkpoint",
    abstract: "Make a second database with the same content, of hard links where the file system has them.",
    discussion: """
      The target must not exist, or must be an empty directory. On another file system, the tables are copied \
      instead of linked. The checkpoint has all column families as of one commit.

      If a process has the database open, it makes the checkpoint, and the command waits for it. Such a checkpoint is \
      in the directory that contains the database or below it, or in a folder that the program of that process names.

      Example: varve checkpoint /data/example.varve /backup/example.varve
      """
  )

  @OptionGroup var database: DatabaseArgument
  @Argument(help: "The directory of the new database.", completion: .directory) var target: String
  @OptionGroup var patience: PatienceOption
  @OptionGroup var output: OutputOption

  func run() throws {
    try DatabaseLocation.check(target, for: "a checkpoint")
    let live = LiveDatabase(database: database, patience: patience)
    let result = Result(try live.checkpoint(to: target))
    let sink = try ByteSink.standardOutput()
    try output.json ? sink.writeJSON(result) : sink.writeLine("\(target): \(result.text)")
    try sink.finish()
  }

  private struct Result: Encodable {
    let sequence: UInt64
    let tablesLinked: Int
    let tablesCopied: Int
    let tableBytesCopied: UInt64
    let segmentsCopied: Int
    let logBytesCopied: UInt64

    init(_ report: CheckpointReport) {
      sequence = report.sequence.value
      tablesLinked = report.tablesLinked
      tablesCopied = report.tablesCopied
      tableBytesCopied = report.tableBytesCopied
      segmentsCopied = report.segmentsCopied
      logBytesCopied = report.logBytesCopied
    }

    var text: String {
      "everything up to commit \(sequence); \(Count.text(tablesLinked, "table")) linked, \(tablesCopied) copied "
        + "(\(SizeText.text(tableBytesCopied))), \(SizeText.text(logBytesCopied)) of log"
    }
  }
}
