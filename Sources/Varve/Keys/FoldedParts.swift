/// The parts of an index's values that have the folded form of a text. The arguments of calls that read the index are
/// folded in these parts, too, so that they find every spelling of a value.
struct FoldedParts: Sendable {
  /// Whether each part is folded, or an empty list if none is.
  private let isFolded: [Bool]

  /// No part is folded.
  static let none = FoldedParts(isFolded: [])

  /// Creates the parts of an index from whether each of them is folded.
  init(isFolded: [Bool]) { self.isFolded = isFolded.contains(true) ? isFolded : [] }

  /// Returns a value of the index, or its first parts, in the form in which the index has them.
  func fitted<Key: KeyCodable>(_ key: Key) -> Key {
    if isFolded.isEmpty { return key }
    if let compound = key as? any FoldableKey, let fitted = compound.folded(in: isFolded) as? Key { return fitted }
    return isFolded[0] ? Self.folded(key) : key
  }

  /// Returns the folded form of a text, or another value unchanged.
  static func folded<Value>(_ value: Value) -> Value {
    if let text = value as? String, let folded = text.folded as? Value { return folded }
    if let reversed = value as? Descending<String>, let folded = Descending(reversed.value.folded) as? Value {
      return folded
    }
    if let reversed = value as? Descending<String?>, let folded = Descending(reversed.value?.folded) as? Value {
      return folded
    }
    return value
  }
}

/// A key of several parts.
private protocol FoldableKey {
  /// Returns the key with some of its parts folded.
  func folded(in parts: [Bool]) -> Self
}

extension Compound: FoldableKey {
  func folded(in parts: [Bool]) -> Self {
    var rest = parts[...]
    func next<Each>(_ part: Each) -> Each { rest.popFirst() == true ? FoldedParts.folded(part) : part }
    return Self(repeat next(each values))
  }
}
