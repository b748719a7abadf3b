/// Where `putStamped` writes the sequence.
public enum StampPosition: Sendable, Hashable {
  /// From this byte of the key on.
  case key(Int)
  /// From this byte of the value on.
  case value(Int)

  /// The bytes at the position until the commit: eight times 0xFF, whatever the caller passed. A batch that can be read
  /// finds a stamped key by them, and keys with the same prefix sort by what follows the stamp.
  public static let pending = [UInt8](repeating: 0xff, count: 8)

  /// Throws `.invalidArgument` if the eight bytes do not lie inside the key or the value.
  func check(keySize: Int, valueSize: Int) throws(EngineError) {
    let (offset, count, name) =
      switch self {
      case .key(let offset): (offset, keySize, "the key")
      case .value(let offset): (offset, valueSize, "the value")
      }
    guard offset >= 0, offset <= count - 8 else {
      throw EngineError(
        .invalidArgument, "a stamp of 8 bytes at byte \(offset) of \(name), which has \(count) bytes")
    }
  }
}
