/// Why the database could not do what it was asked.
///
/// Every code stands in one table, in the article *Errors* of the documentation. What an error is about is
/// named: the collection, the key as the tool prints it, the error below.
public struct DatabaseError: Error, Sendable, CustomStringConvertible {
  /// The class of an error: what a program decides by.
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

    /// A rule needs the object of a row whose collection the program did not define.
    public static let typeNotDefined = Code(.typeNotDefined)
    /// A collection, a key of the definition or an extension's name is defined twice.
    public static let alreadyDefined = Code(.alreadyDefined)
    /// The definition contradicts itself.
    public static let invalidDefinition = Code(.invalidDefinition)
    /// What is on disk was made by another definition.
    public static let definitionDiffers = Code(.definitionDiffers)
    /// A key is longer than the storage takes, as it is encoded; also in a look-up. Nothing was written.
    public static let keyTooLong = Code(.keyTooLong)
    /// A value is longer than the storage takes. Nothing was written.
    public static let valueTooLong = Code(.valueTooLong)
    /// A transaction has more bytes than the storage takes in one commit. Nothing was written.
    public static let batchTooLarge = Code(.batchTooLarge)
    /// A value can't be a key: a NaN, for instance; or bytes are no key.
    public static let invalidKey = Code(.invalidKey)
    /// A key is of another type than the keys of its collection.
    public static let keyTypeDiffers = Code(.keyTypeDiffers)
    /// An object or its metadata can't be encoded. Nothing was written.
    public static let encodingFailed = Code(.encodingFailed)
    /// A row can't be decoded as the type that was asked for.
    public static let decodingFailed = Code(.decodingFailed)
    /// A row, a collection or the database was written by a version that this program does not know.
    public static let unsupportedVersion = Code(.unsupportedVersion)
    /// A row or a collection was written by a coder of a program's own that this program has not named.
    public static let unknownCoder = Code(.unknownCoder)
    /// The transaction has ended.
    public static let transactionEnded = Code(.transactionEnded)
    /// The cursor was made inside a savepoint, or a nested write, that was undone since.
    public static let cursorEnded = Code(.cursorEnded)
    /// The writer was waited for longer than `writerTimeout`.
    public static let writerBusy = Code(.writerBusy)
    /// A write was begun inside of a read on the same thread.
    public static let writeInsideRead = Code(.writeInsideRead)
    /// An extension failed after a change, so the transaction can't be committed any more.
    public static let doomed = Code(.doomed)
    /// Extensions changed rows for 64 rounds, or their hooks made a million changes in one transaction.
    public static let doesNotSettle = Code(.doesNotSettle)
    /// What a concurrent write read was changed meanwhile, again and again.
    public static let conflict = Code(.conflict)
    /// The database was opened read-only, or follows another process; or the log could not be made durable, and the storage
    /// takes nothing more. Nothing was written.
    public static let readOnly = Code(.readOnly)
    /// There is already what was to be inserted.
    public static let alreadyExists = Code(.alreadyExists)
    /// There is not what was to be changed or opened.
    public static let notFound = Code(.notFound)
    /// An extension is being built.
    public static let notReady = Code(.notReady)
    /// No extension is registered by this name.
    public static let unknownExtension = Code(.unknownExtension)
    /// An extension of another kind has the name.
    public static let extensionMismatch = Code(.extensionMismatch)
    /// The build of an extension failed, before the database was opened.
    public static let extensionFailed = Code(.extensionFailed)
    /// The closure of the write called `rollback()`. Nothing was committed.
    public static let rolledBack = Code(.rolledBack)
    /// Whether the commit happened, or survives a loss of power, is not known.
    public static let outcomeUnknown = Code(.outcomeUnknown)
    /// The storage does not keep the snapshot that is read any more, or a part that is read was built again or dropped after it.
    public static let snapshotTooOld = Code(.snapshotTooOld)
    /// Another process, or another part of this one, has the database open for writing.
    public static let locked = Code(.locked)
    /// A file is where the directory of the database should be.
    public static let pathIsFile = Code(.pathIsFile)
    /// The directory is there, and holds something else than a database of objects.
    public static let notADatabase = Code(.notADatabase)
    /// A condition is nested too deeply, or has too many terms when it is written out.
    public static let queryTooComplex = Code(.queryTooComplex)
    /// No index serves a query, and it does not say that it may read every instance.
    public static let notIndexed = Code(.notIndexed)
    /// A query sorts more than fits into the memory that it may use.
    public static let sortTooLarge = Code(.sortTooLarge)
    /// The fields that a query is sorted by had other types when its cursor was made.
    public static let cursorExpired = Code(.cursorExpired)
    /// A sum of integers is beyond what their type has.
    public static let sumTooLarge = Code(.sumTooLarge)
    /// Another row has the value of a unique index; or rows that were there before the index have one value, and `cause` is an
    /// `IndexCollisions`.
    public static let notUnique = Code(.notUnique)
    /// An edge that may not dangle leads to a row that does not exist, or begins at one.
    public static let danglingEdge = Code(.danglingEdge)
    /// The storage failed; `cause` says how.
    public static let storage = Code(.storage)
    /// A file of the database is there, and can't be read now: on iOS, because the device is locked. Nothing is damaged, and
    /// the same call succeeds when the file can be read again.
    public static let notReadableNow = Code(.notReadableNow)
    /// Bytes in the storage are not what was written there.
    public static let corruption = Code(.corruption)
    /// The database was closed.
    public static let closed = Code(.closed)
    /// A parameter or option has no meaning.
    public static let invalidArgument = Code(.invalidArgument)

    /// The name of the code, as in the source.
    public var description: String { name.rawValue }
  }

  /// The class of the error.
  public let code: Code
  /// What happened, in words.
  public let message: String
  /// The collection that it is about.
  public let collection: String?
  /// The key that it is about, as text: `"a"`, `42`, `("a", 1)`.
  public let key: String?
  /// The error below this one.
  public let cause: (any Error)?

  /// Makes an error. Extensions and key types of a program need this.
  public init(
    _ code: Code, _ message: String, collection: String? = nil, key: String? = nil, cause: (any Error)? = nil
  ) {
    self.code = code
    self.message = message
    self.collection = collection
    self.key = key
    self.cause = cause
  }

  /// `code: message (collection "c", key k); because cause`. A cause that the message has in full is not repeated.
  public var description: String {
    var text = "\(code): \(message)"
    let location = [collection.map { "collection \"\($0)\"" }, key.map { "key \($0)" }].compactMap(\.self)
    if !location.isEmpty { text += " (\(location.joined(separator: ", ")))" }
    if let reason { text += "; because \(reason)" }
    return text
  }

  /// What the cause says; nil where there is none, or the message says it already.
  package var reason: String? {
    guard let cause else { return nil }
    let text = "\(cause)"
    return text.hasSuffix(message) ? nil : text
  }
}
