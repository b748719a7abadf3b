import ArgumentParser
import Varve
import VarveEngine

#if canImport(Darwin)
  import Darwin
#else
  import Glibc
#endif

/// What the process ends with. The numbers are a fixed interface: scripts rely on them.
enum ExitStatus: Int32 {
  /// All is well, and the answer is yes.
  case good = 0
  /// Negative answer: the key is absent, or damage was found.
  case answerIsNo = 1
  /// The command line makes no sense.
  case usage = 2
  /// The database or a file can't be opened, read or written.
  case cannotOpen = 3

  /// Thrown by a command that has said all there is to say.
  var asError: ExitCode { ExitCode(rawValue) }

  /// Which status an error of the engine means. A value that no command should have been given is
  /// usage; everything else is the database's state or the system's.
  init(_ error: EngineError) {
    switch error.code {
    case .invalidArgument, .limitExceeded: self = .usage
    default: self = .cannotOpen
    }
  }

  /// Which status an error of the database of objects means.
  init(_ error: DatabaseError) {
    switch (error.code, error.cause) {
    case (_, let cause as EngineError): self.init(cause)
    case (.invalidArgument, _), (.invalidKey, _), (.keyTypeDiffers, _), (.keyTooLong, _), (.valueTooLong, _):
      self = .usage
    default: self = .cannotOpen
    }
  }

  /// Ends the process, with the error on standard error: a line for people, an object with `--json`.
  static func end(with error: any Error, asJSON: Bool) -> Never {
    switch error {
    case let error as EngineError:
      report(ErrorRow(error), asJSON: asJSON)
      exit(ExitStatus(error).rawValue)
    case let error as DatabaseError:
      report(ErrorRow(error), asJSON: asJSON)
      exit(ExitStatus(error).rawValue)
    case let error as ToolError:
      report(ErrorRow(error), asJSON: asJSON)
      exit(error.status.rawValue)
    default:
      endAsParser(with: error)
    }
  }

  /// Help, versions and mistakes on the command line. The parser's own status for usage is 64.
  private static func endAsParser(with error: any Error) -> Never {
    let code = VarveCommand.exitCode(for: error)
    guard code == .validationFailure else { VarveCommand.exit(withError: error) }
    StandardError.write(VarveCommand.fullMessage(for: error) + "\n")
    exit(usage.rawValue)
  }

  private static func report(_ row: ErrorRow, asJSON: Bool) {
    StandardError.write(asJSON ? JSONText.line(row) + "\n" : "varve: \(row.text)\n")
  }
}

/// What went wrong outside the engine, with the status that it means.
struct ToolError: Error {
  let status: ExitStatus
  let message: String
  let file: String?

  init(_ status: ExitStatus, _ message: String, file: String? = nil) {
    self.status = status
    self.message = message
    self.file = file
  }

  /// A system call failed.
  static func system(_ call: String, file: String) -> ToolError {
    let number = errno
    let text = unsafe String(cString: strerror(number))
    return ToolError(.cannotOpen, "\(call) failed: \(text)", file: file)
  }
}

/// An error as one object: what `--json` prints on standard error.
struct ErrorRow: Encodable {
  struct Detail: Encodable {
    let code: String
    let message: String
    var file: String?
    var offset: UInt64?
    /// What an error of the database of objects is about.
    var collection: String?
    var key: String?
  }
  let error: Detail

  init(_ error: EngineError) {
    var message = error.message
    if let cause = error.cause { message += "; because \(cause)" }
    self.error = Detail(code: error.code.description, message: message, file: error.file, offset: error.offset)
  }

  init(_ error: DatabaseError) {
    // If the engine failed, its own message and location say more than what this layer adds.
    if let cause = error.cause as? EngineError, error.collection == nil {
      self.init(cause)
      return
    }
    var message = error.message
    if let reason = error.reason { message += "; because \(reason)" }
    self.init(
      Detail(code: error.code.description, message: message, collection: error.collection, key: error.key))
  }

  /// Of an error whatever it is.
  init(any error: any Error) {
    switch error {
    case let error as DatabaseError: self.init(error)
    case let error as EngineError: self.init(error)
    case let error as ToolError: self.init(error)
    default: self.init(Detail(code: "tool", message: "\(error)"))
    }
  }

  private init(_ detail: Detail) { error = detail }

  init(_ error: ToolError) {
    let code = error.status == .usage ? "usage" : "tool"
    self.error = Detail(code: code, message: error.message, file: error.file, offset: nil)
  }

  var text: String {
    var text = error.message
    if let file = error.file {
      text += " (\(file)"
      if let offset = error.offset { text += " at byte \(offset)" }
      text += ")"
    }
    let location = [
      error.collection.map { "collection \"\(PrintableText.text(Array($0.utf8)))\"" }, error.key.map { "key \($0)" },
    ].compactMap(\.self)
    if !location.isEmpty { text += " (\(location.joined(separator: ", ")))" }
    return text
  }
}
