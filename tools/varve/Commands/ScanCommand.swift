import ArgumentParser
import VarveEngine

/// Prints the entries of a range in order.
struct ScanCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "scan",
    abstract: "Print keys and values in order.",
    discussion: """
      The command prints one line for each entry: the key, a tab, the value. Control characters, backslashes and bytes \
      that are not UTF-8 are printed as \\xNN. Commands do not read that form: with --hex, scan prints digits that get, \
      delete, --from, --to and --prefix take. --json prints what load reads.

      Example: varve scan /data/example.varve --prefix user: --limit 10 --reverse
      """
  )

  @OptionGroup var database: DatabaseArgument
  @OptionGroup var range: RangeOptions
  @Option(help: "At most so many entries.") var limit: Int?
  @Flag(help: "From the last key to the first.") var reverse = false
  @Flag(help: "Print keys without their values.") var keysOnly = false
  @OptionGroup var family: FamilyOption
  @OptionGroup var hex: HexOption
  @OptionGroup var output: OutputOption

  func validate() throws {
    if let limit, limit < 0 { throw ValidationError("--limit is a count: \(limit) is below 0") }
  }

  func run() throws {
    let bounds = try range.bounds(hex)
    let sink = try ByteSink.standardOutput()
    var isEmpty = true
    try database.reading { engine in
      try family.warnIfEmptyDefault(engine, before: "this scans")
      var cursor = try engine.cursor(in: try family.find(in: engine), bounds: bounds)
      try reverse ? cursor.seekToLast() : cursor.seekToFirst()
      var left = limit ?? Int.max
      while cursor.isValid, left > 0 {
        try print(cursor.keyBytes, keysOnly ? nil : cursor.valueBytes, to: sink)
        left -= 1
        isEmpty = false
        guard left > 0 else { break }
        try reverse ? cursor.previous() : cursor.next()
      }
    }
    try sink.finish()
    // Nothing is in a range whose keys mean other ones.
    if isEmpty, !output.json { for key in [range.prefix, range.from, range.to] { key.map(hex.explainAbsence) } }
  }

  private func print(_ key: [UInt8], _ value: [UInt8]?, to sink: ByteSink) throws {
    if output.json {
      try sink.writeJSON(EntryRecord(family: family.family, key: key, value: value))
    } else if let value {
      try sink.writeLine(hex.text(key) + "\t" + hex.text(value))
    } else {
      try sink.writeLine(hex.text(key))
    }
  }
}
