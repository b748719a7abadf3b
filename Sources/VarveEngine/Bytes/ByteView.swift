internal import CVarve

/// A borrowed, read-only run of bytes: a pointer and a count, copied as freely as an integer.
///
/// This is the engine's currency between the memtable, blocks and iterators. It exists because a
/// `RawSpan` can't be stored in an escapable value, and an `UnsafeRawBufferPointer` carries an
/// optional base and a check of it on each access.
///
/// # Safety
/// A view does not keep its bytes alive. A caller that hands one out says until when it is valid (an
/// iterator: until it moves; a memtable: while the memtable lives; a block: while its pin lives), and
/// the caller that takes one does not keep it longer. All accesses are checked against `count` by `assert`.
/// Bytes that come from disk are never read by these accessors before their bounds were validated:
/// parsing goes through `ByteReader`, which throws.
@safe
struct ByteView: @unchecked Sendable {
  // Sendable: immutable bytes, as stable as the owner's guarantee above.
  let base: UnsafeRawPointer
  let count: Int

  @inline(__always)
  init(base: UnsafeRawPointer, count: Int) {
    unsafe self.base = base
    self.count = count
  }

  /// An empty view. Its base may not be read.
  @inline(__always)
  init() {
    unsafe self.base = UnsafeRawPointer(bitPattern: 8).unsafelyUnwrapped
    self.count = 0
  }

  /// The bytes of a buffer pointer, whose base may be nil when it is empty.
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

  /// A copy for callers that keep the bytes.
  var bytes: [UInt8] { unsafe [UInt8](buffer) }

  @inline(__always)
  subscript(index: Int) -> UInt8 {
    assert(index >= 0 && index < count, "a byte outside the view")
    return unsafe base.load(fromByteOffset: index, as: UInt8.self)
  }

  /// Asks the processor for the memory of a byte that will be read soon.
  @inline(__always)
  func prefetch(_ offset: Int) {
    assert(offset >= 0 && offset < count, "a byte outside the view")
    unsafe cvarve_prefetch(base + offset)
  }

  /// The bytes from `start` (included) to `end` (excluded).
  @inline(__always)
  func slice(_ start: Int, _ end: Int) -> ByteView {
    assert(start >= 0 && start <= end && end <= count, "a slice outside the view")
    return unsafe ByteView(base: base + start, count: end &- start)
  }

  /// The bytes from `start` to the end.
  @inline(__always)
  func dropFirst(_ start: Int) -> ByteView { slice(start, count) }

  /// A little-endian integer at `offset`, at any alignment.
  @inline(__always)
  func load<T: FixedWidthInteger & BitwiseCopyable>(_ offset: Int, as type: T.Type) -> T {
    assert(offset >= 0 && offset + MemoryLayout<T>.size <= count, "a load outside the view")
    return unsafe T(littleEndian: base.loadUnaligned(fromByteOffset: offset, as: T.self))
  }

  /// The eight bytes from `offset` as a big-endian integer, so that comparing two heads compares the
  /// bytes; what lies after the end counts as zero.
  ///
  /// Equal heads decide nothing (a key that ends is not distinguished from one that continues with
  /// zeros): compare in full then.
  @inline(__always)
  func head(from offset: Int = 0) -> UInt64 {
    let available = count &- offset
    if available >= 8 {
      return unsafe UInt64(bigEndian: base.loadUnaligned(fromByteOffset: offset, as: UInt64.self))
    }
    if available <= 0 { return 0 }
    return shortHead(offset, available)
  }

  /// `head` for fewer than eight bytes, by at most three loads.
  @inline(__always)
  private func shortHead(_ offset: Int, _ available: Int) -> UInt64 {
    let start = unsafe base + offset
    if available >= 4 {
      let high = unsafe UInt64(UInt32(bigEndian: start.loadUnaligned(as: UInt32.self)))
      let low = unsafe UInt64(
        UInt32(bigEndian: start.loadUnaligned(fromByteOffset: available &- 4, as: UInt32.self)))
      // The two loads overlap where fewer than eight bytes remain: or-ing equal bits is harmless.
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
  /// The bytes in quotes, for people: printable ASCII as it is, the rest as `\xNN`, and what is long
  /// cut with its length.
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
