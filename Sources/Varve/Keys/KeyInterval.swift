/// A range of keys whose ends each belong to it or don't: what the ranges of the standard library can't say.
///
/// ```swift
/// let next = try await books.load(last..>, limit: 20)         // after last
/// let later = try await books.load(first..>last)              // after first, up to and with last
/// let between = try await books.load(KeyInterval(from: .excluding("a"), to: .excluding("b")))
/// ```
///
/// Wherever the database takes a range it takes one of these. One whose end is before its beginning holds no key. It is not
/// a mistake. A value: safe from any thread.
public struct KeyInterval<Bound: KeyCodable>: KeyBounds, Hashable, Sendable {
  /// One end of an interval.
  public enum End: Hashable, Sendable {
    /// There is none: up to the first or last key.
    case unbounded
    /// At this key, which belongs to the interval.
    case including(Bound)
    /// At this key, which does not belong to the interval.
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

  /// From one end to another. Without either: all keys.
  public init(from lower: End = .unbounded, to upper: End = .unbounded) {
    self.lower = lower
    self.upper = upper
  }

  /// Where it begins; nil: at the first key.
  public var lowerKey: Bound? { lower.key }
  /// Where it ends; nil: after the last key.
  public var upperKey: Bound? { upper.key }
  /// Whether the beginning belongs to it.
  public var includesLowerKey: Bool { lower.isIncluded }
  /// Whether the end belongs to it.
  public var includesUpperKey: Bool { upper.isIncluded }
}

infix operator ..> : RangeFormationPrecedence
postfix operator ..>

/// The keys after `lower`, up to and with `upper`.
public func ..> <Bound: KeyCodable>(lower: Bound, upper: Bound) -> KeyInterval<Bound> {
  KeyInterval(from: .excluding(lower), to: .including(upper))
}

/// The keys after `lower`.
public postfix func ..> <Bound: KeyCodable>(lower: Bound) -> KeyInterval<Bound> {
  KeyInterval(from: .excluding(lower))
}
