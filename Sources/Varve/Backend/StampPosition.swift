/// Where the number of the commit stands in a key or a value: eight bytes, big-endian.
public enum StampPosition: Sendable, Hashable {
  /// From this byte of the key on.
  case key(Int)
  /// From this byte of the value on.
  case value(Int)

  /// The bytes at the position until the commit: eight times 0xFF.
  public static let pending = [UInt8](repeating: 0xFF, count: 8)

  /// A key and a value as they are until the commit. The eight bytes lie within them.
  func pending(_ key: [UInt8], _ value: [UInt8]) -> (key: [UInt8], value: [UInt8]) {
    var (key, value) = (key, value)
    switch self {
    case .key(let offset): key.replaceSubrange(offset..<(offset + 8), with: Self.pending)
    case .value(let offset): value.replaceSubrange(offset..<(offset + 8), with: Self.pending)
    }
    return (key, value)
  }
}
