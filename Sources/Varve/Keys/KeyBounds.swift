/// The bounds of a range of keys: of the ranges of the standard library, and of ``KeyInterval``.
///
/// A range whose end is before its beginning holds no key.
public protocol KeyBounds<Bound> {
  /// What the range is of.
  associatedtype Bound
  /// Where it begins; nil: at the first key.
  var lowerKey: Bound? { get }
  /// Whether the beginning belongs to it. Default true.
  var includesLowerKey: Bool { get }
  /// Where it ends; nil: after the last key.
  var upperKey: Bound? { get }
  /// Whether the end belongs to it.
  var includesUpperKey: Bool { get }
  /// The bounds where they are of the first parts of keys; nil, which is the default: where they are of keys.
  var beginning: KeyBeginning? { get }
}

extension KeyBounds {
  /// Nil.
  public var beginning: KeyBeginning? { nil }
  /// True.
  public var includesLowerKey: Bool { true }
}

extension Range: KeyBounds {
  /// The lower bound.
  public var lowerKey: Bound? { lowerBound }
  /// The upper bound.
  public var upperKey: Bound? { upperBound }
  /// False.
  public var includesUpperKey: Bool { false }
}

extension ClosedRange: KeyBounds {
  /// The lower bound.
  public var lowerKey: Bound? { lowerBound }
  /// The upper bound.
  public var upperKey: Bound? { upperBound }
  /// True.
  public var includesUpperKey: Bool { true }
}

extension PartialRangeFrom: KeyBounds {
  /// The lower bound.
  public var lowerKey: Bound? { lowerBound }
  /// None.
  public var upperKey: Bound? { nil }
  /// False.
  public var includesUpperKey: Bool { false }
}

extension PartialRangeUpTo: KeyBounds {
  /// None.
  public var lowerKey: Bound? { nil }
  /// The upper bound.
  public var upperKey: Bound? { upperBound }
  /// False.
  public var includesUpperKey: Bool { false }
}

extension PartialRangeThrough: KeyBounds {
  /// None.
  public var lowerKey: Bound? { nil }
  /// The upper bound.
  public var upperKey: Bound? { upperBound }
  /// True.
  public var includesUpperKey: Bool { true }
}
