#if canImport(Darwin)
  import Darwin
#elseif canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#endif

/// The key order of the engine: unsigned bytes compared from the left, and a proper prefix before the longer key
/// (`memcmp`, then length).
///
/// Layers above the engine encode any richer order into these bytes.
extension ByteView {
  /// Returns a negative number, zero or a positive number if `self` sorts before, equal to or after `other`.
  @inline(__always)
  func compare(_ other: ByteView) -> Int {
    let shared = count < other.count ? count : other.count
    if shared > 0 {
      let order = unsafe memcmp(base, other.base, shared)
      if order != 0 { return Int(order) }
    }
    return count &- other.count
  }

  @inline(__always)
  func equals(_ other: ByteView) -> Bool {
    count == other.count && (count == 0 || (unsafe memcmp(base, other.base, count)) == 0)
  }

  @inline(__always)
  func starts(with prefix: ByteView) -> Bool {
    count >= prefix.count && (prefix.count == 0 || (unsafe memcmp(base, prefix.base, prefix.count)) == 0)
  }

  /// Returns the number of leading bytes that two views share.
  @inline(__always)
  func sharedPrefixCount(_ other: ByteView) -> Int {
    let limit = count < other.count ? count : other.count
    var index = 0
    while index &+ 8 <= limit {
      let difference =
        unsafe base.loadUnaligned(fromByteOffset: index, as: UInt64.self)
        ^ other.base.loadUnaligned(fromByteOffset: index, as: UInt64.self)
      if difference != 0 { return index &+ UInt64(littleEndian: difference).trailingZeroBitCount / 8 }
      index &+= 8
    }
    while index < limit, self[index] == other[index] { index &+= 1 }
    return index
  }
}

extension ByteView: Comparable {
  @inline(__always)
  static func == (left: ByteView, right: ByteView) -> Bool { left.equals(right) }
  @inline(__always)
  static func < (left: ByteView, right: ByteView) -> Bool { left.compare(right) < 0 }
}

extension [UInt8] {
  /// Runs `body` with a view of the array's bytes, valid inside `body` only.
  func withByteView<R, E: Error>(_ body: (ByteView) throws(E) -> R) throws(E) -> R {
    // `withUnsafeBytes` cannot rethrow every typed error, so the closure carries the result out.
    var result: Result<R, E>?
    unsafe self.withUnsafeBytes { buffer in
      do throws(E) { result = .success(try body(unsafe ByteView(buffer))) } catch { result = .failure(error) }
    }
    return try unsafe result.unsafelyUnwrapped.get()
  }
}

extension RawSpan {
  /// Runs `body` with a view of the span's bytes, valid inside `body` only.
  @inline(__always)
  func withByteView<R, E: Error>(_ body: (ByteView) throws(E) -> R) throws(E) -> R {
    try unsafe self.withUnsafeBytes { (buffer) throws(E) -> R in try body(unsafe ByteView(buffer)) }
  }
}
