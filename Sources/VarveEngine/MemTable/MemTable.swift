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
/// asks no one, and at each step the owner learns what memory it comes to. That is how many memtables
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
/// the writer continues. Freezing is the owner's matter: it stops inserting.
@safe
final class MemTable: @unchecked Sendable {
  // Sendable: readers use the tree's atomic words and the counters; the rest is the writer's.

  let arena: Arena
  let tree: MemTableTree
  let rangeTombstones = RangeTombstoneTree()
  /// Whether any were inserted, readers may not see them yet. Writer only.
  var hasTombstones = false
  private let pool: ArenaPool?
  private let capacity: Int
  /// Whether the next memtables may be of this one's size.
  private let isReusable: Bool
  /// What the range tombstones take of memory. Writer only.
  private(set) var tombstoneBytes = 0
  /// What is charged for range tombstones: their memory, and what was allowed for those that come. Writer only.
  private var tombstoneCharge = 0
  /// What was charged since `countedBytes` was last taken by `grow`. Writer only.
  private var uncountedBytes = 0
  /// What writers wait for, from the freeze to the end of the memtable. Set once, by the writer.
  private var waitingCharge: MemoryCharge?
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
  /// Throws `.noMemory` and `.limitExceeded`, as `Arena.init`.
  init(reserving capacity: Int, pool: ArenaPool? = nil) throws(EngineError) {
    precondition(capacity > 0, "a memtable without capacity: give it some kilobytes at least")
    let size = MemTable.arenaSize(capacity: capacity)
    arena = if let pool { try pool.take(size: size) } else { try Arena(reserving: size) }
    tree = unsafe MemTableTree(arena: arena.base)
    self.pool = pool
    self.capacity = capacity
    isReusable = true
    chargedWord.store(pool == nil ? 0 : arena.touchedBytes, ordering: .relaxed)
  }

  /// The same for tests: stops the program where the system has no address space.
  convenience init(capacity: Int, pool: ArenaPool? = nil) {
    do throws(EngineError) { try self.init(reserving: capacity, pool: pool) } catch { fatalError("\(error)") }
  }

  /// A memtable that has no room until it is allowed to `grow`. Its memory is charged to the pool's
  /// account. An arena of the pool is used if it has at most `touchedMaximum` bytes of memory; the arena
  /// goes back there unless it is of an odd size.
  ///
  /// Throws `.noMemory` and `.limitExceeded`, as `Arena.init`.
  init(
    growingTo capacity: Int, pool: ArenaPool, touchedMaximum: Int, isReusable: Bool = true
  ) throws(EngineError) {
    precondition(capacity > 0, "a memtable without capacity: give it some kilobytes at least")
    arena = try pool.take(size: MemTable.arenaSize(capacity: capacity), touchedMaximum: touchedMaximum)
    tree = unsafe MemTableTree(arena: arena.base)
    self.pool = pool
    self.capacity = capacity
    self.isReusable = isReusable
    allowance = 0
    chargedWord.store(arena.touchedBytes, ordering: .relaxed)
  }

  deinit {
    pool?.retire(arena, charged: chargedBytes, isReusable: isReusable)
  }

