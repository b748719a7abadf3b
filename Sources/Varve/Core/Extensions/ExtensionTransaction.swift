/// The object of an extension in one transaction. Implement only the hooks that the extension needs.
///
/// # Order
/// Extensions receive a change in the order of their dependencies, and then of their first registration. `willChange`
/// is called before anything has changed. It must not write; if it throws, the operation does not happen. `didChange`
/// is called after the change. It may write to the extension's parts and to rows; if it throws, the transaction is
/// doomed. Both are called in pairs, row by row; for removals of many rows, hooks are asked and notified in batches of
/// at most 1,000.
///
/// A row that `didChange` writes exists at once. Extensions with the delivery `.immediate` receive it before the call
/// returns, and all others after every extension has received the change before.
///
/// # Fields
/// A field of the object survives a savepoint that is undone, unless the extension sets `keepsState` and implements
/// `mark` and `rollBack(to:)`. An object that was first requested inside a savepoint is made again if that savepoint is
/// undone. The object is released when the transaction has ended, committed or rolled back.
///
/// The object belongs to the thread of its transaction.
public protocol ExtensionTransaction: AnyObject {
  /// The extension.
  associatedtype Definition: DatabaseExtension

  /// Receives a change before it happens. Called only with `Needs.before`.
  ///
  /// If it throws, the operation does not happen. A build does not call it: a rule for rows has to be checked in
  /// `didChange` as well.
  func willChange(_ change: borrowing RowChange) throws
  /// Receives a change after it has happened.
  func didChange(_ change: borrowing RowChange) throws
  /// Removes what the extension keeps of all rows of a collection, or of all collections if `collection` is `nil`,
  /// which are about to be removed in one step.
  ///
  /// Returns true if it has done so. Returns false to receive the removals row by row. If it throws, the operation does
  /// not happen. Before the remaining rows are removed, hooks of other extensions may remove some of them, and this
  /// extension receives those removals: it must handle them correctly although it no longer keeps anything of the row.
  /// An extension that counts rows without a note of each therefore returns false if others write rows.
  ///
  /// It is also called for an extension that `catchesUp` and missed such a removal. If it returns false then, the
  /// extension is built again.
  func removesAll(in collection: String?) throws -> Bool
  /// Called after the rows for which `removesAll` returned true have been removed.
  func didRemoveAll(in collection: String?) throws

  /// Receives a change that does not change rows from an extension on which this one depends
  /// (`ExtensionContext.notifyDependents`).
  func dependencyDidChange(_ name: String, _ change: any Sendable) throws

  /// Brings the entries of a missed row up to date: one that was changed, inserted or removed while no program had the
  /// extension registered, or during a build of many rows (`ExtensionConfiguration.catchesUp`).
  ///
  /// Afterwards the extension keeps for `key` what it would keep of `row`, which is the current row, or `nil` if there
  /// is none. Whether the row existed before is not known, and the same row may be passed again. An error ends the
  /// registration; a later registration continues here.
  func didMiss(_ key: RowKey, _ row: Row?) throws

  /// Returns a number that identifies the current state of the fields. Called at each savepoint, and only with
  /// `keepsState`.
  func mark() -> Int
  /// Restores the fields to their state at a mark. Called only with `keepsState`.
  func rollBack(to mark: Int)

  /// Writes what is pending, at the end of the transaction.
  ///
  /// It is called again as long as rows change meanwhile, and in a build also whenever a change counts for other parts
  /// than the one before.
  func flush() throws
  /// Called when all rows were passed to the extension, in the transaction that would mark it as ready.
  ///
  /// If it throws, the build has failed with that error: a unique index that has met a value twice throws here. It is
  /// not called if nothing is built: in a database without rows, and with `build = .none`. The default does nothing.
  func didFinishBuild() throws
  /// Returns the effect of a commit on the shared state.
  ///
  /// It is called once for each commit that has used the extension, after the storage has accepted the commit, which is
  /// not durable yet, and while the writer is still held. Default nil.
  func takeDelta(_ version: CommitVersion) -> Definition.Delta?
  /// Returns the changes of the transaction for observers, for the change set of its commit, or `nil` if there are
  /// none.
  ///
  /// It is called once, before the commit, and only if the change set is observed (`ExtensionContext.isObserved`).
  func takeChanges() -> Definition.Changes?
}

extension ExtensionTransaction {
  /// Does nothing.
  public func willChange(_ change: borrowing RowChange) throws {}
  /// Returns false: the extension receives each row.
  public func removesAll(in collection: String?) throws -> Bool { false }
  /// Does nothing.
  public func didRemoveAll(in collection: String?) throws {}
  /// Does nothing.
  public func dependencyDidChange(_ name: String, _ change: any Sendable) throws {}
  /// Throws `.invalidArgument`: an extension that catches up must implement this method.
  public func didMiss(_ key: RowKey, _ row: Row?) throws {
    throw DatabaseError(
      .invalidArgument, "\(Definition.self) says that it catches up, and its transaction has no didMiss(_:_:)")
  }
  /// Returns zero.
  public func mark() -> Int { 0 }
  /// Does nothing.
  public func rollBack(to mark: Int) {}
  /// Does nothing.
  public func didFinishBuild() throws {}
  /// Does nothing, because nothing is pending.
  public func flush() throws {}
  /// Returns `nil`.
  public func takeDelta(_ version: CommitVersion) -> Definition.Delta? { nil }
  /// Returns `nil`.
  public func takeChanges() -> Definition.Changes? { nil }
}

extension ExtensionTransaction {
  /// Returns `takeChanges()` as a value of any type.
  func takenChanges() -> (any Sendable)? { takeChanges() }
  /// Returns `takeDelta(_:)` as a value of any type.
  func takenDelta(_ version: CommitVersion) -> (any Sendable)? { takeDelta(version) }
}
