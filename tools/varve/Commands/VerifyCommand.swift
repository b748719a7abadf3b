import ArgumentParser

/// Checks every checksum, order and count of every file.
struct VerifyCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "verify",
    abstract: "Check every checksum, order and count of every file.",
    discussion: """
      The command prints one line for each fault, with its file and byte. If there is a fault, the exit status is 1. \
      Damage that keeps the database from being opened is a fault, too.

      In a database of objects, the entries of counted indexes and of views are compared with their counts as well. A \
      count that is wrong or damaged is a fault with the extension, the part and the range of keys; repair makes it \
      again.

      Example: varve verify /data/example.varve
      """
  )

  @OptionGroup var database: DatabaseArgument
  @OptionGroup var output: OutputOption

  func run() throws {
    let found = try DatabaseVerification(path: database.path, output).run()
    let sink = try ByteSink.standardOutput()
    for fault in found.faults { try output.json ? sink.writeJSON(fault) : sink.writeLine(fault.text) }
    try output.json ? sink.writeJSON(Summary(faults: found.count)) : sink.writeLine(found.text)
    try sink.finish()
    guard found.count == 0 else { throw ExitStatus.answerIsNo.asError }
  }

  private struct Summary: Encodable {
    let faults: Int
  }
}
