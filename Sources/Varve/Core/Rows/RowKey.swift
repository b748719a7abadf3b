/// Which row: a collection and a key of it.
public struct RowKey: Hashable, Sendable, CustomStringConvertible {
  /// The collection's name.
  public let collection: String
  /// The key, encoded.
  public let bytes: [UInt8]

  /// The row of an encoded key: what an extension that keeps `bytes` comes back to rows with. Nothing is checked.
  public init(collection: String, bytes: [UInt8]) {
    self.collection = collection
    self.bytes = bytes
  }

  /// The row of a key. Throws `.invalidKey` for a value that can't be one.
  public init(_ key: some KeyCodable, in collection: String) throws {
    self.init(collection: collection, bytes: try key.encoded())
  }

  /// The key as a type. Throws `.invalidKey` where it is of another.
  public func key<Key: KeyCodable>(as type: Key.Type = Key.self) throws -> Key { try Key.decoded(from: bytes) }

  /// The key as the tool prints it.
  public var text: String { KeyText.text(of: bytes) }

  /// The collection and the key.
  public var description: String { "\(collection)/\(text)" }
}
