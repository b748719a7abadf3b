/// The key of a row: a collection and a key in it.
public struct RowKey: Hashable, Sendable, CustomStringConvertible {
  /// The collection's name.
  public let collection: String
  /// The key as stored in the collection's family. The bytes before `start` are the prefix in that family.
  private let stored: [UInt8]
  private let start: Int

  /// Creates the key of a row from an encoded key, for extensions that keep `bytes` and later look up rows. Nothing is
  /// checked.
  public init(collection: String, bytes: [UInt8]) {
    self.init(collection: collection, stored: bytes, start: 0)
  }

  /// Creates the key of a row from a key as stored in the collection's family. Nothing is copied.
  init(collection: String, stored: [UInt8], start: Int) {
    self.collection = collection
    self.stored = stored
    self.start = start
  }

  /// The encoded key. Complexity: a copy; `withBytes` makes none.
  public var bytes: [UInt8] { start == 0 ? stored : [UInt8](stored[start...]) }

  /// Returns the result of `body` for the encoded key. `body` must not keep the bytes.
  public func withBytes<Result>(_ body: (RawSpan) throws -> Result) rethrows -> Result {
    try unsafe body(stored.span.bytes.extracting(start..<stored.count))
  }

  /// Returns the key in the families of its collection. A key that came from there is not copied.
  func storageKey(in info: CollectionInfo) -> [UInt8] {
    start == info.prefix.count && stored.starts(with: info.prefix) ? stored : info.prefix + bytes
  }

  /// Creates the key of a row. Throws `.invalidKey` for a value that can't be a key.
  public init(_ key: some KeyCodable, in collection: String) throws {
    self.init(collection: collection, bytes: try key.encoded())
  }

  /// Returns the key as a type. Throws `.invalidKey` if it is of another type.
  public func key<Key: KeyCodable>(as type: Key.Type = Key.self) throws -> Key { try Key.decoded(from: bytes) }

  /// The key as text, as the command-line tool prints it.
  public var text: String { KeyText.text(of: bytes) }

  /// The collection and the key as text.
  public var description: String { "\(collection)/\(text)" }
}

extension RowKey {
  /// Returns whether both are keys of the same row.
  public static func == (left: RowKey, right: RowKey) -> Bool {
    left.collection == right.collection && left.stored[left.start...] == right.stored[right.start...]
  }

  /// Hashes the collection and the key.
  public func hash(into hasher: inout Hasher) {
    hasher.combine(collection)
    hasher.combine(stored.count - start)
    unsafe stored[start...].withUnsafeBytes { unsafe hasher.combine(bytes: $0) }
  }
}
