/// Integers of 1 to 10 bytes with seven bits in each byte, low bits first, and the top bit set in every byte but the
/// last (LEB128, as in LevelDB and Protocol Buffers).
enum Varint {
  static let maximumSize = 10

  /// Returns the number of bytes that `value` takes.
  @inline(__always)
  static func size(_ value: UInt64) -> Int {
    value < 0x80 ? 1 : (70 &- (value.leadingZeroBitCount)) / 7
  }

  /// Writes `value` at `target`, which must have room for it, and returns the number of bytes written.
  @inline(__always)
  @unsafe
  static func store(_ value: UInt64, to target: UnsafeMutableRawPointer) -> Int {
    var rest = value
    var index = 0
    while rest >= 0x80 {
      unsafe target.storeBytes(of: UInt8(truncatingIfNeeded: rest) | 0x80, toByteOffset: index, as: UInt8.self)
      rest >>= 7
      index &+= 1
    }
    unsafe target.storeBytes(of: UInt8(truncatingIfNeeded: rest), toByteOffset: index, as: UInt8.self)
    return index &+ 1
  }
}
