internal import Foundation

/// A decimal number in an encoding that sorts as the number does, and is unique: 1.0 and 1.00 are the same.
///
///     sign (1)   exponent (2)   digits   end (1)
///
/// - The sign is 0x02 for zero, without further bytes; 0x03 for a positive number, and 0x01 for a negative one, of
///   which all following bytes are inverted.
/// - The number is 0.d1d2d3... times ten to the exponent, where d1 is not 0. The exponent is big-endian, plus 0x8000.
/// - Two digits are one byte, from 1 for 00 to 100 for 99; an odd number of digits is padded with a 0. The last byte is
///   not 1.
/// - The end is 0x00.
struct KeyDecimal {
  private let isNegative: Bool
  private let exponent: Int
  /// The digits, 0 to 9 each, of which the first and the last are not 0; empty for zero.
  private let digits: [UInt8]

  /// The maximum number of byte pairs: 38 digits of a significand, and one that a conversion may add.
  private static let pairCountMaximum = 20
  private static let bias = 0x8000
  private static let exponentMaximum = 127

  private enum Sign {
    static let below: UInt8 = 1
    static let zero: UInt8 = 2
    static let above: UInt8 = 3
  }

  /// Creates a number, or returns nil for a NaN.
  init?(_ value: Decimal) {
    if value.isNaN { return nil }
    isNegative = value.sign == .minus && !value.isZero
    if value.isZero {
      exponent = 0
      digits = []
      return
    }
    var digits = "\(value.significand.magnitude)".utf8.map { $0 &- UInt8(ascii: "0") }
    exponent = digits.count + value.exponent
    while digits.last == 0 { digits.removeLast() }
    self.digits = digits
  }

  func append(to bytes: inout [UInt8]) {
    if digits.isEmpty { return bytes.append(Sign.zero) }
    bytes.append(isNegative ? Sign.below : Sign.above)
    let inversion: UInt8 = isNegative ? 0xff : 0
    let biased = UInt16(exponent + Self.bias)
    bytes.append(UInt8(biased >> 8) ^ inversion)
    bytes.append(UInt8(truncatingIfNeeded: biased) ^ inversion)
    for position in stride(from: 0, to: digits.count, by: 2) {
      let second = position + 1 < digits.count ? digits[position + 1] : 0
      bytes.append((digits[position] * 10 + second + 1) ^ inversion)
    }
    bytes.append(inversion)
  }

  /// Decodes the number at `start`, and returns it with its number of bytes, or nil if the bytes are not a number in
  /// its unique encoding.
  static func read(_ bytes: RawSpan, from start: Int) -> (value: Decimal, count: Int)? {
    guard start < bytes.byteCount else { return nil }
    let sign = bytes.byte(at: start)
    if sign == Sign.zero { return (.zero, 1) }
    guard sign == Sign.below || sign == Sign.above, start + 3 < bytes.byteCount else { return nil }
    let inversion: UInt8 = sign == Sign.below ? 0xff : 0
    let biased = Int(bytes.byte(at: start + 1) ^ inversion) << 8 | Int(bytes.byte(at: start + 2) ^ inversion)
    var digits = ""
    var index = start + 3
    while index < bytes.byteCount, bytes.byte(at: index) != inversion {
      let pair = (bytes.byte(at: index) ^ inversion) &- 1
      guard pair < 100, digits.utf8.count < 2 * pairCountMaximum else { return nil }
      digits += "\(pair / 10)\(pair % 10)"
      index += 1
    }
    guard index < bytes.byteCount, !digits.isEmpty else { return nil }
    let count = index + 1 - start
    while digits.utf8.last == UInt8(ascii: "0") { digits.removeLast() }
    var exponent = biased - bias - digits.utf8.count
    // A `Decimal` has at most this exponent, and trailing zeros instead.
    while exponent > exponentMaximum, digits.utf8.count < 2 * pairCountMaximum {
      digits += "0"
      exponent -= 1
    }
    let text = "\(sign == Sign.below ? "-" : "")\(digits)e\(exponent)"
    // Only the unique encoding of a number is accepted.
    guard let value = Decimal(string: text), let decimal = KeyDecimal(value) else { return nil }
    var again: [UInt8] = []
    decimal.append(to: &again)
    guard again.count == count, again.indices.allSatisfy({ again[$0] == bytes.byte(at: start + $0) }) else {
      return nil
    }
    return (value, count)
  }
}
