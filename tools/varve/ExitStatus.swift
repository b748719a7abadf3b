import ArgumentParser
import Varve
import VarveEngine

#if canImport(Darwin)
  import Darwin
#else
  import Glibc
#endif

/// The exit status of the process. The numbers are a fixed interface: scripts rely on them.
enum ExitStatus: Int32 {
  /// Success, or a positive answer.
  case good = 0
  /// A negative answer: the key is absent, or damage was found.
  case answerIsNo = 1
  /// The command line is not valid.
  case usage = 2
  /// The database or a file can't be opened, read or written.
  case cannotOpen = 3

  /// The error that a command throws after it has reported everything itself.
  var asError: ExitCode { ExitCode(rawValue) }

  /// Creates the status of an engine error.
  ///
  /// A value that should not have been passed to a command is a usage error. All other errors concern the state of the
  /// database or of the system.
  init(_ error: EngineError) {
    switch error.code {
    case .invalidArgument, .limitExceeded: self = .usage
    default: self = .cannotOpen
    }
  }

  /// Creates the status of an error of the object database.
  init(_ error: DatabaseError) {
    switch (error.code, error.cause) {
    case (_, let cause as EngineError): self.init(cause)
    case (.invalidArgument, _), (.invalidKey, _), (.keyTypeDiffers, _), (.keyTooLong, _), (.valueTooLong, _):
      self = .usage
    default: self = .cannotOpen
    }
  }

  /// Reports the error on standard error, as a line for people or as an object with `--json`, and ends the process.
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

  /// Ends the process after a request for help or the version, or an error on the command line.
  ///
  /// The parser's own status for usage errors is 64.
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

/// An error outside the engine, with its exit status.
struct ToolError: Error {
  let status: ExitStatus
  let message: String
  let file: String?

  init(_ status: ExitStatus, _ message: String, file: String? = nil) {
    self.status = status
    self.message = message
    self.file = file
  }

  /// Returns the error for a failed system call, with the text of `errno`.
  static func system(_ call: String, file: String) -> ToolError {
    let number = errno
    let text = unsafe String(cString: strerror(number))
    return ToolError(.cannotOpen, "\(call) failed: \(text)", file: file)
  }
}

/// An error as one JSON object, as `--json` prints it on standard error.
struct ErrorRow: Encodable {
  struct Detail: Encodable {
    let code: String
    let message: String
    var file: String?
    var offset: UInt64?
    /// The collection that an error of the object database concerns.
    var collection: String?
    var key: String?
  }
  let error: Detail

  init(_ error: EngineError) {
    // The engine's message names an option of the engine, which the tool does not have.
    if error.code == .notFound, error.message.hasPrefix("no database exists here"), let path = error.file {
      self.error = Detail(code: error.code.description, message: "no database exists at \"\(path)\"")
      return
    }
    var message = error.message
    if let cause = error.cause { message += "; because \(cause)" }
    self.error = Detail(code: error.code.description, message: message, file: error.file, offset: error.offset)
  }

  init(_ error: DatabaseError) {
    // If the engine failed, its message and location are more specific than those of this layer.
    if let cause = error.cause as? EngineError, error.collection == nil {
      self.init(cause)
      return
    }
    var message = error.message
    if let reason = error.reason { message += "; because \(reason)" }
    self.init(
      Detail(code: error.code.description, message: message, collection: error.collection, key: error.key))
  }

  /// Creates the object for an error of any type.
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
      error.collection.map { "collection \"\(PrintableText.text($0))\"" }, error.key.map { "key \($0)" },
    ].compactMap(\.self)
    if !location.isEmpty { text += " (\(location.joined(separator: ", ")))" }
    return text
  }
}
