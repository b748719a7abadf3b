internal import Synchronization

/// The sorted write buffer of one column family: a B+tree over records in an arena.
///
/// A cache-conscious B+tree inserts four times faster than a skip list here, because a search stays in
/// arrays of eight-byte heads and fetches a record only where heads are equal.
///
/// Range tombstones are not entries of the tree: they live beside it, in a `RangeTombstoneTree`.
///
/// # Growth
/// A memtable may be made to grow only as its owner allows it (`grow`): below the allowance an insert
/// asks nobody, and at each step the owner learns what memory it comes to. That is how many memtables
/// share one bound, and it costs an insert one comparison.
///
/// # Invariants
/// 1. Entries are never changed or removed; no two have the same user key and trailer.
/// 2. Records and nodes stay where they are until the memtable dies.
/// 3. `chargedBytes` is what the pool's account was charged for this memtable.
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
  let rangeTombstones = RangeTombstoneTree()
  private let pool: ArenaPool?
  private let capacity: Int
  /// Whether the next memtables may be of this one's size.
  private let isReusable: Bool
  /// What the range tombstones take of memory, and what of it is charged. Writer only.
  var tombstoneBytes = 0
  /// Up to so many used bytes an insert needs no further consent. Writer only.
  private var allowance = Int.max
  /// What was charged for the memory. Changed by the writer alone.
  private let chargedWord = Atomic<Int>(0)

  // The counters are written by the writer alone, so a store is enough; statistics and the flush
  // decision read them from other threads.
  private let entryCountWord = Atomic<Int>(0)
  private let usedBytesWord = Atomic<Int>(0)
  private let smallestSequenceWord = Atomic<UInt64>(.max)
  private let largestSequenceWord = Atomic<UInt64>(0)

  /// The rightmost leaf, where ascending keys go. Writer only.
  var lastLeaf: UInt32 = 0

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
    let size = MemTable.arenaSize(capacity: capacity)
    arena = pool?.take(size: size) ?? Arena(size: size)
    tree = unsafe MemTableTree(arena: arena.base)
    self.pool = pool
    self.capacity = capacity
    isReusable = true
    chargedWord.store(pool == nil ? 0 : arena.touchedBytes, ordering: .relaxed)
  }

  /// A memtable that has no room until it is allowed to `grow`. Its memory is charged to the pool's
  /// account. An arena of the pool is used if it has at most `touchedMaximum` bytes of memory; the arena
  /// goes back there unless it is of an odd size.
  init(growingTo capacity: Int, pool: ArenaPool, touchedMaximum: Int, isReusable: Bool = true) {
    precondition(capacity > 0, "a memtable without capacity: give it some kilobytes at least")
    arena = pool.take(size: MemTable.arenaSize(capacity: capacity), touchedMaximum: touchedMaximum)
    tree = unsafe MemTableTree(arena: arena.base)
    self.pool = pool
    self.capacity = capacity
    self.isReusable = isReusable
    allowance = 0
    chargedWord.store(arena.touchedBytes, ordering: .relaxed)
  }

  deinit {
    pool?.account?.charge(-tombstoneBytes)
    pool?.retire(arena, charged: chargedBytes, isReusable: isReusable)
  }

  /// Charges what one more range tombstone took. Writer only.
  func chargeTombstones() {
    let size = rangeTombstones.memorySize
    pool?.account?.charge(size - tombstoneBytes)
    tombstoneBytes = size
  }

  /// What a memtable of a capacity reserves of the address space.
  static func reservedSize(capacity: Int) -> Int { Arena.reservedSize(for: arenaSize(capacity: capacity)) }

  private static func arenaSize(capacity: Int) -> Int { capacity + capacity / 4 + slack }

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
    let size = MemTable.recordSize(entryCount, byteCount)
    return arena.usedBytes &+ size <= allowance && fits(size, entryCount)
  }

  /// Whether there would be room if it were allowed to grow.
  func couldHaveRoom(entryCount: Int, byteCount: Int) -> Bool {
    fits(MemTable.recordSize(entryCount, byteCount), entryCount)
  }

  @inline(__always)
  private func fits(_ size: Int, _ entryCount: Int) -> Bool {
    if size > capacity / 4 || arena.usedBytes &+ tombstoneBytes >= capacity { return false }
    return size &+ entryCount &* MemTable.nodeBytesPerEntry &+ MemTable.slack <= arena.freeBytes
  }

  @inline(__always)
  private static func recordSize(_ entryCount: Int, _ byteCount: Int) -> Int {
    byteCount &+ entryCount &* (MemTableRecord.headerSize + 7)
  }

  // MARK: - Growth

  /// What would be charged for the memtable after `grow` with the same arguments.
  func chargeAfterGrowth(entryCount: Int, byteCount: Int) -> Int {
    let target = nextAllowance(entryCount, byteCount)
    return max(chargedBytes, arena.touchedBytes(withRecordsOf: min(target, capacity) - arena.usedBytes))
  }

  /// Allows the next step: at least a batch of these sizes. Charges the memory that it comes to; returns
  /// how much more that is. Writer only.
  func grow(entryCount: Int, byteCount: Int) -> Int {
    let charge = chargeAfterGrowth(entryCount: entryCount, byteCount: byteCount)
    let target = nextAllowance(entryCount, byteCount)
    allowance = target >= capacity ? .max : target
    let more = charge - chargedBytes
    chargedWord.store(charge, ordering: .relaxed)
    pool?.account?.charge(more)
    return more
  }

  /// Gives back what was charged for growth that will not come, and returns what stays charged. Writer only,
  /// who inserts nothing more.
  func settleCharge() -> Int {
    let charge = arena.touchedBytes
    pool?.account?.charge(charge - chargedBytes)
    chargedWord.store(charge, ordering: .relaxed)
    return charge
  }

  /// Doubles, from a page on; large memtables grow by a sixteenth.
  private func nextAllowance(_ entryCount: Int, _ byteCount: Int) -> Int {
    let used = arena.usedBytes
    let needed = used + MemTable.recordSize(entryCount, byteCount)
    if needed > capacity - capacity / 16 { return capacity }
    // What an arena has of memory from earlier lives is charged already.
    let resident = chargedBytes - chargedBytes / 8
    let step = min(max(used, Arena.pageSize - Arena.recordStart), max(capacity / 16, Arena.pageSize))
    return max(needed, used + step, resident)
  }

  /// What the pool's account was charged for this memtable.
  var chargedBytes: Int { chargedWord.load(ordering: .relaxed) }

  /// How many entries there are, range tombstones included.
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

  /// Up to how many used bytes it may grow without asking. Writer only.
  var allowedBytes: Int { min(allowance, capacity) }

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
