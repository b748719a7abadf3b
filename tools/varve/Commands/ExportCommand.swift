import ArgumentParser
import VarveEngine
import VarveInspection

/// Writes all entries to a file.
struct ExportCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "export",
    abstract: "Write the entries of a database into a file.",
    discussion: """
      The command writes all families at one snapshot, or one with --family, in the form that load reads. The file \
      gets its name when it is complete; until then its name is <file>.partial, and an export that was interrupted \
      continues with --resume, as long as the database is the same. A file that has the name already is replaced \
      then, without a question. A link is followed, and a pipe or a device is written to.

      The first entry of a family has its options (merge operator, compression, size of memtables), if they are not the \
      defaults, and load makes the family with them. A family without entries is not in the file.

      With --collection it writes the rows of a collection, one object a line, in the form that load --collection \
      reads: every line has all that another database needs, and what was loaded is the same but for its row \
      ids. --from, --to and --prefix are keys as objects prints them. A row that is damaged is left out and reported \
      on standard error, and the exit status is 1.

      An export of whole families of a database of objects is for looking at, not a backup of it: load takes it only \
      with --raw. A copy of the whole database is made by backup create or checkpoint.

      Example: varve export /data/example.varve entries.jsonl
      Example: varve export /data/example.varve books.jsonl --collection books
      """
  )

  @OptionGroup var database: DatabaseArgument
  @Argument(help: "The file; - is standard output.", completion: .file()) var file: String
  @Flag(help: "Write the binary form: smaller, faster, for load --binary only.") var binary = false
  @Flag(help: "Continue an export to this file that was interrupted.") var resume = false
  @OptionGroup var range: RangeOptions
  @OptionGroup var family: OnlyFamilyOption
  @Option(help: "Write the rows of this collection.") var collection: String?
  @OptionGroup var hex: HexOption
  @OptionGroup var output: OutputOption

  func validate() throws {
    guard !resume || file != "-" else { throw ValidationError("--resume needs a file: standard output has no begin") }
    guard collection == nil || (!binary && !resume && family.family == nil && !hex.hex) else {
      throw ValidationError("--collection writes rows: use it without --binary, --resume, --family and --hex")
    }
  }

  func run() throws {
    let target = try OutputTarget(file)
    if let path = target.filePath { try DatabaseLocation.check(path, for: "an export") }
    if let collection { return try exportObjects(collection, to: target) }
    let bounds = try range.bounds(hex)
    let result = try database.reading { engine in
      let families = try chosenFamilies(engine)
      if families.contains(where: { ObjectFamily($0.name) != nil }) { StandardError.write(Self.objectsNote) }
      let point = try begin(engine, target)
      let sink = try ByteSink(target, from: point?.position)
      var bar = ProgressBar("export", isQuiet: output.json)
      defer { bar.end() }
      var exporter = Exporter(engine, sink, isBinary: binary, bounds: bounds)
      try exporter.run(families, from: point) { count in bar.show(sink.byteCount, of: nil, entries: count) }
      try sink.finish()
      if let file = target.filePath { ExportIdentity.remove(for: file) }
      return Result(entries: exporter.count, bytes: sink.byteCount)
    }
    let entries = Count.text(result.entries, "entry", plural: "entries")
    try report(result, "exported \(entries), \(SizeText.text(result.bytes))", to: target)
  }

  private func exportObjects(_ collection: String, to target: OutputTarget) throws {
    let faults = RowFaults(asJSON: output.json)
    let result = try database.inspecting { inspector in
      var exporter = try ObjectExport(inspector, collection, range, faults)
      let sink = try ByteSink(target)
      var bar = ProgressBar("export", isQuiet: output.json)
      defer { bar.end() }
      try exporter.run(into: sink) { count in bar.show(sink.byteCount, of: nil, entries: count) }
      try sink.finish()
      return ObjectResult(rows: exporter.count, bytes: sink.byteCount, damaged: faults.count)
    }
    let damaged = result.damaged > 0 ? "; \(result.damaged) are damaged and left out" : ""
    let rows = Count.text(result.rows, "row")
    try report(result, "exported \(rows), \(SizeText.text(result.bytes))\(damaged)", to: target)
    try faults.finish()
  }

  /// What `load` says only later.
  private static let objectsNote =
    "varve: the file has families of the database of objects, which load takes only with --raw; rows are exported with "
    + "--collection, and a copy of the whole database is made by backup create or checkpoint\n"

  private func chosenFamilies(_ engine: Engine) throws -> [ColumnFamily] {
    if let name = family.family { return [try engine.family(named: name)] }
    return engine.families.filter { $0.name != LoadProgress.familyName }
  }

  /// Returns the point after which the export continues an interrupted export of the same data, or `nil` to begin at
  /// the start.
  private func begin(_ engine: Engine, _ target: OutputTarget) throws -> ExportPoint? {
    guard let file = target.filePath else {
      if resume { throw ToolError(.cannotOpen, "--resume needs a file: a pipe or a device has no begin", file: file) }
      return nil
    }
    let identity = ExportIdentity(
      database: database.path, sequence: engine.visibleSequence.value, isBinary: binary, family: family.family,
      lower: try range.lower(hex), upper: try range.upper(hex), prefix: try range.prefix(hex))
    if resume {
      guard let found = ExportIdentity.find(for: file) else {
        StandardError.write("varve: no export to this file was interrupted; it begins at the begin\n")
        try identity.write(for: file)
        return nil
      }
      guard found == identity else {
        throw ToolError(
          .cannotOpen, "the database or the options are not those of the interrupted export; export without --resume",
          file: file)
      }
      return try ExportPoint.find(in: ByteSink.partialPath(file), isBinary: binary)
    }
    try identity.write(for: file)
    return nil
  }

  private struct Result: Encodable {
    let entries: UInt64
    let bytes: UInt64
  }

  private struct ObjectResult: Encodable {
    let rows: UInt64
    let bytes: UInt64
    let damaged: Int
  }

  /// Reports the result, on standard error if standard output may receive the entries.
  private func report(_ result: some Encodable, _ words: String, to target: OutputTarget) throws {
    let text = output.json ? JSONText.line(result) : words
    guard target.filePath != nil else { return StandardError.write(text + "\n") }
    let sink = try ByteSink.standardOutput()
    try sink.writeLine(text)
    try sink.finish()
  }
}

