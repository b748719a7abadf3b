internal import Foundation

/// Comparing and hashing bytes where they lie.
enum ByteCompare {
  /// Below zero where the first bytes come first. The ranges have to be within the bytes.
  @inline(__always)
  static func order(
    _ left: UnsafeRawBufferPointer, _ leftRange: Range<Int>, _ right: UnsafeRawBufferPointer, _ rightRange: Range<Int>
  ) -> Int {
    let count = min(leftRange.count, rightRange.count)
    guard count > 0, let first = left.baseAddress, let second = right.baseAddress else {
      return leftRange.count - rightRange.count
    }
    // Safety: the caller's ranges are within the bytes.
    let difference = unsafe memcmp(first + leftRange.lowerBound, second + rightRange.lowerBound, count)
    return difference != 0 ? Int(difference) : leftRange.count - rightRange.count
  }

  /// Bytes by eight, each multiplied in (the way of FNV, with words in position of bytes), and mixed at the end.
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
