internal import Foundation

/// Writes values in the format of `ValueTag`.
extension CodingBuffer {
  @inline(__always)
  mutating func write(_ value: Bool) { append(byte: value ? ValueTag.yes : ValueTag.no) }

  /// Writes an integer of any type. Its bytes depend on its value alone.
  @inline(__always)
  mutating func write<Integer: FixedWidthInteger>(_ value: Integer) {
    if Integer.bitWidth > 64 {
      if Integer.isSigned {
        write(wide: Int128(truncatingIfNeeded: value))
      } else {
        write(wideUnsigned: UInt128(truncatingIfNeeded: value))
      }
    } else if Integer.isSigned || Integer.bitWidth < 64 {
      write(integer: Int64(truncatingIfNeeded: value))
    } else {
      write(unsigned: UInt64(truncatingIfNeeded: value))
    }
  }

  @inline(__always)
  mutating func write(integer value: Int64) {
    if value >= 0 && value < ValueTag.smallIntegers {
      append(byte: UInt8(truncatingIfNeeded: value))
    } else if value >= 0 && value < ValueTag.mediumIntegers {
      let rest = UInt16(truncatingIfNeeded: value &- ValueTag.smallIntegers)
      append(
        tag: ValueTag.mediumInteger | UInt8(truncatingIfNeeded: rest >> 8), UInt8(truncatingIfNeeded: rest))
    } else {
      write(largeInteger: value)
    }
  }

  private mutating func write(largeInteger value: Int64) {
    if value < 0 && value >= ValueTag.negativeIntegers {
      append(byte: ValueTag.negativeInteger | UInt8(truncatingIfNeeded: value & 0x0f))
      return
    }
    let bitCount = 65 &- (value ^ (value >> 63)).leadingZeroBitCount
    let size = (bitCount &+ 7) / 8
    append(tag: ValueTag.signed | UInt8(truncatingIfNeeded: size &- 1), value, size: size)
  }

  @inline(__always)
  mutating func write(unsigned value: UInt64) {
    if value <= UInt64(Int64.max) {
      write(integer: Int64(value))
    } else {
      append(tag: ValueTag.unsigned64, value)
    }
  }

  mutating func write(wide value: Int128) {
    if let small = Int64(exactly: value) {
      write(integer: small)
    } else if let small = UInt64(exactly: value) {
      write(unsigned: small)
    } else {
      append(tag: ValueTag.signed128, value)
    }
  }

  mutating func write(wideUnsigned value: UInt128) {
    if let small = Int128(exactly: value) {
      write(wide: small)
    } else {
      append(tag: ValueTag.unsigned128, value)
    }
  }

  @inline(__always)
  mutating func write(_ value: Float) { append(tag: ValueTag.float, value.bitPattern) }

  @inline(__always)
  mutating func write(_ value: Double) {
    let short = Float(value)
    if Double(short).bitPattern == value.bitPattern {
      append(tag: ValueTag.shortDouble, short.bitPattern)
    } else {
      append(tag: ValueTag.double, value.bitPattern)
    }
  }

  @inline(__always)
  mutating func write(_ value: Date) { append(tag: ValueTag.date, value.timeIntervalSinceReferenceDate.bitPattern) }

  @inline(__always)
  mutating func write(_ value: UUID) {
    append(byte: ValueTag.uuid)
    unsafe withUnsafeBytes(of: value.uuid) { unsafe append($0) }
  }

  @inline(__always)
  mutating func write(_ value: String) {
    let isWritten: Void? = unsafe value.utf8.withContiguousStorageIfAvailable { unsafe write(utf8: $0) }
    if isWritten == nil { writeForeign(value) }
  }

  @unsafe
  @inline(__always)
  private mutating func write(utf8: UnsafeBufferPointer<UInt8>) {
    if utf8.count < ValueTag.shortStringSize {
      append(byte: ValueTag.shortString | UInt8(truncatingIfNeeded: utf8.count))
    } else {
      append(byte: ValueTag.string)
      append(varint: UInt64(utf8.count))
    }
    unsafe append(UnsafeRawBufferPointer(utf8))
  }

  /// Writes a string that is not contiguous, such as one of Objective-C.
  @inline(never)
  private mutating func writeForeign(_ value: String) {
    var text = value
    text.withUTF8 { unsafe write(utf8: $0) }
  }

  mutating func write(_ value: Data) {
    append(byte: ValueTag.bytes)
    append(varint: UInt64(value.count))
    unsafe value.withUnsafeBytes { unsafe append($0) }
  }

  mutating func write(_ value: [UInt8]) {
    append(byte: ValueTag.bytes)
    append(varint: UInt64(value.count))
    append(value)
  }

  mutating func write(_ value: URL) { write(text: value.relativeString, tag: ValueTag.url) }

  mutating func write(_ value: Decimal) { write(text: value.isNaN ? "NaN" : value.description, tag: ValueTag.decimal) }

  private mutating func write(text: String, tag: UInt8) {
    var text = text
    text.withUTF8 { utf8 in
      append(byte: tag)
      append(varint: UInt64(utf8.count))
      unsafe append(UnsafeRawBufferPointer(utf8))
    }
  }

  // MARK: - Headers

  /// Writes the header of a record before its fields, into the `size` bytes that were reserved at `start`.
  mutating func writeRecordHeader(_ shape: UInt32, at start: Int, size: Int) {
    let wanted = 1 + CodingBuffer.varintSize(UInt64(shape))
    if wanted != size { resize(at: start, from: size, to: wanted) }
    overwrite(byte: ValueTag.record, at: start)
    overwrite(varint: UInt64(shape), at: start + 1)
  }

  /// Writes the header of an array before its elements. If `shape` is not nil, the elements are records of that shape.
  mutating func writeArrayHeader(_ count: Int, shape: UInt32?, at start: Int, size: Int) {
    let countSize = CodingBuffer.varintSize(UInt64(count))
    guard let shape else {
      let isShort = count < ValueTag.shortArrayCount
      let wanted = isShort ? 1 : 1 + countSize
      if wanted != size { resize(at: start, from: size, to: wanted) }
      if isShort { return overwrite(byte: ValueTag.shortArray | UInt8(count), at: start) }
      overwrite(byte: ValueTag.array, at: start)
      return overwrite(varint: UInt64(count), at: start + 1)
    }
    let wanted = 1 + countSize + CodingBuffer.varintSize(UInt64(shape))
    if wanted != size { resize(at: start, from: size, to: wanted) }
    overwrite(byte: ValueTag.uniformArray, at: start)
    overwrite(varint: UInt64(count), at: start + 1)
    overwrite(varint: UInt64(shape), at: start + 1 + countSize)
  }

  /// Writes the header of a map before its entries.
  mutating func writeMapHeader(_ count: Int, at start: Int, size: Int) {
    let wanted = 1 + CodingBuffer.varintSize(UInt64(count))
    if wanted != size { resize(at: start, from: size, to: wanted) }
    overwrite(byte: ValueTag.map, at: start)
    overwrite(varint: UInt64(count), at: start + 1)
  }

  private mutating func overwrite(varint value: UInt64, at offset: Int) {
    var rest = value
    var location = offset
    while rest >= 0x80 {
      overwrite(byte: UInt8(truncatingIfNeeded: rest) | 0x80, at: location)
      location += 1
      rest >>= 7
    }
    overwrite(byte: UInt8(truncatingIfNeeded: rest), at: location)
  }
}
