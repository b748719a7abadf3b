/// The bounds of a range of keys: the ranges of the standard library, and ``KeyInterval``.
///
/// A range whose end is before its beginning contains no key.
public protocol KeyBounds<Bound> {
  /// The type of the keys.
  associatedtype Bound
  /// The lower bound, or nil if the range begins at the first key.
  var lowerKey: Bound? { get }
  /// Whether the lower bound belongs to the range. Default: true.
  var includesLowerKey: Bool { get }
  /// The upper bound, or nil if the range ends after the last key.
  var upperKey: Bound? { get }
  /// Whether the upper bound belongs to the range.
  var includesUpperKey: Bool { get }
  /// The bounds of a range over the first parts of keys, or nil, which is the default, for a range over whole keys.
  var beginning: EncodedKeyRange? { get }
}

extension KeyBounds {
  /// The default, nil.
  public var beginning: EncodedKeyRange? { nil }
  /// The default, true.
  public var includesLowerKey: Bool { true }
}

extension Range: KeyBounds {
  /// The lower bound.
  public var lowerKey: Bound? { lowerBound }
  /// The upper bound.
  public var upperKey: Bound? { upperBound }
  /// The upper bound does not belong to the range.
  public var includesUpperKey: Bool { false }
}

extension ClosedRange: KeyBounds {
  /// The lower bound.
  public var lowerKey: Bound? { lowerBound }
  /// The upper bound.
  public var upperKey: Bound? { upperBound }
  /// The upper bound belongs to the range.
  public var includesUpperKey: Bool { true }
}

extension PartialRangeFrom: KeyBounds {
  /// The lower bound.
  public var lowerKey: Bound? { lowerBound }
  /// The range has no upper bound.
  public var upperKey: Bound? { nil }
  /// The value is false.
  public var includesUpperKey: Bool { false }
}

extension PartialRangeUpTo: KeyBounds {
  /// The range has no lower bound.
  public var lowerKey: Bound? { nil }
  /// The upper bound.
  public var upperKey: Bound? { upperBound }
  /// The upper bound does not belong to the range.
  public var includesUpperKey: Bool { false }
}

extension PartialRangeThrough: KeyBounds {
  /// The range has no lower bound.
  public var lowerKey: Bound? { nil }
  /// The upper bound.
  public var upperKey: Bound? { upperBound }
  /// The upper bound belongs to the range.
  public var includesUpperKey: Bool { true }
}
