internal import Varve

/// Reading and writing bytes without copies.
extension RawSpan {
  /// A copy of the bytes.
  @inline(__always)
  var array: [UInt8] {
    // Safety: the bytes are copied within the call.
    unsafe withUnsafeBytes { unsafe [UInt8]($0) }
  }

  /// Returns the big-endian number in four bytes, or `nil` if there are fewer.
  @inline(__always)
  var leadingNumber: UInt32? {
    guard byteCount >= 4 else { return nil }
    // Safety: the load checks its bounds, and every four bytes are a number.
    return unsafe UInt32(bigEndian: unsafeLoadUnaligned(fromByteOffset: 0, as: UInt32.self))
  }

  /// Returns whether both have the same bytes.
  @inline(__always)
  func equals(_ other: [UInt8]) -> Bool {
    // Safety: both are read within the call.
    unsafe withUnsafeBytes { own in unsafe other.withUnsafeBytes { unsafe own.elementsEqual($0) } }
  }
}

extension [UInt8] {
  /// Appends the bytes of a span.
  @inline(__always)
  mutating func append(bytes: RawSpan) {
    // Safety: the bytes are copied within the call.
    unsafe bytes.withUnsafeBytes { unsafe append(contentsOf: $0) }
  }

  /// Appends a number in big-endian order.
  @inline(__always)
  mutating func append(number: some FixedWidthInteger) {
    var shift = number.bitWidth
    while shift > 0 {
      shift -= 8
      append(UInt8(truncatingIfNeeded: number >> shift))
    }
  }

  /// Appends a number that is not negative, seven bits a byte, the lowest first.
  mutating func append(varint number: Int) {
    var rest = UInt(bitPattern: number)
    while rest >= 0x80 {
      append(UInt8(truncatingIfNeeded: rest) | 0x80)
      rest >>= 7
    }
    append(UInt8(truncatingIfNeeded: rest))
  }
}
