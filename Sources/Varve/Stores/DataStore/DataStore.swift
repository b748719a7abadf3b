public import Foundation

/// Plain bytes by key: images, documents, what another program has encoded.
///
/// ```swift
/// let thumbnails = DataStore("thumbnails", key: UUID.self, in: database)
/// try await thumbnails.persist(png, for: id)
/// let png = try await thumbnails.load(id)
/// ```
///
/// The bytes are stored as they are, with nothing around them but the header of a row. With metadata, an object that is
/// kept beside them and read without them: `DataStore("photos", key: UUID.self, metadata: Size.self, in: database)`.
///
/// A value that holds nothing, with the same calls, transactions and errors as ``Store``, from any thread.
public struct DataStore<Key: KeyCodable, Metadata: Codable & Sendable>: Sendable {
  /// The database.
  public let database: Database
  /// The name of the collection.
  public let name: String
  let door: RowDoor<DataRows<Key, Metadata>>

  /// The bytes of a collection, with metadata.
  public init(_ name: String, key: Key.Type = Key.self, metadata: Metadata.Type = Metadata.self, in database: Database)
  {
    self.database = database
    self.name = name
    door = RowDoor(database.core, name)
  }

  /// The bytes of a collection.
  public init(_ name: String, key: Key.Type = Key.self, in database: Database) where Metadata == Never {
    self.init(name, key: key, metadata: Never.self, in: database)
  }

  // MARK: - Reading inside of a transaction

  /// The bytes of a key; nil where there are none.
  public func load(_ key: Key, in tx: ReadTransaction) throws -> Data? { try door.load(key, tx) }

  /// The bytes of several keys, in the order of these; nil where there are none.
  public func load(keys: some Sequence<Key>, in tx: ReadTransaction) throws -> [Data?] {
    try door.load(ids: keys, tx)
  }

  /// Whether a key has bytes. They are not copied.
  public func contains(_ key: Key, in tx: ReadTransaction) throws -> Bool { try door.contains(key, tx) }

  /// The metadata of a key; nil where it has none, or no bytes.
  public func metadata(of key: Key, in tx: ReadTransaction) throws -> Metadata? { try door.metadata(of: key, tx) }

  /// The metadata of several keys, in the order of these; nil where one has none.
  public func metadata(keys: some Sequence<Key>, in tx: ReadTransaction) throws -> [Metadata?] {
    try door.metadata(of: keys, tx)
  }

  /// How many keys there are. Complexity: one lookup.
  public func count(in tx: ReadTransaction) throws -> Int { try door.count(tx) }

  /// How many keys there are in a range. Complexity: O(n) of these.
  public func count(_ range: some KeyBounds<Key> & Sendable, in tx: ReadTransaction) throws -> Int {
    try door.count(WalkRange(range), tx)
  }

  // MARK: - Reading by itself

  /// The bytes of a key; nil where there are none.
  public func load(_ key: Key) async throws -> Data? {
    try await database.look(in: door.name) { tx in try door.load(key, tx) }
  }

  /// The bytes of several keys, in the order of these; nil where there are none.
  public func load(keys: some Sequence<Key> & Sendable) async throws -> [Data?] {
    try await database.read { tx in try door.load(ids: keys, tx) }
  }

  /// Whether a key has bytes. They are not copied.
  public func contains(_ key: Key) async throws -> Bool {
    try await database.look(in: door.name) { tx in try door.contains(key, tx) }
  }

  /// The metadata of a key; nil where it has none, or no bytes.
  public func metadata(of key: Key) async throws -> Metadata? {
    try await database.look(in: door.name) { tx in try door.metadata(of: key, tx) }
  }

  /// The metadata of several keys, in the order of these; nil where one has none.
  public func metadata(keys: some Sequence<Key> & Sendable) async throws -> [Metadata?] {
    try await database.read { tx in try door.metadata(of: keys, tx) }
  }

  /// How many keys there are. Complexity: one lookup.
  public var count: Int {
    get async throws { try await database.look(in: door.name) { tx in try door.count(tx) } }
  }

  /// How many keys there are in a range. Complexity: O(n) of these.
  public func count(_ range: some KeyBounds<Key> & Sendable) async throws -> Int {
    let range = WalkRange(range)
    return try await database.read { tx in try door.count(range, tx) }
  }
}
