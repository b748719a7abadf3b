import ArgumentParser
import VarveEngine

/// Copies the readable data of a damaged database.
struct SalvageCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "salvage",
    abstract: "Copy every readable row of a damaged database into a new one.",
    discussion: """
      A damaged block of a table, or a damaged record of the log, loses only its own entries; CURRENT, the MANIFEST \
      and the indexes of tables may be missing or damaged. The source is not changed. The target must not exist, or \
      must be an empty directory. The command prints exactly what is lost. If something is lost or in doubt, the exit \
      status is 1.

      Example: varve salvage /data/example.varve /data/saved.varve
      """
  )

  @OptionGroup var database: DatabaseArgument
  @Argument(help: "The directory of the new database.", completion: .directory) var target: String
  @OptionGroup var output: OutputOption

  func run() throws {
    try DatabaseLocation.check(target, for: "a salvage")
    let report = try Engine.salvage(from: database.path, to: target)
    let sink = try ByteSink.standardOutput()
    if output.json {
      try sink.writeJSON(Summary(report))
    } else {
      try SalvageText.write(report.losses, report.doubts, to: sink)
      for family in report.families { try sink.writeLine("\"\(family.name)\": \(Count.text(family.rowCount, "row"))") }
      try sink.writeLine(
        "\(target): \(Count.text(report.entriesRead, "entry", plural: "entries")) of \(Count.text(report.tablesRead, "table")) and the log read; "
          + (report.isComplete ? "nothing is lost" : "see above what is lost"))
    }
    try sink.finish()
    guard report.isComplete else { throw ExitStatus.answerIsNo.asError }
  }

  private struct Summary: Encodable {
    struct Family: Encodable {
      let name: String
      let rows: Int
    }
    let isComplete: Bool
    let families: [Family]
    let entriesRead: UInt64
    let tablesRead: Int
    let losses: [LossRow]
    let doubts: [String]

    init(_ report: SalvageReport) {
      isComplete = report.isComplete
      families = report.families.map { Family(name: $0.name, rows: $0.rowCount) }
      entriesRead = report.entriesRead
      tablesRead = report.tablesRead
      losses = report.losses.map { LossRow($0) }
      doubts = report.doubts
    }
  }
}
