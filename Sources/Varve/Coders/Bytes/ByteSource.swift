#if canImport(Darwin)
  internal import Darwin
#elseif canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#endif

/// The reason why a value could not be read. The container that requested it adds the coding path.
package enum ReadFailure: Error {
  /// The bytes are not those that an encoder writes.
  case damaged
  /// The value is of another kind than the type.
  case mismatch
  case null
  /// The number is outside the range of the type, or not one of its values.
  case doesNotFit
  /// The text is not a UUID, URL or number.
  case badText
  case other(any Error)
}

/// Bytes that may be damaged: each read is checked against the remaining bytes, and throws if it exceeds them.
///
/// # Safety
/// A source does not keep its bytes alive. A decoder has one during a call, and an empty one otherwise.
@safe
package struct ByteSource {
  private let base: UnsafeRawPointer
  package let count: Int

  /// Creates a source without bytes.
  init() { unsafe self.init(UnsafeRawBufferPointer(start: nil, count: 0)) }

  @unsafe
  package init(_ bytes: UnsafeRawBufferPointer) {
    unsafe self.init(base: bytes.baseAddress ?? ByteSource.nowhere, count: bytes.count)
  }

  @unsafe
  init(base: UnsafeRawPointer, count: Int) {
    unsafe self.base = base
    self.count = count
  }

  /// The address of an empty source, which is never read.
  private static var nowhere: UnsafeRawPointer { unsafe UnsafeRawPointer(bitPattern: 8).unsafelyUnwrapped }

  /// Returns the byte at an offset, which must not be negative.
  @inline(__always)
  package func byte(_ offset: Int) throws(ReadFailure) -> UInt8 {
    guard offset < count else { throw .damaged }
    return unsafe base.load(fromByteOffset: offset, as: UInt8.self)
  }

  /// Returns the byte at an offset, and advances the offset.
  @inline(__always)
  package func next(_ offset: inout Int) throws(ReadFailure) -> UInt8 {
    let result = try byte(offset)
    offset &+= 1
    return result
  }

  /// Moves the offset over some bytes.
  @inline(__always)
  package func pass(_ offset: inout Int, _ size: Int) throws(ReadFailure) {
    guard size <= count &- offset else { throw .damaged }
    offset &+= size
  }

  /// Reads a little-endian number as it is represented in memory.
  @inline(__always)
  func load<Number: FixedWidthInteger & BitwiseCopyable>(
    _ offset: inout Int, as type: Number.Type
  ) throws(ReadFailure) -> Number {
    let start = offset
    try pass(&offset, MemoryLayout<Number>.size)
    return unsafe Number(littleEndian: base.loadUnaligned(fromByteOffset: start, as: Number.self))
  }

  /// Reads an integer of 1…8 bytes in two's complement.
  @inline(__always)
  func signed(_ offset: inout Int, size: Int) throws(ReadFailure) -> Int64 {
    let start = offset
    try pass(&offset, size)
    let shift = UInt64(8 &- size) &* 8
    // Eight bytes are read at once if there are as many; the high ones belong to what follows and are shifted out.
    if count &- start >= 8 {
      let word = unsafe Int64(littleEndian: base.loadUnaligned(fromByteOffset: start, as: Int64.self))
      return (word &<< shift) &>> shift
    }
    var word: UInt64 = 0
    for index in 0..<size {
      word |= unsafe UInt64(base.load(fromByteOffset: start &+ index, as: UInt8.self)) &<< UInt64(index &* 8)
    }
    return Int64(bitPattern: word &<< shift) &>> shift
  }

  @inline(__always)
  func varint(_ offset: inout Int) throws(ReadFailure) -> UInt64 {
    let first = try next(&offset)
    if first < 0x80 { return UInt64(first) }
    return try longVarint(&offset, first)
  }

  private func longVarint(_ offset: inout Int, _ first: UInt8) throws(ReadFailure) -> UInt64 {
    var result = UInt64(first & 0x7f)
    var shift: UInt64 = 7
    while true {
      let byte = try next(&offset)
      guard shift < 63 || byte <= 1 else { throw .damaged }
      result |= UInt64(byte & 0x7f) << shift
      if byte < 0x80 {
        // A number has only one encoding, so an encoder did not write one that is longer than necessary.
        guard byte != 0 else { throw .damaged }
        return result
      }
      shift += 7
    }
  }

  /// Reads a varint that counts following elements of at least `sizeMinimum` bytes each.
  @inline(__always)
  package func count(_ offset: inout Int, sizeMinimum: Int) throws(ReadFailure) -> Int {
    let value = try varint(&offset)
    guard value <= UInt64((count &- offset) / sizeMinimum) else { throw .damaged }
    return Int(value)
  }

  /// Reads the number of a shape.
  @inline(__always)
  package func shapeNumber(_ offset: inout Int) throws(ReadFailure) -> UInt32 {
    guard let number = UInt32(exactly: try varint(&offset)) else { throw .damaged }
    return number
  }

  /// Calls `body` with some bytes, which are valid only during the call.
  @unsafe
  @inline(__always)
  func withBytes<Result>(
    _ offset: inout Int, size: Int, _ body: (UnsafeRawBufferPointer) -> Result
  ) throws(ReadFailure) -> Result {
    let start = offset
    try pass(&offset, size)
    return unsafe body(UnsafeRawBufferPointer(start: base + start, count: size))
  }

  /// Reads some bytes of UTF-8.
  @inline(__always)
  func text(_ offset: inout Int, size: Int) throws(ReadFailure) -> String {
    let start = offset
    try pass(&offset, size)
    let bytes = unsafe UnsafeRawBufferPointer(start: base + start, count: size)
    // The initializer repairs invalid text, which then has other bytes than the source. (The initializer that refuses
    // invalid text instead is generic throughout in this version of the library, and five times slower.)
    let text = unsafe String(decoding: bytes, as: UTF8.self)
    let isSame = unsafe text.utf8.withContiguousStorageIfAvailable { utf8 in
      guard let content = utf8.baseAddress else { return size == 0 }
      return unsafe utf8.count == size && memcmp(content, base + start, size) == 0
    }
    guard isSame == true else { throw .damaged }
    return text
  }

  /// Returns whether the given bytes are at an offset. Also returns false if fewer bytes remain.
  @inline(__always)
  func matches(_ offset: Int, _ bytes: UnsafeBufferPointer<UInt8>) -> Bool {
    guard bytes.count <= count &- offset else { return false }
    return unsafe UnsafeRawBufferPointer(start: base + offset, count: bytes.count).elementsEqual(bytes)
  }
}
