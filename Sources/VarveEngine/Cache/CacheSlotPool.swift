import Synchronization

/// The memory of a shard's slots, in pieces.
///
/// The pieces are kept until the cache is deallocated, or, if a block is pinned then, until its last pin is released.
///
/// # Safety
/// The object is the only owner of the pieces. Slots are not returned to the allocator earlier, because a lookup may
/// read one long after it was emptied.
@safe
final class CacheSlotMemory: @unchecked Sendable {
  // Sendable: changed under the shard's lock only.
  private var pieces: [UnsafeMutablePointer<CacheSlot.Record>]

  init() { unsafe pieces = [] }

  deinit {
    // Only the words of records could need deinitialization, and they are trivial.
    unsafe pieces.forEach { unsafe UnsafeMutableRawPointer($0).deallocate() }
  }

  func allocate(_ count: Int) -> UnsafeMutablePointer<CacheSlot.Record> {
    let piece = unsafe CacheSlot.allocate(count)
    unsafe pieces.append(piece)
    return unsafe piece
  }
}

/// The slots of one shard and the list of those that are free.
///
/// Used under the shard's lock.
///
/// # Safety
/// The list links slots of its own memory.
@safe
struct CacheSlotPool: ~Copyable, @unchecked Sendable {
  // Sendable: belongs to the state that the shard's lock guards.
  let memory = CacheSlotMemory()
  private var head: UnsafeMutablePointer<CacheSlot.Record>?
  private static let pieceCountMaximum = 1_024
  private var nextPieceCount = 16

  init() { unsafe head = nil }

  /// Removes an empty slot from the list and returns it.
  mutating func take() -> CacheSlot {
    if unsafe head == nil { grow() }
    // `grow` adds at least one slot.
    guard let record = unsafe head else { fatalError("a pool of slots that grew is empty") }
    unsafe head = record.pointee.next
    return unsafe CacheSlot(record)
  }

  mutating func put(_ slot: CacheSlot) {
    unsafe slot.record.pointee.next = head
    unsafe head = slot.record
  }

  private mutating func grow() {
    let count = nextPieceCount
    nextPieceCount = min(count * 2, CacheSlotPool.pieceCountMaximum)
    let piece = unsafe memory.allocate(count)
    for number in (0..<count).reversed() { put(unsafe CacheSlot(piece + number)) }
  }
}

extension CacheSlot {
  /// The bytes that each block costs in addition to its own.
  ///
  /// They are the slot, its share of the index (two to four words of 8 bytes) and of the history, and the allocator's
  /// header.
  static let overhead = size + 32 + 8 + 16

  /// Allocates memory for slots, aligned to their size and initialized as empty.
  static func allocate(_ count: Int) -> UnsafeMutablePointer<Record> {
    precondition(
      MemoryLayout<Record>.stride == size, "a slot that does not fill its cache line: change `size` with its fields")
    let memory = UnsafeMutableRawPointer.allocate(byteCount: count * size, alignment: size)
    // Systems allocate such addresses only for programs that request them.
    guard UInt64(UInt(bitPattern: memory)) < 1 << 48 else {
      fatalError("memory above 2^48, which the cache's index can't address")
    }
    let records = unsafe memory.bindMemory(to: Record.self, capacity: count)
    for number in 0..<count { unsafe (records + number).initialize(to: Record(word: 0)) }
    return unsafe records
  }

  /// The charge of the block, which includes `overhead`.
  var charge: Int { unsafe record.pointee.count &+ CacheSlot.overhead }
  /// The bytes of the block.
  var blockSize: Int { unsafe record.pointee.count }
  var key: BlockKey { unsafe record.pointee.key }
  var hash: UInt32 { unsafe record.pointee.hash }
  var priority: BlockPriority { unsafe record.pointee.priority }
  var lives: UInt8 {
    get { unsafe record.pointee.lives }
    nonmutating set { unsafe record.pointee.lives = newValue }
  }

  /// The pin that a lookup or an insertion has taken, as a value that releases it.
  @inline(__always)
  var takenPin: BlockPin {
    // A slot that is visible or stands alone has a block.
    unsafe BlockPin(self, base: record.pointee.base.unsafelyUnwrapped, count: record.pointee.count)
  }

  func fill(
    _ key: BlockKey, _ hash: UInt32, _ base: UnsafeMutableRawPointer, _ count: Int, _ priority: BlockPriority
  ) {
    unsafe record.pointee.key = key
    unsafe record.pointee.hash = hash
    unsafe record.pointee.base = base
    unsafe record.pointee.count = count
    unsafe record.pointee.priority = priority
    unsafe record.pointee.lives = 0
  }

  /// Takes the memory of the block out of an emptied slot.
  func takeBlock() -> UnsafeMutableRawPointer {
    // Continuing would free memory that belongs to another slot.
    guard let base = unsafe record.pointee.base else { fatalError("a slot without a block in a queue") }
    unsafe record.pointee.base = nil
    return unsafe base
  }

  /// Frees the block of a slot that stands alone and has no pin any more, and releases its owner.
  @inline(never)
  func releaseAlone() {
    // Acquiring: pairs with the releasing subtraction in `unpin`.
    atomicMemoryFence(ordering: .acquiring)
    unsafe BlockMemory.release(takeBlock(), blockSize)
    // `standAlone` sets the owner before the last pin can be released.
    guard let owner = unsafe record.pointee.owner else { fatalError("a single cache slot has no owner") }
    if let cache = unsafe owner.takeUnretainedValue() as? BlockCache {
      cache.uncharge(charge)
      unsafe record.deinitialize(count: 1)
      unsafe record.deallocate()
    }
    // The last release frees the memory of the slots, which includes this one.
    unsafe owner.release()
  }
}
