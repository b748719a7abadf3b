/// The simplest extension: closures that are called before and behind changes of rows. It keeps nothing.
///
/// ```swift
/// var hooks = Hooks()
/// hooks.didModify = { tx, row, change in try tx.touchRow(key: "index", in: "pages") }
/// hooks.willRemove = { tx, row in guard isOld(row) else { throw StillNeeded() } }
/// try database.register(hooks, as: "audit")
/// ```
///
/// A `will` closure that throws refuses the operation; a `did` closure that throws dooms the transaction, and may change
/// other rows, of which extensions hear in their turn.
public struct Hooks: DatabaseExtension {
  /// Before a row is set, or its object or metadata replaced. The transaction still has what was.
  public var willModify: (@Sendable (WriteTransaction, Row, RowChange) throws -> Void)?
  /// Behind that, and behind a touch.
  public var didModify: (@Sendable (WriteTransaction, Row, RowChange) throws -> Void)?
  /// Before a row is removed: for each, but not where all rows of all collections are.
  public var willRemove: (@Sendable (WriteTransaction, Row) throws -> Void)?
  /// Behind that.
  public var didRemove: (@Sendable (WriteTransaction, RemovedRow) throws -> Void)?
  /// Before all rows of all collections are removed.
  public var willRemoveAll: (@Sendable (WriteTransaction) throws -> Void)?
  /// Behind that.
  public var didRemoveAll: (@Sendable (WriteTransaction) throws -> Void)?
  /// The collections whose rows it hears of.
  public var scope: CollectionScope

  /// The kind of all hooks.
  public static let kind = "varve.hooks"
  /// Nothing is kept, so there is nothing to rebuild.
  public var versionTag: String { "1" }
  /// It keeps nothing.
  public var isPersistent: Bool { false }
  /// What is there already is not told.
  public var isPopulated: Bool { false }

  /// Without closures yet.
  public init(scope: CollectionScope = .all) { self.scope = scope }

  /// Calls the closures.
  public func makeTransaction(_ context: ExtensionContext) -> HooksTransaction { HooksTransaction(self, context) }
}

/// Calls the closures of `Hooks` in one transaction.
public final class HooksTransaction: ExtensionTransaction {
  /// The extension.
  public typealias Definition = Hooks
  private let hooks: Hooks
  private let context: ExtensionContext

  init(_ hooks: Hooks, _ context: ExtensionContext) {
    self.hooks = hooks
    self.context = context
  }

  /// Calls `willModify`.
  public func willInsert(_ row: Row) throws { try willModify(row, .inserted) }
  /// Calls `willModify`.
  public func willUpdate(_ row: Row) throws { try willModify(row, .updated) }
  /// Calls `willModify`.
  public func willReplaceObject(_ row: Row) throws { try willModify(row, .replacedObject) }
  /// Calls `willModify`.
  public func willReplaceMetadata(_ row: Row) throws { try willModify(row, .replacedMetadata) }
  /// Calls `didModify`.
  public func didInsert(_ row: Row) throws { try didModify(row, .inserted) }
  /// Calls `didModify`.
  public func didUpdate(_ row: Row) throws { try didModify(row, .updated) }
  /// Calls `didModify`.
  public func didReplaceObject(_ row: Row) throws { try didModify(row, .replacedObject) }
  /// Calls `didModify`.
  public func didReplaceMetadata(_ row: Row) throws { try didModify(row, .replacedMetadata) }
  /// Calls `didModify`.
  public func didTouchObject(_ row: Row) throws { try didModify(row, .touchedObject) }
  /// Calls `didModify`.
  public func didTouchMetadata(_ row: Row) throws { try didModify(row, .touchedMetadata) }
  /// Calls `didModify`.
  public func didTouchRow(_ row: Row) throws { try didModify(row, .touchedRow) }

  /// Calls `willRemove`.
  public func willRemove(_ row: Row) throws {
    if let transaction = context.writeTransaction { try hooks.willRemove?(transaction, row) }
  }

  /// Calls `didRemove`.
  public func didRemove(_ key: RowKey, id: RowID) throws {
    if let transaction = context.writeTransaction { try hooks.didRemove?(transaction, RemovedRow(key: key, id: id)) }
  }

  /// Calls `willRemoveAll`.
  public func willRemoveAll() throws {
    if let transaction = context.writeTransaction { try hooks.willRemoveAll?(transaction) }
  }

  /// Calls `didRemoveAll`.
  public func didRemoveAll() throws {
    if let transaction = context.writeTransaction { try hooks.didRemoveAll?(transaction) }
  }

  private func willModify(_ row: Row, _ change: RowChange) throws {
    if let transaction = context.writeTransaction { try hooks.willModify?(transaction, row, change) }
  }

  private func didModify(_ row: Row, _ change: RowChange) throws {
    if let transaction = context.writeTransaction { try hooks.didModify?(transaction, row, change) }
  }
}
