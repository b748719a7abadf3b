import Foundation

/// Formats keys as text without knowledge of the keys' type, for errors and the tool.
///
///     "a"   42   1.5   true   nil   0xc0ffee   2026-02-03T04:05:06.789Z   ("a", 42, nil)
///     2D5C0F0B-0A25-4A7C-9B8A-6F4D3A8D2E11   <invalid 0x1161>
///
/// A duration is shown in seconds, as `-1.5s`, and a descending part like an ascending one. An optional is shown as its
/// value, or as `some(...)` if that is an optional again. Different keys of one type have different texts.
public enum KeyText {
  /// Returns the text of a key. Bytes that are not a key are shown as `<invalid 0x...>`.
  public static func text(of bytes: [UInt8]) -> String { text(of: bytes.rawSpan) }

  /// Returns the text of a key. Bytes that are not a key are shown as `<invalid 0x...>`.
  public static func text(of bytes: RawSpan) -> String {
    guard let parts = try? KeyPart.parts(of: bytes) else {
      return "<invalid \(hexadecimal((0..<bytes.byteCount).map { bytes.byte(at: $0) }))>"
    }
    return parts.count == 1 ? text(of: parts[0]) : "(\(parts.map { text(of: $0) }.joined(separator: ", ")))"
  }

  /// Returns the text of a part.
  public static func text(of part: KeyPart) -> String {
    switch part {
    case .null: "nil"
    case .some(.null), .some(.some): someText(part)
    case .some(let value): text(of: value)
    case .bool(let value): "\(value)"
    case .integer(let value): "\(value)"
    case .largeInteger(let value): "\(value)"
    case .double(let value): "\(value)"
    case .date(let value): text(of: value)
    case .uuid(let value): value.uuidString
    case .string(let value): quoted(value)
    case .data(let value): hexadecimal(value)
    case .decimal(let value): "\(value)"
    case .duration(let value): text(of: value)
    case .descending(let value): text(of: value)
    }
  }

  private static func someText(_ part: KeyPart) -> String {
    if case .some(let value) = part { "some(\(text(of: value)))" } else { text(of: part) }
  }

  private static func hexadecimal(_ bytes: some Sequence<UInt8>) -> String {
    let digits = Array("0123456789abcdef".utf8)
    var text = Array("0x".utf8)
    for byte in bytes { text += [digits[Int(byte >> 4)], digits[Int(byte & 15)]] }
    return String(decoding: text, as: UTF8.self)
  }

  /// Returns a duration in seconds, with as many digits as it has.
  private static func text(of duration: Duration) -> String {
    let (seconds, attoseconds) = duration.components
    let sign = seconds < 0 || attoseconds < 0 ? "-" : ""
    let digits = padded(attoseconds.magnitude, 18).reversed().drop { $0 == "0" }.reversed()
    return "\(sign)\(seconds.magnitude)\(digits.isEmpty ? "" : "." + String(digits))s"
  }

  // MARK: - Strings

  /// Returns a string in quotation marks, in which invisible characters and line breaks are escaped.
  private static func quoted(_ string: String) -> String {
    var text = "\""
    for scalar in string.unicodeScalars {
      switch scalar {
      case "\"", "\\": text += "\\\(scalar)"
      case "\n": text += "\\n"
      case "\r": text += "\\r"
      case "\t": text += "\\t"
      case "\0": text += "\\0"
      case _ where isInvisible(scalar): text += "\\u{\(String(scalar.value, radix: 16))}"
      default: text.unicodeScalars.append(scalar)
      }
    }
    return text + "\""
  }

  private static func isInvisible(_ scalar: Unicode.Scalar) -> Bool {
    switch scalar.properties.generalCategory {
    case .control, .format, .lineSeparator, .paragraphSeparator, .privateUse, .unassigned, .surrogate: true
    case .spaceSeparator: scalar != " "
    default: false
    }
  }

  // MARK: - Dates

  private static let secondsPerDay: Int128 = 86_400
  /// The number of days from 0000-03-01 to 2001-01-01.
  private static let daysToReference: Int128 = 730_791
  /// The range of seconds of the years 0 to 9999.
  private static let years: Range<Double> = -63_145_526_400..<252_423_993_600

  /// Returns a date in ISO 8601, with as many digits of a second as its double has. A date outside the years 0 to 9999,
  /// or less than a ten-thousandth of a second from 2001-01-01, is shown as the seconds since then.
  private static func text(of date: Date) -> String {
    let interval = date.timeIntervalSinceReferenceDate
    let digits = interval.description
    guard years.contains(interval), let (seconds, fraction) = secondsAndFraction(digits) else {
      return "date(\(digits))"
    }
    let days = floorDivide(seconds, secondsPerDay)
    let second = Int(seconds - days * secondsPerDay)
    let (year, month, day) = civilDate(days)
    let time = "\(padded(second / 3600, 2)):\(padded(second / 60 % 60, 2)):\(padded(second % 60, 2))"
    return "\(padded(year, 4))-\(padded(month, 2))-\(padded(day, 2))T\(time)\(fraction)Z"
  }

  /// Splits a number into whole seconds, rounded down, and the fraction: "-1.25" becomes -2 and ".75". Returns nil if
  /// the digits have an exponent.
  private static func secondsAndFraction(_ digits: String) -> (seconds: Int128, fraction: String)? {
    let pieces = digits.split(separator: ".", omittingEmptySubsequences: false)
    guard pieces.count == 2, let scaled = Int128(pieces[0] + pieces[1]) else { return nil }
    var scale: Int128 = 1
    for _ in pieces[1].utf8 { scale *= 10 }
    let seconds = floorDivide(scaled, scale)
    let rest = scaled - seconds * scale
    return (seconds, rest == 0 ? "" : ".\(padded(rest, pieces[1].utf8.count))")
  }

  /// Returns the date of the proleptic Gregorian calendar that is `days` after 2001-01-01, from the year 0 on. Years
  /// are counted from March, so that a leap day is the last day of a year.
  private static func civilDate(_ days: Int128) -> (year: Int, month: Int, day: Int) {
    let shifted = Int(days + daysToReference) + 146_097
    let era = shifted / 146_097
    let dayOfEra = shifted % 146_097
    let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
    let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
    let monthFromMarch = (5 * dayOfYear + 2) / 153
    let day = dayOfYear - (153 * monthFromMarch + 2) / 5 + 1
    let month = monthFromMarch < 10 ? monthFromMarch + 3 : monthFromMarch - 9
    let year = yearOfEra + (era - 1) * 400 + (month <= 2 ? 1 : 0)
    return (year, month, day)
  }

  private static func floorDivide(_ value: Int128, _ divisor: Int128) -> Int128 {
    let (quotient, remainder) = value.quotientAndRemainder(dividingBy: divisor)
    return remainder < 0 ? quotient - 1 : quotient
  }

  private static func padded(_ value: some BinaryInteger, _ width: Int) -> String {
    let digits = String(value)
    return String(repeating: "0", count: max(0, width - digits.count)) + digits
  }
}
