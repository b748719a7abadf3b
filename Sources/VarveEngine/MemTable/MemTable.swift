internal import Synchronization

/// The sorted write buffer of one column family: a B+tree over records in an arena.
///
/// A cache-conscious B+tree inserts four times faster than a skip list here, because a search reads arrays of
/// eight-byte heads and fetches a record only if heads are equal.
///
/// Range tombstones are not entries of the tree: they are stored separately, in a `RangeTombstoneTree`.
///
/// # Growth
/// A memtable may be created so that it grows only with its owner's consent (`grow`). Below the allowance an insert
/// needs no consent, and at each step the owner is notified of the memory that the step takes. In this way many
/// memtables share one bound, at the cost of one comparison for each insert.
///
/// # Invariants
/// 1. Entries are never changed or removed; no two have the same user key and trailer.
/// 2. Records and nodes do not move while the memtable lives.
/// 3. `chargedBytes` is what the pool's account was charged for this memtable.
///
/// # Concurrency
/// One writer at a time calls `insert` and `hasRoom` (the leader of the commit queue; handing the leadership over
/// orders one writer after the other). Any number of threads call everything else, without locks, while the writer
/// continues. To freeze a memtable, its owner stops inserting.
@safe
final class MemTable: @unchecked Sendable {
  // Sendable: readers use the tree's atomic words and the counters; the rest belongs to the writer.

  let arena: Arena
  let tree: MemTableTree
  let rangeTombstones = RangeTombstoneTree()
  /// Whether range tombstones were inserted, which readers may not see yet. Writer only.
  var hasTombstones = false
  private let pool: ArenaPool?
  private let capacity: Int
  /// Whether the pool may keep the arena for a later memtable.
  private let isReusable: Bool
  /// The memory that the range tombstones take, in bytes. Writer only.
  private(set) var tombstoneBytes = 0
  /// The bytes charged for range tombstones: their memory, and what was allowed for future ones. Writer only.
  private var tombstoneCharge = 0
  /// The bytes charged since `grow` last updated `countedBytes`. Writer only.
  private var uncountedBytes = 0
  /// The charge that writers wait for, from the freeze to the end of the memtable. Set once, by the writer.
  private var waitingCharge: MemoryCharge?
  /// The number of used bytes up to which an insert needs no further consent. Writer only.
  private var allowance = Int.max
  /// The bytes charged for the memory. Changed by the writer only.
  private let chargedWord = Atomic<Int>(0)

  // Only the writer changes the counters, so plain stores suffice. Statistics and the decision to flush read them on
  // other threads.
  private let entryCountWord = Atomic<Int>(0)
  private let usedBytesWord = Atomic<Int>(0)
  private let smallestSequenceWord = Atomic<UInt64>(.max)
  private let largestSequenceWord = Atomic<UInt64>(0)

  /// Whether deletes of any kind were inserted, apart from those that the owner has dealt with. Writer only.
  var hasDeletes = false
  /// The sequence of the newest delete of any kind. Writer only.
  var newestDelete = SequenceNumber.zero
  /// Called at the first delete. Set by the owner before the first entry.
  var onDelete: Callback?

  /// The ranges of the family that readers found dead. Set by the owner before the first entry.
  var deadRanges: DeadRanges?
  private let isWatchedWord = Atomic<Bool>(false)

  /// Passes each later write on to `deadRanges`. Safe from any thread.
  ///
  /// A write that was not passed on is in the memtable, for every thread that has passed a barrier of all threads
  /// since.
  func watchWrites() { isWatchedWord.store(true, ordering: .relaxed) }

  /// Whether writes are passed on to `deadRanges`.
  @inline(__always)
  var isWatched: Bool { isWatchedWord.load(ordering: .relaxed) }

  /// The rightmost leaf, which receives ascending keys. Writer only.
  var lastLeaf: UInt32 = 0

  /// A function called in the middle of a change of a leaf, if `assert` is on. Tests stop the writer there.
  var midChangeHook: (@Sendable () -> Void)?

  /// Calls the hook from an `assert`, so it costs nothing in builds without checks.
  func callMidChangeHook(_ node: TreeNode) -> Bool {
    if node.level == 0 { midChangeHook?() }
    return true
  }

  /// Creates a memtable for about `capacity` bytes of records and nodes. Memory is taken as it is touched, or comes
  /// from an earlier memtable, if there is a pool.
  ///
  /// Throws `.noMemory` and `.limitExceeded`, as `Arena.init` does.
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

  /// Creates a memtable for tests. Stops the process if the system has no address space.
  convenience init(capacity: Int, pool: ArenaPool? = nil) {
    do throws(EngineError) { try self.init(reserving: capacity, pool: pool) } catch { fatalError("\(error)") }
  }

