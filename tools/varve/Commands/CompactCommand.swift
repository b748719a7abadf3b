import ArgumentParser
import VarveEngine

/// Compacts tables down to the last level.
struct CompactCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "compact",
    abstract: "Merge the tables of a database, or of a range of it, down to the last level.",
    discussion: """
      The command compacts every family, or one with --family, which removes overwritten values and tombstones. It \
      prints the bytes read and written, and the sizes before and after.

      Example: varve compact /data/example.varve --from user: --to user;
      """
  )

  @OptionGroup var database: DatabaseArgument
  @Option(help: "Begin at this key (included).") var from: String?
  @Option(help: "End before this key (excluded).") var to: String?
  @OptionGroup var family: FamilyOption
  @OptionGroup var hex: HexOption
  @OptionGroup var output: OutputOption

  func run() throws {
    let lower = try from.map { try hex.bytes($0, "--from") }
    let upper = try to.map { try hex.bytes($0, "--to") }
    let result = try database.writing { engine in
      let families = family.family == nil ? engine.families : [try family.find(in: engine)]
      try engine.flush()
      let before = engine.statistics
      var bar = ProgressBar("compact", isQuiet: output.json)
      defer { bar.end() }
      for family in families {
        try engine.compact(family: family, from: lower, to: upper) { bar.show($0.bytesDone, of: $0.bytesTotal) }
      }
      return Result(before, engine.statistics)
    }
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

    init(_ before: EngineStatistics, _ after: EngineStatistics) {
      bytesIn = after.bytesCompactionRead - before.bytesCompactionRead
      bytesOut = after.bytesCompactionWritten - before.bytesCompactionWritten
      ratio = SizeText.ratio(bytesOut, bytesIn)
      tableBytesBefore = before.tableBytes
      tableBytesAfter = after.tableBytes
    }

    var text: String {
      "read \(SizeText.text(bytesIn)), wrote \(SizeText.text(bytesOut)), ratio \(SizeText.fixed(ratio, 3)); "
        + "tables \(SizeText.text(tableBytesBefore)) before, \(SizeText.text(tableBytesAfter)) after"
    }
  }
}
