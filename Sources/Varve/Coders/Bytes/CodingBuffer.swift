#if canImport(Darwin)
  internal import Darwin
#elseif canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#endif

/// The bytes of a value that is being encoded: a growing buffer that is reused for the next value.
///
/// # Safety
/// The buffer is the only owner of its memory. Its own methods compute all offsets: every method that takes one
/// requires it to be at most `count`.
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

  /// A copy of the bytes.
  var bytes: [UInt8] { unsafe [UInt8](UnsafeRawBufferPointer(start: base, count: count)) }

  /// The bytes, which are valid until the next change.
  @unsafe
  @inline(__always)
  var content: UnsafeRawBufferPointer { unsafe UnsafeRawBufferPointer(start: base, count: count) }

  /// Removes the content, and frees the memory if it is large.
  mutating func removeAll() {
    count = 0
    if capacity > CoderLimits.keptBufferSize {
      unsafe base.deallocate()
      capacity = 512
      unsafe base = .allocate(byteCount: capacity, alignment: 16)
    }
  }

  /// Removes everything after the first `newCount` bytes.
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

  /// Appends a tag and a number.
  @inline(__always)
  mutating func append<Number: FixedWidthInteger & BitwiseCopyable>(tag: UInt8, _ number: Number) {
    append(tag: tag, number, size: MemoryLayout<Number>.size)
  }

  /// Appends a tag and the first `size` bytes of a number.
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

  /// Returns a copy of some of the bytes.
  func copy(_ range: Range<Int>) -> [UInt8] {
    precondition(range.lowerBound >= 0 && range.upperBound <= count, "copy only what is there")
    return unsafe [UInt8](UnsafeRawBufferPointer(start: base + range.lowerBound, count: range.count))
  }

  /// Compares two ranges of bytes. The result is negative, zero or positive if the left one is before, equal to or
  /// after the right one.
  func compare(_ left: Range<Int>, _ right: Range<Int>) -> Int {
    precondition(left.upperBound <= count && right.upperBound <= count, "compare only what is there")
    let order = unsafe memcmp(base + left.lowerBound, base + right.lowerBound, min(left.count, right.count))
    return order != 0 ? Int(order) : left.count - right.count
  }

  /// Inserts or removes space at an offset: the bytes after the first `oldSize` bytes are moved to after `newSize`
  /// bytes. The space in between is not initialized.
  mutating func resize(at offset: Int, from oldSize: Int, to newSize: Int) {
    precondition(offset >= 0 && offset + oldSize <= count, "resize only what is there")
    let rest = count - offset - oldSize
    if newSize > oldSize { reserve(newSize - oldSize) }
    // The source and the target may overlap, which this method supports.
    unsafe (base + offset + newSize).copyMemory(from: base + offset + oldSize, byteCount: rest)
    count += newSize - oldSize
  }

  /// Inserts bytes at an offset.
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

  /// Sets an existing byte.
  @inline(__always)
  mutating func overwrite(byte: UInt8, at offset: Int) {
    precondition(offset >= 0 && offset < count, "overwrite only what is there")
    unsafe base.storeBytes(of: byte, toByteOffset: offset, as: UInt8.self)
  }

  /// Returns the number of bytes of a varint.
  @inline(__always)
  static func varintSize(_ value: UInt64) -> Int {
    value < 0x80 ? 1 : (70 &- value.leadingZeroBitCount) / 7
  }
}
