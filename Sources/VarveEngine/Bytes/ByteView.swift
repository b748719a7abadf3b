internal import CVarve

/// A borrowed, read-only range of bytes: a pointer and a count, as cheap to copy as an integer.
///
/// Memtables, blocks and iterators exchange bytes as views. The type exists because a `RawSpan` can't be stored in an
/// escapable value, and an `UnsafeRawBufferPointer` has an optional base that each access checks.
///
/// # Safety
/// A view does not keep its bytes alive. The API that returns one documents how long it is valid (an iterator: until
/// it moves; a memtable: while the memtable lives; a block: while its pin lives), and the caller does not keep the
/// view longer. All accesses are checked against `count` by `assert`. These accessors never read bytes from disk
/// whose bounds were not validated: parsing uses `ByteReader`, which throws.
@safe
struct ByteView: @unchecked Sendable {
  // Sendable: the bytes are immutable for as long as the owner guarantees above.
  let base: UnsafeRawPointer
  let count: Int

  @inline(__always)
  init(base: UnsafeRawPointer, count: Int) {
    unsafe self.base = base
    self.count = count
  }

  /// Creates an empty view, whose base must not be read.
  @inline(__always)
  init() {
    unsafe self.base = UnsafeRawPointer(bitPattern: 8).unsafelyUnwrapped
    self.count = 0
  }

  /// Creates a view of a buffer pointer, whose base may be nil if it is empty.
  @inline(__always)
  init(_ buffer: UnsafeRawBufferPointer) {
    if let base = buffer.baseAddress {
      unsafe self.init(base: base, count: buffer.count)
    } else {
      self.init()
    }
  }

  @inline(__always)
  var isEmpty: Bool { count == 0 }

  @inline(__always)
  var buffer: UnsafeRawBufferPointer { unsafe UnsafeRawBufferPointer(start: base, count: count) }

  /// A copy of the bytes, for callers that keep them.
  var bytes: [UInt8] { unsafe [UInt8](buffer) }

  @inline(__always)
  subscript(index: Int) -> UInt8 {
    assert(index >= 0 && index < count, "a byte outside the view")
    return unsafe base.load(fromByteOffset: index, as: UInt8.self)
  }

  /// Prefetches the cache line of a byte that will be read soon.
  @inline(__always)
  func prefetch(_ offset: Int) {
    assert(offset >= 0 && offset < count, "a byte outside the view")
    unsafe cvarve_prefetch(base + offset)
  }

  /// Returns the bytes from `start` (included) to `end` (excluded).
  @inline(__always)
  func slice(_ start: Int, _ end: Int) -> ByteView {
    assert(start >= 0 && start <= end && end <= count, "a slice outside the view")
    return unsafe ByteView(base: base + start, count: end &- start)
  }

  /// Returns the bytes from `start` to the end.
  @inline(__always)
  func dropFirst(_ start: Int) -> ByteView { slice(start, count) }

  /// Returns the little-endian integer at `offset`, which need not be aligned.
  @inline(__always)
  func load<T: FixedWidthInteger & BitwiseCopyable>(_ offset: Int, as type: T.Type) -> T {
    assert(offset >= 0 && offset + MemoryLayout<T>.size <= count, "a load outside the view")
    return unsafe T(littleEndian: base.loadUnaligned(fromByteOffset: offset, as: T.self))
  }

  /// Returns the eight bytes from `offset` as a big-endian integer, so that comparing two heads compares the bytes.
  /// Bytes past the end count as zero.
  ///
  /// Equal heads do not decide an order, because a key that ends has the same head as one that continues with zeros.
  /// The caller must then compare the whole keys.
  @inline(__always)
  func head(from offset: Int = 0) -> UInt64 {
    let available = count &- offset
    if available >= 8 {
      return unsafe UInt64(bigEndian: base.loadUnaligned(fromByteOffset: offset, as: UInt64.self))
    }
    if available <= 0 { return 0 }
    return shortHead(offset, available)
  }

  /// Returns the head of fewer than eight bytes, by at most three loads.
  @inline(__always)
  private func shortHead(_ offset: Int, _ available: Int) -> UInt64 {
    let start = unsafe base + offset
    if available >= 4 {
      let high = unsafe UInt64(UInt32(bigEndian: start.loadUnaligned(as: UInt32.self)))
      let low = unsafe UInt64(
        UInt32(bigEndian: start.loadUnaligned(fromByteOffset: available &- 4, as: UInt32.self)))
      // The two loads overlap if fewer than eight bytes remain, which is harmless: both have equal bits there.
      return (high << 32) | (low << UInt64((8 &- available) &* 8))
    }
    var result: UInt64 = 0
    for index in 0..<available {
      result |= unsafe UInt64(start.load(fromByteOffset: index, as: UInt8.self)) << UInt64(56 &- index &* 8)
    }
    return result
  }
}

extension ByteView {
  /// The bytes in quotes, for display: printable ASCII is unchanged, other bytes are `\xNN`, and long input is
  /// truncated and followed by its length.
  var printable: String {
    let shownMaximum = 64
    var text = "\""
    for index in 0..<min(count, shownMaximum) {
      let byte = self[index]
      switch byte {
      case 0x22, 0x5c: text += "\\" + String(UnicodeScalar(byte))
      case 0x20..<0x7f: text += String(UnicodeScalar(byte))
      default: text += "\\x" + (byte < 16 ? "0" : "") + String(byte, radix: 16)
      }
    }
    return count > shownMaximum ? text + "\"… (\(count) bytes)" : text + "\""
  }
}
