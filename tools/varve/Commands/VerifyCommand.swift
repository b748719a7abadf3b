import ArgumentParser
import VarveEngine

/// Checks every checksum, order and count of every file.
struct VerifyCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "verify",
    abstract: "Check every checksum, order and count of every file.",
    discussion: """
      The command prints one line for each fault, with its file and byte. If there is a fault, the exit status is 1. \
      Damage that keeps the database from being opened is a fault, too.

      Example: varve verify /data/example.varve
      """
  )

  @OptionGroup var database: DatabaseArgument
  @OptionGroup var output: OutputOption

  func run() throws {
    let faults: [FaultRow]
    do {
      faults = try database.reading { engine in
        var bar = ProgressBar("verify", isQuiet: output.json)
        defer { bar.end() }
        let report = try engine.verify { bar.show($0.bytesDone, of: $0.bytesTotal) }
        return report.faults.map { FaultRow(file: $0.file, offset: $0.offset, message: $0.message) }
      }
    } catch let error as EngineError where error.code == .corruption {
      faults = [FaultRow(error)]
    }
    let sink = try ByteSink.standardOutput()
    for fault in faults { try output.json ? sink.writeJSON(fault) : sink.writeLine(fault.text) }
    if output.json {
      try sink.writeJSON(Summary(faults: faults.count))
    } else if faults.isEmpty {
      try sink.writeLine("no damage found")
    } else {
      try sink.writeLine("\(faults.count) faults found")
    }
    try sink.finish()
    guard faults.isEmpty else { throw ExitStatus.answerIsNo.asError }
  }

  private struct Summary: Encodable {
    let faults: Int
  }
}

/// A damaged location, as the command prints it.
struct FaultRow: Encodable {
  let file: String?
  let offset: UInt64?
  let message: String

  init(file: String?, offset: UInt64?, message: String) {
    self.file = file
    self.offset = offset
    self.message = message
  }

  init(_ error: EngineError) { self.init(file: error.file, offset: error.offset, message: error.message) }

  /// The fault as text: `FILE:OFFSET: message`.
  var text: String {
    let location = (file ?? "database") + (offset.map { ":\($0)" } ?? "")
    return "\(location): \(message)"
  }
}
