import ArgumentParser
import Varve
import VarveEngine
import VarveInspection

/// Loads entries from a file.
struct LoadCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "load",
    abstract: "Write the entries of a file into a database.",
    discussion: """
      The file has a JSON object a line: {"key":"a","value":"b"}, with keyHex and valueHex where bytes are \
      not UTF-8, and "family" for every family but the default one; or, with --binary, what export --binary \
      wrote. Entries act in their order; one with a key that is there replaces its value.

      With --create, a family that is missing is made with the options that the file has of it (merge operator, \
      compression, size of memtables), and the default family of a new database with its own. A family that is there \
      keeps its options; if they differ, a line on standard error says so. An option that this version does not know \
      is left out, and a line says that, too.

      A load that was interrupted continues with --resume where it stopped. How far it came is written in the \
      same batches as the entries (in a family "varve.load" that goes at the end), so no entry is missed, and \
      the input is compared with what was loaded before.

      With --collection the file has the rows of a collection, as export --collection and objects --json write \
      them. They go through the same API as those of a program: a row that is there is replaced, and extensions \
      (views, indexes), whose code isn't in the tool, are marked stale in the same commit and catch up when the \
      program opens the database. A collection that is missing is made with --create as the first line says. A \
      load that was interrupted is simply done again.

      Example: varve load /data/example.varve entries.jsonl --create
      Example: varve load /data/example.varve books.jsonl --collection books
      """
  )

  @OptionGroup var database: DatabaseArgument
  @Argument(help: "The file; - is standard input.", completion: .file()) var file: String
  @Flag(help: "The file is in binary form.") var binary = false
  @Flag(help: "Continue a load of this file that was interrupted.") var resume = false
  @Flag(help: "Make the database, and what of it the file names, where it is missing.") var create = false
  @Option(help: "The file has rows of objects, for this collection.") var collection: String?
  @OptionGroup var raw: RawOption
  @OptionGroup var output: OutputOption

  func validate() throws {
    guard collection == nil || (!binary && !resume && !raw.raw) else {
      throw ValidationError("--collection loads rows: use it without --binary, --resume and --raw")
    }
  }

  func run() throws {
    if let collection { return try loadObjects(collection) }
    // The file is opened first, so that no database is created if it can't be read.
    let source = try ByteSource(file)
    var reader = EntryReader(source, file: file, isBinary: binary)
    var defaults = FamilyOptions()
    // The default family is made with the database.
    if create, !resume, let first = try reader.peek(), first.family ?? "default" == "default" {
      defaults = first.options?.options ?? defaults
    }
    let begun = reader
    let result = try database.writing(create: create, familyOptions: defaults) { engine in
      var loader = BulkLoader(engine, source: source, begun, file: file, createsFamilies: create, raw: raw)
      if resume { try loader.resume() }
      var bar = ProgressBar("load", isQuiet: output.json)
      defer { bar.end() }
      try loader.run { done, entries in bar.show(done, of: source.size, entries: entries) }
      return loader.result
    }
    let sink = try ByteSink.standardOutput()
    if output.json {
      try sink.writeJSON(result)
    } else {
      let skipped = result.skipped > 0 ? ", after \(result.skipped) that an earlier load wrote" : ""
      let entries = Count.text(result.entries, "entry", plural: "entries")
      try sink.writeLine("loaded \(entries) from \(SizeText.text(result.bytes))\(skipped)")
    }
    try sink.finish()
  }
}

extension LoadCommand {
  /// Loads the rows of a collection.
  private func loadObjects(_ collection: String) throws {
    // The first row is read first, so that neither a database nor a collection is created if the file has no row.
    let lines = try RowLines(file)
    if !create { try database.inspecting { _ = try $0.collection(collection) } }
    let result = try database.writingObjects(create: create) { objects in
      var loader = ObjectLoad(objects, collection, lines)
      var bar = ProgressBar("load", isQuiet: output.json)
      defer { bar.end() }
      try loader.run { done, rows in bar.show(done, of: lines.source.size, entries: rows) }
      return loader.result
    }
    let sink = try ByteSink.standardOutput()
    if output.json {
      try sink.writeJSON(result)
    } else {
      try sink.writeLine("loaded \(Count.text(result.rows, "row")) from \(SizeText.text(result.bytes))")
      for name in result.stale {
        try sink.writeLine("extension \"\(name)\" is stale until the program opens the database")
      }
    }
    try sink.finish()
  }
}