  /// Charges what range tombstones took beyond what was allowed for them. Writer only.
  func chargeTombstones() {
    tombstoneBytes = rangeTombstones.memorySize
    let more = tombstoneBytes - tombstoneCharge
    guard more > 0, pool != nil else { return }
    tombstoneCharge = tombstoneBytes
    uncountedBytes += more
    chargedWord.store(chargedBytes + more, ordering: .relaxed)
    pool?.account?.charge(more)
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
  /// needs no more than the quarter of the capacity that is reserved after it; larger entries never
  /// have room and take another way.
  @inline(__always)
  func hasRoom(keySize: Int, valueSize: Int) -> Bool {
    let size = MemTable.recordSize(1, keySize &+ valueSize)
    return arena.usedBytes &+ size <= allowance && fits(size, 1)
  }

  /// Whether all of a batch's entries of the family may be inserted.
  @inline(__always)
  func hasRoom(for need: MemTableNeed) -> Bool {
    let size = MemTable.recordSize(need.entryCount, need.byteCount)
    guard arena.usedBytes &+ size <= allowance && fits(size, need.entryCount) else { return false }
    return need.tombstoneCount == 0 || (fitsTombstones(need) && tombstoneBytes + memoryNeeded(need) <= tombstoneCharge)
  }

  /// Whether there would be room if it were allowed to grow.
  func couldHaveRoom(for need: MemTableNeed) -> Bool {
    guard fits(MemTable.recordSize(need.entryCount, need.byteCount), need.entryCount) else { return false }
    return need.tombstoneCount == 0 || fitsTombstones(need)
  }

  /// Range tombstones that would take more than a quarter of a memtable, and those that were prepared and are many, go
  /// into one that has none, whatever its size.
  private func fitsTombstones(_ need: MemTableNeed) -> Bool {
    if rangeTombstones.isEmpty { return true }
    if let prepared = need.prepared, prepared.count >= PreparedTombstones.freezingCount { return false }
    return memoryNeeded(need) <= capacity / 4
  }

  /// What range tombstones will take of memory.
  private func memoryNeeded(_ need: MemTableNeed) -> Int {
    if let prepared = need.prepared, rangeTombstones.isEmpty { return prepared.memorySize }
    return rangeTombstones.memoryNeeded(tombstones: need.tombstoneCount, keyBytes: need.tombstoneKeyBytes)
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
  func chargeAfterGrowth(for need: MemTableNeed) -> Int { arenaCharge(for: need) + tombstoneCharge(for: need) }

  private func arenaCharge(for need: MemTableNeed) -> Int {
    let target = nextAllowance(need.entryCount, need.byteCount)
    return max(arenaCharge, arena.touchedBytes(withRecordsOf: min(target, capacity) - arena.usedBytes))
  }

  /// Large trees are allowed an eighth more than is asked for.
  private func tombstoneCharge(for need: MemTableNeed) -> Int {
    if need.tombstoneCount == 0 { return tombstoneCharge }
    let size = tombstoneBytes + memoryNeeded(need)
    if size <= tombstoneCharge { return tombstoneCharge }
    return need.prepared == nil && size > 8 * TombstoneMemory.chunkSize ? size + size / 8 : size
  }

  /// What of `chargedBytes` is for the arena.
  private var arenaCharge: Int { chargedBytes - tombstoneCharge }

  /// Allows the next step: at least what is needed. Charges the memory that it comes to; returns how much more
  /// `countedBytes` is then. Writer only.
  func grow(for need: MemTableNeed) -> Int {
    let forTombstones = tombstoneCharge(for: need)
    let charge = arenaCharge(for: need) + forTombstones
    let target = nextAllowance(need.entryCount, need.byteCount)
    allowance = target >= capacity ? .max : target
    let more = charge - chargedBytes
    tombstoneCharge = forTombstones
    chargedWord.store(charge, ordering: .relaxed)
    pool?.account?.charge(more)
    defer { uncountedBytes = 0 }
    return more + uncountedBytes
  }

  /// What the owner has counted of `chargedBytes`: all of it when the memtable is made, and at each growth. Writer only.
  var countedBytes: Int { chargedBytes - uncountedBytes }

  /// Gives back what was charged for growth that will not come, and returns what stays charged. Writer only,
  /// who inserts nothing more.
  func settleCharge() -> Int {
    tombstoneCharge = tombstoneBytes
    uncountedBytes = 0
    let charge = arena.touchedBytes + tombstoneBytes
    pool?.account?.charge(charge - chargedBytes)
    chargedWord.store(charge, ordering: .relaxed)
    return charge
  }

  /// Has the memtable count in `account` until it goes: also after its flush, where readers keep it. Writer only,
  /// who inserts nothing more.
  func countUntilGone(in account: MemoryAccount) {
    waitingCharge = MemoryCharge(chargedBytes, to: account)
  }

  /// Doubles, from a page on; large memtables grow by a sixteenth.
  private func nextAllowance(_ entryCount: Int, _ byteCount: Int) -> Int {
    let used = arena.usedBytes
    let needed = used + MemTable.recordSize(entryCount, byteCount)
    if needed > capacity - capacity / 16 { return capacity }
    // What an arena has of memory from earlier lives is charged already.
    let resident = arenaCharge - arenaCharge / 8
    let step = min(max(used, Arena.pageSize - Arena.recordStart), max(capacity / 16, Arena.pageSize))
    return max(needed, used + step, resident)
  }

  /// What the pool's account was charged for this memtable, its range tombstones included.
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

  /// Counts the range tombstones of a prepared batch whose first entry has this sequence.
  func count(_ prepared: PreparedTombstones.Part, first: SequenceNumber) {
    count(first.value + UInt64(prepared.firstIndex))
    count(first.value + UInt64(prepared.lastIndex))
    entryCountWord.store(entryCountWord.load(ordering: .relaxed) + prepared.count - 2, ordering: .relaxed)
  }
}

/// What a batch needs of one family's memtable.
struct MemTableNeed {
  /// Entries of the tree, one at least, and the bytes of their keys and values in sum.
  var entryCount = 1
  var byteCount = 0
  /// Range tombstones, and the bytes of their bounds in sum.
  var tombstoneCount = 0
  var tombstoneKeyBytes = 0
  /// The same, where they were put together before.
  var prepared: PreparedTombstones.Part?
}

/// What `MemTable.get` found. The value lasts as long as the memtable.
struct MemTableHit {
  let trailer: Trailer
  let value: ByteView
}
