import ArgumentParser
import VarveEngine

/// Compacts tables down to the last level.
struct CompactCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "compact",
    abstract: "Merge the tables of a database, or of a range of it, down to the last level.",
    discussion: """
      The command compacts all families, or one with --family, which removes overwritten values and tombstones. It \
      prints the bytes read and written, and the sizes before and after. If a process has the database open, it compacts, \
      and the command waits for it.

      Example: varve compact /data/example.varve --from user: --to user;
      """
  )

  @OptionGroup var database: DatabaseArgument
  @Option(help: "Begin at this key (included).") var from: String?
  @Option(help: "End before this key (excluded).") var to: String?
  @OptionGroup var family: OnlyFamilyOption
  @OptionGroup var hex: HexOption
  @OptionGroup var patience: PatienceOption
  @OptionGroup var output: OutputOption

  func run() throws {
    let lower = try from.map { try hex.bytes($0, "--from") }
    let upper = try to.map { try hex.bytes($0, "--to") }
    try RangeOptions.check(lower, upper, to: to)
    let live = LiveDatabase(database: database, patience: patience)
    var bar = ProgressBar("compact", isQuiet: output.json)
    defer { bar.end() }
    let totals = try live.perform(
      .compact(family: family.family, from: lower, to: upper), ifInterrupted: .nothing,
      { if case .runs(let done, let total) = $0 { bar.show(done, of: total) } },
      direct: { engine in
        try engine.compact(familyNamed: family.family, from: lower, to: upper) {
          bar.show($0.bytesDone, of: $0.bytesTotal)
        }
      },
      answer: { if case .compacted(let totals) = $0 { totals } else { nil } })
    bar.end()
    let result = Result(totals)
    let sink = try ByteSink.standardOutput()
    try output.json ? sink.writeJSON(result) : sink.writeLine(result.text)
    try sink.finish()
  }

  private struct Result: Encodable {
    let bytesIn: UInt64
    let bytesOut: UInt64
    let ratio: Double
    let tableBytesBefore: UInt64
    let tableBytesAfter: UInt64

    init(_ totals: CompactionTotals) {
      bytesIn = totals.bytesRead
      bytesOut = totals.bytesWritten
      ratio = SizeText.ratio(bytesOut, bytesIn)
      tableBytesBefore = totals.tableBytesBefore
      tableBytesAfter = totals.tableBytesAfter
    }

    var text: String {
      "read \(SizeText.text(bytesIn)), wrote \(SizeText.text(bytesOut)), ratio \(SizeText.fixed(ratio, 3)); "
        + "tables \(SizeText.text(tableBytesBefore)) before, \(SizeText.text(tableBytesAfter)) after"
    }
  }
}
