/// A range of keys whose ends may each be included or excluded, in contrast to the ranges of the standard library.
///
/// ```swift
/// let next = try await books.load(last..>, limit: 20)         // after last
/// let later = try await books.load(first..>last)              // after first, up to and with last
/// let between = try await books.load(KeyInterval(from: .excluding("a"), to: .excluding("b")))
/// ```
///
/// Every method that takes a range accepts an interval. An interval whose end is before its beginning contains no key,
/// and is not an error. It is a value: safe from any thread.
public struct KeyInterval<Bound: KeyCodable>: KeyBounds, Hashable, Sendable {
  /// One end of an interval.
  public enum End: Hashable, Sendable {
    /// The interval has no end on this side.
    case unbounded
    /// The end is this key, which belongs to the interval.
    case including(Bound)
    /// The end is this key, which does not belong to the interval.
    case excluding(Bound)

    var key: Bound? {
      switch self {
      case .unbounded: nil
      case .including(let key), .excluding(let key): key
      }
    }

    var isIncluded: Bool {
      if case .including = self { true } else { false }
    }
  }

  private let lower: End
  private let upper: End

  /// Creates an interval from one end to another. Without ends, it contains all keys.
  public init(from lower: End = .unbounded, to upper: End = .unbounded) {
    self.lower = lower
    self.upper = upper
  }

  /// The lower bound, or nil if the interval begins at the first key.
  public var lowerKey: Bound? { lower.key }
  /// The upper bound, or nil if the interval ends after the last key.
  public var upperKey: Bound? { upper.key }
  /// Whether the lower bound belongs to the interval.
  public var includesLowerKey: Bool { lower.isIncluded }
  /// Whether the upper bound belongs to the interval.
  public var includesUpperKey: Bool { upper.isIncluded }
}

infix operator ..> : RangeFormationPrecedence
postfix operator ..>

/// Returns the interval of the keys after `lower`, up to and including `upper`.
public func ..> <Bound: KeyCodable>(lower: Bound, upper: Bound) -> KeyInterval<Bound> {
  KeyInterval(from: .excluding(lower), to: .including(upper))
}

/// Returns the interval of the keys after `lower`.
public postfix func ..> <Bound: KeyCodable>(lower: Bound) -> KeyInterval<Bound> {
  KeyInterval(from: .excluding(lower))
}
