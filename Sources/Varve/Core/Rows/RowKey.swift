/// Which row: a collection and a key of it.
public struct RowKey: Hashable, Sendable, CustomStringConvertible {
  /// The collection's name.
  public let collection: String
  /// The key as it stands in the collection's family: the bytes before `start` are the family's.
  private let stored: [UInt8]
  private let start: Int

  /// The row of an encoded key: what an extension that keeps `bytes` comes back to rows with. Nothing is checked.
  public init(collection: String, bytes: [UInt8]) {
    self.init(collection: collection, stored: bytes, start: 0)
  }

  /// The row of a key as it stands in the collection's family. Nothing is copied.
  init(collection: String, stored: [UInt8], start: Int) {
    self.collection = collection
    self.stored = stored
    self.start = start
  }

  /// The key, encoded. Complexity: a copy; `withBytes` makes none.
  public var bytes: [UInt8] { start == 0 ? stored : [UInt8](stored[start...]) }

  /// What `body` makes of the encoded key, which it may not keep.
  public func withBytes<Result>(_ body: (RawSpan) throws -> Result) rethrows -> Result {
    try unsafe body(stored.span.bytes.extracting(start..<stored.count))
  }

  /// The key in the families of its collection. Nothing is copied where it came from there.
  func storageKey(in info: CollectionInfo) -> [UInt8] {
    start == info.prefix.count && stored.starts(with: info.prefix) ? stored : info.prefix + bytes
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

extension RowKey {
  /// Whether both name the same row.
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
