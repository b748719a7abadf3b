/// An error of the engine: a code, a message, and the file and offset if they are known.
///
/// A programming error (a family of another engine, use after close of a call that does not throw) is not an
/// `EngineError`: the process stops with a message that says what to do. Damaged bytes, a full disk and a broken disk
/// are always errors.
public struct EngineError: Error, Sendable, CustomStringConvertible {
  /// The class of an error, by which a program decides what to do.
  public struct Code: Hashable, Sendable, CustomStringConvertible {
    private enum Name: String, Sendable {
      case corruption, unsupportedFormat, notFound, alreadyExists, notADatabase, locked, invalidArgument
      case limitExceeded, readOnly, noSpace, inputOutput, familyDropped, unknownFamily, outcomeUnknown
      case permissionDenied, notReadableNow, canceled, mergeFailed, conflict, tooManyOpenFiles, rewound
      case wouldReadFile, closed, noMemory, cursorEnded, busy
    }
    private let name: Name
    private init(_ name: Name) { self.name = name }

    /// The bytes on disk differ from those that were written.
    public static let corruption = Code(.corruption)
    /// The database has a format, or needs a feature, that this version does not know.
    public static let unsupportedFormat = Code(.unsupportedFormat)
    /// A path does not exist.
    public static let notFound = Code(.notFound)
    /// A path exists and should not.
    public static let alreadyExists = Code(.alreadyExists)
    /// The path exists but has no database of this engine.
    public static let notADatabase = Code(.notADatabase)
    /// Another engine, in this process or another, has the database open.
    public static let locked = Code(.locked)
    /// A parameter or option is not valid.
    public static let invalidArgument = Code(.invalidArgument)
    /// A key, value or batch exceeds a limit. Nothing was written.
    public static let limitExceeded = Code(.limitExceeded)
    /// The engine was opened read-only, or became so after an error that `cause` names.
    public static let readOnly = Code(.readOnly)
    /// The disk is full. The batch changed nothing; writes succeed again when space is available.
    public static let noSpace = Code(.noSpace)
    /// The process or the system has no free file descriptor. The batch changed nothing; writes succeed again when a
    /// descriptor is available.
    public static let tooManyOpenFiles = Code(.tooManyOpenFiles)
    /// The operating system reported an input or output error.
    public static let inputOutput = Code(.inputOutput)
    /// The column family was dropped.
    public static let familyDropped = Code(.familyDropped)
    /// No column family has this name.
    public static let unknownFamily = Code(.unknownFamily)
    /// The commit is visible, but its sync failed. It is unknown whether it survives a power loss.
    public static let outcomeUnknown = Code(.outcomeUnknown)
    /// An existing file can't be read now: opening or reading it failed with EPERM or EACCES.
    ///
    /// On iOS this happens for a protected file while the device is locked. It does not mean that the file is damaged,
    /// and the same call succeeds when the file can be read again.
    public static let notReadableNow = Code(.notReadableNow)
    /// The operating system does not permit creating, changing or removing a file or directory.
    public static let permissionDenied = Code(.permissionDenied)
    /// The work was canceled because the engine closes.
    public static let canceled = Code(.canceled)

    /// A key's merge operands can't be folded: the operator refused them, or isn't known.
    public static let mergeFailed = Code(.mergeFailed)
    /// Another commit changed what the transaction has read. Run the transaction again.
    public static let conflict = Code(.conflict)
    /// The followed database lost commits that this follower has read, in a power loss, or was replaced by other files.
    /// Close the follower and follow the database again.
    public static let rewound = Code(.rewound)
    /// The process that writes the database freed segments of its log faster than this reader could read them. The
    /// state that is shown did not change; the same call may succeed later, or at once if this process may write to the
    /// file `SHARED`.
    public static let busy = Code(.busy)
    /// The read needs data that is not in memory. Thrown only inside of `Engine.withoutFileReads`.
    public static let wouldReadFile = Code(.wouldReadFile)

    /// The engine was closed, or this process is a child made by `fork` of the one that opened it.
    public static let closed = Code(.closed)
    /// The system has not enough memory, address space or threads for the call. Nothing was written; a smaller batch,
    /// or the same one later, may succeed.
    public static let noMemory = Code(.noMemory)

    /// The cursor was made after a savepoint of its batch that was then undone.
    public static let cursorEnded = Code(.cursorEnded)

    /// Creates the code with a name, or returns `nil` if no code has it.
    init?(named name: String) {
      guard let name = Name(rawValue: name) else { return nil }
      self.name = name
    }

    /// The name of the code, as in the source.
    public var description: String { name.rawValue }
  }

  /// The class of the error.
  public let code: Code
  /// The description of the error.
  public let message: String
  /// The underlying error.
  public let cause: (any Error)?
  /// The file in which the error occurred.
  public let file: String?
  /// The offset in the file, if known.
  public let offset: UInt64?

  /// The limit that was exceeded, for the object database, which has an error code for each.
  package enum Limit: Sendable { case key, value, batch }
  package private(set) var limit: Limit?

  /// Creates an error. For programs that implement their own `FileSystem`.
  public init(
    _ code: Code, _ message: String, cause: (any Error)? = nil, file: String? = nil, offset: UInt64? = nil
  ) {
    self.code = code
    self.message = message
    self.cause = cause
    self.file = file
    self.offset = offset
  }

  /// Returns a copy of the error with the limit that was exceeded.
  package func exceeding(_ limit: Limit) -> EngineError {
    var copy = self
    copy.limit = limit
    return copy
  }

  /// Returns the error for callers that continue without damaged bytes.
  ///
  /// Throws the error if it does not concern the content of the bytes, because they can't be read now.
  func requireDamage() throws(EngineError) -> EngineError {
    if code == .notReadableNow { throw self }
    return self
  }

  static func corruption(_ message: String, file: String? = nil, offset: UInt64? = nil) -> EngineError {
    EngineError(.corruption, message, file: file, offset: offset)
  }

  /// The text `code: message (file at offset): cause`.
  public var description: String {
    var text = "\(code): \(message)"
    if let file {
      text += " (\(file)"
      if let offset { text += " at byte \(offset)" }
      text += ")"
    }
    if let cause { text += "; because \(cause)" }
    return text
  }
}
