import ArgumentParser
import VarveEngine

/// Removes one key.
struct DeleteCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "delete",
    abstract: "Remove a key.",
    discussion: """
      The write is synced before the command ends. If the key is absent, nothing is written and the exit status is 1.

      Example: varve delete /data/example.varve user:17
      """
  )

  @OptionGroup var database: DatabaseArgument
  @Argument(help: "The key.") var key: String
  @OptionGroup var family: FamilyOption
  @OptionGroup var hex: HexOption
  @OptionGroup var raw: RawOption
  @OptionGroup var output: OutputOption

  func run() throws {
    try raw.check(family.family)
    let keyBytes = try hex.bytes(key, "key")
    let sequence: SequenceNumber? = try database.writing { engine in
      let family = try family.find(in: engine)
      guard try engine.contains(keyBytes, in: family) else { return nil }
      return try engine.delete(keyBytes, in: family, durability: .power)
    }
    guard let sequence else {
      StandardError.write(output.json ? "" : "varve: the key is absent\n")
      if !output.json { hex.explainAbsence(of: key) }
      throw ExitStatus.answerIsNo.asError
    }
    guard output.json else { return }
    let sink = try ByteSink.standardOutput()
    try sink.writeJSON(["sequence": sequence.value])
    try sink.finish()
  }
}
