import EngineTestSupport
import Foundation
import Varve

#if canImport(Darwin)
  import Darwin
#elseif canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#endif

/// Sample values for keys: edge cases, and random values from a seed.
enum KeySamples {
  /// Returns the minimum, the maximum, zero, and the values around the powers of two, which include those of 256.
  static func integerEdges<Value: FixedWidthInteger>(_ type: Value.Type) -> [Value] {
    var values: Set<Value> = [0, .min, .max, .min + 1, .max - 1]
    for bit in 0..<Value.bitWidth {
      let power = Value(1) << bit
      for near in [power &- 1, power, power &+ 1] {
        values.insert(near)
        if Value.isSigned { values.insert(0 &- near) }
      }
    }
    return values.sorted()
  }

  /// Returns a random integer of a random magnitude.
  static func integer<Value: FixedWidthInteger>(_ random: inout SeededRandom) -> Value {
    Value.random(in: .min ... .max, using: &random) >> random.below(Value.bitWidth)
  }

  static let doubleEdges: [Double] = {
    let positive: [Double] = [
      0, .leastNonzeroMagnitude, .leastNonzeroMagnitude * 2, .leastNormalMagnitude.nextDown, .leastNormalMagnitude,
      1e-9, 0.1, 1.0.nextDown, 1, 1.0.nextUp, 2, 255, 256, 1e15, 0x1p53, 1e300, .greatestFiniteMagnitude, .infinity,
    ]
    return positive + positive.map { -$0 }
  }()

  /// Returns a double of random bits that is not a NaN, or a number of ordinary size.
  static func double(_ random: inout SeededRandom) -> Double {
    if random.oneIn(2) { return Double(random.below(2_000_001) - 1_000_000) / 64 }
    let value = Double(bitPattern: random.next())
    return value.isNaN ? 0 : value
  }

  static let decimalEdges: [Decimal] = {
    let texts = [
      "0", "1", "9", "10", "99", "100", "0.1", "0.01", "0.09", "0.099", "0.0999", "1e127", "1000e127", "1e-127",
      "1e-128", "9.99",
      "123456789e20", "99999999999999999999999999999999999999", "1234567890123456789012345678901234567e-60",
    ]
    let positive = texts.compactMap { Decimal(string: $0) }
    return positive + positive.map { -$0 } + [.greatestFiniteMagnitude, .leastFiniteMagnitude, .leastNonzeroMagnitude]
  }()

  /// Returns a decimal of up to 38 digits with the point near them, often with few digits.
  static func decimal(_ random: inout SeededRandom) -> Decimal {
    let count = 1 + random.below(random.oneIn(3) ? 38 : 3)
    let digits = (0..<count).map { _ in String(random.oneIn(3) ? 0 : random.below(10)) }.joined()
    let exponent = random.below(random.oneIn(4) ? 80 : 5) - (random.oneIn(2) ? 40 : 2)
    return Decimal(string: "\(random.oneIn(2) ? "-" : "")\(digits)e\(exponent)") ?? 0
  }

  static func duration(_ random: inout SeededRandom) -> Duration {
    let attoseconds = random.oneIn(2) ? 0 : Int64(random.below(1_000_000_000)) * 1_000_000_000 / 7
    let seconds: Int64 = random.oneIn(2) ? Int64(random.below(3)) : integer(&random)
    let isNegative = seconds < 0 || (seconds == 0 && random.oneIn(2))
    return Duration(secondsComponent: seconds, attosecondsComponent: isNegative ? -attoseconds : attoseconds)
  }

  static func uuid(_ random: inout SeededRandom) -> UUID {
    func byte() -> UInt8 { UInt8(truncatingIfNeeded: random.next()) & (random.oneIn(4) ? 0x80 : 0xff) }
    // The first bytes take few values, so that later ones decide the order.
    let first = UInt8(random.below(2))
    return UUID(
      uuid: (
        first, 0, first, 0xff, byte(), byte(), byte(), byte(), byte(), byte(), byte(), byte(), byte(), byte(), byte(),
        byte()
      ))
  }

  static func data(_ random: inout SeededRandom) -> Data {
    let alphabet: [UInt8] = [0, 0, 1, 0x7f, 0x80, 0xfe, 0xff, 0xff]
    let count = random.oneIn(8) ? random.below(100) : random.below(6)
    return Data((0..<count).map { _ in alphabet[random.below(alphabet.count)] })
  }

