public import Foundation
internal import UnicodeNormalForm

/// Decodes a key part by part (see `KeyTag` for the format).
///
/// The bytes need not be valid: each length is checked against the remaining bytes, only the unique encoding of a value
/// is accepted, and bytes that are not a key throw `.invalidKey` with the offset. A part of another kind throws
/// `.keyTypeDiffers`.
public struct KeyDecoder: ~Escapable {
  private let bytes: RawSpan
  /// The offset of `bytes` in the key.
  private let start: Int
  /// The number of zeros at the end of a string or data: two for inverted bytes of descending parts.
  private let endSize: Int
  /// The number of bytes that were read.
  public private(set) var offset = 0

  /// Creates a decoder of `bytes`, which are exactly one key.
  @_lifetime(copy bytes)
  public init(_ bytes: RawSpan) {
    self.bytes = bytes
    start = 0
    endSize = 1
  }

  /// Creates a decoder of descending parts from the `invertedRest` of another decoder.
  @_lifetime(copy bytes)
  init(inverted bytes: RawSpan, from start: Int, endSize: Int) {
    self.bytes = bytes
    self.start = start
    self.endSize = endSize
  }

  /// Whether all bytes were read.
  public var isAtEnd: Bool { offset == bytes.byteCount }

  private var remaining: Int { bytes.byteCount &- offset }

  /// Decodes a key of any type that is a part of this one.
  public mutating func decode<Key: KeyCodable>(_ type: Key.Type = Key.self) throws -> Key {
    try Key.decodeKey(from: &self)
  }

  /// Decodes the parts of a key in descending order: see ``Descending``.
  public mutating func decode<Key: KeyCodable>(descending type: Key.Type) throws -> Key {
    let rest = invertedRest
    var inner = KeyDecoder(inverted: rest.rawSpan, from: start &+ offset, endSize: invertedEndSize)
    let key = try Key.decodeKey(from: &inner)
    skip(inner.offset)
    return key
  }

  /// The remaining bytes, inverted.
  var invertedRest: [UInt8] { (offset..<bytes.byteCount).map { ~bytes.byte(at: $0) } }
  /// The number of zeros at the end of a string in the inverted bytes.
  var invertedEndSize: Int { 3 - endSize }
  /// The offset of the next part in the key.
  var position: Int { start &+ offset }

  /// Skips bytes that were decoded from the inverted bytes.
  mutating func skip(_ count: Int) { offset &+= count }

  /// Decodes the marker of an optional. Returns true if its value follows, and false if it was nil.
  public mutating func decodeIsSome() throws -> Bool {
    switch try tag("an optional") {
    case KeyTag.some: true
    case KeyTag.null: false
    case let other: throw mismatch(other, "an optional")
    }
  }

  /// Decodes a Boolean.
  public mutating func decodeBool() throws -> Bool {
    switch try tag("a Boolean") {
    case KeyTag.true: true
    case KeyTag.false: false
    case let other: throw mismatch(other, "a Boolean")
    }
  }

  /// Decodes an integer of any width. *Throws* `.invalidKey` if it does not fit into `Value`.
  @inline(__always)
  public mutating func decodeInteger<Value: FixedWidthInteger>(as type: Value.Type = Value.self) throws -> Value {
    let start = offset
    let tag = try tag("an integer")
    guard KeyTag.integers.contains(tag) else { throw mismatch(tag, "an integer") }
    let isNegative = tag < KeyTag.integerZero
    let size = Int(isNegative ? KeyTag.integerZero &- tag : tag &- KeyTag.integerZero)
    let value: Value?
    if size <= 8 {
      let magnitude: UInt64 = try magnitude(size, isNegative)
      if !isNegative {
        value = Value(exactly: magnitude)
      } else if magnitude <= Int64.min.magnitude {
        value = Value(exactly: Int64(truncatingIfNeeded: 0 &- magnitude))
      } else {
        value = Value(exactly: -Int128(magnitude))
      }
    } else {
      let magnitude: UInt128 = try magnitude(size, isNegative)
      if !isNegative {
        value = Value(exactly: magnitude)
      } else {
        guard magnitude <= Int128.min.magnitude else { throw invalid("an integer below 128 bits", at: start) }
        value = Value(exactly: Int128(truncatingIfNeeded: 0 &- magnitude))
      }
    }
    guard let value else { throw invalid("an integer that does not fit into \(Value.self)", at: start) }
    return value
  }

  /// Decodes a double.
  public mutating func decodeDouble() throws -> Double { try orderedDouble(KeyTag.double, "a double") }

  /// Decodes a date.
  public mutating func decodeDate() throws -> Date {
    Date(timeIntervalSinceReferenceDate: try orderedDouble(KeyTag.date, "a date"))
  }