/// Writes families to a sink, one after the other.
///
/// The database is open read-only and no other process writes to it, so all families are of one snapshot.
private struct Exporter {
  private let engine: Engine
  private let sink: ByteSink
  private let isBinary: Bool
  private let bounds: CursorBounds
  private(set) var count: UInt64 = 0

  init(_ engine: Engine, _ sink: ByteSink, isBinary: Bool, bounds: CursorBounds) {
    self.engine = engine
    self.sink = sink
    self.isBinary = isBinary
    self.bounds = bounds
  }

  mutating func run(_ families: [ColumnFamily], from point: ExportPoint?, progress: (UInt64) -> Void) throws {
    var rest = families[...]
    count = point?.count ?? 0
    if let point, point.position > 0 {
      let name = point.family ?? engine.defaultFamily.name
      guard let index = families.firstIndex(where: { $0.name == name }) else {
        throw ToolError(.cannotOpen, "the interrupted export stopped in the family \"\(name)\", which is not there")
      }
      try write(families[index], after: point.key, isBegun: true, progress: progress)
      rest = families[(index + 1)...]
    } else if isBinary {
      try sink.write(BinaryStream.magic)
    }
    for family in rest { try write(family, after: nil, isBegun: false, progress: progress) }
    if isBinary { try sink.write(BinaryStream.end(count: count)) }
  }

  private mutating func write(
    _ family: ColumnFamily, after last: [UInt8]?, isBegun: Bool, progress: (UInt64) -> Void
  ) throws {
    let name = family.id == engine.defaultFamily.id ? nil : family.name
    if isBinary && !isBegun { try sink.write(BinaryStream.family(name)) }
    var cursor = try engine.cursor(in: family, bounds: bounds)
    try cursor.seekToFirst()
    if let last {
      try cursor.seek(last)
      if cursor.isValid, cursor.keyBytes == last { try cursor.next() }
    }
    // An entry that was written before an interruption had the options.
    var options = last == nil ? FamilyOptionsRecord(family.options) : nil
    if !cursor.isValid, let options, ObjectFamily(family.name) == nil {
      StandardError.write(
        "varve: the family \"\(PrintableText.text(family.name))\" has no entry to export, and its options are not in the "
          + "file: \(options.options.text)\n")
    }
    while cursor.isValid {
      let key = cursor.keyBytes
      let value = cursor.valueBytes
      if isBinary {
        if let options { try sink.write(try BinaryStream.options(options)) }
        try sink.write(BinaryStream.entry(key, value))
      } else {
        try sink.writeJSON(EntryRecord(family: name, options: options, key: key, value: value))
      }
      options = nil
      count += 1
      if count.isMultiple(of: 1024) { progress(count) }
      try cursor.next()
    }
  }
}
