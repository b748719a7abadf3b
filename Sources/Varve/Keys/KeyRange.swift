/// Bounds of ranges over encoded keys: from (included) and to (excluded).
///
/// Two ways in which keys begin alike have two ends:
///
/// - *Keys that begin with the same parts*, as (1999, ...): from the parts' bytes to those bytes and 0xff, which
///   sorts after every tag. Not to the successor of the bytes: 11 61 00 are the parts ("a"), and 11 61 00 ff 00
///   is ("a\0"), which begins with the same bytes and has another first part.
/// - *Keys that begin with the same bytes*, as all strings that begin with "The", or all keys of a collection:
///   from the bytes to their successor.
///
/// **Prefixes of strings go by scalars in normal form C.** "e" and U+0301 compose to "é", which is one scalar: so a
/// scan for "e" finds neither "é" nor "été", however they were written, and one for "한" does not find what
/// began as "하". Where nothing composes, the base is found: "x" finds "x" with U+0301, although they are one
/// character to Swift and `hasPrefix` says no. A program that searches while someone types compares folded
/// strings, or filters by `hasPrefix`.
package enum KeyRange {
  /// The end of all keys that begin with the parts whose bytes are `parts`.
  package static func end(ofParts parts: [UInt8]) -> [UInt8] { parts + [KeyTag.escape] }

  /// The smallest bytes after all that begin with `prefix`; nil where there are none, because it is empty or
  /// 0xff throughout.
  static func successor(ofPrefix prefix: [UInt8]) -> [UInt8]? {
    guard let last = prefix.lastIndex(where: { $0 != 0xff }) else { return nil }
    var successor = Array(prefix[...last])
    successor[last] += 1
    return successor
  }

  /// What the bytes of all strings that begin with `prefix` begin with, after the bytes of other parts: a string's
  /// encoding without its end.
  package static func prefix(ofStrings prefix: String, after parts: [UInt8] = []) -> [UInt8] {
    var encoder = KeyEncoder()
    encoder.bytes = parts + [KeyTag.string]
    encoder.appendText(prefix)
    return encoder.bytes
  }
}
