/// The change set of a commit whose version is not known yet.
struct PendingChangeSet {
  let changes: ChangeRecorder
  let label: String?
  let custom: [UInt8]?
  let extensions: ExtensionReports
  let time: Int64
  /// Whether a gap is reported instead: see `WriteTransaction.cutsFeed`.
  let cutsFeed: Bool
  /// The writes to observed parts, or `nil` if no part was observed.
  let parts: PartWrites.Noted?
  /// The replaced rows of collections whose observers compare them, by the numbers of the collections.
  private let replaced: [UInt32: ByteTable<[UInt8]>]

  /// Creates the change set of a transaction that is about to be committed. Asks the transaction's extensions for their
  /// changes, once per transaction, if they are observed.
  init(_ transaction: WriteTransaction, time: Int64, isObserved: @autoclosure () -> Bool) {
    changes = transaction.changes
    label = transaction.label
    custom = transaction.custom
    extensions = ExtensionReports(transaction, isObserved: isObserved())
    self.time = time
    cutsFeed = transaction.cutsFeed
    parts = transaction.partWrites?.noted
    replaced = transaction.replacedRows?.noted ?? [:]
  }

  /// Creates the change set of a transaction without extensions.
  init(changes: ChangeRecorder, label: String?, custom: [UInt8]?, time: Int64) {
    self.changes = changes
    self.label = label
    self.custom = custom
    extensions = ExtensionReports()
    self.time = time
    cutsFeed = false
    parts = nil
    replaced = [:]
  }

  /// Whether there is nothing to report, for example because only an extension that is being built has written
  /// something. A custom object is reported even without changes, because observers receive it.
  var isEmpty: Bool { changes.isEmpty && custom == nil && extensions.isEmpty && !cutsFeed }

  /// Returns the change set that observers of the commit receive.
  func changeSet(_ version: CommitVersion, _ coding: ObjectCoding) -> ChangeSet {
    var collections: [String: ChangeSet.Rows] = [:]
    let changed = changes.collections.ordered
    collections.reserveCapacity(changed.count)
    for changed in changed {
      collections[changed.info.name] = ChangeSet.Rows(
        isCleared: changed.isCleared, prefix: changed.info.prefix, states: changed.rows,
        replaced: replaced[changed.info.record.id])
    }
    return ChangeSet(
      version: version, time: time, label: label, isEverythingCleared: changes.isEverythingRemoved,
      isFromFeed: false, collections: collections,
      custom: custom.map { ChangeSet.StoredCustom(bytes: $0, coding: coding) }, extensions: extensions,
      parts: parts)
  }
}
