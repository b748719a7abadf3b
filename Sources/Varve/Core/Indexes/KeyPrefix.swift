/// What an index keeps of long texts: their beginning (`Index(\.text, prefix: 200)`).
///
/// The beginning of a text ends where the first character ends at or after `size` bytes of its encoding (`KeyTag`). Two texts
/// differ at the same position as their beginnings, or these are equal: so beginnings are never in another order than their
/// texts, and none is after its text. A range of texts therefore has its beginnings in the same range, made longer at its
/// lower end.
struct KeyPrefix: Hashable, Sendable {
  /// In bytes.
  let size: Int

  /// Whether a type of keys has beginnings.
  static func applies(to type: KeyType) -> Bool {
    ["string", "data", "optional(string)", "optional(data)"].contains(type.name)
  }

  /// Leaves the beginning of a part that was appended, from `start` on. Nil stays.
  func cut(_ encoder: inout KeyEncoder, from start: Int) {
    let bytes = encoder.bytes
    let content = Self.content(of: bytes[start...])
    // The terminator is the last byte.
    var end = content + size
    guard end < bytes.count - 1 else { return }
    if bytes[end] == KeyTag.escape, bytes[end - 1] == KeyTag.terminator { end += 1 }
    // Bytes that continue a character.
    if bytes[content - 1] == KeyTag.string { while end < bytes.count - 1, bytes[end] & 0xC0 == 0x80 { end += 1 } }
    encoder.truncate(to: end)
    encoder.append([KeyTag.terminator])
  }

  /// Where the text of a part begins.
  private static func content(of part: ArraySlice<UInt8>) -> Int {
    (part.firstIndex { $0 != KeyTag.some } ?? part.endIndex - 1) + 1
  }

  /// The lower end of a range of texts as one of beginnings. `parts` parts come before the text.
  func lower(_ bound: [UInt8], after parts: Int) -> [UInt8] {
    let start = unsafe bound.withUnsafeBytes { bytes -> Int? in
      var decoder = KeyDecoder(unsafe RawSpan(_unsafeBytes: bytes))
      for _ in 0..<parts { do { try decoder.skipPart() } catch { return nil } }
      return decoder.position
    }
    // A bound that ends before the text is one of these already.
    guard let start, start < bound.count else { return bound }
    return Array(bound.prefix(Self.content(of: bound[start...]) + size))
  }

  /// The ranges of the beginnings of the texts in some ranges.
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

/// Encodes the beginning of a field.
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
