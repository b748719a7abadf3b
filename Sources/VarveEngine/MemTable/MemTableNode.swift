internal import Synchronization

/// A node of the memtable's B+tree, as a place in the arena.
///
/// # Layout
/// ```
///   0  8   version, odd while the node changes
///   8  4   count of entries                 12  4  size of the common prefix, level << 8
///  16  4   next node of the level, 0: none  20  4  unused
///  24  40  the common prefix
///  64      heads: 64 words, the eight bytes of each key behind the prefix, big-endian
/// 576      records: 64 offsets of 32 bits
/// 832      children: 64 offsets of 32 bits (inner nodes)
/// ```
/// The keys of an inner node are separators: child i holds what is at or above separator i. The first
/// separator of a level's first node counts as below everything.
///
/// # Invariants
/// 1. Entries ascend by internal key; all keys present share the prefix.
/// 2. Entries are only added, and only move to the right, by a split. So what is not in the node that
///    the level above names is found by following `next` (a B-link tree without high keys: a search
///    that ends behind the last entry of a leaf goes on in the next).
/// 3. A separator is the first entry of its child's first leaf, for ever, except the first of a level.
///
/// # Concurrency
/// The writer changes a published node between `beginChange` and `endChange`. A reader takes the
/// version, reads, and takes the version again; where it was odd or changed, what was read is void.
/// All words are relaxed atomics, so a void read is no data race. A record is looked at only after the
/// version was confirmed: its bytes were there before the version that names it.
///
/// # Safety
/// `address` is a node in a live arena; indices are below 64.
@safe
struct MemTableNode {
  static let entryCountMaximum = 64
  static let prefixSizeMaximum = 40
  static let headsOffset = 64
  static let recordsOffset = 576
  static let childrenOffset = 832
  static let leafSize = 832
  static let innerSize = 1088

  let address: UnsafeMutableRawPointer

  @inline(__always)
  init(_ arena: MemTableArena, _ offset: UInt32) { unsafe address = arena.address(offset) }

  @inline(__always)
  init(base: UnsafeMutableRawPointer, _ offset: UInt32) { unsafe address = base + (Int(offset) << 3) }

  @inline(__always)
  private func word64(_ offset: Int) -> UnsafeMutablePointer<Atomic<UInt64>> {
    unsafe (address + offset).assumingMemoryBound(to: Atomic<UInt64>.self)
  }

  @inline(__always)
  private func word32(_ offset: Int) -> UnsafeMutablePointer<Atomic<UInt32>> {
    unsafe (address + offset).assumingMemoryBound(to: Atomic<UInt32>.self)
  }

  // MARK: - Versions

  /// The version, to be confirmed later; waits while it is odd. Acquire: partner of `endChange`.
  @inline(__always)
  func stableVersion() -> UInt64 {
    let version = unsafe word64(0).pointee.load(ordering: .acquiring)
    return version & 1 == 0 ? version : waitForStableVersion()
  }

  @inline(never)
  private func waitForStableVersion() -> UInt64 {
    var oddReads = 0
    while true {
      let version = unsafe word64(0).pointee.load(ordering: .acquiring)
      if version & 1 == 0 { return version }
      oddReads += 1
      // The writer may have lost its processor in the middle of a change.
      if oddReads % 100 == 0 { ThreadYield.yield() }
    }
  }

  /// Whether nothing changed since `version` was read.
  @inline(__always)
  func isUnchanged(_ version: UInt64) -> Bool {
    atomicMemoryFence(ordering: .acquiring)
    return unsafe word64(0).pointee.load(ordering: .relaxed) == version
  }

  @inline(__always)
  func beginChange() {
    let version = unsafe word64(0).pointee.load(ordering: .relaxed)
    unsafe word64(0).pointee.store(version &+ 1, ordering: .relaxed)
    // The odd version is seen before any of the stores that follow.
    atomicMemoryFence(ordering: .releasing)
  }

  @inline(__always)
  func endChange() {
    let version = unsafe word64(0).pointee.load(ordering: .relaxed)
    unsafe word64(0).pointee.store(version &+ 1, ordering: .releasing)
  }

  // MARK: - Fields

