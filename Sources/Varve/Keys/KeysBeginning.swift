/// The keys that begin with a value, or with one of a range of values: a range over the first part of compound keys,
/// independent of the types of the other parts.
///
/// ```swift
/// // Keys are a group and a name.
/// let some = try await entries.load(.beginning(with: 1...3)).collect()
/// let count = try entries.count(.beginning(with: 1 ..> 3), in: tx)
/// ```
///
/// The value, or the bounds of the range, may also be a shorter ``Compound``. If the keys of a collection do not begin
/// with those types, the call that uses the range throws `.keyTypeDiffers`; a value that cannot be a key throws
/// `.invalidKey`. It is a value: safe from any thread.
public struct KeysBeginning<Bound: KeyCodable>: KeyBounds, Sendable {
  /// The beginning of the keys.
  public let beginning: EncodedKeyRange?

  init(_ beginning: EncodedKeyRange) { self.beginning = beginning }

  /// Always nil: `beginning` has the bounds.
  public var lowerKey: Bound? { nil }
  /// Always nil: `beginning` has the bounds.
  public var upperKey: Bound? { nil }
  /// Always false: `beginning` has the bounds.
  public var includesUpperKey: Bool { false }
}

extension KeyBounds {
  /// Returns the range of the keys that begin with a value, or with the values of a shorter ``Compound``.
  public static func beginning<Key, First: KeyCodable>(with first: First) -> Self where Self == KeysBeginning<Key> {
    KeysBeginning(EncodedKeyRange(with: KeyInterval(from: .including(first), to: .including(first))))
  }

  /// Returns the range of the keys that begin with a value of a range.
  public static func beginning<Key, First: KeyCodable>(
    with range: some KeyBounds<First>
  ) -> Self where Self == KeysBeginning<Key> {
    KeysBeginning(EncodedKeyRange(with: range))
  }
}

extension KeyBounds where Bound: KeyCodable {
  /// Returns the encoded bounds of the keys that begin with a key of the range: the lower one, and the upper one or nil
  /// if the range has no end. Throws `.invalidKey`.
  package func encodedBounds() throws -> (lower: [UInt8], upper: [UInt8]?) { try EncodedKeyRange(with: self).bounds() }
}

/// A range over the first parts of keys, as bounds of their encoding.
public struct EncodedKeyRange: Sendable {
  /// The type of the first parts.
  let keyType: KeyType
  private let encode: @Sendable (FoldedParts) throws -> (lower: [UInt8], upper: [UInt8]?)

  /// Creates the range of the keys that begin with a value of a range.
  init<First: KeyCodable>(with range: some KeyBounds<First>) {
    keyType = First.keyType
    let (beginning, lower, upper) = (range.beginning, range.lowerKey, range.upperKey)
    let (includesLower, includesUpper) = (range.includesLowerKey, range.includesUpperKey)
    encode = { folded in
      if let beginning { return try beginning.bounds(folded) }
      var first = try lower.map { try folded.fitted($0).encoded() } ?? []
      if lower != nil, !includesLower { first = KeyRange.end(ofParts: first) }
      var end = try upper.map { try folded.fitted($0).encoded() }
      if includesUpper { end = end.map(KeyRange.end(ofParts:)) }
      return (first, end)
    }
  }

  /// Returns the encoded lower bound, and the upper bound or nil if the range has no end; `folded` has the parts whose
  /// text is folded. Throws `.invalidKey`.
  func bounds(_ folded: FoldedParts = .none) throws -> (lower: [UInt8], upper: [UInt8]?) { try encode(folded) }
}
