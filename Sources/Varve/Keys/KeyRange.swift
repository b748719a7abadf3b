/// Computes bounds of ranges over encoded keys, from the lower bound (included) to the upper bound (excluded).
///
/// The range of keys with a common beginning has one of two ends:
///
/// - *Keys that begin with the same parts*, such as (1999, ...): from the parts' bytes to those bytes and 0xff, which
///   sorts after every tag. The end is not the successor of the bytes: 11 61 00 is the part ("a"), and 11 61 00 ff 00
///   is ("a\0"), which begins with the same bytes and has another first part.
/// - *Keys that begin with the same bytes*, such as all strings that begin with "The", or all keys of a collection:
///   from the bytes to their successor.
///
/// **Prefixes of strings are compared by scalars in normal form C.** "e" and U+0301 compose to "é", which is one
/// scalar: so a scan for "e" finds neither "é" nor "été", in whatever form they were written, and one for "한" does not
/// find a text that began as "하". If the scalars do not compose, the base is found: "x" finds "x" with U+0301, although
/// Swift treats both as one character, and `hasPrefix` returns false. A program that searches while the user types
/// should compare folded strings, or filter by `hasPrefix`.
package enum KeyRange {
  /// Returns the end of all keys that begin with the parts whose bytes are `parts`.
  package static func end(ofParts parts: [UInt8]) -> [UInt8] { parts + [KeyTag.escape] }

  /// Returns the smallest byte string after all that begin with `prefix`, or nil if there is none, because `prefix` is
  /// empty or consists of 0xff only.
  static func successor(ofPrefix prefix: [UInt8]) -> [UInt8]? {
    guard let last = prefix.lastIndex(where: { $0 != 0xff }) else { return nil }
    var successor = Array(prefix[...last])
    successor[last] += 1
    return successor
  }

  /// Returns the common beginning of all encoded strings with a prefix, after the bytes of other parts: a string's
  /// encoding without its end.
  package static func prefix(ofStrings prefix: String, after parts: [UInt8] = []) -> [UInt8] {
    var encoder = KeyEncoder()
    encoder.bytes = parts + [KeyTag.string]
    encoder.appendText(prefix)
    return encoder.bytes
  }
}
