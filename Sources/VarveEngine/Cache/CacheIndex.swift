internal import CVarve
import Synchronization

/// The hash table of one shard: from a key's hash to slots that may have its block.
///
/// It uses open addressing and linear probing. Words have 8 bytes, eight to a cache line, and at most half of them are
/// used.
///
/// # The word
///
/// ```
/// bits 0-21    the lower 22 bits of the key's hash
/// bits 22-63   bits 6-47 of the slot's address (slots are aligned to 64 bytes)
/// 0            an empty word
/// ```
///
/// # Invariants
/// 1. Words are changed under the shard's lock and read without it. A lookup that runs during a change may miss a block
///    that is there: its caller reads the block from the file, and `insert`, under the lock, finds the first one.
/// 2. A word is a hint: the slot's content decides. Words only ever refer to slots of the same cache, and slots are not
///    freed, so even a word that was read long ago is safe to follow.
/// 3. At least one word is 0, so every probe ends.
///
/// # Safety
/// The words of an index that grew are kept until the cache is deallocated, because a lookup may still read them. All
/// of them together are as large as the current index.
@safe
struct CacheIndex: @unchecked Sendable {
  // Sendable: words are atomic, and the protocol is in the invariants.
  static let hashBits: UInt64 = 22
  private static let hashMask: UInt64 = (1 << hashBits) - 1
  static let sizeBitsMaximum = 22

  /// The address of the words, which are aligned to 64, plus the binary logarithm of their count.
  ///
  /// A lookup gets both by one load.
  let packed: UInt

  @inline(__always)
  init(packed: UInt) { self.packed = packed }

  /// Allocates an index of 2^`sizeBits` empty words.
  static func allocate(sizeBits: Int) -> CacheIndex {
    precondition(sizeBits >= 1 && sizeBits <= sizeBitsMaximum, "an index that lookups could not address")
    let memory = UnsafeMutableRawPointer.allocate(byteCount: 8 << sizeBits, alignment: 64)
    let words = unsafe memory.bindMemory(to: Atomic<UInt64>.self, capacity: 1 << sizeBits)
    for position in 0..<(1 << sizeBits) { unsafe (words + position).initialize(to: Atomic(0)) }
    return CacheIndex(packed: UInt(bitPattern: memory) | UInt(sizeBits))
  }

  func deallocate() { unsafe words.deallocate() }

  @inline(__always)
  var mask: Int { (1 &<< Int(packed & 63)) &- 1 }
  @inline(__always)
  private var words: UnsafeMutablePointer<Atomic<UInt64>> {
    unsafe UnsafeMutablePointer(bitPattern: packed & ~63).unsafelyUnwrapped
  }
  var size: Int { mask + 1 }

  /// Returns the slot of this key with a pin taken, or `nil` if it is not in the index.
  @inline(__always)
  func lookup(_ key: BlockKey, _ hash: UInt64) -> CacheSlot? {
    let mask = mask
    let wanted = hash & CacheIndex.hashMask
    var position = Int(truncatingIfNeeded: wanted) & mask
    while true {
      let word = load(position)
      if word == 0 { return nil }
      if word & CacheIndex.hashMask == wanted {
        let slot = CacheIndex.slot(word)
        if slot.pin(key) { return slot }
      }
      position = (position &+ 1) & mask
    }
  }

  /// Prefetches the words at which a lookup of this hash begins.
  func prefetch(_ hash: UInt64) {
    unsafe cvarve_prefetch(words + (Int(truncatingIfNeeded: hash & CacheIndex.hashMask) & mask))
  }

  // MARK: - Under the shard's lock

  /// Adds a slot; there must be room.
  func insert(_ slot: CacheSlot, hash: UInt64) { insert(word: CacheIndex.word(slot, hash)) }

  /// Removes a slot that is in the index, and moves the words after it into the gap.
  func remove(_ slot: CacheSlot, hash: UInt64) {
    let mask = mask
    let word = CacheIndex.word(slot, hash)
    var hole = Int(truncatingIfNeeded: hash & CacheIndex.hashMask) & mask
    while true {
      let found = load(hole)
      if found == word { break }
      // Continuing would free memory that a lookup may still find.
      guard found != 0 else { fatalError("a block of the cache that its index does not know") }
      hole = (hole &+ 1) & mask
    }
    var position = hole
    while true {
      position = (position &+ 1) & mask
      let moved = load(position)
      if moved == 0 { break }
      let home = Int(truncatingIfNeeded: moved & CacheIndex.hashMask) & mask
      // A word may move back only to a position at or after its home.
      if (position &- home) & mask >= (position &- hole) & mask {
        store(hole, moved)
        hole = position
      }
    }
    store(hole, 0)
  }

  /// Adds the words of a smaller index.
  func insertAll(of other: CacheIndex) {
    for position in 0..<other.size {
      let word = other.load(position)
      if word != 0 { insert(word: word) }
    }
  }

  private func insert(word: UInt64) {
    let mask = mask
    var position = Int(truncatingIfNeeded: word & CacheIndex.hashMask) & mask
    while load(position) != 0 { position = (position &+ 1) & mask }
    store(position, word)
  }

  // MARK: - Words

  @inline(__always)
  private func load(_ position: Int) -> UInt64 {
    // Acquiring: pairs with the releasing `store`, so that a new slot's memory is seen initialized.
    unsafe words[position].load(ordering: .acquiring)
  }

  private func store(_ position: Int, _ word: UInt64) { unsafe words[position].store(word, ordering: .releasing) }

  @inline(__always)
  private static func slot(_ word: UInt64) -> CacheSlot {
    let address = UInt(truncatingIfNeeded: (word >> hashBits) << 6)
    return unsafe CacheSlot(UnsafeMutablePointer(bitPattern: address).unsafelyUnwrapped)
  }

  private static func word(_ slot: CacheSlot, _ hash: UInt64) -> UInt64 {
    let address = unsafe UInt64(UInt(bitPattern: slot.record))
    return (address >> 6) << hashBits | hash & hashMask
  }
}
