/// What a transaction has changed so far, as its change set will say it.
///
/// Each change notes what it replaced as long as a savepoint is set: going back undoes them from the last.
struct ChangeRecorder {
  private(set) var collections: [UInt32: CollectionChanges] = [:]
  private(set) var isEverythingRemoved = false
  private var undo: [Undo] = []
  private var savepointCount = 0

  private enum Undo {
    case row(UInt32, key: [UInt8], previous: RowState?)
    case collection(UInt32, previous: CollectionChanges?)
    case everything(previous: [UInt32: CollectionChanges], wasRemoved: Bool)
  }

  var isEmpty: Bool { collections.isEmpty && !isEverythingRemoved }

  /// A change of one row; `key` is that of the collection's families.
  mutating func note(_ change: RowChange, _ key: [UInt8], _ info: CollectionInfo) {
    let id = info.record.id
    let previous = collections[id, default: CollectionChanges(info)].note(change, key)
    if savepointCount > 0 { undo.append(.row(id, key: key, previous: previous)) }
  }

  /// All rows of a collection are gone.
  mutating func noteCleared(_ info: CollectionInfo) {
    let id = info.record.id
    if savepointCount > 0 { undo.append(.collection(id, previous: collections[id])) }
    collections[id] = CollectionChanges(info, isCleared: true)
  }

  /// All rows are gone.
  mutating func noteEverythingRemoved(_ infos: [CollectionInfo]) {
    if savepointCount > 0 { undo.append(.everything(previous: collections, wasRemoved: isEverythingRemoved)) }
    isEverythingRemoved = true
    collections = Dictionary(uniqueKeysWithValues: infos.map { ($0.record.id, CollectionChanges($0, isCleared: true)) })
  }

  mutating func setSavepoint() -> Int {
    savepointCount += 1
    return undo.count
  }

  mutating func releaseSavepoint() {
    savepointCount -= 1
    if savepointCount == 0 { undo.removeAll() }
  }

  mutating func rollBack(to savepoint: Int) {
    while undo.count > savepoint {
      switch undo.removeLast() {
      case .row(let id, let key, let previous):
        collections[id]?.restore(key, previous)
        if collections[id]?.isEmpty == true { collections[id] = nil }
      case .collection(let id, let previous): collections[id] = previous
      case .everything(let previous, let wasRemoved):
        collections = previous
        isEverythingRemoved = wasRemoved
      }
    }
    releaseSavepoint()
  }
}

/// What a transaction has changed in one collection.
struct CollectionChanges {
  let info: CollectionInfo
  let isCleared: Bool
  /// By the key in the collection's families.
  private(set) var rows: [[UInt8]: RowState] = [:]

  init(_ info: CollectionInfo, isCleared: Bool = false) {
    self.info = info
    self.isCleared = isCleared
  }

  var isEmpty: Bool { rows.isEmpty && !isCleared }

  /// Returns what was noted of the row before.
  mutating func note(_ change: RowChange, _ key: [UInt8]) -> RowState? {
    let previous = rows[key]
    rows[key] = RowState(change, before: previous)
    return previous
  }

  mutating func restore(_ key: [UInt8], _ previous: RowState?) { rows[key] = previous }
}

/// What a transaction has done to one row, all of it taken together.
struct RowState: Hashable {
  /// Whether it was not there before the transaction.
  var isInserted = false
  /// Whether it is not there behind it.
  var isRemoved = false
  /// Whether the object was set or touched.
  var hasObjectChange = false
  /// Whether the metadata was set or touched.
  var hasMetadataChange = false

  init(_ change: RowChange, before: RowState?) {
    // What was inserted by the transaction and removed again is new when it is set once more.
    isInserted = before.map { $0.isInserted } ?? (change == .inserted)
    isRemoved = change == .removed
    guard !isRemoved else { return }
    let kept = before?.isRemoved == true ? nil : before
    hasObjectChange = change.concernsObject || kept?.hasObjectChange == true
    hasMetadataChange = change.concernsMetadata || kept?.hasMetadataChange == true
  }

  /// As it was stored.
  init?(bits: UInt8) {
    guard bits < 16 else { return nil }
    isInserted = bits & 1 != 0
    isRemoved = bits & 2 != 0
    hasObjectChange = bits & 4 != 0
    hasMetadataChange = bits & 8 != 0
  }

  /// For the feed. On disk: never change.
  var bits: UInt8 {
    (isInserted ? 1 : 0) | (isRemoved ? 2 : 0) | (hasObjectChange ? 4 : 0) | (hasMetadataChange ? 8 : 0)
  }

  /// Whether the object is not what it was.
  var concernsObject: Bool { hasObjectChange || isRemoved }
  /// Whether the metadata is not what it was.
  var concernsMetadata: Bool { hasMetadataChange || isRemoved }
}
