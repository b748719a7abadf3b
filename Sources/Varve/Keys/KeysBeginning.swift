/// The keys that begin with a value, or with one of a range of values: a range over the first part of compound keys,
/// whatever the types of the others.
///
/// ```swift
/// // Keys are a group and a name.
/// let some = try await entries.load(.beginning(with: 1...3)).collect()
/// let count = try entries.count(.beginning(with: 1 ..> 3), in: tx)
/// ```
///
/// The value, or the bounds of the range, may also be a shorter ``Compound``. Where the keys of a collection don't begin
/// with those types the call that gets the range throws `.keyTypeDiffers`; a value that can't be a key is `.invalidKey`.
/// A value: safe from any thread.
public struct KeysBeginning<Bound: KeyCodable>: KeyBounds, Sendable {
  /// What the keys begin with.
  public let beginning: KeyBeginning?

  init(_ beginning: KeyBeginning) { self.beginning = beginning }

  /// None: `beginning` has the bounds.
  public var lowerKey: Bound? { nil }
  /// None: `beginning` has the bounds.
  public var upperKey: Bound? { nil }
  /// False.
  public var includesUpperKey: Bool { false }
}

extension KeyBounds {
  /// The keys that begin with a value, or with the values of a shorter ``Compound``.
  public static func beginning<Key, First: KeyCodable>(with first: First) -> Self where Self == KeysBeginning<Key> {
    KeysBeginning(KeyBeginning(with: KeyInterval(from: .including(first), to: .including(first))))
  }

  /// The keys that begin with a value of a range.
  public static func beginning<Key, First: KeyCodable>(
    with range: some KeyBounds<First>
  ) -> Self where Self == KeysBeginning<Key> {
    KeysBeginning(KeyBeginning(with: range))
  }
}

/// The first parts of keys, as bounds of their encoded form.
public struct KeyBeginning: Sendable {
  /// The type of the first parts.
  let keyType: KeyType
  private let encoded: Result<(lower: [UInt8], upper: [UInt8]?), any Error>

  /// The keys that begin with a value of a range.
  init<First: KeyCodable>(with range: some KeyBounds<First>) {
    keyType = First.keyType
    encoded = Result {
      if let beginning = range.beginning { return try beginning.bounds() }
      var lower = try range.lowerKey?.encoded() ?? []
      if range.lowerKey != nil, !range.includesLowerKey { lower = KeyRange.end(ofParts: lower) }
      var upper = try range.upperKey?.encoded()
      if range.includesUpperKey { upper = upper.map(KeyRange.end(ofParts:)) }
      return (lower, upper)
    }
  }

  /// The first bytes, and those that are after all; nil: there are none. Throws `.invalidKey`.
  func bounds() throws -> (lower: [UInt8], upper: [UInt8]?) { try encoded.get() }
}
