/// Updates the entries of a collection's indexes when rows change, in one transaction.
///
/// # The path of a change
/// `willChange` computes the values of the row after the change, reads those that the row has emitted, and throws for
/// values that cannot be entered; `didChange` enters the difference.
///
/// The values of the row before the change are never computed. Decoding it again may give others than those that were
/// entered: a conversion or an initializer may fill a field with another value at each call, a computed property may
/// depend on the time, and an encoder may leave out a field. Entries of such values would stay for ever.
///
/// # Invariants
/// 1. The entries of a row in the indexes that have all rows are those that `emitted` has for it, including the writes
///    of the transaction.
/// 2. A row that is not in `emitted` is in no index.
/// 3. In a unique index that is ready and has no collisions, a value without nil has one row; in a deferred one this
///    holds at the end of each transaction.
final class IndexWriter<Instance: Codable & Sendable> {
  let definition: IndexExtension<Instance>
  /// The owner of this writer.
  private unowned let indexes: IndexesTransaction<Instance>
  private let parts: [Part]
  private let emitted: Part
  private let unindexed: Part
  private let isEmittedCounted: PartSet
  private let isReviewCounted: PartSet
  private let keyLimit: Int
  /// The kinds of the plans by slot, which are needed for each entry: reading them requires no reference counting.
  private let kinds: [ErasedIndex.Kind]

  private let state = StatePointer(State())
  private var isNewIndexed = true
  /// Whether the row was in the indexes before the change, or nil if it has emitted nothing.
  private var wasIndexed: Bool?
  private var isPrepared = false
  /// Whether the transaction has entered values of rows that it did not change: a build passes them, or a review.
  private var hasPassedRows = false
  /// The values that were entered into deferred indexes.
  private var deferred: Set<DeferredValue> = []

  private struct DeferredValue: Hashable {
    let index: Int
    let bytes: [UInt8]
  }

  /// The buffers that are used for each entry of each row.
  private struct State {
    var new = IndexKeys()
    var old = IndexKeys()
    var prepared: [UInt8] = []
    var rowKey: [UInt8] = []
    var entry: [UInt8] = []
  }

  /// The values of the row after the change.
  private var new: IndexKeys {
    @inline(__always) _read { yield state.pointee.new }
    @inline(__always) _modify { yield &state.pointee.new }
  }
  /// The values of the row in the indexes, before the change.
  private var old: IndexKeys {
    @inline(__always) _read { yield state.pointee.old }
    @inline(__always) _modify { yield &state.pointee.old }
  }
  /// The key of the row whose values `willChange` has computed.
  private var prepared: [UInt8] {
    @inline(__always) _read { yield state.pointee.prepared }
    @inline(__always) _modify { yield &state.pointee.prepared }
  }
  /// The key of the current row.
  private var rowKey: [UInt8] {
    @inline(__always) _read { yield state.pointee.rowKey }
    @inline(__always) _modify { yield &state.pointee.rowKey }
  }
  private var entry: [UInt8] {
    @inline(__always) _read { yield state.pointee.entry }
    @inline(__always) _modify { yield &state.pointee.entry }
  }

  init(_ indexes: IndexesTransaction<Instance>) {
    self.indexes = indexes
    definition = indexes.definition
    parts = definition.indexes.indices.map { indexes.part($0) }
    emitted = indexes.part(definition.emittedPart)
    unindexed = indexes.part(definition.unindexedPart)
    isEmittedCounted = PartSet(part: definition.emittedPart)
    isReviewCounted = PartSet(part: definition.reviewPart)
    keyLimit = indexes.context.limits.keySize
    kinds = definition.plans.map(\.kind)
  }

  deinit { state.destroy() }

  // MARK: - Before a change

  func willChange(_ change: borrowing RowChange) throws {
    isPrepared = false
    if change.event == .removed { return }
    note(change.key)
    isNewIndexed = try collectNew(change, isCall: true)
    try readOld(change)
    if definition.hasUnique { try checkUnique() }
    swap(&prepared, &rowKey)
    isPrepared = true
  }

  private func note(_ key: RowKey) {
    rowKey.removeAll(keepingCapacity: true)
    key.withBytes { rowKey.append($0) }
  }

  /// Throws `.notUnique` if a value belongs to another row.
  private func checkUnique() throws {
    for key in new.keys where !key.hasNil {
      let index = definition.plans[key.index]
      guard index.isUnique, !index.isDeferred else { continue }
      if old.keys.contains(where: { $0.index == key.index && new.compare(key, with: old, $0) == 0 }) { continue }
      guard try isEnforced(key.index), let holder = try holder(of: new.bytes(key), in: key.index, beside: rowKey) else {
        continue
      }
      throw notUnique(index, new.bytes(key), rowKey, holder)
    }
  }

