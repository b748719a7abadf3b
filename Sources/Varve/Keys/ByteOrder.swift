internal import Foundation

/// The order of keys in the storage: byte by byte, with a prefix before its extensions.
enum ByteOrder {
  /// Returns whether `left` comes before `right`.
  @inline(__always)
  static func precedes(_ left: [UInt8], _ right: [UInt8]) -> Bool { compare(left, right) < 0 }

  /// Compares two byte strings. The result is negative, zero or positive if `left` is before, equal to or after
  /// `right`.
  @inline(__always)
  static func compare(_ left: [UInt8], _ right: [UInt8]) -> Int {
    let shared = min(left.count, right.count)
    let order = unsafe left.withUnsafeBytes { left in
      unsafe right.withUnsafeBytes { right in
        // Safety: both have at least `shared` bytes; an empty one may have no address, and is not read.
        guard let left = left.baseAddress, let right = right.baseAddress else { return 0 }
        return unsafe Int(memcmp(left, right, shared))
      }
    }
    return order != 0 ? order : left.count - right.count
  }

  /// Compares two byte strings. The result is negative, zero or positive if `left` is before, equal to or after
  /// `right`.
  @inline(__always)
  static func compare(_ left: RawSpan, _ right: RawSpan) -> Int {
    let shared = min(left.byteCount, right.byteCount)
    let order = unsafe left.withUnsafeBytes { left in
      unsafe right.withUnsafeBytes { right in
        // Safety: both have at least `shared` bytes; an empty one may have no address, and is not read.
        guard let left = left.baseAddress, let right = right.baseAddress else { return 0 }
        return unsafe Int(memcmp(left, right, shared))
      }
    }
    return order != 0 ? order : left.byteCount - right.byteCount
  }

  /// Returns whether both have the same bytes.
  @inline(__always)
  static func areEqual(_ left: [UInt8], _ right: [UInt8]) -> Bool {
    left.count == right.count && compare(left, right) == 0
  }
}
