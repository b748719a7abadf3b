/// An error of the database.
///
/// All codes are listed in a table in the article *Errors* of the documentation. An error names the collection and the
/// key it is about, the latter as the tool prints it, and has the underlying error as its cause.
public struct DatabaseError: Error, Sendable, CustomStringConvertible {
  /// The class of an error, by which a program decides how to handle it.
  public struct Code: Hashable, Sendable, CustomStringConvertible {
    enum Name: String, Sendable, CaseIterable {
      case typeNotDefined, alreadyDefined, invalidDefinition, definitionDiffers
      case keyTooLong, valueTooLong, batchTooLarge, invalidKey, keyTypeDiffers
      case encodingFailed, decodingFailed, unsupportedVersion, unknownCoder
      case transactionEnded, cursorEnded, writerBusy, writeInsideRead, doomed, doesNotSettle, conflict, readOnly
      case alreadyExists, notFound, notReady, unknownExtension, extensionMismatch, extensionFailed, rolledBack
      case locked, pathIsFile, notADatabase
      case danglingEdge
      case queryTooComplex, notUnique, notIndexed, sortTooLarge, cursorExpired, sumTooLarge
      case outcomeUnknown, snapshotTooOld, storage, notReadableNow, corruption, closed, invalidArgument
    }
    let name: Name
    init(_ name: Name) { self.name = name }

