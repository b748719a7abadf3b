/// Restarts a registered extension within a transaction, because what it was built from has changed.
struct ExtensionRenewal {
  private let transaction: WriteTransaction

  init(_ transaction: WriteTransaction) { self.transaction = transaction }

  /// Writes the extension's record with the current versions of its dependencies. Unless `isKept` is true, its content
  /// is emptied and built again after the commit.
  func run(_ other: RegisteredExtension, isShadow: Bool, isKept: Bool) throws {
    let stored = try other.storedRecord(transaction)
    guard var record = isShadow ? stored?.shadow : stored, !record.state.isFailed else { return }
    record.versionTag = try other.traits.fullTag { dependency in
      try transaction.registered[dependency].map { try $0.storedRecord(transaction)?.alone ?? $0.record }
    }
    if !isKept {
      try transaction.empty(other.derivedParts, of: other)
      if other.traits.configuration.build != .none {
        record.restart()
        transaction.setReach(BuildReach(record), of: other)
        transaction.install(ReplacedDefinitions(transaction.registered, transaction.replaced).with(emptied: other))
      }
    }
    try other.save(record, transaction, as: isShadow ? .shadow : .inForce, keepsContent: isKept)
    if isKept { return }
    transaction.onApplied { [core = transaction.database] _ in
      if !isShadow { try? other.share(core) }
      other.set(BuildProgress(rowsDone: 0, rowsTotal: 0))
      ExtensionBuild(core, other).start()
    }
  }
}
