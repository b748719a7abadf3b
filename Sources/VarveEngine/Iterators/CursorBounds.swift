/// Which keys a cursor shows: from `lower` (included) up to `upper` (excluded).
public struct CursorBounds: Sendable, Hashable {
  /// The smallest key that is shown; nil for no lower bound.
  public let lower: [UInt8]?
  /// The upper bound, excluded; nil for no upper bound.
  public let upper: [UInt8]?

  /// Every key.
  public static let all = CursorBounds()

  /// Creates bounds. If `upper` is not above `lower`, the range is empty.
  public init(lower: [UInt8]? = nil, upper: [UInt8]? = nil) {
    self.lower = lower
    self.upper = upper
  }

  /// The keys that begin with `prefix`. The empty prefix begins every key.
  public static func prefix(_ prefix: [UInt8]) -> CursorBounds {
    // The first key after them all: the last byte that can grow does, and those after it go.
    guard let last = prefix.lastIndex(where: { $0 < 0xff }) else {
      return CursorBounds(lower: prefix.isEmpty ? nil : prefix)
    }
    return CursorBounds(lower: prefix, upper: Array(prefix[..<last]) + [prefix[last] + 1])
  }
}
