/// Converts bytes to and from hexadecimal digits.
enum HexText {
  private static let digits = Array("0123456789abcdef".utf8)

  static func text(_ bytes: [UInt8]) -> String {
    var text: [UInt8] = []
    text.reserveCapacity(bytes.count * 2)
    for byte in bytes {
      text.append(digits[Int(byte >> 4)])
      text.append(digits[Int(byte & 0xf)])
    }
    return String(decoding: text, as: UTF8.self)
  }

  /// Returns the bytes of a text, or `nil` unless it is an even number of hexadecimal digits, of either case.
  static func bytes(_ text: String) -> [UInt8]? {
    var bytes: [UInt8] = []
    bytes.reserveCapacity(text.utf8.count / 2)
    var high: UInt8?
    for character in text.utf8 {
      guard let digit = value(character) else { return nil }
      if let first = high {
        bytes.append(first << 4 | digit)
        high = nil
      } else {
        high = digit
      }
    }
    return high == nil ? bytes : nil
  }

  private static func value(_ character: UInt8) -> UInt8? {
    switch character {
    case 0x30...0x39: character - 0x30
    case 0x61...0x66: character - 0x61 + 10
    case 0x41...0x46: character - 0x41 + 10
    default: nil
    }
  }
}

/// Formats bytes for people: UTF-8 unchanged, and control characters and bytes that are not UTF-8 as `\xNN`.
///
/// So a tab or a newline inside a value does not break the line or the column that it is printed in.
enum PrintableText {
  /// Formats a text for people.
  static func text(_ text: String) -> String { self.text(Array(text.utf8)) }

  static func text(_ bytes: [UInt8]) -> String {
    guard let whole = String(validating: bytes, as: UTF8.self) else { return escaped(bytes) }
    guard whole.unicodeScalars.contains(where: needsEscape) else { return whole }
    var text = ""
    for scalar in whole.unicodeScalars {
      if needsEscape(scalar) {
        for byte in String(scalar).utf8 { text += escape(byte) }
      } else {
        text.unicodeScalars.append(scalar)
      }
    }
    return text
  }

  private static func escaped(_ bytes: [UInt8]) -> String {
    var text = ""
    for byte in bytes {
      if byte >= 0x20, byte < 0x7f, byte != 0x5c {
        text.unicodeScalars.append(Unicode.Scalar(byte))
      } else {
        text += escape(byte)
      }
    }
    return text
  }

  private static func needsEscape(_ scalar: Unicode.Scalar) -> Bool {
    scalar.value < 0x20 || (0x7f...0x9f).contains(scalar.value) || scalar == "\\"
  }

  private static func escape(_ byte: UInt8) -> String { "\\x" + HexText.text([byte]) }
}

/// Formats sizes and numbers for people.
enum SizeText {
  /// Returns a size as text, such as `17 B`, `1.5 KiB` or `312.0 MiB`.
  static func text(_ bytes: some BinaryInteger) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB"]
    guard bytes >= 1024 else { return "\(bytes) B" }
    var value = Double(bytes) / 1024
    var unit = 0
    while value >= 1024, unit < units.count - 1 {
      value /= 1024
      unit += 1
    }
    return "\(fixed(value, 1)) \(units[unit])"
  }

  /// Returns a number with the given count of digits after the point.
  static func fixed(_ value: Double, _ digits: Int) -> String {
    guard value.isFinite else { return "-" }
    var scale = 1
    for _ in 0..<digits { scale *= 10 }
    let scaled = (value.magnitude * Double(scale)).rounded()
    guard scaled < 9e18 else { return "\(value)" }
    let whole = Int(scaled) / scale
    let sign = value < 0 && scaled > 0 ? "-" : ""
    guard digits > 0 else { return sign + "\(whole)" }
    let fraction = String(Int(scaled) % scale)
    return sign + "\(whole)." + String(repeating: "0", count: digits - fraction.utf8.count) + fraction
  }

  /// Returns a quotient, or 0 if the denominator is 0.
  static func ratio(_ numerator: UInt64, _ denominator: UInt64) -> Double {
    denominator == 0 ? 0 : Double(numerator) / Double(denominator)
  }
}
