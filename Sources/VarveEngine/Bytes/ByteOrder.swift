#if canImport(Darwin)
  import Darwin
#elseif canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#endif

/// The one order of the engine: unsigned bytes from the left, a proper prefix first (`memcmp`, then
/// length). Every richer order is an encoding on the floor above.
extension ByteView {
  /// Negative, zero or positive as `self` sorts before, with or after `other`.
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

  /// How many leading bytes two views share.
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
    // `withUnsafeBytes` has no typed throws over closures of every error: carry the result out.
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
