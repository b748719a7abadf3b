/// The indexes of a collection in one transaction: keeps their entries up with the rows.
///
/// # The path of a change
/// `willChange` computes the values of the row as it will be and as it was, and refuses what can't be entered; `didChange`
/// enters the difference. Of a row that was written by the definitions that are in force, the values of the old row are
/// what the indexes have. Of others (it was not reviewed yet, or can't be decoded) it is what the row has emitted.
///
/// # Invariants
/// 1. What the indexes that have all rows hold of a row is what `emitted` says of it, with what the transaction has written.
/// 2. A row that is not in `emitted` is in no index.
/// 3. Of a unique index that is ready and has no collisions, a value without nil has one row; of a deferred one at the end of
///    each transaction.
final class IndexesTransaction<Instance: Codable & Sendable>: ExtensionTransaction {
  typealias Definition = CollectionIndexes<Instance>

  let definition: Definition
  let context: ExtensionContext<Definition>
  let parts: [Part]
  let unindexed: Part
  let collisions: Part
  let emitted: Part
  let numbers: [UInt32]
  private let isEmittedCounted: PartSet
  private let isReviewCounted: PartSet
  private let hasUnique: Bool

  /// Of the row as it will be, and as it was or is in the indexes.
  private var new = IndexKeys()
  private var old = IndexKeys()
  private var isNewIndexed = true
  private var isOldKnown = true
  /// The row that `willChange` has computed values for.
  private var prepared: [UInt8] = []
  private var isPrepared = false
  /// The row that is looked at.
  var rowKey: [UInt8] = []
  private var entry: [UInt8] = []
  /// Values of deferred indexes that were entered.
  private var deferred: Set<DeferredValue> = []
  /// What is known of the collisions of each index.
  var knownCollisions: [Int: IndexCollisions?] = [:]

  private struct DeferredValue: Hashable {
    let index: Int
    let bytes: [UInt8]
  }

  init(_ definition: Definition, _ context: ExtensionContext<Definition>) throws {
    self.definition = definition
    self.context = context
    parts = try definition.indexes.map { try context.part($0.partName) }
    emitted = try context.part("emitted")
    unindexed = try context.part("unindexed")
    collisions = try context.part("collisions")
    numbers = definition.indexes.map(\.number)
    isEmittedCounted = PartSet(part: parts.count)
    isReviewCounted = PartSet(part: parts.count + 3)
    hasUnique = definition.indexes.contains { $0.declaration.kind.isUnique }
  }

  // MARK: - Before a change

  func willChange(_ change: borrowing RowChange) throws {
    isPrepared = false
    guard let row = try change.row else { return }
    change.key.withBytes {
      rowKey.removeAll(keepingCapacity: true)
      rowKey.append($0)
    }
    isNewIndexed = try collect(row, into: &new, isCall: true)
    isOldKnown = try change.old.map { try collectOld($0) } ?? noOld()
    if hasUnique { try checkUnique() }
    swap(&prepared, &rowKey)
    isPrepared = true
  }

  private func noOld() -> Bool {
    old.removeAll()
    return true
  }

  /// Throws `.notUnique` where a value belongs to another row.
  private func checkUnique() throws {
    for key in new.keys where !key.hasNil {
      let index = definition.indexes[key.index]
      guard index.declaration.kind.isUnique, !index.declaration.isDeferred else { continue }
      let isOwn = old.keys.contains { $0.index == key.index && new.compare(key, with: old, $0) == 0 }
      if isOwn && isOldKnown { continue }
      guard try isEnforced(key.index), let holder = try holder(of: new.bytes(key), in: key.index, beside: rowKey) else {
        continue
      }
      throw notUnique(index, new.bytes(key), rowKey, holder)
    }
  }

  private func notUnique(
    _ index: NamedIndex<Instance>, _ value: [UInt8], _ row: [UInt8], _ holder: [UInt8]
  ) -> DatabaseError {
    DatabaseError(
      .notUnique,
      "the value \(KeyText.text(of: value)) of index \"\(index.name)\" belongs to the row \(KeyText.text(of: holder))",
      collection: definition.collection, key: KeyText.text(of: row))
  }

  /// Whether values of a unique index are checked: it has all rows, and had no collisions then.
  private func isEnforced(_ index: Int) throws -> Bool {
    try parts[index].isReady && collisions(of: index) == nil
  }

  /// A row with a value that is another than `row`; nil: none.
  private func holder(of value: [UInt8], in index: Int, beside row: [UInt8]?) throws -> [UInt8]? {
    var range = StorageRange(lower: value, upper: KeyRange.end(ofParts: value))
    while let (key, _) = try parts[index].first(in: range) {
      let found = try unsafe Array(key[IndexEntry.rowKey(in: key.span.bytes)])
      if found != row { return found }
      range.lower = key + [0]
    }
    return nil
  }

