/// A prefix of long texts that an index keeps instead of the whole text (`Index(\.text, prefix: 200)`).
///
/// The prefix of a text ends with the first character whose encoding (`KeyTag`) ends at or after `size` bytes. Two
/// texts differ at the same position as their prefixes, or the prefixes are equal: prefixes are therefore never in
/// another order than their texts, and none is greater than its text. A range of texts has its prefixes in the same
/// range, extended at its lower end.
struct KeyPrefix: Hashable, Sendable {
  /// The size of the prefix in bytes.
  let size: Int

  /// Returns whether values of a key type can have prefixes.
  static func applies(to type: KeyType) -> Bool {
    ["string", "data", "optional(string)", "optional(data)"].contains(type.name)
  }

  /// Cuts the part that was appended from `start` on to its prefix. A nil value stays.
  func cut(_ encoder: inout KeyEncoder, from start: Int) {
    let bytes = encoder.bytes
    let content = Self.content(of: bytes[start...])
    // The last byte of the part is the terminator.
    var end = content + size
    guard end < bytes.count - 1 else { return }
    if bytes[end] == KeyTag.escape, bytes[end - 1] == KeyTag.terminator { end += 1 }
    // These bytes continue a character.
    if bytes[content - 1] == KeyTag.string { while end < bytes.count - 1, bytes[end] & 0xC0 == 0x80 { end += 1 } }
    encoder.truncate(to: end)
    encoder.append([KeyTag.terminator])
  }

  /// Returns the index of the first byte of a part's text.
  private static func content(of part: ArraySlice<UInt8>) -> Int {
    (part.firstIndex { $0 != KeyTag.some } ?? part.endIndex - 1) + 1
  }

  /// Converts the lower bound of a range of texts to one of prefixes. `parts` is the number of parts before the text.
  func lower(_ bound: [UInt8], after parts: Int) -> [UInt8] {
    let start = unsafe bound.withUnsafeBytes { bytes -> Int? in
      var decoder = KeyDecoder(unsafe RawSpan(_unsafeBytes: bytes))
      for _ in 0..<parts { do { try decoder.skipPart() } catch { return nil } }
      return decoder.position
    }
    // A bound that ends before the text is the same for prefixes.
    guard let start, start < bound.count else { return bound }
    return Array(bound.prefix(Self.content(of: bound[start...]) + size))
  }

  /// Converts ranges of texts to the ranges of their prefixes.
  func widened(_ ranges: [KeySet.Range]) -> [KeySet.Range] {
    var widened: [KeySet.Range] = []
    for range in ranges {
      let lower = lower(range.lower, after: 0)
      if let last = widened.last, last.upper.map({ !ByteOrder.precedes($0, lower) }) ?? true {
        widened[widened.count - 1] = KeySet.Range(lower: last.lower, upper: range.upper)
      } else {
        widened.append(KeySet.Range(lower: lower, upper: range.upper))
      }
    }
    return widened
  }
}

/// Encodes the prefix of a field.
final class PrefixEncoder: FieldEncoder, @unchecked Sendable {
  private let whole: FieldEncoder
  private let prefix: KeyPrefix

  init(_ whole: FieldEncoder, _ prefix: KeyPrefix) {
    self.whole = whole
    self.prefix = prefix
  }

  override func append(_ instance: InstanceAddress, to encoder: inout KeyEncoder) throws {
    let start = encoder.bytes.count
    try whole.append(instance, to: &encoder)
    prefix.cut(&encoder, from: start)
  }
}