  /// Makes a fresh node of memory whose content is unknown.
  @inline(__always)
  func initialize(level: Int) {
    unsafe word64(0).pointee.store(0, ordering: .relaxed)
    count = 0
    unsafe word32(12).pointee.store(UInt32(level) << 8, ordering: .relaxed)
    next = 0
  }

  /// 0 for a leaf.
  @inline(__always)
  var level: Int { unsafe Int(word32(12).pointee.load(ordering: .relaxed) >> 8) & 15 }

  @inline(__always)
  var count: Int {
    get { unsafe Int(word32(8).pointee.load(ordering: .relaxed)) & 127 }
    nonmutating set { unsafe word32(8).pointee.store(UInt32(truncatingIfNeeded: newValue), ordering: .relaxed) }
  }

  @inline(__always)
  var prefixSize: Int {
    get { unsafe Int(word32(12).pointee.load(ordering: .relaxed)) & 63 }
    nonmutating set {
      unsafe word32(12).pointee.store(UInt32(truncatingIfNeeded: newValue | level << 8), ordering: .relaxed)
    }
  }

  @inline(__always)
  var next: UInt32 {
    get { unsafe word32(16).pointee.load(ordering: .relaxed) }
    nonmutating set { unsafe word32(16).pointee.store(newValue, ordering: .relaxed) }
  }

  @inline(__always)
  func head(_ index: Int) -> UInt64 {
    unsafe word64(Self.headsOffset &+ index &* 8).pointee.load(ordering: .relaxed)
  }

  @inline(__always)
  func setHead(_ index: Int, _ value: UInt64) {
    unsafe word64(Self.headsOffset &+ index &* 8).pointee.store(value, ordering: .relaxed)
  }

  @inline(__always)
  func record(_ index: Int) -> UInt32 {
    unsafe word32(Self.recordsOffset &+ index &* 4).pointee.load(ordering: .relaxed)
  }

  @inline(__always)
  func setRecord(_ index: Int, _ value: UInt32) {
    unsafe word32(Self.recordsOffset &+ index &* 4).pointee.store(value, ordering: .relaxed)
  }

  @inline(__always)
  func child(_ index: Int) -> UInt32 {
    unsafe word32(Self.childrenOffset &+ index &* 4).pointee.load(ordering: .relaxed)
  }

  @inline(__always)
  func setChild(_ index: Int, _ value: UInt32) {
    unsafe word32(Self.childrenOffset &+ index &* 4).pointee.store(value, ordering: .relaxed)
  }

  // MARK: - The prefix

  /// One of the five words that hold the prefix, in memory order, zeros behind its end.
  @inline(__always)
  private func prefixWord(_ index: Int) -> UInt64 {
    unsafe word64(24 &+ index &* 8).pointee.load(ordering: .relaxed)
  }

  /// Takes the first `size` bytes of `key` as the prefix.
  func setPrefix(_ key: ByteView, size: Int) {
    for index in 0..<5 {
      let start = index * 8
      let rest = min(max(size - start, 0), 8)
      let word = rest == 0 ? 0 : key.slice(start, start + rest).head()
      unsafe word64(24 &+ start).pointee.store(word, ordering: .relaxed)
    }
    prefixSize = size
  }

  /// Negative, zero or positive as the first bytes of `key` are below, at or above the prefix of `size`.
  @inline(__always)
  func comparePrefix(_ key: ByteView, size: Int) -> Int {
    var start = 0
    while start < size {
      let mask: UInt64 = size &- start >= 8 ? ~0 : ~(~0 >> UInt64((size &- start) &* 8))
      let mine = prefixWord(start >> 3) & mask
      let theirs = key.head(from: start) & mask
      if mine != theirs { return theirs < mine ? -1 : 1 }
      start &+= 8
    }
    // A key that ends inside the prefix reads as zeros there: it may tie, and is below.
    return key.count < size ? -1 : 0
  }

  /// How many bytes of `key` agree with the prefix of `size`.
  func agreement(_ key: ByteView, size: Int) -> Int {
    var start = 0
    while start < size {
      let difference = prefixWord(start >> 3) ^ key.head(from: start)
      let same = difference == 0 ? 8 : difference.leadingZeroBitCount / 8
      if same < 8 { return min(start + same, size, key.count) }
      start += 8
    }
    return min(size, key.count)
  }
}
