internal import Foundation

/// Reads values in the format of `ValueTag` as the requested types.
///
/// The following conversions are supported, in both directions: integers of all widths, integers and floating-point
/// numbers if nothing is lost, a `Double` to the nearest `Float`, a number and a decimal number, a `Date` and its
/// seconds since 2001, a `UUID` or `URL` and its text. These are the type changes that JSON allows a program.
extension ByteSource {
  func bool(_ offset: inout Int) throws(ReadFailure) -> Bool {
    switch try next(&offset) {
    case ValueTag.yes: return true
    case ValueTag.no: return false
    case ValueTag.null: throw .null
    default: throw .mismatch
    }
  }

  // MARK: - Numbers

  @inline(__always)
  func integer<Number: FixedWidthInteger>(
    _ offset: inout Int, as type: Number.Type
  ) throws(ReadFailure) -> Number {
    let tag = try next(&offset)
    // 0…63 fits every integer type.
    if tag < ValueTag.shortString { return Number(truncatingIfNeeded: tag) }
    return try largeInteger(&offset, tag, as: type)
  }

  private func largeInteger<Number: FixedWidthInteger>(
    _ offset: inout Int, _ tag: UInt8, as type: Number.Type
  ) throws(ReadFailure) -> Number {
    let result: Number?
    switch tag {
    case ValueTag.mediumInteger..<ValueTag.shortArray, ValueTag.signed..<ValueTag.unsigned64:
      result = Number(exactly: try smallInteger(&offset, tag))
    case ValueTag.unsigned64: result = Number(exactly: try load(&offset, as: UInt64.self))
    case ValueTag.signed128: result = Number(exactly: try load(&offset, as: Int128.self))
    case ValueTag.unsigned128: result = Number(exactly: try load(&offset, as: UInt128.self))
    case ValueTag.decimal: result = Number(try decimalText(&offset))
    default: result = Number(exactly: try floatingPoint(&offset, tag))
    }
    guard let result else { throw .doesNotFit }
    return result
  }

  /// Reads an integer of at most 64 bits with a sign, after its tag.
  @inline(__always)
  private func smallInteger(_ offset: inout Int, _ tag: UInt8) throws(ReadFailure) -> Int64 {
    if tag < ValueTag.shortString { return Int64(tag) }
    if tag < ValueTag.negativeInteger {
      return ValueTag.smallIntegers &+ (Int64(tag & 0x0f) << 8 | Int64(try next(&offset)))
    }
    if tag < ValueTag.shortArray { return Int64(tag & 0x0f) &+ ValueTag.negativeIntegers }
    return try signed(&offset, size: Int(tag & 0x07) &+ 1)
  }

  /// Reads a floating-point number, after its tag. The tags that belong to a single type come first.
  @inline(__always)
  private func floatingPoint(_ offset: inout Int, _ tag: UInt8) throws(ReadFailure) -> Double {
    switch tag {
    case ValueTag.double: return Double(bitPattern: try load(&offset, as: UInt64.self))
    case ValueTag.shortDouble, ValueTag.float: return Double(Float(bitPattern: try load(&offset, as: UInt32.self)))
    case ValueTag.null: throw .null
    default: throw .mismatch
    }
  }

  @inline(__always)
  func double(_ offset: inout Int) throws(ReadFailure) -> Double {
    let tag = try next(&offset)
    if tag == ValueTag.double || tag == ValueTag.shortDouble { return try floatingPoint(&offset, tag) }
    return try convertedDouble(&offset, tag)
  }

  private func convertedDouble(_ offset: inout Int, _ tag: UInt8) throws(ReadFailure) -> Double {
    let result: Double?
    switch tag {
    case ..<ValueTag.shortString, ValueTag.mediumInteger..<ValueTag.shortArray, ValueTag.signed..<ValueTag.unsigned64:
      result = Double(exactly: try smallInteger(&offset, tag))
    case ValueTag.unsigned64: result = Double(exactly: try load(&offset, as: UInt64.self))
    case ValueTag.signed128: result = Double(exactly: try load(&offset, as: Int128.self))
    case ValueTag.unsigned128: result = Double(exactly: try load(&offset, as: UInt128.self))
    case ValueTag.date: result = Double(bitPattern: try load(&offset, as: UInt64.self))
    case ValueTag.decimal: result = Double(try decimalText(&offset))
    default: result = try floatingPoint(&offset, tag)
    }
    guard let result else { throw .doesNotFit }
    return result
  }

  func float(_ offset: inout Int) throws(ReadFailure) -> Float {
    // The bits of a float are kept, including those of NaNs.
    if try byte(offset) == ValueTag.float {
      offset &+= 1
      return Float(bitPattern: try load(&offset, as: UInt32.self))
    }
    let value = try double(&offset)
    let result = Float(value)
    guard result.isFinite || !value.isFinite else { throw .doesNotFit }
    return result
  }