  /// The parts of sample strings: ASCII, zeros, combining marks in and out of order, Hangul in both forms, characters
  /// that compose, characters whose decomposition is never recomposed, characters beyond the first plane, and the
  /// last ones.
  static let pieces: [String] = [
    "a", "b", "A", "e", "o", "z", " ", "~", "\0", "\0\0", "\u{1}", "\u{7f}", "\u{80}", "\u{ff}", "ß", "é", "e\u{301}",
    "\u{301}", "\u{300}", "\u{323}", "\u{327}", "\u{345}", "\u{34f}", "e\u{323}\u{302}", "e\u{302}\u{323}", "ệ",
    "\u{344}", "\u{212b}", "Å", "A\u{30a}", "\u{1e9b}\u{323}", "ſ", "ﬁ", "Ω", "\u{2126}", "ά", "\u{1f71}", "и\u{306}",
    "й", "가", "각", "\u{1100}\u{1161}", "\u{11a8}", "\u{1100}", "\u{1161}", "한", "か\u{3099}", "が", "\u{3099}",
    "\u{9c7}\u{9be}", "\u{9c7}", "\u{9be}", "\u{5d0}\u{5b7}", "\u{fb2e}", "漢", "\u{f900}", "\u{2f800}", "\u{4000}",
    "\u{9fff}", "\u{d7ff}", "\u{e000}", "\u{feff}", "\u{fffd}", "\u{ffff}", "😀", "👩‍👩‍👧", "🇸🇪", "\u{1d15e}",
    "\u{1d165}", "\u{110a5}\u{110ba}", "\u{16d67}\u{16d67}", "\u{16d63}\u{16d67}", "\u{10ffff}", "abcdefgh",
    "abcdefghijklmnopqrstuvwxyz",
  ]

  static func string(_ random: inout SeededRandom) -> String {
    let count = random.oneIn(16) ? random.below(60) : random.below(6)
    return (0..<count).map { _ in pieces[random.below(pieces.count)] }.joined()
  }

  static func optional<Value>(_ random: inout SeededRandom, _ value: (inout SeededRandom) -> Value) -> Value? {
    random.oneIn(4) ? nil : value(&random)
  }
}

/// Checks of encoded keys against the values that they encode.
enum KeyCheck {
  /// Returns a negative number, zero or a positive number if the first encoding sorts before, with or after the
  /// second: by `memcmp`, then by length.
  static func compare(_ first: [UInt8], _ second: [UInt8]) -> Int {
    // Safety: no more bytes are compared than both have.
    let order = unsafe first.withUnsafeBytes { left in
      unsafe second.withUnsafeBytes { right in
        left.count == 0 || right.count == 0
          ? 0 : unsafe memcmp(left.baseAddress!, right.baseAddress!, min(left.count, right.count))
      }
    }
    return order != 0 ? Int(order) : first.count - second.count
  }

  /// Returns a description of the first pair of keys whose encodings are not ordered or equal as the keys are, or of
  /// the first key that is not decoded to itself; `nil` if there is none.
  static func firstMisorder<Key: KeyCodable>(
    _ keys: [Key], _ isLess: (Key, Key) -> Bool
  ) throws -> String? {
    let encoded = try keys.map { try $0.encoded() }
    for (key, bytes) in zip(keys, encoded) where try Key.decoded(from: bytes) != key {
      return "\(key) does not come back from \(bytes)"
    }
    for (left, leftBytes) in zip(keys, encoded) {
      for (right, rightBytes) in zip(keys, encoded) {
        let order = compare(leftBytes, rightBytes)
        if (order < 0) != isLess(left, right) || (order == 0) != (left == right) {
          return "\(left) and \(right), encoded as \(leftBytes) and \(rightBytes)"
        }
      }
    }
    return nil
  }

  static func firstMisorder<Key: KeyCodable & Comparable>(_ keys: [Key]) throws -> String? {
    try firstMisorder(keys, <)
  }
}

struct ISBN: RawRepresentable, Codable, Hashable, Sendable, KeyCodable { var rawValue: String }

enum Shelf: Int, KeyCodable, CaseIterable { case fiction = -1, science = 3, poetry = 1000 }

enum Language: String, KeyCodable, CaseIterable { case swedish = "sv", english = "en" }

/// A key type that is defined by a program: a composite of parts, one of which is a key of another type.
struct Location: KeyCodable, Comparable {
  var country: String
  var shelf: Shelf?
  var number: Int

  static var keyType: KeyType { .compound(.string, .optional(.integer), .integer) }

  func encodeKey(into encoder: inout KeyEncoder) throws {
    try encoder.encode(country)
    try encoder.encode(shelf)
    try encoder.append(integer: number)
  }

  static func decodeKey(from decoder: inout KeyDecoder) throws -> Location {
    Location(country: try decoder.decodeString(), shelf: try decoder.decode(), number: try decoder.decodeInteger())
  }

  static func < (left: Location, right: Location) -> Bool {
    (left.country, left.shelf?.rawValue ?? .min, left.number) < (
      right.country, right.shelf?.rawValue ?? .min, right.number
    )
  }
}
