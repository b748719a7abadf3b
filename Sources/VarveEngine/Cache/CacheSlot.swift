import Synchronization

/// The cache's record of one block: 64 bytes, one cache line.
///
/// Records stay at their addresses until the cache is deallocated, and are reused for one block after another.
///
/// # The word
///
/// ```
/// bits 0-1    state: 0 empty, 1 visible, 2 erased
/// bit  2      touched: found by a lookup since the clock's hand last passed
/// bit  3      alone: no cache has it; the last pin frees it
/// bits 4-63   number of pins
/// ```
///
/// # Invariants
/// 1. A lookup first pins (one atomic add) and then checks the slot. If the state is visible, the key, base and count
///    do not change until it unpins; otherwise it releases its pin and has read nothing. So pins of such lookups appear
///    on any slot, even an empty one, and every change of the state leaves the pins of the word unchanged.
/// 2. Visible becomes empty only by a compare-exchange from a word without pins, so the caller that frees the block has
///    exclusive access to it.
/// 3. All fields except the word are written only under the shard's lock, and those that lookups read (key, base,
///    count) only while the slot is empty.
///
/// # Safety
/// The memory of slots is freed with the cache. Slots that are pinned at that time retain it for their pins
/// (`standAlone`).
@safe
struct CacheSlot: @unchecked Sendable, Equatable {
  // Sendable: the invariants above state which thread may access which field.
  static let visible: UInt64 = 1
  static let erased: UInt64 = 2
  static let stateMask: UInt64 = 3
  static let touched: UInt64 = 4
  static let alone: UInt64 = 8
  static let onePin: UInt64 = 16
  static let size = 64

  @safe
  struct Record: ~Copyable {
    let word: Atomic<UInt64>
    var key = BlockKey(tableID: 0, offset: 0)
    var base: UnsafeMutableRawPointer?
    var count = 0
    /// The slot after this one in a queue or in the list of free ones.
    var next: UnsafeMutablePointer<Record>?
    /// The owner, retained by a slot that stands alone: the cache that charged it, or, if the cache was deallocated
    /// before the pin, the memory of its slots.
    var owner: Unmanaged<AnyObject>?
    /// The lower half of the key's hash.
    var hash: UInt32 = 0
    /// The number of times that the clock's hand still passes the slot without evicting it.
    var lives: UInt8 = 0
    var priority: BlockPriority = .normal

    init(word: UInt64) {
      self.word = Atomic(word)
      unsafe self.base = nil
      unsafe self.next = nil
      unsafe self.owner = nil
    }
  }

  let record: UnsafeMutablePointer<Record>

  @inline(__always)
  init(_ record: UnsafeMutablePointer<Record>) { unsafe self.record = record }

  /// Takes a pin if the slot has this key's block.
  ///
  /// All arithmetic wraps: `add` with its check for overflow is a loop of compare-exchanges, `wrappingAdd` one
  /// instruction. The number of pins does not reach 2^60.
  @inline(__always)
  func pin(_ key: BlockKey) -> Bool {
    // Acquiring: pairs with the releasing add of `publish`, before which the fields were written.
    let word = unsafe record.pointee.word.wrappingAdd(CacheSlot.onePin, ordering: .acquiring).oldValue
    if word & CacheSlot.stateMask == CacheSlot.visible, unsafe record.pointee.key == key {
      // Frequently used blocks have the bit already, so that a hit is one atomic operation.
      if word & CacheSlot.touched == 0 {
        unsafe record.pointee.word.bitwiseOr(CacheSlot.touched, ordering: .relaxed)
      }
      return true
    }
    // Releasing, because the key may have been read.
    unsafe record.pointee.word.wrappingSubtract(CacheSlot.onePin, ordering: .releasing)
    return false
  }

  /// Releases a pin. Returns true if it was the last one of a slot that stands alone.
  @inline(__always)
  func unpin() -> Bool {
    // Releasing: pairs with the acquiring exchange of `tryEmpty`, after which the block is freed.
    let word = unsafe record.pointee.word.wrappingSubtract(CacheSlot.onePin, ordering: .releasing)
    return word.oldValue & CacheSlot.alone != 0 && word.newValue < CacheSlot.onePin
  }

  /// Makes an empty slot that was filled visible, with one pin.
  func publish() {
    unsafe record.pointee.word.wrappingAdd(CacheSlot.visible | CacheSlot.onePin, ordering: .releasing)
  }

  @inline(__always)
  var word: UInt64 { unsafe record.pointee.word.load(ordering: .relaxed) }

  func clearTouched() {
    unsafe record.pointee.word.bitwiseAnd(~CacheSlot.touched, ordering: .relaxed)
  }

  /// Makes a visible slot erased: lookups don't find it any more, and the clock frees it when no pin is left.
  func erase() {
    unsafe record.pointee.word.wrappingAdd(CacheSlot.erased - CacheSlot.visible, ordering: .relaxed)
  }

  /// Makes the slot empty if it has no pin.
  func tryEmpty(_ word: UInt64) -> Bool {
    guard word < CacheSlot.onePin else { return false }
    // Acquiring: pairs with the releasing subtraction of `unpin`.
    return unsafe record.pointee.word.compareExchange(expected: word, desired: 0, ordering: .acquiring).exchanged
  }

  /// Leaves the slot to its pins when the cache is deallocated.
  ///
  /// Returns true if it has no pin, or no pin any more, so that the caller frees the block.
  func standAlone(in memory: CacheSlotMemory) -> Bool {
    unsafe record.pointee.owner = Unmanaged.passRetained(memory as AnyObject)
    // Releasing and acquiring: of this call and the last `unpin`, the second sees the changes of the first.
    let word = unsafe record.pointee.word.bitwiseOr(CacheSlot.alone, ordering: .acquiringAndReleasing).oldValue
    return word < CacheSlot.onePin
  }

  static func == (left: CacheSlot, right: CacheSlot) -> Bool { unsafe left.record == right.record }
}

/// The value of a block to the cache.
enum BlockPriority: UInt8, Sendable {
  /// Data blocks, which must be used again before they are kept for long.
  case normal = 0
  /// Index and filter blocks, each of which leads to many data blocks.
  case high = 1
}