  // MARK: - After a change

  func didChange(_ change: borrowing RowChange) throws {
    let isPrepared = isPrepared
    self.isPrepared = false
    change.key.withBytes {
      rowKey.removeAll(keepingCapacity: true)
      rowKey.append($0)
    }
    let parts = change.parts
    if parts.isSuperset(of: isEmittedCounted), parts.isSuperset(of: isReviewCounted) {
      // The old row says what the indexes have.
      if !isPrepared || prepared != rowKey || change.event == .removed {
        isNewIndexed = try change.row.map { try collect($0, into: &new) } ?? noNew()
        isOldKnown = try change.old.map { try collectOld($0) } ?? noOld()
      }
      if !isOldKnown { return try changeUndecodable(change) }
      return try enterDifference(change)
    }
    isNewIndexed = try change.row.map { try collect($0, into: &new) } ?? noNew()
    if parts.isSuperset(of: isEmittedCounted) {
      // The row was not reviewed: it may be in the indexes as it is read now, if this transaction has changed it, and as it
      // was read once.
      if let before = try change.old { _ = try collectOld(before) } else { _ = noOld() }
      try remove(old, exceptIn: [])
      return try replaceEmitted(change, fresh: [])
    }
    // A build gives the row.
    try replaceEmitted(change, fresh: parts)
  }

  private func noNew() -> Bool {
    new.removeAll()
    return true
  }

  /// The old row can't be decoded, and its values are those that it has emitted.
  private func changeUndecodable(_ change: borrowing RowChange) throws { try replaceEmitted(change, fresh: []) }

  /// Removes what the row has emitted, but not from `fresh` parts, which have nothing of it, and enters its new values.
  private func replaceEmitted(_ change: borrowing RowChange, fresh: PartSet) throws {
    try replaceEmitted(by: change.event == .removed ? nil : change.storedRow, fresh: fresh)
  }

  private func replaceEmitted(by row: [UInt8]?, fresh: PartSet) throws {
    if let bytes = try emitted.committedValue(of: rowKey) {
      _ = try EmittedValues.read(bytes, numbers, into: &old)
      try remove(old, exceptIn: fresh)
    }
    for key in new.keys { try put(key, row ?? []) }
    try emit(isRemoved: row == nil)
    try list(isRemoved: row == nil)
  }

  /// Removes entries of the row that it does not have any more.
  private func remove(_ keys: IndexKeys, exceptIn fresh: PartSet) throws {
    for key in keys.keys where !fresh.contains(PartSet(part: key.index)) {
      if new.keys.contains(where: { $0.index == key.index && new.compare($0, with: keys, key) == 0 }) { continue }
      try delete(key, of: keys)
    }
  }

  /// Both rows are decoded: enters what is new and removes what is gone.
  private func enterDifference(_ change: borrowing RowChange) throws {
    var isChanged = change.event == .inserted || change.event == .removed
    var (oldPosition, newPosition) = (0, 0)
    while oldPosition < old.keys.count || newPosition < new.keys.count {
      let order = order(oldPosition, newPosition)
      if order < 0 {
        try delete(old.keys[oldPosition], of: old)
        oldPosition += 1
        isChanged = true
      } else if order > 0 {
        try put(new.keys[newPosition], change)
        newPosition += 1
        isChanged = true
      } else {
        if definition.indexes[new.keys[newPosition].index].declaration.isDirect {
          try put(new.keys[newPosition], change)
        }
        oldPosition += 1
        newPosition += 1
      }
    }
    if isChanged { try emit(isRemoved: change.event == .removed) }
    if !isNewIndexed { try list(isRemoved: false) }
  }

  private func order(_ oldPosition: Int, _ newPosition: Int) -> Int {
    if oldPosition == old.keys.count { return 1 }
    if newPosition == new.keys.count { return -1 }
    let (oldKey, newKey) = (old.keys[oldPosition], new.keys[newPosition])
    return oldKey.index == newKey.index ? old.compare(oldKey, with: new, newKey) : oldKey.index - newKey.index
  }

  // MARK: - Entries

  private func put(_ key: IndexKeys.Key, _ change: borrowing RowChange) throws {
    let isDirect = definition.indexes[key.index].declaration.isDirect
    try put(key, isDirect ? change.storedRow : [])
  }

  private func put(_ key: IndexKeys.Key, _ row: [UInt8]) throws {
    makeEntry(key, of: new)
    let declaration = definition.indexes[key.index].declaration
    try parts[key.index].put(entry, declaration.isDirect ? row : [])
    if declaration.isDeferred, declaration.kind.isUnique, !key.hasNil {
      deferred.insert(DeferredValue(index: key.index, bytes: new.bytes(key)))
    }
  }

