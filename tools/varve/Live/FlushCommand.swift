import ArgumentParser
import VarveEngine

/// Writes the memtables of a database to tables.
struct FlushCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "flush",
    abstract: "Write everything that is only in memory and in the log to tables.",
    discussion: """
      If a process has the database open, it does so, and the command waits for it.

      Example: varve flush /data/example.varve
      """
  )

  @OptionGroup var database: DatabaseArgument
  @OptionGroup var patience: PatienceOption
  @OptionGroup var output: OutputOption

  func run() throws {
    let live = LiveDatabase(database: database, patience: patience)
    try live.perform(
      .flush, ifInterrupted: .nothing, { _ in }, direct: { try $0.flush() },
      answer: { if case .flushed = $0 { () } else { nil } })
    let sink = try ByteSink.standardOutput()
    try output.json ? sink.writeJSON(["flushed": true]) : sink.writeLine("flushed")
    try sink.finish()
  }
}
