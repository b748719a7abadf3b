import Synchronization

/// The cache's record of one block: 64 bytes, one cache line, that stay where they are until the
/// cache goes, and are used for one block after another.
///
/// # The word
///
///     bits 0-1    state: 0 empty, 1 visible, 2 erased
///     bit  2      touched: found by a lookup since the clock last came by
///     bit  3      alone: no cache has it; the last pin frees it
///     bits 4-63   pins
///
/// # Invariants
/// 1. A lookup pins first (one atomic add) and looks then. Found the state visible, the key, base and
///    count stand still until it unpins; otherwise it takes its pin back and has read nothing. So pins
///    of such lookups appear on any slot, even an empty one, and every change of the state leaves
///    the pins of the word as they are.
/// 2. Visible becomes empty only by a compare-exchange from a word without pins: the caller that frees the
///    block is alone with it.
/// 3. All fields but the word are written only under the shard's lock, and those that lookups read
///    (key, base, count) only while the slot is empty.
///
/// # Safety
/// The memory of slots is freed with the cache. Slots that are pinned then retain it for their pins
/// (`standAlone`).
@safe
struct CacheSlot: @unchecked Sendable, Equatable {
  // Sendable: who may touch which field when is said in the invariants above.
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
    /// Retained by a slot that stands alone: the cache that charged it, or, where the cache went
    /// before the pin, the memory of its slots.
    var owner: Unmanaged<AnyObject>?
    /// The lower half of the key's hash.
    var hash: UInt32 = 0
    /// How many times the clock still passes by.
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

  /// Takes a pin if the slot holds this key's block.
  ///
  /// Wrapping arithmetic throughout: `add` with its check for overflow is a loop of compare-exchanges,
  /// `wrappingAdd` one instruction. Pins do not reach 2^60.
  @inline(__always)
  func pin(_ key: BlockKey) -> Bool {
    // Acquiring: pairs with the releasing add of `publish`, before which the fields were written.
    let word = unsafe record.pointee.word.wrappingAdd(CacheSlot.onePin, ordering: .acquiring).oldValue
    if word & CacheSlot.stateMask == CacheSlot.visible, unsafe record.pointee.key == key {
      // Hot blocks have the bit already: a hit is then one atomic operation.
      if word & CacheSlot.touched == 0 {
        unsafe record.pointee.word.bitwiseOr(CacheSlot.touched, ordering: .relaxed)
      }
      return true
    }
    // Releasing, as the key may have been read.
    unsafe record.pointee.word.wrappingSubtract(CacheSlot.onePin, ordering: .releasing)
    return false
  }

  /// Gives a pin back; true if it was the last one of a slot that stands alone.
  @inline(__always)
  func unpin() -> Bool {
    // Releasing: pairs with the acquiring exchange of `tryEmpty`, after which the block is freed.
    let word = unsafe record.pointee.word.wrappingSubtract(CacheSlot.onePin, ordering: .releasing)
    return word.oldValue & CacheSlot.alone != 0 && word.newValue < CacheSlot.onePin
  }

  /// Makes a filled empty slot visible, with one pin.
  func publish() {
    unsafe record.pointee.word.wrappingAdd(CacheSlot.visible | CacheSlot.onePin, ordering: .releasing)
  }

  @inline(__always)
  var word: UInt64 { unsafe record.pointee.word.load(ordering: .relaxed) }

  func clearTouched() {
    unsafe record.pointee.word.bitwiseAnd(~CacheSlot.touched, ordering: .relaxed)
  }

  /// Visible becomes erased: not found any more, freed by the clock when no pin is left.
  func erase() {
    unsafe record.pointee.word.wrappingAdd(CacheSlot.erased - CacheSlot.visible, ordering: .relaxed)
  }

  /// Makes the slot empty if it has no pin.
  func tryEmpty(_ word: UInt64) -> Bool {
    guard word < CacheSlot.onePin else { return false }
    // Acquiring: pairs with the releasing subtraction of `unpin`.
    return unsafe record.pointee.word.compareExchange(expected: word, desired: 0, ordering: .acquiring).exchanged
  }

  /// Leaves the slot to its pins, at the end of the cache. True if it has none (any more), so that the
  /// caller frees the block.
  func standAlone(in memory: CacheSlotMemory) -> Bool {
    unsafe record.pointee.owner = Unmanaged.passRetained(memory as AnyObject)
    // Releasing and acquiring: the caller that comes second, this or the last `unpin`, sees what the first did.
    let word = unsafe record.pointee.word.bitwiseOr(CacheSlot.alone, ordering: .acquiringAndReleasing).oldValue
    return word < CacheSlot.onePin
  }

  static func == (left: CacheSlot, right: CacheSlot) -> Bool { unsafe left.record == right.record }
}

/// How much a block is worth to the cache.
enum BlockPriority: UInt8, Sendable {
  /// Data blocks: they must be asked for again before they are kept long.
  case normal = 0
  /// Index and filter blocks: each stands before many data blocks.
  case high = 1
}