  /// Creates a memtable that has no room until it is allowed to `grow`.
  ///
  /// Its memory is charged to the pool's account. An arena of the pool is used if it has at most `touchedMaximum`
  /// bytes of memory. The arena returns to the pool if `isReusable` is true, which excludes unusual sizes. Throws
  /// `.noMemory` and `.limitExceeded`, as `Arena.init` does.
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

  /// Charges the memory of range tombstones that exceeds what was allowed for them. Writer only.
  func chargeTombstones() {
    tombstoneBytes = rangeTombstones.memorySize
    let more = tombstoneBytes - tombstoneCharge
    guard more > 0, pool != nil else { return }
    tombstoneCharge = tombstoneBytes
    uncountedBytes += more
    chargedWord.store(chargedBytes + more, ordering: .relaxed)
    pool?.account?.charge(more)
  }

  /// Returns the number of bytes of address space that a memtable with a capacity reserves.
  static func reservedSize(capacity: Int) -> Int { Arena.reservedSize(for: arenaSize(capacity: capacity)) }

  private static func arenaSize(capacity: Int) -> Int { capacity + capacity / 4 + slack }

  /// The room for the nodes of one split that propagates to a new root.
  private static let slack = 16 * TreeNode.innerSize
  /// An upper bound of the bytes of nodes that an entry adds. A split leaves at least a quarter of a node on each
  /// side, so that a leaf takes at most 52 bytes an entry, and inner nodes a fraction of that.
  private static let nodeBytesPerEntry = 64

  /// Returns whether one more entry of these sizes may be inserted.
  ///
  /// The memtable is full once `capacity` bytes are used. The last entry may exceed that, within the quarter of the
  /// capacity that is reserved after it. Larger entries never have room and are handled separately.
  @inline(__always)
  func hasRoom(keySize: Int, valueSize: Int) -> Bool {
    let size = MemTable.recordSize(1, keySize &+ valueSize)
    return arena.usedBytes &+ size <= allowance && fits(size, 1)
  }

  /// Returns whether all entries of a batch for the family may be inserted.
  @inline(__always)
  func hasRoom(for need: MemTableRequirement) -> Bool {
    let size = MemTable.recordSize(need.entryCount, need.byteCount)
    guard arena.usedBytes &+ size <= allowance && fits(size, need.entryCount) else { return false }
    return need.tombstoneCount == 0 || (fitsTombstones(need) && tombstoneBytes + memoryNeeded(need) <= tombstoneCharge)
  }

  /// Returns whether there would be room if the memtable were allowed to grow.
  func couldHaveRoom(for need: MemTableRequirement) -> Bool {
    guard fits(MemTable.recordSize(need.entryCount, need.byteCount), need.entryCount) else { return false }
    return need.tombstoneCount == 0 || fitsTombstones(need)
  }

  /// Returns whether range tombstones fit beside the existing ones. If they would take more than a quarter of a
  /// memtable, or if they are prepared and many, they need a memtable without range tombstones, whatever its size.
  private func fitsTombstones(_ need: MemTableRequirement) -> Bool {
    if rangeTombstones.isEmpty { return true }
    if let prepared = need.prepared, prepared.count >= PreparedTombstones.freezingCount { return false }
    return memoryNeeded(need) <= capacity / 4
  }