  /// Decodes a UUID.
  public mutating func decodeUUID() throws -> UUID {
    try take(KeyTag.uuid, "a UUID")
    guard remaining >= 16 else { throw ended("a UUID") }
    // Safety: the load checks against the count, and any 16 bytes are a UUID.
    let uuid = unsafe bytes.unsafeLoadUnaligned(fromByteOffset: offset, as: uuid_t.self)
    offset &+= 16
    return UUID(uuid: uuid)
  }

  /// Decodes a decimal number.
  public mutating func decodeDecimal() throws -> Decimal {
    try take(KeyTag.decimal, "a decimal")
    guard let (value, count) = KeyDecimal.read(bytes, from: offset) else {
      throw invalid("bytes that are not a decimal in its one form")
    }
    offset &+= count
    return value
  }

  /// Decodes a duration.
  public mutating func decodeDuration() throws -> Duration {
    try take(KeyTag.duration, "a duration")
    guard remaining >= 16 else { throw ended("a duration") }
    var pattern: UInt128 = 0
    for index in offset..<offset &+ 16 { pattern = pattern << 8 | UInt128(bytes.byte(at: index)) }
    let whole = Int128(bitPattern: pattern ^ (1 << 127))
    let (seconds, attoseconds) = whole.quotientAndRemainder(dividingBy: KeyTag.attosecondsPerSecond)
    guard let seconds = Int64(exactly: seconds) else { throw invalid("a duration of more than 64 bits of seconds") }
    offset &+= 16
    return Duration(secondsComponent: seconds, attosecondsComponent: Int64(attoseconds))
  }

  /// Decodes bytes.
  public mutating func decodeData() throws -> Data {
    try take(KeyTag.data, "data")
    if let end = plainEnd(from: offset) {
      // Safety: the bytes are copied within the call.
      let data = unsafe bytes.extracting(offset..<end).withUnsafeBytes { unsafe Data($0) }
      offset = end &+ endSize
      return data
    }
    return Data(try unescaped("data"))
  }

  /// Decodes a string. It equals the encoded string, and is in normal form C.
  public mutating func decodeString() throws -> String {
    let start = offset
    try take(KeyTag.string, "a string")
    if let end = plainEnd(from: offset) {
      let text = try string(bytes.extracting(offset..<end), at: start)
      offset = end &+ endSize
      return text
    }
    let utf8 = try unescaped("a string")
    return try string(utf8.rawSpan, at: start)
  }

  /// Skips the next part, whatever its kind. Throws `.invalidKey` if no part begins here.
  mutating func skipPart() throws {
    var nesting = 0
    while let tag = nextTag, tag == KeyTag.some, nesting < KeyPart.nestingMaximum {
      offset &+= 1
      nesting += 1
    }
    guard let tag = nextTag else { throw invalid("the bytes end before a part") }
    switch tag {
    case KeyTag.null, KeyTag.false, KeyTag.true: offset &+= 1
    case KeyTag.string, KeyTag.data:
      offset &+= 1
      if let end = plainEnd(from: offset) { offset = end &+ endSize } else { _ = try unescaped("a part") }
    case KeyTag.integers:
      let size = Int(tag < KeyTag.integerZero ? KeyTag.integerZero &- tag : tag &- KeyTag.integerZero)
      try pass(1 &+ size)
    case KeyTag.double, KeyTag.date: try pass(9)
    case KeyTag.uuid, KeyTag.duration: try pass(17)
    case KeyTag.decimal: _ = try decodeDecimal()
    case KeyTag.descendingMinimum...:
      let rest = invertedRest
      var inner = KeyDecoder(inverted: rest.rawSpan, from: position, endSize: invertedEndSize)
      try inner.skipPart()
      skip(inner.offset)
    default: throw invalid("no part begins here")
    }
  }

  private mutating func pass(_ size: Int) throws {
    guard remaining >= size else { throw ended("a part") }
    offset &+= size
  }

  /// The tag of the next part, which is not consumed, or nil at the end.
  var nextTag: UInt8? { isAtEnd ? nil : bytes.byte(at: offset) }

  // MARK: - Errors

  /// Returns the error for bytes that are not a key, found at `offset`.
  public func invalid(_ message: String, at offset: Int? = nil) -> DatabaseError {
    DatabaseError(.invalidKey, "\(message), at byte \(start &+ (offset ?? self.offset)) of the key")
  }

