/// Something that keeps data of its own beside the rows, and hears of each change of them: an index, a view,
/// relationships, or what a program writes itself.
///
/// ```swift
/// struct WordCount: DatabaseExtension {
///   static let kind = "com.example.words"
///   let versionTag = "1"
///   func makeTransaction(_ context: ExtensionContext) -> WordCountTransaction { WordCountTransaction(context) }
/// }
/// let words = try await database.register(WordCount(), as: "words")
/// let count = try database.read { tx in try tx[words].count(of: "sea") }
/// ```
///
/// The extension is the configuration: a value, the same for every transaction. What it does in one is its
/// `Transaction`, made when the transaction first needs it.
public protocol DatabaseExtension: Sendable {
  /// What the extension does in a transaction.
  associatedtype Transaction: ExtensionTransaction where Transaction.Definition == Self

  /// The identity of this kind of extension on disk, the same for ever: `"com.example.words"`. Another kind under a name
  /// that is used throws `.extensionMismatch` and changes nothing. Neither empty nor with `=` or U+001F.
  static var kind: String { get }
  /// Changes whenever what the extension keeps would come out otherwise: it is rebuilt then. Neither empty nor with `=`
  /// or U+001F.
  var versionTag: String { get }
  /// Changes with the form of what the extension keeps. Default 1.
  static var layoutVersion: UInt32 { get }
  /// The names of extensions that this one reads: registered before, told of each change before, and with them it
  /// goes. Default none.
  var dependencies: [String] { get }
  /// The collections whose rows it hears of. Default all.
  var scope: CollectionScope { get }
  /// Whether its hooks may run in transactions side by side: they read and write nothing but what belongs to
  /// the row. Default false.
  var isConcurrent: Bool { get }
  /// Whether what it keeps outlives the database's being open. Default true; otherwise it is built at each
  /// registration.
  var isPersistent: Bool { get }
  /// Whether rows that are there already are given to it when it is registered first. Default true.
  var isPopulated: Bool { get }
  /// Whether it can be brought up to date by the keys of the rows that changed while no program had it registered:
  /// then its transaction has `didMiss`, and `didMissRemoval` where it can. Default false: it is built anew then.
  ///
  /// True suits what knows by a row's key all that it keeps of it. Not what needs to see the old object, or the
  /// number of a row that is gone, to take away what it kept: both are gone. One that has `dependencies` is built
  /// anew in any case.
  var catchesUp: Bool { get }
  /// Whether it asks which row has a number (`ExtensionContext.key(of:)`). Default false. As long as an extension that
  /// does is registered, the database keeps that for the rows of all collections, at the cost of a short entry a row.
  var findsRowsByID: Bool { get }

  /// Refuses a registration beside others, by throwing. Default: allows it.
  func check(registered: [String: any DatabaseExtension]) throws
  /// Makes what hears of a transaction's changes, and reads and writes what the extension keeps.
  func makeTransaction(_ context: ExtensionContext) throws -> Transaction
}

extension DatabaseExtension {
  /// The first.
  public static var layoutVersion: UInt32 { 1 }
  /// None.
  public var dependencies: [String] { [] }
  /// All.
  public var scope: CollectionScope { .all }
  /// One transaction at a time.
  public var isConcurrent: Bool { false }
  /// Kept.
  public var isPersistent: Bool { true }
  /// With what is there.
  public var isPopulated: Bool { true }
  /// It is built anew.
  public var catchesUp: Bool { false }
  /// It does not.
  public var findsRowsByID: Bool { false }
  /// Beside any.
  public func check(registered: [String: any DatabaseExtension]) throws {}
}

/// Which collections an extension hears of.
public enum CollectionScope: Sendable, Hashable {
  /// All of them.
  case all
  /// These.
  case only(Set<String>)
  /// All but these.
  case except(Set<String>)

  /// Whether a collection belongs to it.
  public func contains(_ collection: String) -> Bool {
    switch self {
    case .all: true
    case .only(let names): names.contains(collection)
    case .except(let names): !names.contains(collection)
    }
  }
}

/// What an extension does in one transaction. Only the hooks that an extension needs have to be there.
///
/// # Order
/// Extensions hear of a change in the order of their dependencies, and then of their first registration. The
/// `will` hooks come before anything has changed: they may throw, and the operation has not happened; they
/// write nothing. The `did` hooks come behind it: they may write, to what the extension keeps and to rows; one that
/// throws dooms the transaction. A row that a `did` hook writes is there at once, and extensions hear of it when all
/// have heard of the change before.
///
/// # Pending state
/// What is kept in memory until `flushPendingChanges` belongs into `pendingState`, one value: it is copied where
/// a savepoint is set and put back where it is undone.
///
/// It belongs to the thread of its transaction.
public protocol ExtensionTransaction: AnyObject {
  /// The extension.
  associatedtype Definition: DatabaseExtension
  /// What is pending. Default nothing.
  associatedtype PendingState = Void

  /// What is pending, as one value.
  var pendingState: PendingState { get set }

