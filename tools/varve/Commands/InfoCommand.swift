import ArgumentParser
import VarveEngine

/// What a database consists of.
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

/// The figures of `info`.
private struct InfoRow: Encodable {
  struct Level: Encodable {
    let level: Int
    let files: Int
    let bytes: UInt64
  }

  struct Family: Encodable {
    let name: String
    let id: UInt32
  }

  let path: String
  let sequence: UInt64
  let families: [Family]
  let levels: [Level]
  let tableBytes: UInt64
  let logBytes: UInt64
  let spaceAmplification: Double

  init(_ engine: Engine, path: String) {
    let statistics = engine.statistics
    self.path = path
    sequence = engine.visibleSequence.value
    families = engine.families.map { Family(name: $0.name, id: $0.id) }
    levels = statistics.levels.enumerated().map { Level(level: $0, files: $1.fileCount, bytes: $1.bytes) }
    tableBytes = statistics.tableBytes
    logBytes = statistics.logBytes
    // What lies above the last level with files replaces what is there, or will be merged into it.
    let bottom = levels.last { $0.bytes > 0 }?.bytes ?? 0
    spaceAmplification = SizeText.ratio(tableBytes, bottom)
  }

  var lines: [String] {
    var lines = [
      "database             \(path)",
      "sequence             \(sequence)",
      "tables               \(SizeText.text(tableBytes)) in \(levels.reduce(0) { $0 + $1.files }) files",
      "log                  \(SizeText.text(logBytes))",
      "space amplification  \(SizeText.fixed(spaceAmplification, 2)) (tables to last level)",
    ]
    for level in levels where level.files > 0 {
      lines.append("level \(level.level)              \(SizeText.text(level.bytes)) in \(level.files) files")
    }
    for family in families { lines.append("family \(family.id)             \(family.name)") }
    return lines
  }
}
