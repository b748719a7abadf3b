/// What an extension does in one transaction. Only the hooks that an extension needs have to be there.
///
/// # Order
/// Extensions receive a change in the order of their dependencies, and then of their first registration. `willChange`
/// comes before anything has changed: it may throw, and the operation has not happened; it writes nothing. `didChange`
/// comes after it: it may write, to what the extension keeps and to rows; one that throws dooms the transaction. Both
/// come in pairs, row by row; removals of many rows are asked and notified in batches of at most 1,000.
///
/// A row that `didChange` writes is there at once. Extensions with the delivery `.immediate` receive it before the call
/// returns, all others when every extension has received the change before.
///
/// # Fields
/// A field of the transaction survives a savepoint that is undone, unless the extension says `keepsState` and implements
/// `mark` and `rollBack(to:)`. One that was first asked for inside of an undone savepoint is made again. The object goes
/// when the transaction has ended, committed or rolled back.
///
/// It belongs to the thread of its transaction.
public protocol ExtensionTransaction: AnyObject {
  /// The extension.
  associatedtype Definition: DatabaseExtension

  /// A row is about to change. With `Needs.before` only. May throw: then the operation has not happened. A build does not
  /// ask: a rule for rows has to be looked at in `didChange` as well.
  func willChange(_ change: borrowing RowChange) throws
  /// A row has changed.
  func didChange(_ change: borrowing RowChange) throws
  /// All rows of a collection, with nil of all collections, are about to be removed in one step. Removes what the
  /// extension keeps of them, and returns true. False: it receives them one by one. May throw: then the operation has
  /// not happened. Before the rest of them goes, hooks of other extensions may remove some of the rows, and it receives
  /// these removals: whatever it does then must be right although it keeps nothing of the row any more. One that counts
  /// rows without a note of each returns false where others write rows.
  ///
  /// It is also called for an extension that `catchesUp` and missed such a removal. There, false builds it again.
  func removesAll(in collection: String?) throws -> Bool
  /// The rows of which `removesAll` has returned true are gone.
  func didRemoveAll(in collection: String?) throws

  /// An extension that this one depends on has changed in a way that does not change rows
  /// (`ExtensionContext.notifyDependents`).
  func dependencyDidChange(_ name: String, _ change: any Sendable) throws

  /// A row was changed, inserted or removed while no program had the extension registered, or while a build of many rows
  /// went on (`ExtensionConfiguration.catchesUp`): what it keeps of the row with this key is to become what it would keep of
  /// `row`, which is the row as it is now; nil: it is not there. Whether it was there before is not known, and the same
  /// row may come again. An error ends the registration; a later one continues here.
  func didMiss(_ key: RowKey, _ row: Row?) throws

  /// A number for the fields as they are, at each savepoint. With `keepsState` only.
  func mark() -> Int
  /// Puts the fields back to what they were at a mark. With `keepsState` only.
  func rollBack(to mark: Int)

  /// Writes what is pending, at the end of the transaction. Called again as long as rows change meanwhile; in a build
  /// also whenever a change counts for other parts than the one before.
  func flush() throws
  /// All rows were given to the extension, in the transaction that would say that it is ready. An error is that of the
  /// build, which has failed then: what a unique index throws that has met a value twice. Not called where nothing is built:
  /// in a database without rows, and with `build = .none`. Default nothing.
  func didFinishBuild() throws
  /// The storage has taken the commit, which is not durable yet, and the writer is still held: what the commit means for
  /// the shared state. Called once for each commit that has asked for the extension. Default nil.
  func takeDelta(_ version: CommitVersion) -> Definition.Delta?
  /// What the transaction means for observers, for the change set of its commit; nil: nothing. Called once, before the
  /// commit, and only where the change set is observed (`ExtensionContext.isObserved`).
  func takeChanges() -> Definition.Changes?
}

extension ExtensionTransaction {
  /// Nothing.
  public func willChange(_ change: borrowing RowChange) throws {}
  /// Each row is received.
  public func removesAll(in collection: String?) throws -> Bool { false }
  /// Nothing.
  public func didRemoveAll(in collection: String?) throws {}
  /// Nothing.
  public func dependencyDidChange(_ name: String, _ change: any Sendable) throws {}
  /// Throws `.invalidArgument`: an extension that catches up has one of its own.
  public func didMiss(_ key: RowKey, _ row: Row?) throws {
    throw DatabaseError(
      .invalidArgument, "\(Definition.self) says that it catches up, and its transaction has no didMiss(_:_:)")
  }
  /// Zero.
  public func mark() -> Int { 0 }
  /// Nothing.
  public func rollBack(to mark: Int) {}
  /// Nothing.
  public func didFinishBuild() throws {}
  /// Nothing is pending.
  public func flush() throws {}
  /// Nothing.
  public func takeDelta(_ version: CommitVersion) -> Definition.Delta? { nil }
  /// Nothing.
  public func takeChanges() -> Definition.Changes? { nil }
}

extension ExtensionTransaction {
  /// What a commit changed, as a value of any type.
  func takenChanges() -> (any Sendable)? { takeChanges() }
  /// What a commit means for the shared state, as a value of any type.
  func takenDelta(_ version: CommitVersion) -> (any Sendable)? { takeDelta(version) }
}