  /// A row is about to be inserted.
  func willInsert(_ row: Row) throws
  /// A row that is there is about to be set. The transaction still has what it was.
  func willUpdate(_ row: Row) throws
  /// The object of a row is about to be replaced.
  func willReplaceObject(_ row: Row) throws
  /// The metadata of a row is about to be replaced.
  func willReplaceMetadata(_ row: Row) throws
  /// A row is about to be removed. It is still there.
  func willRemove(_ row: Row) throws
  /// Several rows of one collection are about to be removed. Default: `willRemove` for each.
  func willRemove(_ rows: [Row]) throws
  /// All rows of all collections are about to be removed.
  func willRemoveAll() throws

  /// A row was inserted.
  func didInsert(_ row: Row) throws
  /// A row that was there was set: object and metadata.
  func didUpdate(_ row: Row) throws
  /// The object of a row was replaced.
  func didReplaceObject(_ row: Row) throws
  /// The metadata of a row was replaced.
  func didReplaceMetadata(_ row: Row) throws
  /// The object of a row was touched.
  func didTouchObject(_ row: Row) throws
  /// The metadata of a row was touched.
  func didTouchMetadata(_ row: Row) throws
  /// A row was touched.
  func didTouchRow(_ row: Row) throws
  /// A row was removed.
  func didRemove(_ key: RowKey, id: RowID) throws
  /// Several rows of one collection were removed. Default: `didRemove` for each.
  func didRemove(_ rows: [RemovedRow]) throws
  /// All rows of all collections were removed.
  func didRemoveAll() throws

  /// A row was changed, inserted or removed when nobody told the extension (`DatabaseExtension.catchesUp`): what it
  /// keeps of the row with this key is to become what it would keep of `row`, which is how it is now; nil: it is not
  /// there. Whether it was there before is not known, and the same row may be told again. Throws what keeps the
  /// registration from succeeding; a later one goes on here.
  func didMiss(_ key: RowKey, row: Row?) throws
  /// All rows of a collection were removed when nobody told the extension: what it keeps of them has to go. Rows that
  /// came since are told behind that, also those that were told before. Returns whether it was able to; where it
  /// wasn't it is built anew. Default false. That all rows of all collections were removed is told by `didRemoveAll`.
  func didMissRemoval(ofAllIn collection: String) throws -> Bool

  /// Writes what is pending, at the end of the transaction, and returns whether it has changed rows. Called again as
  /// long as any extension has.
  func flushPendingChanges() throws -> Bool
  /// What a commit changed, for its change set; nil: nothing.
  func takeChanges() -> (any Sendable)?
  /// The transaction was committed, or had nothing to commit. Of this and `didRollBack` one comes, once, at the end of
  /// each write that has asked for the extension; none at the end of a read.
  func didCommit()
  /// The transaction was rolled back.
  func didRollBack()
}

/// A row that is not there any more.
public struct RemovedRow: Hashable, Sendable {
  /// Which it was.
  public let key: RowKey
  /// The number that it had.
  public let id: RowID
}

extension ExtensionTransaction where PendingState == Void {
  /// Nothing.
  public var pendingState: Void {
    get { () }
    set {}
  }
}

extension ExtensionTransaction {
  /// Nothing.
  public func willInsert(_ row: Row) throws {}
  /// Nothing.
  public func willUpdate(_ row: Row) throws {}
  /// Nothing.
  public func willReplaceObject(_ row: Row) throws {}
  /// Nothing.
  public func willReplaceMetadata(_ row: Row) throws {}
  /// Nothing.
  public func willRemove(_ row: Row) throws {}
  /// `willRemove` for each.
  public func willRemove(_ rows: [Row]) throws { for row in rows { try willRemove(row) } }
  /// Nothing.
  public func willRemoveAll() throws {}
  /// Nothing.
  public func didInsert(_ row: Row) throws {}
  /// Nothing.
  public func didUpdate(_ row: Row) throws {}
  /// Nothing.
  public func didReplaceObject(_ row: Row) throws {}
  /// Nothing.
  public func didReplaceMetadata(_ row: Row) throws {}
  /// Nothing.
  public func didTouchObject(_ row: Row) throws {}
  /// Nothing.
  public func didTouchMetadata(_ row: Row) throws {}
  /// Nothing.
  public func didTouchRow(_ row: Row) throws {}
  /// Nothing.
  public func didRemove(_ key: RowKey, id: RowID) throws {}
  /// `didRemove` for each.
  public func didRemove(_ rows: [RemovedRow]) throws { for row in rows { try didRemove(row.key, id: row.id) } }
  /// Nothing.
  public func didRemoveAll() throws {}
  /// Throws `.invalidArgument`: who catches up has one of its own.
  public func didMiss(_ key: RowKey, row: Row?) throws {
    throw DatabaseError(
      .invalidArgument, "\(Definition.self) says that it catches up, and its transaction has no didMiss(_:row:)")
  }
  /// Not able to.
  public func didMissRemoval(ofAllIn collection: String) throws -> Bool { false }
  /// Nothing is pending.
  public func flushPendingChanges() throws -> Bool { false }
  /// Nothing.
  public func takeChanges() -> (any Sendable)? { nil }
  /// Nothing.
  public func didCommit() {}
  /// Nothing.
  public func didRollBack() {}
}

extension ExtensionTransaction {
  /// What is pending, as a value of any type.
  func savedState() -> Any { pendingState }

  /// Puts it back.
  func restoreState(_ state: Any) {
    if let state = state as? PendingState { pendingState = state }
  }
}
