/// The changes of a transaction so far, in the form of its change set.
///
/// While a savepoint is set, each change also records what it replaced, and a rollback undoes the changes from the last
/// one.
struct ChangeRecorder {
  private(set) var collections = ChangedCollections()
  private(set) var isEverythingRemoved = false
  private var undo: [Undo] = []
  private var savepointCount = 0
  /// The number of changes that were recorded, including undone ones. It differs if anything was changed in between.
  private(set) var changeCount: UInt64 = 0

  private enum Undo {
    /// The change of a row, with the index of its entry.
    case row(UInt32, Int, previous: RowState?)
    case collection(UInt32, previous: CollectionChanges)
    case everything(previous: ChangedCollections, wasRemoved: Bool)
  }

  var isEmpty: Bool { collections.isEmpty && !isEverythingRemoved }

  /// Records a change of one row. `key` is the key in the collection's families.
  mutating func note(_ change: RowChange.Event, _ key: [UInt8], _ info: CollectionInfo) {
    changeCount &+= 1
    let id = info.record.id
    let (previous, index) = collections.change(info) { $0.note(change, key) }
    if savepointCount > 0 { undo.append(.row(id, index, previous: previous)) }
  }

  /// Records that all rows of a collection are removed.
  mutating func noteCleared(_ info: CollectionInfo) {
    changeCount &+= 1
    let previous = collections.change(info) { changes in
      defer { changes = CollectionChanges(info, isCleared: true) }
      return changes
    }
    if savepointCount > 0 { undo.append(.collection(info.record.id, previous: previous)) }
  }

  /// Records that a row is removed together with all rows of its collection. An entry is made only if a hook has
  /// written the row during the removal.
  mutating func noteCleared(_ key: [UInt8], _ info: CollectionInfo) {
    if collections.find(info.record.id)?.rows[key] != nil { note(.removed, key, info) }
  }

  /// Records that all rows of all collections are removed.
  mutating func noteEverythingRemoved(_ infos: [CollectionInfo]) {
    changeCount &+= 1
    if savepointCount > 0 { undo.append(.everything(previous: collections, wasRemoved: isEverythingRemoved)) }
    isEverythingRemoved = true
    collections = ChangedCollections()
    for info in infos { collections.change(info) { $0 = CollectionChanges(info, isCleared: true) } }
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
        collections.change(id) { $0.restore(index, previous) }
      case .collection(let id, let previous): collections.change(id) { $0 = previous }
      case .everything(let previous, let wasRemoved):
        collections = previous
        isEverythingRemoved = wasRemoved
      }
    }
    releaseSavepoint()
  }
}