/// Writes the entries of a reader in batches of about a mebibyte, each with a record of the progress.
private struct BulkLoader: ~Copyable {
  struct Result: Encodable {
    var entries: UInt64 = 0
    var skipped: UInt64 = 0
    var bytes: UInt64 = 0
  }

  /// Large enough that the record of progress costs almost no time, small enough to need little memory.
  private static let batchSizeMaximum = 1 << 20
  private static let batchCountMaximum = 10_000
  private let engine: Engine
  private let source: ByteSource
  private let file: String
  private let createsFamilies: Bool
  private let raw: RawOption
  private var reader: EntryReader
  private var batch = WriteBatch(capacity: batchSizeMaximum)
  private var families: [String: ColumnFamily] = [:]
  private(set) var result = Result()

  init(
    _ engine: Engine, source: ByteSource, _ reader: EntryReader, file: String, createsFamilies: Bool, raw: RawOption
  ) {
    self.engine = engine
    self.source = source
    self.file = file
    self.createsFamilies = createsFamilies
    self.raw = raw
    self.reader = reader
  }

  /// Moves to the position at which an earlier load of the file stopped, or stays at the beginning if there was none.
  mutating func resume() throws {
    guard let progress = try LoadProgress.find(for: file, in: engine) else { return }
    try progress.skip(in: source, file: file)
    reader.state = progress.reader
    result.skipped = progress.entryCount
  }

  mutating func run(progress: (UInt64, UInt64) -> Void) throws {
    let records = try engine.findFamily(named: LoadProgress.familyName, create: true)
    while let entry = try reader.next() {
      try batch.put(entry.key, entry.value, in: try family(of: entry))
      result.entries += 1
      if batch.byteCount >= Self.batchSizeMaximum || batch.count >= Self.batchCountMaximum {
        try write(records)
        progress(source.position, result.entries)
      }
    }
    try write(records)
    result.bytes = source.position
    try engine.sync()
    try LoadProgress.forget(file, in: engine)
  }

  private mutating func write(_ records: ColumnFamily) throws {
    let record = LoadProgress(
      position: source.position, checksum: source.checksum, entryCount: result.skipped + result.entries,
      reader: reader.state)
    try batch.put(LoadProgress.key(for: file), try JSONText.bytes(record), in: records)
    try engine.write(batch)
    batch.removeAll()
  }

  private mutating func family(of entry: InputEntry) throws -> ColumnFamily {
    let name = entry.family ?? engine.defaultFamily.name
    let family: ColumnFamily
    if name == engine.defaultFamily.name {
      family = engine.defaultFamily
    } else if let known = families[name] {
      family = known
    } else {
      guard name != LoadProgress.familyName else {
        throw ToolError(.cannotOpen, "the family \"\(name)\" belongs to load itself", file: file)
      }
      try raw.check(name)
      family = try engine.findFamily(
        named: name, create: createsFamilies, options: entry.options?.options ?? FamilyOptions())
      families[name] = family
    }
    if let record = entry.options { report(record, of: family) }
    return family
  }

  /// Says on standard error which options of the input the family does not have.
  private func report(_ record: FamilyOptionsRecord, of family: ColumnFamily) {
    let name = PrintableText.text(family.name)
    if !record.unknown.isEmpty {
      let unknown = PrintableText.text(record.unknown.joined(separator: ", "))
      StandardError.write("varve: options of the family \"\(name)\" are not known and left out: \(unknown)\n")
    }
    guard family.options != record.options else { return }
    StandardError.write(
      "varve: the family \"\(name)\" was there and keeps its options: \(family.options.text); the file has "
        + "\(record.options.text)\n")
  }
}
