/// The range of keys that a cursor shows: from `lower` (included) up to `upper` (excluded).
public struct CursorBounds: Sendable, Hashable {
  /// The smallest key that is shown, or nil for no lower bound.
  public let lower: [UInt8]?
  /// The upper bound, excluded, or nil for no upper bound.
  public let upper: [UInt8]?

  /// The bounds that include every key.
  public static let all = CursorBounds()

  /// Creates bounds. If `upper` is not above `lower`, the range is empty.
  public init(lower: [UInt8]? = nil, upper: [UInt8]? = nil) {
    self.lower = lower
    self.upper = upper
  }

  /// Returns the bounds of the keys that begin with `prefix`. The empty prefix begins every key.
  public static func prefix(_ prefix: [UInt8]) -> CursorBounds {
    // The first key after all of them: the last byte that can be incremented is, and the bytes after it are removed.
    guard let last = prefix.lastIndex(where: { $0 < 0xff }) else {
      return CursorBounds(lower: prefix.isEmpty ? nil : prefix)
    }
    return CursorBounds(lower: prefix, upper: Array(prefix[..<last]) + [prefix[last] + 1])
  }
}
