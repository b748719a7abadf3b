import ArgumentParser
import VarveEngine

/// How long a command waits for the process that has the database open.
struct PatienceOption: ParsableArguments {
  @Option(
    help: ArgumentHelp(
      "Seconds within which a process that has the database open must begin to answer, from 0.1. (default: 30.0)",
      discussion: "There is no limit for the work itself."))
  var answerWithin: Double?

  func validate() throws {
    guard let answerWithin else { return }
    guard answerWithin >= 0.1, answerWithin <= 86_400 else {
      throw ValidationError("--answer-within is from 0.1 to 86400 seconds")
    }
  }

  var nanoseconds: UInt64 { UInt64((answerWithin ?? 30) * 1e9) }
}

/// Upkeep of a database that may be open in another process: the command does it itself, or asks that process.
struct LiveDatabase {
  let database: DatabaseArgument
  let patience: PatienceOption

  /// What a process that had the database open left when it ended while it carried out a request.
  enum Remainder {
    /// Nothing that counts: the request is made again.
    case nothing
    /// The request may have been carried out. The text says what is certain.
    case unknown(String)
  }

  /// Opens the database for writing and calls `direct`, or sends a request to the process that has it open, whose last
  /// answer `answer` converts.
  func perform<Result>(
    _ request: EngineRequest, ifInterrupted remainder: Remainder, _ bar: (RequestAnswer) -> Void,
    direct: (Engine) throws -> Result, answer: (RequestAnswer) -> Result?
  ) throws -> Result {
    while true {
      do { return try database.writing(direct) } catch let error as EngineError {
        // Other files have locks, too, such as the target of a checkpoint.
        guard error.code == .locked, error.file == database.path + "/LOCK" else { throw error }
      }
      let sender = RequestSender(at: database.path, patience: patience.nanoseconds)
      switch try sender.send(request, progress: bar) {
      case .answer(.failed(let error)): throw error
      case .answer(let found):
        if let result = answer(found) { return result }
        throw ToolError(.cannotOpen, "the process that has the database open has answered another question")
      case .ended(wasTaken: false): continue
      case .ended(wasTaken: true):
        if case .unknown(let text) = remainder {
          throw ToolError(
            .cannotOpen, "the process that had the database open ended while it carried out the request; \(text)",
            file: database.path)
        }
      }
    }
  }

  /// Makes a checkpoint.
  func checkpoint(to target: String) throws -> CheckpointReport {
    try perform(
      .checkpoint(target: Self.absolute(target)),
      ifInterrupted: .unknown("the checkpoint \"\(target)\" is complete, or does not exist"), { _ in },
      direct: { try $0.checkpoint(to: target) },
      answer: { if case .checkpoint(let report) = $0 { report } else { nil } })
  }

  /// Returns the absolute path of a path of this process.
  static func absolute(_ path: String) -> String {
    path.hasPrefix("/") ? path : WorkingDirectory.path + "/" + path
  }
}
