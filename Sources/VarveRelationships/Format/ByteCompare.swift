internal import Foundation

/// Compares and hashes bytes without copying them.
enum ByteCompare {
  /// Compares two ranges of bytes, which must be in bounds. The result is negative, zero or positive if the left bytes
  /// are before, equal to or after the right ones.
  @inline(__always)
  static func order(
    _ left: UnsafeRawBufferPointer, _ leftRange: Range<Int>, _ right: UnsafeRawBufferPointer, _ rightRange: Range<Int>
  ) -> Int {
    let count = min(leftRange.count, rightRange.count)
    guard count > 0, let first = left.baseAddress, let second = right.baseAddress else {
      return leftRange.count - rightRange.count
    }
    // Safety: the caller's ranges are in bounds.
    let difference = unsafe memcmp(first + leftRange.lowerBound, second + rightRange.lowerBound, count)
    return difference != 0 ? Int(difference) : leftRange.count - rightRange.count
  }

  /// Returns a hash of a range of bytes: eight bytes at a time are multiplied in (as in FNV, but with words instead of
  /// bytes), and the result is mixed.
  static func hash(_ bytes: UnsafeRawBufferPointer, _ range: Range<Int>) -> UInt64 {
    var hash: UInt64 = 0xcbf2_9ce4_8422_2325 ^ UInt64(truncatingIfNeeded: range.count)
    var index = range.lowerBound
    while index + 8 <= range.upperBound {
      // Safety: the eight bytes are within the range.
      hash = (hash ^ (unsafe bytes.loadUnaligned(fromByteOffset: index, as: UInt64.self))) &* 0x9e37_79b9_7f4a_7c15
      hash ^= hash >> 29
      index += 8
    }
    while index < range.upperBound {
      hash = (hash ^ UInt64(unsafe bytes[index])) &* 0x100_0000_01b3
      index += 1
    }
    hash = (hash ^ (hash >> 32)) &* 0xd6e8_feb8_6659_fd93
    return hash ^ (hash >> 32)
  }
}
