/// The entries of an indexed batch for one family: a separate memtable, sorted, with a number for each entry instead of
/// a sequence.
///
/// An entry is never changed or removed. It counts if it was not undone and no newer range delete covers it. Entries
/// that do not count any more stay in the tree until it is rebuilt (`LiveEntries`).
struct PendingFamily {
  let state: FamilyState
  let id: FamilyID
  var table: MemTable
  /// A Boolean value that indicates whether the entries are left out of the commit.
  var isScratch = false
  /// A Boolean value that indicates whether a single delete was added. Then all entries of a key determine which ones a
  /// commit needs.
  var hasSingleDeletes = false
  /// The approximate bytes of operands that were added over an operand since the tree was last rebuilt, including those
  /// undone since.
  var foldableCost = 0

  init(state: FamilyState, table: MemTable) {
    self.state = state
    id = state.id
    self.table = table
  }

  /// Returns the bytes of an entry in the log.
  @inline(__always)
  func size(_ kind: EntryKind, keySize: Int, valueSize: Int) -> Int {
    BatchFormat.entrySize(kind, id, keySize: keySize, valueSize: valueSize)
  }

  /// Returns the size of all entries of the tree. Complexity: one pass.
  func storedSize() -> PendingSize {
    var total = PendingSize()
    table.rangeTombstones.forEachTombstone(above: .zero) { lower, upper, _ in
      total.add(size(.rangeDelete, keySize: lower.count, valueSize: upper.count))
    }
    var iterator = table.makeIterator()
    iterator.seekToFirst()
    while iterator.isValid {
      let kind = iterator.trailer.kind ?? .put
      total.add(size(kind, keySize: iterator.userKey.count, valueSize: iterator.value.count))
      iterator.next()
    }
    return total
  }

  /// Returns whether there is an entry that was not undone.
  func hasEntries(_ undone: UndoneNumbers) -> Bool {
    // Range deletes that were undone are removed.
    if !table.rangeTombstones.isEmpty { return true }
    var iterator = table.makeIterator()
    iterator.seekToFirst()
    while iterator.isValid {
      if !undone.contains(iterator.trailer.sequence) { return true }
      iterator.next()
    }
    return false
  }

  /// Returns the newest entry of a key that counts, among those up to `last`, or `nil` if there is none.
  @inline(__always)
  func newest(_ key: ByteView, at last: SequenceNumber, _ undone: UndoneNumbers) -> MemTableHit? {
    guard let hit = table.newest(key, at: last, undone) else { return nil }
    if table.hasTombstones, table.rangeTombstones.sequence(covering: key, at: last) > hit.trailer.sequence {
      return nil
    }
    return hit
  }

  /// Calls `body` for the entries of a key that count, newest first, until it returns false.
  func forEachEntry(
    of key: ByteView, at last: SequenceNumber, _ undone: UndoneNumbers, _ body: (EntryKind, ByteView) -> Bool
  ) {
    let covered = table.hasTombstones ? table.rangeTombstones.sequence(covering: key, at: last) : .zero
    var hit = table.newest(key, at: last, undone)
    while let found = hit, found.trailer.sequence >= covered, let kind = found.trailer.kind, body(kind, found.value) {
      hit = table.newest(key, at: SequenceNumber(found.trailer.sequence.value - 1), undone)
    }
  }

  /// Returns the size of the entries of a key that a commit needs.
  func living(_ key: ByteView, at last: SequenceNumber, _ undone: UndoneNumbers) -> PendingSize {
    var chain = EntryChain(hasSingleDeletes: hasSingleDeletes)
    var total = PendingSize()
    let keySize = key.count
    forEachEntry(of: key, at: last, undone) { kind, value in
      chain.add(kind)
      if chain.isNewestKept { total.add(size(kind, keySize: keySize, valueSize: value.count)) }
      return !chain.isEnded
    }
    // A single delete without its put takes no value.
    for _ in 0..<chain.waitingCount { total.add(size(.singleDelete, keySize: keySize, valueSize: 0)) }
    return total
  }

