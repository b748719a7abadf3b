/// The position of the commit's version in a key or a value: eight bytes, big-endian.
public enum StampPosition: Sendable, Hashable {
  /// The version begins at this offset in the key.
  case key(Int)
  /// The version begins at this offset in the value.
  case value(Int)

  /// The bytes at the position until the commit: 0xFF eight times.
  public static let pending = [UInt8](repeating: 0xFF, count: 8)

  /// Returns a key and a value as they are before the commit. The eight bytes must be within the key or the value.
  package func pending(_ key: [UInt8], _ value: [UInt8]) -> (key: [UInt8], value: [UInt8]) {
    var (key, value) = (key, value)
    switch self {
    case .key(let offset): key.replaceSubrange(offset..<(offset + 8), with: Self.pending)
    case .value(let offset): value.replaceSubrange(offset..<(offset + 8), with: Self.pending)
    }
    return (key, value)
  }
}
