import ArgumentParser
import VarveEngine

/// Sets the value of one key.
struct PutCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "put",
    abstract: "Set the value of a key.",
    discussion: """
      The write is synced before the command ends. --create makes the database and the family if they are \
      missing.

      Example: varve put /data/example.varve user:17 '{"name":"Ada"}' --create
      """
  )

  @OptionGroup var database: DatabaseArgument
  @Argument(help: "The key.") var key: String
  @Argument(help: "The value; - reads it from standard input.") var value: String
  @OptionGroup var family: FamilyOption
  @OptionGroup var hex: HexOption
  @Flag(help: "Make the database and the family where they are missing.") var create = false
  @OptionGroup var raw: RawOption
  @OptionGroup var output: OutputOption

  func run() throws {
    try raw.check(family.family)
    let keyBytes = try hex.bytes(key, "key")
    let valueBytes = value == "-" ? try Self.standardInput() : try hex.bytes(value, "value")
    let sequence = try database.writing(create: create) { engine in
      try self.family.warnIfEmptyDefault(engine, before: "this writes to")
      let family = try family.find(in: engine, create: create)
      return try engine.put(keyBytes, valueBytes, in: family, durability: .power)
    }
    guard output.json else { return }
    let sink = try ByteSink.standardOutput()
    try sink.writeJSON(["sequence": sequence.value])
    try sink.finish()
  }

  private static func standardInput() throws -> [UInt8] {
    let source = try ByteSource("-")
    var bytes: [UInt8] = []
    while let chunk = try source.nextChunk() { bytes += chunk }
    return bytes
  }
}
