internal import Synchronization

/// The sorted write buffer of one column family: a B+tree over records in an arena.
///
/// A cache-conscious B+tree inserts four times faster than a skip list here, because a search stays in
/// arrays of eight-byte heads and fetches a record only where heads are equal.
///
/// Range tombstones are not entries of the tree: they live in a structure beside it, and `insert`
/// refuses them.
///
/// # Invariants
/// 1. Entries are never changed or removed; no two have the same user key and trailer.
/// 2. Records and nodes stay where they are until the memtable dies.
///
/// # Concurrency
/// One writer at a time calls `insert` and `hasRoom` (the leader of the commit queue; its hand-over
/// orders one writer after the other). Any number of threads call everything else, without locks, while
/// the writer goes on. Freezing is the owner's matter: it stops inserting.
@safe
final class MemTable: @unchecked Sendable {
  // Sendable: readers use the tree's atomic words and the counters; the rest is the writer's.

  let arena: Arena
  let tree: MemTableTree
  private let pool: ArenaPool?
  private let capacity: Int

  // The counters are written by the writer alone, so a store is enough; statistics and the flush
  // decision read them from other threads.
  private let entryCountWord = Atomic<Int>(0)
  private let usedBytesWord = Atomic<Int>(0)
  private let smallestSequenceWord = Atomic<UInt64>(.max)
  private let largestSequenceWord = Atomic<UInt64>(0)

  /// The rightmost leaf, where ascending keys go. Writer only.
  var lastLeaf: UInt32 = 0
  private var populatedBytes = 0

  /// Called while a leaf is in mid-change, where `assert` is on. Tests stop the writer there.
  var midChangeHook: (@Sendable () -> Void)?

  /// For `assert`: costs nothing where checks are off.
  func callMidChangeHook(_ node: TreeNode) -> Bool {
    if node.level == 0 { midChangeHook?() }
    return true
  }

  /// A memtable for about `capacity` bytes of records and nodes. Memory is taken as it is touched, or
  /// comes from a memtable before, if there is a pool.
  init(capacity: Int, pool: ArenaPool? = nil) {
    precondition(capacity > 0, "a memtable without capacity: give it some kilobytes at least")
    let size = capacity + capacity / 4 + MemTable.slack
    arena = pool?.take(size: size) ?? Arena(size: size)
    tree = unsafe MemTableTree(arena: arena.base)
    self.pool = pool
    self.capacity = capacity
  }

  deinit { pool?.retire(arena) }

  /// Below this the faults are too few to matter.
  private static let populatedMinimum = 1 << 20

  /// Room for the nodes of one split that goes up to a new root.
  private static let slack = 16 * TreeNode.innerSize
  /// An upper bound of what an entry adds in nodes: a split leaves a quarter of a node on each side at
  /// least, so that a leaf takes at most 52 bytes an entry, and inner nodes a fraction of that.
  private static let nodeBytesPerEntry = 64

  /// Whether one more entry of these sizes may be inserted.
  ///
  /// The memtable is full once `capacity` bytes are used. The last entry may lie beyond that, and
  /// needs no more than the quarter of the capacity that is reserved behind it; larger entries never
  /// have room and take another way.
  @inline(__always)
  func hasRoom(keySize: Int, valueSize: Int) -> Bool {
    hasRoom(entryCount: 1, byteCount: keySize &+ valueSize)
  }

  /// Whether all of a batch may be inserted: `entryCount` entries with `byteCount` bytes of keys and
  /// values in sum.
  @inline(__always)
  func hasRoom(entryCount: Int, byteCount: Int) -> Bool {
    let size = byteCount &+ entryCount &* (MemTableRecord.headerSize + 7)
    if size > capacity / 4 || arena.usedBytes >= capacity { return false }
    return size &+ entryCount &* MemTable.nodeBytesPerEntry &+ MemTable.slack <= arena.freeBytes
  }

  /// How many entries there are.
  var entryCount: Int { entryCountWord.load(ordering: .relaxed) }
  var isEmpty: Bool { entryCount == 0 }
  /// Bytes of records and nodes.
  var usedBytes: Int { usedBytesWord.load(ordering: .relaxed) }
  /// Bytes of memory that the memtable holds, those that it has from a memtable before included.
  var memoryUsage: Int { arena.touchedBytes }
  /// The sequences of the oldest and the newest entry; zero if there is none.
  var smallestSequence: SequenceNumber {
    isEmpty ? .zero : SequenceNumber(smallestSequenceWord.load(ordering: .relaxed))
  }
  var largestSequence: SequenceNumber { SequenceNumber(largestSequenceWord.load(ordering: .relaxed)) }

  /// The newest entry of `userKey` with a sequence of at most `sequence`, of whatever kind; nil if
  /// there is none. Any thread, no lock.
  @inline(__always)
  func get(_ userKey: ByteView, at sequence: SequenceNumber) -> MemTableHit? {
    let found = tree.newestRecord(SearchKey(userKey, Trailer(seek: sequence)))
    if found == 0 { return nil }
    let record = tree.record(found)
    return MemTableHit(trailer: record.trailer, value: record.value)
  }

  /// Up to how many used bytes the memory should be there now, before the writer is; nil if it is, or need
  /// not be. Four times what is used: a writer that goes on at its pace finds it ready, and one that stops
  /// has cost no more than that. Writer only.
  func takePopulation() -> Int? {
    let wanted = min(capacity, 4 * arena.usedBytes)
    guard wanted >= MemTable.populatedMinimum, wanted > populatedBytes else { return nil }
    populatedBytes = wanted
    return wanted
  }

  /// Has the system give the memory that entries like those so far take until `used` bytes are used.
  /// Any thread.
  func populate(upTo used: Int) { arena.populate(upTo: used) }

  /// An iterator over all entries, those that are inserted meanwhile included. Any thread.
  func makeIterator() -> MemTableIterator { MemTableIterator(self) }

  /// Counts an entry that was inserted.
  @inline(__always)
  func count(_ sequence: UInt64) {
    entryCountWord.store(entryCountWord.load(ordering: .relaxed) &+ 1, ordering: .relaxed)
    usedBytesWord.store(arena.usedBytes, ordering: .relaxed)
    if sequence < smallestSequenceWord.load(ordering: .relaxed) {
      smallestSequenceWord.store(sequence, ordering: .relaxed)
    }
    if sequence > largestSequenceWord.load(ordering: .relaxed) {
      largestSequenceWord.store(sequence, ordering: .relaxed)
    }
  }
}

/// What `MemTable.get` found. The value lasts as long as the memtable.
struct MemTableHit {
  let trailer: Trailer
  let value: ByteView
}
