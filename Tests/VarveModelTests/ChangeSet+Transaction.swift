@testable import Varve

extension ChangeSet {
  /// What a transaction has changed so far, as its commit would tell it.
  static func of(_ transaction: WriteTransaction) throws -> ChangeSet? {
    // Something is told even where no row has changed.
    PendingChangeSet(changes: transaction.changes, label: nil, custom: [], time: 0)
      .changeSet(.zero, transaction.database.coding)
  }
}