  private func notUnique(
    _ index: ErasedIndex, _ value: [UInt8], _ row: [UInt8], _ holder: [UInt8]
  ) -> DatabaseError {
    DatabaseError(
      .notUnique,
      "the value \(KeyText.text(of: value)) of index \"\(index.name)\" belongs to the row \(KeyText.text(of: holder))",
      collection: definition.collection, key: KeyText.text(of: row))
  }

  /// Returns whether the values of a unique index are checked: it has all rows, and had no collisions when it was
  /// built.
  private func isEnforced(_ index: Int) throws -> Bool {
    try parts[index].isReady && indexes.collisions(of: index) == nil
  }

  /// Returns a row with a value, other than `row`, or nil if there is none.
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
    let wasPrepared = isPrepared && change.event != .removed
    isPrepared = false
    note(change.key)
    let parts = change.parts
    if parts.isSuperset(of: isEmittedCounted), parts.isSuperset(of: isReviewCounted) {
      if !wasPrepared || prepared != rowKey {
        isNewIndexed = try collectNew(change)
        try readOld(change)
      }
      return try enterDifference(change)
    }
    // The row is passed by a build, or was not reviewed yet.
    isNewIndexed = try collectNew(change)
    let fresh = parts.isSuperset(of: isEmittedCounted) ? [] : parts
    try replaceEmitted(by: change.newRow, fresh: fresh, isAppended: mayBeAppended(change))
    hasPassedRows = true
  }

  /// Returns whether the transaction may have entered values of the row before. A row that a build passes, or that is
  /// inserted, comes for the first time.
  private func mayBeAppended(_ change: borrowing RowChange) -> Bool {
    change.event != .inserted && (change.facts.wasChanged || hasPassedRows)
  }

  /// Reads the values that the row has emitted.
  private func readOld(_ change: borrowing RowChange) throws {
    old.removeAll()
    wasIndexed = nil
    if change.event == .inserted { return }
    guard let bytes = try emitted.lastValue(of: rowKey, isAppended: mayBeAppended(change)) else { return }
    wasIndexed = try EmittedValues.read(bytes, definition.plans, into: &old)
  }

  /// Removes the emitted values of the row, except from `fresh` parts, which have none of its entries, and enters its
  /// new values.
  private func replaceEmitted(by row: [UInt8]?, fresh: PartSet, isAppended: Bool) throws {
    var isKnown = true
    old.removeAll()
    if let bytes = try emitted.lastValue(of: rowKey, isAppended: isAppended) {
      do {
        _ = try EmittedValues.read(bytes, definition.plans, into: &old)
        try remove(old, exceptIn: fresh)
      } catch let error as DatabaseError where error.code == .corruption && !fresh.isEmpty {
        // A build creates the emitted values again from the row. Entries of the row in other indexes that it no longer
        // has are found by a verification, and removed by a rebuild of those indexes.
        isKnown = false
      }
    }
    for key in new.keys { try put(key, row ?? [], isNew: try isNew(key, fresh: fresh, isKnown: isKnown)) }
    try emit(isRemoved: row == nil)
    try list(isRemoved: row == nil)
  }

  /// Returns whether a counted index does not have a value of the row yet. For other indexes it makes no difference.
  private func isNew(_ key: IndexKeys.Key, fresh: PartSet, isKnown: Bool) throws -> Bool {
    if !kinds[key.index].contains(.counted) || fresh.contains(PartSet(part: key.index)) { return true }
    if isKnown { return !old.keys.contains { $0.index == key.index && new.compare(key, with: old, $0) == 0 } }
    makeEntry(key, of: new)
    return try parts[key.index].get(entry) == nil
  }

  /// Removes the entries that the row no longer has.
  private func remove(_ keys: IndexKeys, exceptIn fresh: PartSet) throws {
    for key in keys.keys where !fresh.contains(PartSet(part: key.index)) {
      if new.keys.contains(where: { $0.index == key.index && new.compare($0, with: keys, key) == 0 }) { continue }
      try delete(key, of: keys)
    }
  }

  /// Enters the values that the row has now and had not before, and removes those that it no longer has.
  private func enterDifference(_ change: borrowing RowChange) throws {
    let isRemoved = change.event == .removed
    var isChanged = isRemoved || wasIndexed != isNewIndexed
    var (oldPosition, newPosition) = (0, 0)
    while oldPosition < old.keys.count || newPosition < new.keys.count {
      let order = order(oldPosition, newPosition)
      if order < 0 {
        try delete(old.keys[oldPosition], of: old)
        oldPosition += 1
        isChanged = true
      } else if order > 0 {
        try put(new.keys[newPosition], change, isNew: true)
        newPosition += 1
        isChanged = true
      } else {
        if kinds[new.keys[newPosition].index].contains(.direct) {
          try put(new.keys[newPosition], change, isNew: false)
        }
        oldPosition += 1
        newPosition += 1
      }
    }
    if isChanged { try emit(isRemoved: isRemoved) }
    if !isNewIndexed || wasIndexed == false { try list(isRemoved: isRemoved) }
  }

  private func order(_ oldPosition: Int, _ newPosition: Int) -> Int {
    if oldPosition == old.keys.count { return 1 }
    if newPosition == new.keys.count { return -1 }
    let (oldKey, newKey) = (old.keys[oldPosition], new.keys[newPosition])
    return oldKey.index == newKey.index ? old.compare(oldKey, with: new, newKey) : oldKey.index - newKey.index
  }

  // MARK: - Entries

  private func put(_ key: IndexKeys.Key, _ change: borrowing RowChange, isNew: Bool) throws {
    try put(key, kinds[key.index].contains(.direct) ? change.storedRow : [], isNew: isNew)
  }

  /// Enters a value of the row. `isNew` says whether the index does not have it yet, which a counted index has to know.
  private func put(_ key: IndexKeys.Key, _ row: [UInt8], isNew: Bool) throws {
    makeEntry(key, of: new)
    let kind = kinds[key.index]
    let content = kind.contains(.direct) ? row : []
    if !kind.contains(.counted) {
      try parts[key.index].put(entry, content)
    } else if isNew {
      try parts[key.index].insert(entry, content)
    } else if kind.contains(.direct) {
      try parts[key.index].put(entry, content)
    }
    if kind.isSuperset(of: [.deferred, .unique]), !key.hasNil {
      deferred.insert(DeferredValue(index: key.index, bytes: new.bytes(key)))
    }
  }

  private func delete(_ key: IndexKeys.Key, of keys: IndexKeys) throws {
    makeEntry(key, of: keys)
    if kinds[key.index].contains(.counted) { return try parts[key.index].remove(entry) }
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
    EmittedValues.write(new, isIndexed: isNewIndexed, definition.plans, to: &entry)
    try emitted.put(rowKey, entry)
  }

  /// Updates the list of rows that are in no index.
  private func list(isRemoved: Bool) throws {
    guard isRemoved || isNewIndexed else { return try unindexed.put(rowKey, Array(failure.utf8)) }
    try unindexed.delete(rowKey)
  }

  // MARK: - Values

  /// The reason why the last row cannot be in the indexes.
  private var failure = ""

  /// Collects the values of the row after the change, and returns false if it cannot be in the indexes. With `isCall`,
  /// throws `.invalidKey` and `.keyTooLong`, which fail the call that changes the row; otherwise the row existed before
  /// the index.
  private func collectNew(_ change: borrowing RowChange, isCall: Bool = false) throws -> Bool {
    let (facts, transaction) = (change.facts, change.transaction)
    new.removeAll()
    do {
      do {
        _ = try facts.withObject(as: Instance.self, in: transaction) { instance in
          try collect(instance, .new(facts, transaction), into: &new)
        }
      } catch let error as DatabaseError where definition.standIn != nil && error.isOfUndecodableRow {
        guard let row = try facts.row(in: transaction) else { throw error }
        try collect(row, error)
      }
      return true
    } catch let error as DatabaseError where isListed(error, isCall) {
      new.removeAll()
      failure = error.description
      return false
    }
  }

  /// Collects the values of a row that was read, like `collectNew(_:isCall:)`.
  private func collectNew(_ row: Row) throws -> Bool {
    new.removeAll()
    do {
      try collect(row)
      return true
    } catch let error as DatabaseError where isListed(error, false) {
      new.removeAll()
      failure = error.description
      return false
    }
  }

  private func collect(_ row: Row) throws {
    let instance: Instance
    do { instance = try row.object(as: Instance.self) } catch let error as DatabaseError
      where definition.standIn != nil && error.isOfUndecodableRow
    { return try collect(row, error) }
    try collect(instance, row)
  }

  /// Collects the values of the stand-in for a row that threw an error. Throws the error if there is none.
  private func collect(_ row: Row, _ error: DatabaseError) throws {
    new.removeAll()
    guard let instance = definition.standIn?(row.undecodable(error)) else { throw error }
    try collect(instance, row)
  }

  private func collect(_ instance: Instance, _ row: Row) throws {
    try unsafe withUnsafePointer(to: instance) {
      try collect(unsafe InstanceAddress(UnsafeRawPointer($0)), .stored(row), into: &new)
    }
  }

  private func isListed(_ error: DatabaseError, _ isCall: Bool) -> Bool {
    guard Self.isOfRow(error) else { return false }
    return !isCall || (error.code != .invalidKey && error.code != .keyTooLong)
  }

  /// Returns whether an error means that a row cannot be in the indexes.
  private static func isOfRow(_ error: DatabaseError) -> Bool {
    switch error.code {
    case .decodingFailed, .unsupportedVersion, .unknownCoder, .invalidKey, .keyTooLong: true
    default: false
    }
  }

  private func collect(_ instance: InstanceAddress, _ row: IndexedRow, into list: inout IndexKeys) throws {
    // Code of the program may run here, so the list is moved out of its field to avoid overlapping access.
    var keys = IndexKeys(empty: ())
    swap(&keys, &list)
    defer { swap(&keys, &list) }
    var slot = 0
    for index in definition.plans {
      defer { slot += 1 }
      if let condition = index.condition, try !condition(instance) { continue }
      do { try index.emit(instance, row, slot, &keys) } catch {
        keys.dropValue()
        if index.skipsInvalid { continue }
        throw refused(error, index)
      }
    }
    let limit = keyLimit - rowKey.count - IndexEntry.sizeSizeMaximum
    for key in keys.keys where key.end - key.start > limit || rowKey.count > IndexEntry.rowKeySizeMaximum {
      throw DatabaseError(
        .keyTooLong,
        "the value of index \"\(definition.plans[key.index].name)\" has \(key.end - key.start) bytes, and beside the key of the row the storage takes \(max(0, limit))",
        collection: definition.collection, key: KeyText.text(of: rowKey))
    }
  }

  private func refused(_ error: any Error, _ index: ErasedIndex) -> any Error {
    guard let error = error as? DatabaseError else { return error }
    return DatabaseError(
      error.code, "the value of index \"\(index.name)\" can't be a key: \(error.message)",
      collection: definition.collection, key: KeyText.text(of: rowKey), cause: error.cause)
  }

  // MARK: - All rows, and rows that were missed

  func removeAll() throws {
    for part in parts { try part.deleteRange(StorageRange()) }
    try emitted.deleteRange(StorageRange())
    try unindexed.deleteRange(StorageRange())
  }

  func didMiss(_ key: RowKey, _ row: Row?) throws {
    isPrepared = false
    rowKey = key.bytes
    new.removeAll()
    isNewIndexed = try row.map { try collectNew($0) } ?? true
    try replaceEmitted(by: row?.storedBytes, fresh: [], isAppended: true)
    hasPassedRows = true
  }

  // MARK: - At the end

  func flush() throws {
    guard !deferred.isEmpty else { return }
    for value in deferred where try isEnforced(value.index) {
      guard let first = try holder(of: value.bytes, in: value.index, beside: nil),
        let second = try holder(of: value.bytes, in: value.index, beside: first)
      else { continue }
      throw notUnique(definition.plans[value.index], value.bytes, second, first)
    }
    deferred.removeAll()
  }

  // MARK: - For a comparison

  /// Returns the values of a row under the current definitions, which are empty for a row that cannot be in the
  /// indexes.
  func values(of row: Row, _ key: [UInt8]) throws -> IndexKeys {
    rowKey = key
    new.removeAll()
    do { try collect(row) } catch let error as DatabaseError where Self.isOfRow(error) {
      new.removeAll()
    }
    return new
  }

  /// Returns whether a row has emitted exactly these values.
  func hasEmitted(_ keys: IndexKeys, _ row: [UInt8]) throws -> Bool {
    guard let bytes = try emitted.committedValue(of: row),
      (try? EmittedValues.read(bytes, definition.plans, into: &old)) != nil
    else { return false }
    return old.keys.count == keys.keys.count
      && zip(old.keys, keys.keys).allSatisfy { $0.index == $1.index && old.compare($0, with: keys, $1) == 0 }
  }
}
