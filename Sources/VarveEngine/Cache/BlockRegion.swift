import Synchronization

#if canImport(Darwin)
  import Darwin
#elseif canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#endif

/// A stretch of address space with slots of one size; its bookkeeping is in the place of the first.
///
/// # Safety
/// A reference: `header` is valid until `unmap`, and aligned to the region's size.
///
/// # Concurrency
/// All is done under the lock of the stripe that the region belongs to; `stripe` never changes.
@safe
struct BlockRegion: @unchecked Sendable {
  // Sendable: see Concurrency.
  static let size = 2 << 20

  /// Which list of its stripe a region is in.
  enum List: UInt8 {
    case none, resident, returned
  }

  /// Safety: the links are to regions of the same stripe, under whose lock they are used.
  @safe
  fileprivate struct Header {
    var next: UnsafeMutablePointer<Header>?
    var previous: UnsafeMutablePointer<Header>?
    let stripe: Int
    /// The bytes of a slot, and how many there are, that of the bookkeeping included.
    let slotSize: Int
    let slotCount: Int
    var list: List
    var freeCount: Int
    /// Free slots that have memory.
    var idleCount = 0
    /// A bit a slot.
    var free: InlineArray<8, UInt64>
    /// Of the free ones: which have memory.
    var idle = InlineArray<8, UInt64>(repeating: 0)
  }

  fileprivate let header: UnsafeMutablePointer<Header>

  fileprivate init(_ header: UnsafeMutablePointer<Header>) { unsafe self.header = header }

  /// The region of a slot.
  @unsafe
  init(holding slot: UnsafeMutableRawPointer) {
    let start = UInt(bitPattern: slot) & ~UInt(BlockRegion.size - 1)
    unsafe header = UnsafeMutablePointer(bitPattern: start).unsafelyUnwrapped
  }

  /// A region of its own; nil where the system has none.
  static func map(stripe: Int, slotSize: Int) -> BlockRegion? {
    // Twice the size has an aligned half.
    let wide = unsafe mmap(nil, 2 * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | Int32(MAP_ANON), -1, 0)
    guard let wide = unsafe wide, unsafe wide != MAP_FAILED else { return nil }
    let before = (size - Int(bitPattern: wide) & (size - 1)) & (size - 1)
    let base = unsafe wide + before
    if before > 0 { unsafe munmap(wide, before) }
    if before < size { unsafe munmap(base + size, size - before) }
    #if os(Linux)
      // A huge page could go back only as a whole.
      unsafe madvise(base, size, Int32(MADV_NOHUGEPAGE))
    #endif
    let header = unsafe base.bindMemory(to: Header.self, capacity: 1)
    let count = size / slotSize
    var free = InlineArray<8, UInt64>(repeating: 0)
    for slot in 1..<count { free[slot >> 6] |= 1 << UInt64(slot & 63) }
    unsafe header.initialize(
      to: Header(
        stripe: stripe, slotSize: slotSize, slotCount: count, list: .none, freeCount: count - 1, free: free))
    return unsafe BlockRegion(header)
  }

  func unmap() { unsafe munmap(header, BlockRegion.size) }

  var stripe: Int { unsafe header.pointee.stripe }
  var next: BlockRegion? { unsafe header.pointee.next.map { unsafe BlockRegion($0) } }
  var isEmpty: Bool { unsafe header.pointee.freeCount == header.pointee.slotCount - 1 }

  /// The list that the region is in.
  var listNumber: List {
    get { unsafe header.pointee.list }
    nonmutating set { unsafe header.pointee.list = newValue }
  }

  /// The one that it belongs to.
  var rightList: List {
    unsafe header.pointee.idleCount > 0 ? .resident : header.pointee.freeCount > 0 ? .returned : .none
  }

  /// A free slot, one that has memory if there is any, and whether it has. Requires: there is a free slot.
  @unsafe
  func take() -> (slot: UnsafeMutableRawPointer, wasIdle: Bool) {
    let wasIdle = unsafe header.pointee.idleCount > 0
    for word in 0..<8 {
      let bits = unsafe wasIdle ? header.pointee.idle[word] : header.pointee.free[word]
      if bits == 0 { continue }
      let bit = bits & (~bits &+ 1)
      unsafe header.pointee.free[word] &= ~bit
      unsafe header.pointee.idle[word] &= ~bit
      unsafe header.pointee.freeCount -= 1
      if wasIdle { unsafe header.pointee.idleCount -= 1 }
      let slot = word << 6 + bits.trailingZeroBitCount
      return unsafe (UnsafeMutableRawPointer(header) + slot * header.pointee.slotSize, wasIdle)
    }
    fatalError("a region without a free slot is in a list of those that have one: report this as a bug")
  }

  func giveBack(_ slot: UnsafeMutableRawPointer) {
    let number = unsafe (slot - UnsafeMutableRawPointer(header)) / header.pointee.slotSize
    let bit: UInt64 = 1 << UInt64(number & 63)
    precondition(unsafe number > 0 && header.pointee.free[number >> 6] & bit == 0, "a slot is given back once")
    unsafe header.pointee.free[number >> 6] |= bit
    unsafe header.pointee.idle[number >> 6] |= bit
    unsafe header.pointee.freeCount += 1
    unsafe header.pointee.idleCount += 1
  }

  /// Gives the memory of free slots back; returns how many bytes that were.
  func returnFreeSlots() -> Int {
    let slotSize = unsafe header.pointee.slotSize
    let count = unsafe header.pointee.slotCount
    let bytes = unsafe header.pointee.idleCount * slotSize
    var slot = 1
    while slot < count {
      let start = slot
      while slot < count, isIdle(slot) { slot += 1 }
      if slot > start {
        let base = unsafe UnsafeMutableRawPointer(header) + start * slotSize
        unsafe madvise(base, (slot - start) * slotSize, Int32(MADV_DONTNEED))
      }
      slot += 1
    }
    unsafe header.pointee.idle = InlineArray(repeating: 0)
    unsafe header.pointee.idleCount = 0
    return bytes
  }

  private func isIdle(_ slot: Int) -> Bool {
    unsafe header.pointee.idle[slot >> 6] & (1 << UInt64(slot & 63)) != 0
  }
}

/// Regions, linked through their own bookkeeping.
///
/// Under the lock of their stripe.
@safe
struct BlockRegionList: @unchecked Sendable {
  // Sendable: see above.
  private var head: UnsafeMutablePointer<BlockRegion.Header>?

  init() { unsafe head = nil }

  var first: BlockRegion? { unsafe head.map { unsafe BlockRegion($0) } }

  mutating func insert(_ region: BlockRegion) {
    unsafe region.header.pointee.previous = nil
    unsafe region.header.pointee.next = head
    if let head = unsafe head { unsafe head.pointee.previous = region.header }
    unsafe head = region.header
  }

  mutating func remove(_ region: BlockRegion) {
    let next = unsafe region.header.pointee.next
    let previous = unsafe region.header.pointee.previous
    if let next = unsafe next { unsafe next.pointee.previous = previous }
    if let previous = unsafe previous { unsafe previous.pointee.next = next } else { unsafe head = next }
    unsafe region.header.pointee.next = nil
    unsafe region.header.pointee.previous = nil
  }
}
