/// What a transaction has changed so far, as its change set will say it.
///
/// Each change notes what it replaced as long as a savepoint is set: going back undoes them from the last.
struct ChangeRecorder {
  private(set) var collections = ChangedCollections()
  private(set) var isEverythingRemoved = false
  private var undo: [Undo] = []
  private var savepointCount = 0
  /// How many changes were noted, undone ones too: it differs where anything was changed in between.
  private(set) var changeCount: UInt64 = 0

  private enum Undo {
    /// With the index of its entry.
    case row(UInt32, Int, previous: RowState?)
    case collection(UInt32, previous: CollectionChanges)
    case everything(previous: ChangedCollections, wasRemoved: Bool)
  }

  var isEmpty: Bool { collections.isEmpty && !isEverythingRemoved }

  /// A change of one row; `key` is that of the collection's families.
  mutating func note(_ change: RowChange.Event, _ key: [UInt8], _ info: CollectionInfo) {
    changeCount &+= 1
    let id = info.record.id
    let (previous, index) = collections.change(info) { $0.note(change, key) }
    if savepointCount > 0 { undo.append(.row(id, index, previous: previous)) }
  }

  /// All rows of a collection are gone.
  mutating func noteCleared(_ info: CollectionInfo) {
    changeCount &+= 1
    let previous = collections.change(info) { changes in
      defer { changes = CollectionChanges(info, isCleared: true) }
      return changes
    }
    if savepointCount > 0 { undo.append(.collection(info.record.id, previous: previous)) }
  }

  /// A row is gone with all of its collection. Nothing is said of it but where something was since: by a hook that
  /// wrote it while rows went.
  mutating func noteCleared(_ key: [UInt8], _ info: CollectionInfo) {
    if collections.find(info.record.id)?.rows[key] != nil { note(.removed, key, info) }
  }

  /// All rows are gone.
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
