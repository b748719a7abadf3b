@testable import Varve

extension ChangeSet {
  /// The transaction's changes so far, as its commit would report them.
  static func of(_ transaction: WriteTransaction) throws -> ChangeSet? {
    // The change set exists even if no row has changed.
    PendingChangeSet(changes: transaction.changes, label: nil, custom: [], time: 0)
      .changeSet(.zero, transaction.database.coding)
  }
}