  /// Returns the size of the entries of the keys from `lower` (included) to `upper` (excluded) that a commit needs.
  func living(
    from lower: ByteView, to upper: ByteView, at last: SequenceNumber, _ undone: UndoneNumbers
  ) -> PendingSize {
    var total = PendingSize()
    var iterator = table.makeIterator()
    iterator.seek(InternalKey(lower, Trailer(word: .max)))
    while iterator.isValid, iterator.userKey.compare(upper) < 0 {
      let key = iterator.userKey
      total += living(key, at: last, undone)
      repeat { iterator.next() } while iterator.isValid && iterator.userKey == key
    }
    return total
  }
}

/// A number of entries, and their bytes in the log.
struct PendingSize: Equatable, Sendable {
  var count = 0
  var byteCount = 0

  /// The approximate bytes of memory of the entries.
  @inline(__always)
  var cost: Int { byteCount &+ 40 &* count }

  @inline(__always)
  mutating func add(_ bytes: Int) {
    count += 1
    byteCount += bytes
  }

  @inline(__always)
  mutating func remove(_ bytes: Int) {
    count -= 1
    byteCount -= bytes
  }

  static func += (left: inout PendingSize, right: PendingSize) {
    left.count += right.count
    left.byteCount += right.byteCount
  }

  static func -= (left: inout PendingSize, right: PendingSize) {
    left.count -= right.count
    left.byteCount -= right.byteCount
  }
}

/// Determines which entries of one key a commit needs, visiting them from the newest to the oldest.
///
/// - A put or a delete hides everything older.
/// - Merge operands are needed down to the put or delete that they are folded over.
/// - A single delete and the put before it leave nothing: no other reader ever saw the put. A single delete without a
///   put stays, even below a newer put, because it removes a put that was committed before.
struct EntryChain {
  /// A Boolean value that indicates whether the entry added last is needed.
  private(set) var isNewestKept = false
  /// A Boolean value that indicates whether no older entry is needed.
  private(set) var isEnded = false
  /// The number of single deletes without a put so far, 0 or 1. The single delete is needed if no entry is left.
  private(set) var waitingCount = 0
  private var isShadowed = false
  /// A Boolean value that indicates whether the family has single deletes. Without them no entry older than a put
  /// matters.
  private let hasSingleDeletes: Bool

  init(hasSingleDeletes: Bool) { self.hasSingleDeletes = hasSingleDeletes }

  /// A Boolean value that indicates whether no older entry counts. Requires: no single delete was added.
  var hidesOlder: Bool { isShadowed || isEnded }

  mutating func add(_ kind: EntryKind) {
    isNewestKept = false
    if !hasSingleDeletes, kind != .merge { isEnded = true }
    switch kind {
    case .put:
      if waitingCount > 0 {
        waitingCount = 0
      } else if !isShadowed {
        isNewestKept = true
        isShadowed = true
      }
    case .singleDelete: waitingCount = 1
    case .merge: isNewestKept = waitingCount == 0 && !isShadowed
    case .delete, .rangeDelete:
      isNewestKept = !isShadowed
      isEnded = true
    }
  }
}

extension MemTable {
  /// Returns the newest entry of a key that was not undone, among those up to a number.
  ///
  /// Complexity: a search for each interval of undone numbers that has newer entries of the key.
  @inline(__always)
  func newest(_ key: ByteView, at last: SequenceNumber, _ undone: UndoneNumbers) -> MemTableHit? {
    var hit = get(key, at: last)
    if undone.isEmpty { return hit }
    while let found = hit, let interval = undone.interval(around: found.trailer.sequence) {
      guard interval.lowerBound > 0 else { return nil }
      hit = get(key, at: .pending(interval.lowerBound - 1))
    }
    return hit
  }
}
