/// What a commit will report, as long as its version is not known.
struct PendingChangeSet {
  let changes: ChangeRecorder
  let label: String?
  let custom: [UInt8]?
  let extensions: ExtensionReports
  let time: Int64
  /// Whether there is a gap instead: see `WriteTransaction.cutsFeed`.
  let cutsFeed: Bool
  /// What was written to parts that are observed; nil: none is.
  let parts: PartWrites.Noted?
  /// The rows that were replaced, of collections whose observers compare them, by the numbers of these.
  private let replaced: [UInt32: ByteTable<[UInt8]>]

  /// Of a transaction that is about to be committed. Asks its extensions for their changes, once a transaction, where
  /// someone observes.
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

  /// Of a transaction without extensions.
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

  /// Whether there is nothing to report: what an extension wrote that is being built, for instance. An object that was
  /// given to a commit without changes is something: someone wants it heard.
  var isEmpty: Bool { changes.isEmpty && custom == nil && extensions.isEmpty && !cutsFeed }

  /// What observers of the commit receive.
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
