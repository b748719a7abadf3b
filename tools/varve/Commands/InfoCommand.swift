import ArgumentParser
import VarveEngine

/// Prints the components of a database.
struct InfoCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "info",
    abstract: "Print families, levels, files, sizes and amplification.",
    discussion: "Example: varve info /data/example.varve --json"
  )

  @OptionGroup var database: DatabaseArgument
  @Flag(help: "Print what the engine derived from its options as well.") var explain = false
  @OptionGroup var output: OutputOption

  func run() throws {
    let sink = try ByteSink.standardOutput()
    try database.reading { engine in
      let row = InfoRow(engine, path: database.path)
      if output.json {
        try sink.writeJSON(row)
      } else {
        for line in row.lines { try sink.writeLine(line) }
        if explain { try sink.writeLine("\n" + engine.explain()) }
      }
    }
    try sink.finish()
  }
}

/// The values that `info` prints.
private struct InfoRow: Encodable {
  struct Level: Encodable {
    let level: Int
    let files: Int
    let bytes: UInt64
    let entries: UInt64
    let tombstones: UInt64
    let rangeTombstones: UInt64
    private let words: String

    private enum CodingKeys: String, CodingKey {
      case level, files, bytes, entries, tombstones, rangeTombstones
    }

    init(_ number: Int, _ found: EngineStatistics.Level) {
      level = number
      files = found.fileCount
      bytes = found.bytes
      entries = found.entryCount
      tombstones = found.tombstoneCount
      rangeTombstones = found.rangeTombstoneCount
      words = LevelText.text(found)
    }

    /// Returns the levels that have files.
    static func list(_ levels: [EngineStatistics.Level]) -> [Level] {
      levels.enumerated().filter { $1.fileCount > 0 }.map { Level($0, $1) }
    }

    var text: String { "level \(level): \(words)" }
  }

  struct Family: Encodable {
    let name: String
    let id: UInt32
    /// Whether the family is emptied at each open. The database was just opened, so such a family is empty here.
    let isVolatile: Bool
    /// The other options that are not the defaults, by the names that an export has, too.
    let options: FamilyOptionsRecord?
    let memtableEntries: Int
    let levels: [Level]
  }

  let path: String
  let databaseID: String
  let formatVersion: UInt32
  let sequence: UInt64
  let families: [Family]
  let levels: [Level]
  let files: Int
  let tableBytes: UInt64
  let logBytes: UInt64
  /// The bytes of all tables for each byte on the last level of its family. Data on the levels above replaces data
  /// there, or will be merged into it.
  let spaceAmplification: Double

  init(_ engine: Engine, path: String) {
    let statistics = engine.statistics
    self.path = path
    databaseID = HexText.text((0..<8).map { UInt8(truncatingIfNeeded: statistics.databaseID >> (56 - 8 * $0)) })
    formatVersion = statistics.formatVersion
    sequence = engine.visibleSequence.value
    var options = Dictionary(engine.families.map { ($0.id, $0.options) }) { first, _ in first }
    for id in options.keys { options[id]?.isVolatile = false }
    families = statistics.families.map {
      Family(
        name: $0.name, id: $0.id.value, isVolatile: $0.isVolatile, options: options[$0.id].flatMap { .init($0) },
        memtableEntries: $0.memTableEntryCount, levels: Level.list($0.levels))
    }
    levels = Level.list(statistics.levels)
    files = levels.reduce(0) { $0 + $1.files }
    tableBytes = statistics.tableBytes
    logBytes = statistics.logBytes
    let bottoms = families.reduce(UInt64(0)) { $0 + ($1.levels.last?.bytes ?? 0) }
    spaceAmplification = SizeText.ratio(tableBytes, bottoms)
  }

  var lines: [String] {
    var lines = [
      "database             \(path)",
      "database id          \(databaseID)",
      "format version       \(formatVersion)",
      "sequence             \(sequence)",
      "tables               \(SizeText.text(tableBytes)) in \(Count.text(files, "file"))",
      "log                  \(SizeText.text(logBytes))",
      "space amplification  \(SizeText.fixed(spaceAmplification, 2)) (all tables to the last level of each family)",
    ]
    for family in families {
      let kind = family.isVolatile ? "volatile family" : "family"
      let entries = Count.text(family.memtableEntries, "entry", plural: "entries")
      let options = family.options.map { "; \($0.options.text)" } ?? ""
      lines.append("\(kind) \"\(family.name)\", id \(family.id), \(entries) in memtables\(options)")
      lines += family.levels.map { "  " + $0.text }
    }
    return lines
  }
}