  /// Returns the error for `tag`, which was just read.
  private func mismatch(_ tag: UInt8, _ expected: String) -> DatabaseError {
    guard let found = KeyTag.kind(tag) else {
      return invalid("tag \(tag), which is none, instead of \(expected)", at: offset &- 1)
    }
    return DatabaseError(.keyTypeDiffers, "\(found) instead of \(expected), at byte \(position &- 1) of the key")
  }

  private func ended(_ part: String) -> DatabaseError { invalid("the bytes end inside \(part)") }

  // MARK: - Bytes after a tag

  @inline(__always)
  private mutating func tag(_ expected: String) throws -> UInt8 {
    guard remaining > 0 else { throw invalid("the bytes end before \(expected)") }
    let tag = bytes.byte(at: offset)
    offset &+= 1
    return tag
  }

  @inline(__always)
  private mutating func take(_ wanted: UInt8, _ expected: String) throws {
    let tag = try tag(expected)
    guard tag == wanted else { throw mismatch(tag, expected) }
  }

  @inline(__always)
  private mutating func magnitude<Magnitude: FixedWidthInteger & UnsignedInteger>(
    _ size: Int, _ isNegative: Bool
  ) throws -> Magnitude {
    guard remaining >= size else { throw ended("an integer") }
    let inversion: UInt8 = isNegative ? 0xff : 0
    guard size == 0 || bytes.byte(at: offset) != inversion else { throw invalid("an integer with a leading zero byte") }
    var magnitude: Magnitude = 0
    for index in offset..<offset &+ size { magnitude = magnitude << 8 | Magnitude(bytes.byte(at: index) ^ inversion) }
    offset &+= size
    return magnitude
  }

  @inline(__always)
  private mutating func orderedDouble(_ wanted: UInt8, _ expected: String) throws -> Double {
    try take(wanted, expected)
    guard remaining >= 8 else { throw ended(expected) }
    guard let value = OrderedDouble(bits: UInt64(bigEndian: bytes.word(at: offset))).value else {
      throw invalid("\(expected) that is NaN or -0")
    }
    offset &+= 8
    return value
  }

  /// Returns the offset of the end of the string or data at `start`, or nil if it has an escaped zero or no end.
  @inline(__always)
  private func plainEnd(from start: Int) -> Int? {
    let zero = ByteScan.firstZero(in: bytes, from: start)
    guard zero < bytes.byteCount else { return nil }
    if endSize == 1 {
      return zero &+ 1 < bytes.byteCount && bytes.byte(at: zero &+ 1) == KeyTag.escape ? nil : zero
    }
    return zero &+ 1 < bytes.byteCount && bytes.byte(at: zero &+ 1) == KeyTag.terminator ? zero : nil
  }

  /// Decodes bytes with escaped zeros, and their end.
  private mutating func unescaped(_ part: String) throws -> [UInt8] {
    var result: [UInt8] = []
    while true {
      let zero = ByteScan.firstZero(in: bytes, from: offset)
      guard zero < bytes.byteCount else { throw ended(part) }
      let isEnd = zero &+ 1 == bytes.byteCount || bytes.byte(at: zero &+ 1) != KeyTag.escape
      if isEnd, endSize == 2 {
        guard zero &+ 1 < bytes.byteCount, bytes.byte(at: zero &+ 1) == KeyTag.terminator else {
          throw invalid("\(part) whose end is not that of a descending one", at: zero)
        }
      }
      // Safety: the bytes are copied within the call.
      unsafe bytes.extracting(offset..<(isEnd ? zero : zero &+ 1)).withUnsafeBytes {
        unsafe result.append(contentsOf: $0)
      }
      offset = isEnd ? zero &+ endSize : zero &+ 2
      if isEnd { return result }
    }
  }

  private func string(_ utf8: RawSpan, at start: Int) throws -> String {
    // Safety: the bytes are copied within the call.
    let text = unsafe utf8.withUnsafeBytes { unsafe String(decoding: $0, as: UTF8.self) }
    let content = ByteScan.content(of: utf8)
    guard content.isBeyondASCII else { return text }
    // Invalid UTF-8 was replaced. (The initializer that refuses it is slower.)
    guard KeyDecoder.isEqual(text, utf8) else { throw invalid("a string that is not UTF-8", at: start) }
    guard !content.isBeyondLatin || NormalForm.isComposed(utf8) || NormalForm.isEqual(utf8) else {
      throw invalid("a string that is not in normal form C", at: start)
    }
    return text
  }

  private static func isEqual(_ text: String, _ utf8: RawSpan) -> Bool {
    // Safety: the span is used within the call.
    let isEqual = unsafe text.utf8.withContiguousStorageIfAvailable {
      ByteScan.areEqual(unsafe RawSpan(_unsafeElements: $0), utf8)
    }
    return isEqual ?? false
  }
}