  /// Returns the memory that range tombstones will take, in bytes.
  private func memoryNeeded(_ need: MemTableRequirement) -> Int {
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

  /// Returns what `chargedBytes` would be after `grow` with the same argument.
  func chargeAfterGrowth(for need: MemTableRequirement) -> Int { arenaCharge(for: need) + tombstoneCharge(for: need) }

  private func arenaCharge(for need: MemTableRequirement) -> Int {
    let target = nextAllowance(need.entryCount, need.byteCount)
    return max(arenaCharge, arena.touchedBytes(withRecordsOf: min(target, capacity) - arena.usedBytes))
  }

  /// Returns the charge for range tombstones after growth. Large trees are allowed an eighth more than needed.
  private func tombstoneCharge(for need: MemTableRequirement) -> Int {
    if need.tombstoneCount == 0 { return tombstoneCharge }
    let size = tombstoneBytes + memoryNeeded(need)
    if size <= tombstoneCharge { return tombstoneCharge }
    return need.prepared == nil && size > 8 * TombstoneMemory.chunkSize ? size + size / 8 : size
  }

  /// The part of `chargedBytes` that is for the arena.
  private var arenaCharge: Int { chargedBytes - tombstoneCharge }

  /// Raises the allowance to the next step, which is at least what is needed, and charges its memory. Returns the
  /// increase of `countedBytes`. Writer only.
  func grow(for need: MemTableRequirement) -> Int {
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

  /// The part of `chargedBytes` that the owner has counted: all of it when the memtable is created, and at each
  /// growth. Writer only.
  var countedBytes: Int { chargedBytes - uncountedBytes }

  /// Returns the charge for unused growth to the account, and returns the remaining charge. Called by the writer,
  /// after its last insertion.
  func settleCharge() -> Int {
    tombstoneCharge = tombstoneBytes
    uncountedBytes = 0
    let charge = arena.touchedBytes + tombstoneBytes
    pool?.account?.charge(charge - chargedBytes)
    chargedWord.store(charge, ordering: .relaxed)
    return charge
  }

  /// Counts the memtable in `account` until it is destroyed, which is after its flush if readers retain it. Called by
  /// the writer, after its last insertion.
  func countUntilGone(in account: MemoryAccount) {
    waitingCharge = MemoryCharge(chargedBytes, to: account)
  }

  /// Returns the next allowance: twice the used bytes, beginning with a page; large memtables grow by a sixteenth.
  private func nextAllowance(_ entryCount: Int, _ byteCount: Int) -> Int {
    let used = arena.usedBytes
    let needed = used + MemTable.recordSize(entryCount, byteCount)
    if needed > capacity - capacity / 16 { return capacity }
    // The memory that an arena has from earlier uses is charged already.
    let resident = arenaCharge - arenaCharge / 8
    let step = min(max(used, Arena.pageSize - Arena.recordStart), max(capacity / 16, Arena.pageSize))
    return max(needed, used + step, resident)
  }

  /// The bytes that the pool's account was charged for this memtable, including its range tombstones.
  var chargedBytes: Int { chargedWord.load(ordering: .relaxed) }

  /// The number of entries, including range tombstones.
  var entryCount: Int { entryCountWord.load(ordering: .relaxed) }
  var isEmpty: Bool { entryCount == 0 }
  /// The number of bytes of records and nodes.
  var usedBytes: Int { usedBytesWord.load(ordering: .relaxed) }
  /// The number of resident bytes of the memtable, including those from an earlier memtable.
  var memoryUsage: Int { arena.touchedBytes }
  /// The sequence numbers of the oldest and the newest entry, or zero if there are none.
  var smallestSequence: SequenceNumber {
    isEmpty ? .zero : SequenceNumber(smallestSequenceWord.load(ordering: .relaxed))
  }
  var largestSequence: SequenceNumber { SequenceNumber(largestSequenceWord.load(ordering: .relaxed)) }

  /// Returns the newest entry of `userKey`, of any kind, with a sequence number of at most `sequence`, or nil if
  /// there is none. Safe from any thread, without a lock.
  @inline(__always)
  func get(_ userKey: ByteView, at sequence: SequenceNumber) -> MemTableHit? {
    let found = tree.newestRecord(SearchKey(userKey, Trailer(seek: sequence)))
    if found == 0 { return nil }
    let record = tree.record(found)
    return MemTableHit(trailer: record.trailer, value: record.value)
  }

  /// The number of used bytes up to which the memtable may grow without consent. Writer only.
  var allowedBytes: Int { min(allowance, capacity) }

  /// Populates the memory that entries like the existing ones take until `used` bytes are used. Safe from any thread.
  func populate(upTo used: Int) { arena.populate(upTo: used) }

  /// Returns an iterator over all entries, including those inserted later. Safe from any thread.
  func makeIterator() -> MemTableIterator { MemTableIterator(self) }

  /// Counts an inserted entry.
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

  /// Counts the range tombstones of a prepared batch whose first entry has the sequence number `first`.
  func count(_ prepared: PreparedTombstones.Part, first: SequenceNumber) {
    count(first.value + UInt64(prepared.firstIndex))
    count(first.value + UInt64(prepared.lastIndex))
    entryCountWord.store(entryCountWord.load(ordering: .relaxed) + prepared.count - 2, ordering: .relaxed)
  }
}

/// The room that a batch needs in one family's memtable.
struct MemTableRequirement {
  /// The number of entries of the tree, at least one, and the total bytes of their keys and values.
  var entryCount = 1
  var byteCount = 0
  /// The number of range tombstones, and the total bytes of their bounds.
  var tombstoneCount = 0
  var tombstoneKeyBytes = 0
  /// The range tombstones, if they were prepared before the commit.
  var prepared: PreparedTombstones.Part?
}

/// The result of `MemTable.get`. The value is valid while the memtable lives.
struct MemTableHit {
  let trailer: Trailer
  let value: ByteView
}
