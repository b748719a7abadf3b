/// The first byte of each part of a key, which determines the kind of its value.
///
/// A key consists of its parts, one after the other, without further bytes. The format is stored on disk and must never
/// change.
///
///     tag            part            what follows the tag
///     0x03           nil             nothing
///     0x04           some            the part or parts of the wrapped value
///     0x10           data            the bytes, each 0x00 as 0x00 0xff; then 0x00
///     0x11           string          UTF-8 in normal form C (`NormalForm`), written like data
///     0x20 ... 0x2f  integer < 0     16 ... 1 bytes: the magnitude, big-endian, all bits inverted
///     0x30           integer 0       nothing
///     0x31 ... 0x40  integer > 0     1 ... 16 bytes: the magnitude, big-endian
///     0x50           double          8 bytes: `OrderedDouble`
///     0x51           date            8 bytes: seconds since 2001-01-01 00:00 UTC as `OrderedDouble`
///     0x52           uuid            16 bytes
///     0x53           decimal         `KeyDecimal`
///     0x54           duration        16 bytes: attoseconds, big-endian, the sign bit inverted
///     0x58           false           nothing
///     0x59           true            nothing
///     0xa6 ... 0xfc  descending      the part whose tag is the bitwise inverse, also with its following bytes
///                                    inverted. Before the inversion, its strings and data end in 0x00 0x00
///
/// Invariants:
/// 1. No tag is 0x00 or 0xff. A string ends in 0x00, so the part after it sorts after a string that ends there and
///    before one that has a zero there (0x00 0xff).
/// 2. A value has only one encoding: integers have no leading zero byte, and NaN and -0.0 are not encoded. A decoder
///    refuses all other encodings, so two keys are equal if their bytes are.
/// 3. Parts need no separator: a part's end is known from its own bytes and, for strings and data, from the next byte
///    not being 0xff. But "a" (11 61 00) is a prefix of "a\0" (11 61 00 ff 00): the range of keys that begin with the
///    parts of a key ends at those parts and 0xff (`KeyRange`), not at the successor of their bytes. A descending
///    string ends in 0xff 0xff: with one byte it would be a prefix of the string that continues with a zero (0xff
///    0x00), which sorts before it.
/// 4. The order of the tags is the order of the kinds if a program's own key type has parts of several kinds.
package enum KeyTag {
  static let null: UInt8 = 0x03
  package static let some: UInt8 = 0x04
  static let data: UInt8 = 0x10
  static let string: UInt8 = 0x11
  static let integerZero: UInt8 = 0x30
  static let double: UInt8 = 0x50
  static let date: UInt8 = 0x51
  static let uuid: UInt8 = 0x52
  static let decimal: UInt8 = 0x53
  static let duration: UInt8 = 0x54
  static let `false`: UInt8 = 0x58
  static let `true`: UInt8 = 0x59

  /// The first tag of descending parts.
  static let descendingMinimum: UInt8 = ~KeyTag.true

  /// The maximum difference between an integer's tag and that of zero, which is the size of its magnitude in bytes.
  static let integerSizeMaximum: UInt8 = 16
  static let integers = integerZero - integerSizeMaximum...integerZero + integerSizeMaximum

  /// The end of a string or data, and the first byte of an escaped zero.
  static let terminator: UInt8 = 0x00
  /// The byte after a zero that belongs to a string or to data.
  static let escape: UInt8 = 0xff

  static let attosecondsPerSecond: Int128 = 1_000_000_000_000_000_000

  /// Returns the name of a tag's kind, or nil for a byte that is not a tag.
  static func kind(_ tag: UInt8) -> String? {
    if tag >= descendingMinimum { return kind(~tag).map { "\($0), descending" } }
    return switch tag {
    case null, some: "an optional"
    case data: "data"
    case string: "a string"
    case integers: "an integer"
    case double: "a double"
    case date: "a date"
    case uuid: "a UUID"
    case decimal: "a decimal"
    case duration: "a duration"
    case `false`, `true`: "a Boolean"
    default: nil
    }
  }
}

/// A double as 64 bits in the same order: for negative numbers all bits are inverted, and otherwise the sign bit only.
///
///     -infinity 0x000f_ffff_ffff_ffff    -1 0x400f_ffff_ffff_ffff    0 0x8000_0000_0000_0000
///      infinity 0xfff0_0000_0000_0000     1 0xbff0_0000_0000_0000
struct OrderedDouble {
  let bits: UInt64

  private static let sign: UInt64 = 1 << 63

  init(bits: UInt64) { self.bits = bits }

  /// Encodes a double, or returns nil for a NaN, which has no position in the order. -0.0 becomes 0.0, which it equals.
  @inline(__always)
  init?(_ value: Double) {
    guard !value.isNaN else { return nil }
    let pattern = (value == 0 ? 0.0 : value).bitPattern
    bits = pattern & Self.sign == 0 ? pattern | Self.sign : ~pattern
  }

  /// The double, or nil for bits that do not encode one.
  @inline(__always)
  var value: Double? {
    let value = Double(bitPattern: bits & Self.sign == 0 ? ~bits : bits & ~Self.sign)
    return value.isNaN || value.bitPattern == Self.sign ? nil : value
  }
}