  private func delete(_ key: IndexKeys.Key, of keys: IndexKeys) throws {
    makeEntry(key, of: keys)
    try parts[key.index].delete(entry)
  }

  @inline(__always)
  private func makeEntry(_ key: IndexKeys.Key, of keys: IndexKeys) {
    entry.removeAll(keepingCapacity: true)
    keys.withBytes(key) { entry.append($0) }
    IndexEntry.append(rowKey, to: &entry)
  }

  private func emit(isRemoved: Bool) throws {
    if isRemoved { return try emitted.delete(rowKey) }
    EmittedValues.write(new, isIndexed: isNewIndexed, numbers, to: &entry)
    try emitted.put(rowKey, entry)
  }

  /// Brings the list of rows that are in no index up to date.
  private func list(isRemoved: Bool) throws {
    guard isRemoved || isNewIndexed else { return try unindexed.put(rowKey, Array(failure.utf8)) }
    try unindexed.delete(rowKey)
  }

  // MARK: - Values

  /// Why the last row can be in no index.
  private var failure = ""

  /// The values of a row; false where it can be in no index. Where `isCall`, throws `.invalidKey` and `.keyTooLong`, which end
  /// the call that changes the row; where not, the row was there before the index.
  private func collect(_ row: Row, into keys: inout IndexKeys, isCall: Bool = false) throws -> Bool {
    do {
      try collectAll(row, into: &keys)
      return true
    } catch let error as DatabaseError where definition.unindexableRows == .listed && Self.isOfRow(error) {
      if isCall, error.code == .invalidKey || error.code == .keyTooLong { throw error }
      keys.removeAll()
      failure = error.description
      return false
    }
  }

  /// Those of the row as it was.
  private func collectOld(_ row: Row) throws -> Bool {
    do { try collectAll(row, into: &old) } catch let error as DatabaseError where Self.isOfRow(error) { return false }
    return true
  }

  static func isOfRow(_ error: DatabaseError) -> Bool {
    switch error.code {
    case .decodingFailed, .unsupportedVersion, .invalidKey, .keyTooLong: true
    default: false
    }
  }

  func collectAll(_ row: Row, into keys: inout IndexKeys) throws {
    keys.removeAll()
    let instance = try row.object(as: Instance.self)
    for (place, index) in definition.indexes.enumerated() {
      let declaration = index.declaration
      if let condition = declaration.condition, try !condition.holds(for: instance) { continue }
      do { try declaration.emit(instance, row, place, &keys) } catch {
        keys.dropValue()
        if declaration.skipsInvalid { continue }
        throw refused(error, index, row)
      }
    }
    let limit = context.limits.keySize - rowKey.count - IndexEntry.sizeSizeMaximum
    for key in keys.keys where key.end - key.start > limit || rowKey.count > IndexEntry.rowKeySizeMaximum {
      let index = definition.indexes[key.index]
      throw DatabaseError(
        .keyTooLong,
        "the value of index \"\(index.name)\" has \(key.end - key.start) bytes, and beside the key of the row the storage takes \(max(0, limit))",
        collection: definition.collection, key: KeyText.text(of: rowKey))
    }
  }

  private func refused(_ error: any Error, _ index: NamedIndex<Instance>, _ row: Row) -> any Error {
    guard let error = error as? DatabaseError else { return error }
    return DatabaseError(
      error.code, "the value of index \"\(index.name)\" can't be a key: \(error.message)",
      collection: definition.collection, key: row.key.text, cause: error.cause)
  }

  // MARK: - All rows, and rows that were missed

  func removesAll(in collection: String?) throws -> Bool {
    for part in parts { try part.deleteRange(StorageRange()) }
    try emitted.deleteRange(StorageRange())
    try unindexed.deleteRange(StorageRange())
    return true
  }

  func didMiss(_ key: RowKey, _ row: Row?) throws {
    isPrepared = false
    rowKey = key.bytes
    isNewIndexed = try row.map { try collect($0, into: &new) } ?? noNew()
    try replaceEmitted(by: row?.storedBytes, fresh: [])
  }

  // MARK: - At the end

  func flush() throws {
    guard !deferred.isEmpty else { return }
    for value in deferred where try isEnforced(value.index) {
      guard let first = try holder(of: value.bytes, in: value.index, beside: nil),
        let second = try holder(of: value.bytes, in: value.index, beside: first)
      else { continue }
      throw notUnique(definition.indexes[value.index], value.bytes, second, first)
    }
    deferred.removeAll()
  }

  func didFinishBuild() throws {
    for (index, named) in definition.indexes.enumerated() where named.declaration.kind.isUnique {
      if try parts[index].isReady { continue }
      try findCollisions(of: index)
    }
  }
}
