import ArgumentParser
import VarveEngine

/// All entries, into a file.
struct ExportCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "export",
    abstract: "Write the entries of a database into a file.",
    discussion: """
      Writes all families at one instant, or one with --family, in the form that load reads. The file gets \
      its name when it is whole; until then it is <file>.partial.

      Example: varve export /data/example.varve entries.jsonl
      """
  )

  @OptionGroup var database: DatabaseArgument
  @Argument(help: "The file; - is standard output.", completion: .file()) var file: String
  @Flag(help: "Write the binary form: smaller, faster, for load --binary only.") var binary = false
  @OptionGroup var range: RangeOptions
  @OptionGroup var family: FamilyOption
  @OptionGroup var hex: HexOption
  @OptionGroup var output: OutputOption

  func run() throws {
    let bounds = try range.bounds(hex)
    let result = try database.reading { engine in
      let families = try chosenFamilies(engine)
      let sink = try ByteSink(file)
      var bar = ProgressBar("export", isQuiet: output.json)
      defer { bar.end() }
      if binary { try sink.write(BinaryStream.magic) }
      var count: UInt64 = 0
      for family in families {
        count += try write(family, of: engine, bounds, to: sink) { entries in
          bar.show(sink.byteCount, of: nil, entries: count + entries)
        }
      }
      if binary { try sink.write(BinaryStream.end(count: count)) }
      try sink.finish()
      return Result(entries: count, bytes: sink.byteCount)
    }
    try report(result)
  }

  private func chosenFamilies(_ engine: Engine) throws -> [ColumnFamily] {
    if family.family != nil { return [try family.find(in: engine)] }
    return engine.families.filter { $0.name != LoadProgress.familyName }
  }

  /// Nothing writes to a database that is open read-only, so all families are of one instant.
  private func write(
    _ family: ColumnFamily, of engine: Engine, _ bounds: CursorBounds, to sink: ByteSink, progress: (UInt64) -> Void
  ) throws -> UInt64 {
    let name = family.id == engine.defaultFamily.id ? nil : family.name
    if binary { try sink.write(BinaryStream.family(name)) }
    var count: UInt64 = 0
    var cursor = try engine.cursor(in: family, bounds: bounds)
    try cursor.seekToFirst()
    while cursor.isValid {
      let key = cursor.key.array
      let value = cursor.value.array
      if binary {
        try sink.write(BinaryStream.entry(key, value))
      } else {
        try sink.writeJSON(EntryRecord(family: name, key: key, value: value))
      }
      count += 1
      if count.isMultiple(of: 1024) { progress(count) }
      try cursor.next()
    }
    return count
  }

  private struct Result: Encodable {
    let entries: UInt64
    let bytes: UInt64
  }

  /// What was done, on standard error where standard output has the entries.
  private func report(_ result: Result) throws {
    let text =
      output.json ? JSONText.line(result) : "exported \(result.entries) entries, \(SizeText.text(result.bytes))"
    guard file != "-" else { return StandardError.write(text + "\n") }
    let sink = try ByteSink.standardOutput()
    try sink.writeLine(text)
    try sink.finish()
  }
}
