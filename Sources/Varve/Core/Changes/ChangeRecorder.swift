/// What a transaction has changed so far, as its change set will say it.
///
/// Each change notes what it replaced as long as a savepoint is set: going back undoes them from the last.
struct ChangeRecorder {
  private(set) var collections: [UInt32: CollectionChanges] = [:]
  private(set) var isEverythingRemoved = false
  private var undo: [Undo] = []
  private var savepointCount = 0
  /// How many changes were noted, undone ones too: it differs where anything was changed in between.
  private(set) var changeCount: UInt64 = 0

  private enum Undo {
    /// With the index of its entry.
    case row(UInt32, Int, previous: RowState?)
    case collection(UInt32, previous: CollectionChanges?)
    case everything(previous: [UInt32: CollectionChanges], wasRemoved: Bool)
  }

  var isEmpty: Bool { collections.isEmpty && !isEverythingRemoved }

  /// A change of one row; `key` is that of the collection's families.
  mutating func note(_ change: RowChange.Event, _ key: [UInt8], _ info: CollectionInfo) {
    changeCount &+= 1
    let id = info.record.id
    let (previous, index) = collections[id, default: CollectionChanges(info)].note(change, key)
    if savepointCount > 0 { undo.append(.row(id, index, previous: previous)) }
  }

  /// All rows of a collection are gone.
  mutating func noteCleared(_ info: CollectionInfo) {
    changeCount &+= 1
    let id = info.record.id
    if savepointCount > 0 { undo.append(.collection(id, previous: collections[id])) }
    collections[id] = CollectionChanges(info, isCleared: true)
  }

  /// A row is gone with all of its collection. Nothing is said of it but where something was since: by a hook that
  /// wrote it while rows went.
  mutating func noteCleared(_ key: [UInt8], _ info: CollectionInfo) {
    if collections[info.record.id]?.rows[key] != nil { note(.removed, key, info) }
  }

  /// All rows are gone.
  mutating func noteEverythingRemoved(_ infos: [CollectionInfo]) {
    changeCount &+= 1
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
      case .row(let id, let index, let previous):
        collections[id]?.restore(index, previous)
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
  private(set) var rows = ByteTable<RowState>()

  init(_ info: CollectionInfo, isCleared: Bool = false) {
    self.info = info
    self.isCleared = isCleared
  }

  var isEmpty: Bool { rows.isEmpty && !isCleared }

  /// Returns what was noted of the row before, and the index of its entry.
  mutating func note(_ change: RowChange.Event, _ key: [UInt8]) -> (previous: RowState?, index: Int) {
    rows.update(key) { RowState(change, before: $0) }
  }

  mutating func restore(_ index: Int, _ previous: RowState?) { rows.setValue(previous, at: index) }
}
