/// What a transaction has written and not committed: read before the snapshot, and the batch of its commit.
///
/// Every key has one entry, its newest, so that a row that is written a hundred times is committed once.
///
/// # Order of a batch
/// The ranges that were cleared come first, then the entries: what was put into a range after it was cleared has
/// an entry, and what was put before has none any more, or one that says so.
///
/// # Savepoints
/// From the first savepoint on, each change notes what it replaced; going back undoes them from the last. So a
/// savepoint costs nothing, and going back what was done since.
///
/// Belongs to one thread at a time.
struct PendingWrites {
  private var families: [PendingFamily] = []
  /// Their numbers. A transaction writes to few families, so that looking through them costs less than hashing.
  private var numbers: [UInt32] = []
  private var undo: [Undo] = []
  private var savepointCount = 0
  /// About how many bytes the batch will take.
  private(set) var byteCount = 0

  private enum Undo {
    /// The first is the index of the family.
    case entry(Int, key: [UInt8], previous: PendingEntry?)
    case cleared(Int, KeyRanges)
  }

  /// What is behind a key and a value in a batch, at most.
  static let entryOverhead = 32

  var isEmpty: Bool { families.allSatisfy(\.isEmpty) }

  // MARK: - Reading

  /// What the transaction says of a key; nil: nothing, the snapshot decides.
  @inline(__always)
  func find(_ key: [UInt8], in family: StorageFamily) -> PendingEntry? {
    guard let index = numbers.firstIndex(of: family.number) else { return nil }
    // In place: out of the array it would be copied, with a reference count for each part.
    return unsafe families.withUnsafeBufferPointer { unsafe $0[index].find(key) }
  }

  /// The entries in a range as they are now, in order, and what was cleared of it.
  mutating func view(of range: StorageRange, in family: StorageFamily) -> PendingView {
    guard let index = numbers.firstIndex(of: family.number) else { return PendingView() }
    return families[index].view(of: range)
  }

  /// The index of a family, which is there from now on.
  @inline(__always)
  private mutating func index(of family: StorageFamily) -> Int {
    if let index = numbers.firstIndex(of: family.number) { return index }
    numbers.append(family.number)
    families.append(PendingFamily(family))
    return families.count - 1
  }

  // MARK: - Writing

  mutating func put(_ key: [UInt8], _ value: [UInt8], in family: StorageFamily) {
    set(key, .put(value), family)
  }

  mutating func delete(_ key: [UInt8], in family: StorageFamily) { set(key, .delete, family) }

  mutating func add(_ number: Int64, to key: [UInt8], in family: StorageFamily) {
    let index = index(of: family)
    let (previous, entry) = families[index].add(number, to: key)
    note(key, previous, entry, index)
  }

  mutating func deleteRange(_ range: StorageRange, in family: StorageFamily) {
    guard !range.isEmpty else { return }
    let isNoted = savepointCount > 0
    let index = index(of: family)
    if isNoted { undo.append(.cleared(index, families[index].cleared)) }
    for (key, previous) in families[index].clear(range) {
      byteCount -= key.count + previous.size + Self.entryOverhead
      if isNoted { undo.append(.entry(index, key: key, previous: previous)) }
    }
  }

  @inline(__always)
  private mutating func set(_ key: [UInt8], _ entry: PendingEntry, _ family: StorageFamily) {
    let index = index(of: family)
    let previous = families[index].set(key, entry)
    note(key, previous, entry, index)
  }

  @inline(__always)
  private mutating func note(_ key: [UInt8], _ previous: PendingEntry?, _ entry: PendingEntry, _ index: Int) {
    byteCount += entry.size
    byteCount += previous.map { -$0.size } ?? key.count + Self.entryOverhead
    if savepointCount > 0 { undo.append(.entry(index, key: key, previous: previous)) }
  }

  // MARK: - Savepoints

  /// A place to go back to. Each is ended once, the last one first.
  mutating func setSavepoint() -> Int {
    savepointCount += 1
    return undo.count
  }

  /// Keeps what was done since.
  mutating func releaseSavepoint() {
    savepointCount -= 1
    if savepointCount == 0 { undo.removeAll() }
  }

  /// Undoes what was done since.
  mutating func rollBack(to savepoint: Int) {
    while undo.count > savepoint {
      switch undo.removeLast() {
      case .entry(let index, let key, let previous):
        let undone = families[index].restore(key, previous)
        byteCount += (previous.map { $0.size + key.count + Self.entryOverhead } ?? 0)
        byteCount -= (undone.map { $0.size + key.count + Self.entryOverhead } ?? 0)
      case .cleared(let index, let ranges): families[index].cleared = ranges
      }
    }
    releaseSavepoint()
  }

  // MARK: - The commit

  /// Everything, for the commit.
  func batch() -> StorageBatch {
    var batch = StorageBatch(capacity: byteCount)
    for pending in families { pending.addRanges(to: &batch) }
    for pending in families { pending.addEntries(to: &batch) }
    return batch
  }

  /// Every key and range that is written, for a commit that is checked.
  func noteWrites(in check: inout StorageCheck) {
    for pending in families { pending.noteWrites(in: &check) }
  }
}

/// What a transaction says of a key.
enum PendingEntry {
  case put([UInt8])
  case delete
  /// The counter of the snapshot, plus this.
  case add(Int64)

  var size: Int {
    switch self {
    case .put(let value): value.count
    case .delete: 0
    case .add: 8
    }
  }
}

/// A stretch of a transaction's writes, as they were at one moment.
package struct PendingView {
  /// In order.
  var entries: [(key: [UInt8], entry: PendingEntry)] = []
  var cleared = KeyRanges()

  /// What it says of a key; nil: nothing.
  func find(_ key: [UInt8]) -> PendingEntry? {
    var low = 0
    var high = entries.count
    while low < high {
      let middle = (low + high) / 2
      if ByteOrder.precedes(entries[middle].key, key) { low = middle + 1 } else { high = middle }
    }
    if low < entries.count, entries[low].key == key { return entries[low].entry }
    return cleared.contains(key) ? .delete : nil
  }
}
