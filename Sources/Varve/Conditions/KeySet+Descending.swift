extension KeySet.Range {
  /// Whether the range contains exactly the keys that begin with one value.
  var isPoint: Bool {
    upper.map { $0.count == lower.count + 1 && $0.last == KeyTag.escape && $0.dropLast() == lower[...] } ?? false
  }

  /// Returns the range of the keys that consist of `parts` followed by a key of this range.
  func following(_ parts: [UInt8]) -> KeySet.Range {
    KeySet.Range(
      lower: parts + lower, upper: upper.map { parts + $0 } ?? (parts.isEmpty ? nil : KeyRange.end(ofParts: parts)))
  }
}

extension KeySet {
  /// The ranges of the same values in descending encoding, or nil if they cannot be converted, as for prefixes of
  /// texts.
  var descending: [Range]? {
    var turned: [Range] = []
    for range in ranges.reversed() {
      let (lower, upper) = (range.upper?.turnedBound, range.lower.turnedBound)
      guard lower != nil || range.upper == nil, upper != nil || range.lower.isEmpty else { return nil }
      turned.append(Range(lower: lower ?? [], upper: upper))
    }
    return turned
  }
}

extension [UInt8] {
  private var isOnePart: Bool { (try? KeyPart.parts(of: self))?.count == 1 }

  /// The bound of a range among the same values in descending encoding, or nil if it cannot be converted.
  fileprivate var turnedBound: [UInt8]? {
    // A bound before a value becomes one after it.
    if isOnePart { return descendingPart.map { KeyRange.end(ofParts: $0) } }
    // A bound after a value becomes one before it.
    let value = Array(dropLast())
    if last == KeyTag.escape, value.isOnePart { return value.descendingPart }
    // The bound is before or after all optionals that have a value.
    func areOptionals(_ bytes: [UInt8]) -> Bool { !bytes.isEmpty && bytes.allSatisfy { $0 == KeyTag.some } }
    if last == KeyTag.escape, areOptionals(value) { return value.map { ~$0 } }
    return areOptionals(self) ? KeyRange.successor(ofPrefix: map { ~$0 }) : nil
  }

  /// A single part of a key in the encoding of `KeyEncoder.encode(descending:)`.
  fileprivate var descendingPart: [UInt8]? {
    guard let tag = first(where: { $0 != KeyTag.some }) else { return nil }
    let isText = tag == KeyTag.string || tag == KeyTag.data
    return (isText ? self + [KeyTag.terminator] : self).map { ~$0 }
  }
}
