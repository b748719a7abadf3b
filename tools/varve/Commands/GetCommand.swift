import ArgumentParser
import VarveEngine

/// Prints the value of one key.
struct GetCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "get",
    abstract: "Print the value of a key.",
    discussion: """
      The command prints the value and a newline; control characters are escaped. --raw prints the value's bytes and \
      nothing else. If the key is absent, the exit status is 1.

      Example: varve get /data/example.varve user:17
      """
  )

  @OptionGroup var database: DatabaseArgument
  @Argument(help: "The key.") var key: String
  @OptionGroup var family: FamilyOption
  @OptionGroup var hex: HexOption
  @Flag(help: "Print the bytes of the value as they are, without a newline.") var raw = false
  @OptionGroup var output: OutputOption

  func validate() throws {
    guard !raw || (!output.json && !hex.hex) else {
      throw ValidationError("--raw prints bytes: use it without --json and --hex")
    }
  }

  func run() throws {
    let keyBytes = try hex.bytes(key, "key")
    let found = try database.reading { engine in try engine.get(keyBytes, in: try family.find(in: engine)) }
    guard let value = found else {
      StandardError.write(output.json ? "" : "varve: the key is absent\n")
      if !output.json { hex.explainAbsence(of: key) }
      throw ExitStatus.answerIsNo.asError
    }
    let sink = try ByteSink.standardOutput()
    if raw {
      try sink.write(value)
    } else if output.json {
      try sink.writeJSON(EntryRecord(family: family.family, key: keyBytes, value: value))
    } else {
      try sink.writeLine(hex.text(value))
    }
    try sink.finish()
  }
}
