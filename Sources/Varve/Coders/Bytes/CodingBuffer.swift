#if canImport(Darwin)
  internal import Darwin
#elseif canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#endif

/// The bytes of a value while they are put together: memory of its own that grows, and is kept for the next value.
///
/// # Safety
/// The only owner of its memory. All offsets are of its own making: every method that takes one requires that it is
/// at most `count`.
@safe
struct CodingBuffer: ~Copyable {
  private var base: UnsafeMutableRawPointer
  private(set) var count = 0
  private var capacity: Int

  init(capacity: Int = 512) {
    self.capacity = capacity
    unsafe base = .allocate(byteCount: capacity, alignment: 16)
  }

  deinit { unsafe base.deallocate() }

  /// A copy.
  var bytes: [UInt8] { unsafe [UInt8](UnsafeRawBufferPointer(start: base, count: count)) }

  /// The bytes, until the next change.
  @unsafe
  @inline(__always)
  var content: UnsafeRawBufferPointer { unsafe UnsafeRawBufferPointer(start: base, count: count) }

  /// Forgets the content, and the memory too where it is much.
  mutating func removeAll() {
    count = 0
    if capacity > CoderLimits.keptBufferSize {
      unsafe base.deallocate()
      capacity = 512
      unsafe base = .allocate(byteCount: capacity, alignment: 16)
    }
  }

  /// Forgets what is after `newCount` bytes.
  @inline(__always)
  mutating func truncate(to newCount: Int) {
    precondition(newCount >= 0 && newCount <= count, "truncate only to a shorter length")
    count = newCount
  }

  @inline(__always)
  mutating func reserve(_ extra: Int) {
    if capacity &- count < extra { grow(extra) }
  }

  @inline(never)
  private mutating func grow(_ extra: Int) {
    let wanted = max(capacity * 2, count + extra)
    let larger = UnsafeMutableRawPointer.allocate(byteCount: wanted, alignment: 16)
    unsafe larger.copyMemory(from: base, byteCount: count)
    unsafe base.deallocate()
    unsafe base = larger
    capacity = wanted
  }

  @inline(__always)
  mutating func append(byte: UInt8) {
    reserve(1)
    unsafe base.storeBytes(of: byte, toByteOffset: count, as: UInt8.self)
    count &+= 1
  }

  /// A tag and a number after it.
  @inline(__always)
  mutating func append<Number: FixedWidthInteger & BitwiseCopyable>(tag: UInt8, _ number: Number) {
    append(tag: tag, number, size: MemoryLayout<Number>.size)
  }

  /// A tag, and the first `size` bytes of a number after it.
  @inline(__always)
  mutating func append<Number: FixedWidthInteger & BitwiseCopyable>(tag: UInt8, _ number: Number, size: Int) {
    reserve(1 &+ MemoryLayout<Number>.size)
    unsafe base.storeBytes(of: tag, toByteOffset: count, as: UInt8.self)
    unsafe base.storeBytes(of: number.littleEndian, toByteOffset: count &+ 1, as: Number.self)
    count &+= 1 &+ size
  }

  @inline(__always)
  mutating func append(varint value: UInt64) {
    reserve(10)
    var rest = value
    while rest >= 0x80 {
      unsafe base.storeBytes(of: UInt8(truncatingIfNeeded: rest) | 0x80, toByteOffset: count, as: UInt8.self)
      count &+= 1
      rest >>= 7
    }
    unsafe base.storeBytes(of: UInt8(truncatingIfNeeded: rest), toByteOffset: count, as: UInt8.self)
    count &+= 1
  }

  @unsafe
  @inline(__always)
  mutating func append(_ bytes: UnsafeRawBufferPointer) {
    guard let source = bytes.baseAddress else { return }
    reserve(bytes.count)
    unsafe (base + count).copyMemory(from: source, byteCount: bytes.count)
    count &+= bytes.count
  }

  mutating func append(_ bytes: [UInt8]) {
    unsafe bytes.withUnsafeBytes { unsafe append($0) }
  }

  mutating func append(_ bytes: ArraySlice<UInt8>) {
    unsafe bytes.withUnsafeBytes { unsafe append($0) }
  }

  mutating func append(repeating byte: UInt8, count extra: Int) {
    guard extra > 0 else { return }
    reserve(extra)
    unsafe (base + count).initializeMemory(as: UInt8.self, repeating: byte, count: extra)
    count &+= extra
  }

  /// Copies some of the bytes out.
  func copy(_ range: Range<Int>) -> [UInt8] {
    precondition(range.lowerBound >= 0 && range.upperBound <= count, "copy only what is there")
    return unsafe [UInt8](UnsafeRawBufferPointer(start: base + range.lowerBound, count: range.count))
  }

  /// Negative, zero or positive, as some bytes come before, are, or come after others.
  func compare(_ left: Range<Int>, _ right: Range<Int>) -> Int {
    precondition(left.upperBound <= count && right.upperBound <= count, "compare only what is there")
    let order = unsafe memcmp(base + left.lowerBound, base + right.lowerBound, min(left.count, right.count))
    return order != 0 ? Int(order) : left.count - right.count
  }

  /// Makes room for bytes at an offset, or takes some away there: what is after `oldSize` bytes moves to be after
  /// `newSize`. The bytes in between are not set.
  mutating func resize(at offset: Int, from oldSize: Int, to newSize: Int) {
    precondition(offset >= 0 && offset + oldSize <= count, "resize only what is there")
    let rest = count - offset - oldSize
    if newSize > oldSize { reserve(newSize - oldSize) }
    // As if through a third position: the two may overlap.
    unsafe (base + offset + newSize).copyMemory(from: base + offset + oldSize, byteCount: rest)
    count += newSize - oldSize
  }

  /// Puts bytes in at an offset.
  mutating func insert(_ bytes: [UInt8], at offset: Int) {
    resize(at: offset, from: 0, to: bytes.count)
    overwrite(bytes, at: offset)
  }

  mutating func overwrite(_ bytes: [UInt8], at offset: Int) {
    precondition(offset >= 0 && offset + bytes.count <= count, "overwrite only what is there")
    unsafe bytes.withUnsafeBytes { source in
      if let start = source.baseAddress { unsafe (base + offset).copyMemory(from: start, byteCount: source.count) }
    }
  }

  /// Sets a byte that is there.
  @inline(__always)
  mutating func overwrite(byte: UInt8, at offset: Int) {
    precondition(offset >= 0 && offset < count, "overwrite only what is there")
    unsafe base.storeBytes(of: byte, toByteOffset: offset, as: UInt8.self)
  }

  /// How many bytes a varint takes.
  @inline(__always)
  static func varintSize(_ value: UInt64) -> Int {
    value < 0x80 ? 1 : (70 &- value.leadingZeroBitCount) / 7
  }
}
