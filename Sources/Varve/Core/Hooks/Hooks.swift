/// The simplest extension: closures that are called before and after changes of rows. It stores no data.
///
/// ```swift
/// var hooks = Hooks()
/// hooks.didModify = { tx, change in try tx.touchRow(key: "index", in: "pages") }
/// hooks.willRemove = { tx, change in guard try isOld(change.old) else { throw StillNeeded() } }
/// try database.register(hooks, as: "audit")
/// ```
///
/// A `will` closure that throws refuses the operation. A `did` closure that throws dooms the transaction. A `did`
/// closure may change other rows; extensions receive those changes in turn.
public struct Hooks: DatabaseExtension {
  /// A closure that receives a change.
  public typealias Closure = @Sendable (WriteTransaction, borrowing RowChange) throws -> Void

  /// Called before a row is set, or its object or metadata is replaced. The transaction still has the previous row.
  public var willModify: Closure?
  /// Called after a row was set, or its object or metadata was replaced, and after a touch.
  public var didModify: Closure?
  /// Called before a row is removed, which is `change.old`.
  ///
  /// It is called for each row, except when all rows of all collections are removed and there is a `willRemoveAll` or
  /// `didRemoveAll`.
  public var willRemove: Closure?
  /// Called after a row was removed. `change.old` is the row as it was.
  public var didRemove: Closure?
  /// Called before all rows of all collections are removed.
  public var willRemoveAll: (@Sendable (WriteTransaction) throws -> Void)?
  /// Called after all rows of all collections were removed.
  public var didRemoveAll: (@Sendable (WriteTransaction) throws -> Void)?
  /// The collections whose changes the hooks receive.
  public var scope: CollectionScope
  fileprivate var pairs: [Pair] = []

  /// Two closures, of which the first passes a value to the second.
  fileprivate struct Pair: Sendable {
    let isRemoval: Bool
    let will: @Sendable (WriteTransaction, borrowing RowChange) throws -> Any
    let did: @Sendable (WriteTransaction, borrowing RowChange, Any) throws -> Void
  }

  /// The kind of all hooks.
  public static let kind = "varve.hooks"

  /// Creates hooks without closures.
  public init(scope: CollectionScope = .all) { self.scope = scope }

  /// Adds two closures for each row that is set, or whose object or metadata is replaced.
  ///
  /// The first is called before the change, and its result is passed to the second, which is called after the change.
  public mutating func aroundModify<Kept>(
    will: @escaping @Sendable (WriteTransaction, borrowing RowChange) throws -> Kept,
    did: @escaping @Sendable (WriteTransaction, borrowing RowChange, Kept) throws -> Void
  ) { add(isRemoval: false, will, did) }

  /// Adds two closures for each row that is removed.
  ///
  /// The first is called before the removal, and its result is passed to the second, which is called after the removal.
  public mutating func aroundRemoval<Kept>(
    will: @escaping @Sendable (WriteTransaction, borrowing RowChange) throws -> Kept,
    did: @escaping @Sendable (WriteTransaction, borrowing RowChange, Kept) throws -> Void
  ) { add(isRemoval: true, will, did) }

  private mutating func add<Kept>(
    isRemoval: Bool, _ will: @escaping @Sendable (WriteTransaction, borrowing RowChange) throws -> Kept,
    _ did: @escaping @Sendable (WriteTransaction, borrowing RowChange, Kept) throws -> Void
  ) {
    pairs.append(
      Pair(
        isRemoval: isRemoval, will: { transaction, change in try will(transaction, change) },
        did: { transaction, change, kept in
          if let kept = kept as? Kept { try did(transaction, change, kept) }
        }))
  }

  /// A configuration that stores nothing, receives no rows that exist already, and lets each closure read the row
  /// before the change.
  @_spi(Extensions) public var configuration: ExtensionConfiguration {
    var configuration = ExtensionConfiguration(version: "1")
    configuration.scope = scope
    configuration.build = .none
    configuration.events = []
    configuration.needs = .oldRows
    if willModify != nil || didModify != nil || pairs.contains(where: { !$0.isRemoval }) {
      configuration.events.formUnion([.inserts, .updates, .metadata])
    }
    if didModify != nil { configuration.events.insert(.touches) }
    let hasRemoveAll = willRemoveAll != nil || didRemoveAll != nil
    if hasRemoveAll || willRemove != nil || didRemove != nil || pairs.contains(where: \.isRemoval) {
      configuration.events.insert(.removals)
    }
    if willModify != nil || willRemove != nil || !pairs.isEmpty { configuration.needs.insert(.before) }
    return configuration
  }

  /// Creates the transaction that calls the closures.
  @_spi(Extensions) public func makeTransaction(_ context: ExtensionContext<Self>) -> HooksTransaction {
    HooksTransaction(self, context)
  }
}

/// Calls the closures of `Hooks` in one transaction.
@_spi(Extensions) public final class HooksTransaction: ExtensionTransaction {
  /// The extension.
  public typealias Definition = Hooks
  private let hooks: Hooks
  private let context: ExtensionContext<Hooks>
  /// The results of the first closures of pairs, by the number of the change and the index of the pair.
  private var kept: [UInt64: [Any]] = [:]

  init(_ hooks: Hooks, _ context: ExtensionContext<Hooks>) {
    self.hooks = hooks
    self.context = context
  }

  /// Calls `willModify` or `willRemove`, and the first closures of pairs.
  public func willChange(_ change: borrowing RowChange) throws {
    guard let transaction = context.writeTransaction else { return }
    let isRemoval = change.event == .removed
    try (isRemoval ? hooks.willRemove : hooks.willModify)?(transaction, change)
    if hooks.pairs.isEmpty { return }
    kept[change.facts.number] = try hooks.pairs.filter { $0.isRemoval == isRemoval }.map {
      try $0.will(transaction, change)
    }
  }

  /// Calls `didModify` or `didRemove`, and the second closures of pairs.
  public func didChange(_ change: borrowing RowChange) throws {
    guard let transaction = context.writeTransaction else { return }
    let isRemoval = change.event == .removed
    try (isRemoval ? hooks.didRemove : hooks.didModify)?(transaction, change)
    guard let kept = kept.removeValue(forKey: change.facts.number) else { return }
    for (pair, kept) in zip(hooks.pairs.filter({ $0.isRemoval == isRemoval }), kept) {
      try pair.did(transaction, change, kept)
    }
  }

  /// Calls `willRemoveAll`. Returns true if the removal of all rows is received as one event: if there is a
  /// `willRemoveAll` or `didRemoveAll` for it, or no closure for a removed row.
  public func removesAll(in collection: String?) throws -> Bool {
    let isPerRow = hooks.willRemove != nil || hooks.didRemove != nil || hooks.pairs.contains(where: \.isRemoval)
    guard collection == nil, let transaction = context.writeTransaction else { return !isPerRow }
    guard hooks.willRemoveAll != nil || hooks.didRemoveAll != nil else { return !isPerRow }
    try hooks.willRemoveAll?(transaction)
    return true
  }

  /// Calls `didRemoveAll`.
  public func didRemoveAll(in collection: String?) throws {
    if collection == nil, let transaction = context.writeTransaction { try hooks.didRemoveAll?(transaction) }
  }
}