  /// Reads the text of a `Decimal`, after its tag.
  func decimalText(_ offset: inout Int) throws(ReadFailure) -> String {
    let text = try text(&offset, size: try count(&offset, sizeMinimum: 1))
    guard ByteSource.isDecimal(text) else { throw .badText }
    return text
  }

  /// Returns whether a text is one that a `Decimal` is written as: a sign, digits, and a point with digits after it, as
  /// in JSON; or NaN.
  ///
  /// Foundation parses the beginning of a text and ignores what follows ("1 apple", "-91.0E").
  private static func isDecimal(_ text: String) -> Bool {
    if text == "NaN" { return true }
    var digits = text.utf8[...]
    if digits.first == UInt8(ascii: "-") { digits.removeFirst() }
    let parts = digits.split(separator: UInt8(ascii: "."), maxSplits: 1, omittingEmptySubsequences: false)
    if let whole = parts.first, whole.count > 1, whole.first == UInt8(ascii: "0") { return false }
    return parts.allSatisfy { part in
      !part.isEmpty && part.allSatisfy { UInt8(ascii: "0")...UInt8(ascii: "9") ~= $0 }
    }
  }

  func decimal(_ offset: inout Int) throws(ReadFailure) -> Decimal {
    let tag = try byte(offset)
    switch tag {
    case ValueTag.decimal:
      offset &+= 1
      let text = try decimalText(&offset)
      if text == "NaN" { return .nan }
      guard let result = Decimal(string: text, locale: nil) else { throw .badText }
      return result
    case ValueTag.double, ValueTag.shortDouble, ValueTag.float:
      // The conversion uses the shortest text of the number, so that 0.1 remains 0.1.
      let text = "\(try double(&offset))"
      guard let result = Decimal(string: text, locale: nil) else { throw .doesNotFit }
      return result
    default:
      guard let result = Decimal(string: "\(try integer(&offset, as: Int128.self))", locale: nil) else {
        throw .doesNotFit
      }
      return result
    }
  }

  func date(_ offset: inout Int) throws(ReadFailure) -> Date {
    if try byte(offset) == ValueTag.date {
      offset &+= 1
      return Date(timeIntervalSinceReferenceDate: Double(bitPattern: try load(&offset, as: UInt64.self)))
    }
    return Date(timeIntervalSinceReferenceDate: try double(&offset))
  }

  // MARK: - Text and bytes

  @inline(__always)
  func string(_ offset: inout Int) throws(ReadFailure) -> String {
    let tag = try next(&offset)
    if tag >= ValueTag.shortString && tag < ValueTag.mediumInteger { return try text(&offset, size: Int(tag & 0x3f)) }
    if tag == ValueTag.string { return try text(&offset, size: try count(&offset, sizeMinimum: 1)) }
    return try convertedString(&offset, tag)
  }

  private func convertedString(_ offset: inout Int, _ tag: UInt8) throws(ReadFailure) -> String {
    switch tag {
    case ValueTag.url: return try text(&offset, size: try count(&offset, sizeMinimum: 1))
    case ValueTag.uuid: return try uuidBytes(&offset).uuidString
    case ValueTag.null: throw .null
    default: throw .mismatch
    }
  }

  @inline(__always)
  func uuid(_ offset: inout Int) throws(ReadFailure) -> UUID {
    if try byte(offset) == ValueTag.uuid {
      offset &+= 1
      return try uuidBytes(&offset)
    }
    guard let result = UUID(uuidString: try string(&offset)) else { throw .badText }
    return result
  }

  @inline(__always)
  private func uuidBytes(_ offset: inout Int) throws(ReadFailure) -> UUID {
    UUID(uuid: try unsafe withBytes(&offset, size: 16) { unsafe $0.loadUnaligned(as: uuid_t.self) })
  }

  func url(_ offset: inout Int) throws(ReadFailure) -> URL {
    guard let result = URL(string: try string(&offset)) else { throw .badText }
    return result
  }

  func data(_ offset: inout Int) throws(ReadFailure) -> Data {
    try unsafe withBytes(&offset, size: try bytesSize(&offset)) { unsafe Data($0) }
  }

  func bytes(_ offset: inout Int) throws(ReadFailure) -> [UInt8] {
    try unsafe withBytes(&offset, size: try bytesSize(&offset)) { unsafe [UInt8]($0) }
  }

  private func bytesSize(_ offset: inout Int) throws(ReadFailure) -> Int {
    switch try next(&offset) {
    case ValueTag.bytes: return try count(&offset, sizeMinimum: 1)
    case ValueTag.null: throw .null
    default: throw .mismatch
    }
  }
}
