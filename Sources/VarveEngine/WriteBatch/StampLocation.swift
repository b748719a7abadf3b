/// The position at which `putStamped` writes the sequence number of the commit.
public enum StampLocation: Sendable, Hashable {
  /// The eight bytes that begin at this offset of the key.
  case key(Int)
  /// The eight bytes that begin at this offset of the value.
  case value(Int)

  /// The bytes at the position until the commit: eight times 0xFF, regardless of what the caller passed.
  ///
  /// A readable batch finds a stamped key by them, and keys with the same prefix sort by the bytes after the stamp.
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