    /// A rule needs the object of a row whose collection the program has not defined.
    public static let typeNotDefined = Code(.typeNotDefined)
    /// A collection, a key of the definition or an extension's name is defined twice.
    public static let alreadyDefined = Code(.alreadyDefined)
    /// The definition contradicts itself.
    public static let invalidDefinition = Code(.invalidDefinition)
    /// The content on disk was created by another definition.
    public static let definitionDiffers = Code(.definitionDiffers)
    /// An encoded key exceeds the limit of the storage; this is also thrown by lookups. Nothing was written.
    public static let keyTooLong = Code(.keyTooLong)
    /// A value exceeds the limit of the storage. Nothing was written.
    public static let valueTooLong = Code(.valueTooLong)
    /// A transaction exceeds the size limit of the storage for a commit. Nothing was written.
    public static let batchTooLarge = Code(.batchTooLarge)
    /// A value cannot be a key, such as a NaN, or bytes are not a key.
    public static let invalidKey = Code(.invalidKey)
    /// A key is of another type than the keys of its collection.
    public static let keyTypeDiffers = Code(.keyTypeDiffers)
    /// An object or its metadata cannot be encoded. Nothing was written.
    public static let encodingFailed = Code(.encodingFailed)
    /// A row cannot be decoded as the requested type.
    public static let decodingFailed = Code(.decodingFailed)
    /// A row, a collection or the database was written by a version that this program does not know.
    public static let unsupportedVersion = Code(.unsupportedVersion)
    /// A row or a collection was written by a coder of a program that this program has not named.
    public static let unknownCoder = Code(.unknownCoder)
    /// The transaction has ended.
    public static let transactionEnded = Code(.transactionEnded)
    /// The cursor was created inside a savepoint, or a nested write, that was rolled back since.
    public static let cursorEnded = Code(.cursorEnded)
    /// The wait for the writer exceeded `writerTimeout`.
    public static let writerBusy = Code(.writerBusy)
    /// A write was begun inside a read on the same thread.
    public static let writeInsideRead = Code(.writeInsideRead)
    /// An extension failed after a change, so the transaction can no longer be committed.
    public static let doomed = Code(.doomed)
    /// Extensions changed rows for 64 rounds, or their hooks made a million changes in one transaction.
    public static let doesNotSettle = Code(.doesNotSettle)
    /// The data that a concurrent write had read was changed meanwhile, repeatedly.
    public static let conflict = Code(.conflict)
    /// The database was opened read-only, or follows another process; or the log could not be made durable, and the
    /// storage accepts no further writes. Nothing was written.
    public static let readOnly = Code(.readOnly)
    /// The item that was to be inserted already exists.
    public static let alreadyExists = Code(.alreadyExists)
    /// The item that was to be changed or opened does not exist.
    public static let notFound = Code(.notFound)
    /// An extension is being built.
    public static let notReady = Code(.notReady)
    /// No extension is registered under this name.
    public static let unknownExtension = Code(.unknownExtension)
    /// An extension of another kind has this name.
    public static let extensionMismatch = Code(.extensionMismatch)
    /// The build of an extension failed, before the database was opened.
    public static let extensionFailed = Code(.extensionFailed)
    /// The closure of the write called `rollBack()`. Nothing was committed.
    public static let rolledBack = Code(.rolledBack)
    /// It is not known whether the commit happened, or survives a loss of power.
    public static let outcomeUnknown = Code(.outcomeUnknown)
    /// The storage no longer keeps the snapshot that is read, or a part that is read was built again or dropped after
    /// it.
    public static let snapshotTooOld = Code(.snapshotTooOld)
    /// Another process, or another part of this one, has the database open for writing.
    public static let locked = Code(.locked)
    /// A file exists at the path of the database's directory.
    public static let pathIsFile = Code(.pathIsFile)
    /// The directory exists, but does not contain an object database.
    public static let notADatabase = Code(.notADatabase)
    /// A condition is nested too deeply, or has too many terms when it is expanded.
    public static let queryTooComplex = Code(.queryTooComplex)
    /// No index serves a query, and the query does not permit reading every instance.
    public static let notIndexed = Code(.notIndexed)
    /// A query sorts more keys than its memory limit allows.
    public static let sortTooLarge = Code(.sortTooLarge)
    /// The fields that a query is sorted by had other types when its cursor was made.
    public static let cursorExpired = Code(.cursorExpired)
    /// A sum of integers exceeds the range of their type.
    public static let sumTooLarge = Code(.sumTooLarge)
    /// Another row has the same value of a unique index; or several rows from before the index have the same value, in
    /// which case `cause` is an `IndexCollisions`.
    public static let notUnique = Code(.notUnique)
    /// An edge that must not dangle begins or ends at a row that does not exist.
    public static let danglingEdge = Code(.danglingEdge)
    /// The storage failed; `cause` has the reason.
    public static let storage = Code(.storage)
    /// A file of the database exists, but cannot be read at present: on iOS, because the device is locked. Nothing is
    /// damaged, and the same call succeeds when the file can be read again.
    public static let notReadableNow = Code(.notReadableNow)
    /// Bytes in the storage differ from those that were written.
    public static let corruption = Code(.corruption)
    /// The database was closed.
    public static let closed = Code(.closed)
    /// A parameter or option has an invalid value.
    public static let invalidArgument = Code(.invalidArgument)

    /// The name of the code in the source.
    public var description: String { name.rawValue }
  }

  /// The class of the error.
  public let code: Code
  /// A description of the error.
  public let message: String
  /// The collection that the error is about.
  public let collection: String?
  /// The key that the error is about, as text: `"a"`, `42`, `("a", 1)`.
  public let key: String?
  /// The underlying error.
  public let cause: (any Error)?

  /// Creates an error. Extensions and key types of a program use this.
  public init(
    _ code: Code, _ message: String, collection: String? = nil, key: String? = nil, cause: (any Error)? = nil
  ) {
    self.code = code
    self.message = message
    self.collection = collection
    self.key = key
    self.cause = cause
  }

  /// A text such as `code: message (collection "c", key k); because cause`. A cause that the message fully contains is
  /// not repeated.
  public var description: String {
    var text = "\(code): \(message)"
    let location = [collection.map { "collection \"\($0)\"" }, key.map { "key \($0)" }].compactMap(\.self)
    if !location.isEmpty { text += " (\(location.joined(separator: ", ")))" }
    if let reason { text += "; because \(reason)" }
    return text
  }

  /// The text of the cause, or nil if there is none or the message contains it already.
  package var reason: String? {
    guard let cause else { return nil }
    let text = "\(cause)"
    return text.hasSuffix(message) ? nil : text
  }
}
