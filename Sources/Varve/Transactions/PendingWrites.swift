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
  private var families: [UInt32: PendingFamily] = [:]
  private var undo: [Undo] = []
  private var savepointCount = 0
  /// About how many bytes the batch will take.
  private(set) var byteCount = 0

  private enum Undo {
    case entry(UInt32, key: [UInt8], previous: PendingEntry?)
    case cleared(UInt32, KeyRanges)
  }

  /// What is behind a key and a value in a batch, at most.
  static let entryOverhead = 32

  var isEmpty: Bool { families.isEmpty || families.values.allSatisfy(\.isEmpty) }

  // MARK: - Reading

  /// What the transaction says of a key; nil: nothing, the snapshot decides.
  @inline(__always)
  func find(_ key: [UInt8], in family: StorageFamily) -> PendingEntry? { families[family.number]?.find(key) }

  /// The entries in a range as they are now, in order, and what was cleared of it.
  mutating func view(of range: StorageRange, in family: StorageFamily) -> PendingView {
    guard families[family.number] != nil else { return PendingView() }
    return families[family.number]?.view(of: range) ?? PendingView()
  }

  // MARK: - Writing

  mutating func put(_ key: [UInt8], _ value: [UInt8], in family: StorageFamily) {
    set(key, .put(value), family)
  }

  mutating func delete(_ key: [UInt8], in family: StorageFamily) { set(key, .delete, family) }

  mutating func add(_ number: Int64, to key: [UInt8], in family: StorageFamily) {
    switch find(key, in: family) {
    case nil: set(key, .add(number), family)
    case .delete: set(key, .put(StorageBatch.counterBytes(number)), family)
    case .add(let before): set(key, .add(before &+ number), family)
    case .put(let value):
      let before = StorageBatch.counterNumber(value) ?? 0
      set(key, .put(StorageBatch.counterBytes(before &+ number)), family)
    }
  }

  mutating func deleteRange(_ range: StorageRange, in family: StorageFamily) {
    guard !range.isEmpty else { return }
    let isNoted = savepointCount > 0
    let number = family.number
    if isNoted { undo.append(.cleared(number, families[number]?.cleared ?? KeyRanges())) }
    for (key, previous) in families[number, default: PendingFamily(family)].clear(range) {
      byteCount -= key.count + previous.size + Self.entryOverhead
      if isNoted { undo.append(.entry(number, key: key, previous: previous)) }
    }
  }

  @inline(__always)
  private mutating func set(_ key: [UInt8], _ entry: PendingEntry, _ family: StorageFamily) {
    let previous = families[family.number, default: PendingFamily(family)].set(key, entry)
    byteCount += entry.size
    byteCount += previous.map { -$0.size } ?? key.count + Self.entryOverhead
    if savepointCount > 0 { undo.append(.entry(family.number, key: key, previous: previous)) }
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
      case .entry(let number, let key, let previous):
        let undone = families[number]?.restore(key, previous)
        byteCount += (previous.map { $0.size + key.count + Self.entryOverhead } ?? 0)
        byteCount -= (undone.map { $0.size + key.count + Self.entryOverhead } ?? 0)
      case .cleared(let number, let ranges): families[number]?.cleared = ranges
      }
    }
    releaseSavepoint()
  }

  // MARK: - The commit

  /// Everything, for the commit.
  func batch() -> StorageBatch {
    var batch = StorageBatch(capacity: byteCount)
    for pending in families.values { pending.addRanges(to: &batch) }
    for pending in families.values { pending.addEntries(to: &batch) }
    return batch
  }

  /// Every key and range that is written, for a commit that is checked.
  func noteWrites(in check: inout StorageCheck) {
    for pending in families.values { pending.noteWrites(in: &check) }
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
struct PendingView {
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
