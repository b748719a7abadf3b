/// Reading items.
extension Persistable {
  // MARK: - Inside of a transaction

  /// The item with a key; nil where there is none.
  public static func load(_ key: ID, in tx: ReadTransaction) throws -> Self? { try access(tx).load(key, tx) }

  /// The items with several keys, in the order of these; nil where there is none.
  public static func load(ids keys: some Sequence<ID>, in tx: ReadTransaction) throws -> [Self?] {
    try access(tx).load(ids: keys, tx)
  }

  /// Whether there is an item with a key. Nothing is decoded.
  public static func contains(_ key: ID, in tx: ReadTransaction) throws -> Bool { try access(tx).contains(key, tx) }

  /// The metadata of an item; nil where it has none, or there is no item. The item is not read.
  public static func metadata(of key: ID, in tx: ReadTransaction) throws -> Metadata? {
    try access(tx).metadata(of: key, tx)
  }

  /// The metadata of several items, in the order of these keys; nil where one has none. The items are not read.
  public static func metadata(ids keys: some Sequence<ID>, in tx: ReadTransaction) throws -> [Metadata?] {
    try access(tx).metadata(of: keys, tx)
  }

  /// How many items there are. Complexity: one lookup.
  public static func count(in tx: ReadTransaction) throws -> Int { try access(tx).count(tx) }

  /// How many items have their keys in a range. Complexity: O(n) of these; nothing is decoded.
  public static func count(_ range: some KeyBounds<ID> & Sendable, in tx: ReadTransaction) throws -> Int {
    try access(tx).count(ScanRange(range), tx)
  }

  // MARK: - By itself

  /// The item with a key; nil where there is none.
  public static func load(_ key: ID, in database: Database) async throws -> Self? {
    try await store(in: database).load(key)
  }

  /// The items with several keys, in the order of these; nil where there is none.
  public static func load(ids keys: some Sequence<ID> & Sendable, in database: Database) async throws -> [Self?] {
    try await store(in: database).load(ids: keys)
  }

  /// Whether there is an item with a key. Nothing is decoded.
  public static func contains(_ key: ID, in database: Database) async throws -> Bool {
    try await store(in: database).contains(key)
  }

  /// The metadata of an item; nil where it has none, or there is no item. The item is not read.
  public static func metadata(of key: ID, in database: Database) async throws -> Metadata? {
    try await store(in: database).metadata(of: key)
  }

  /// The metadata of several items, in the order of these keys; nil where one has none. The items are not read.
  public static func metadata(
    ids keys: some Sequence<ID> & Sendable, in database: Database
  ) async throws -> [Metadata?] {
    try await store(in: database).metadata(ids: keys)
  }

  /// How many items there are. Complexity: one lookup.
  public static func count(in database: Database) async throws -> Int { try await store(in: database).count }

  /// How many items have their keys in a range. Complexity: O(n) of these; nothing is decoded.
  public static func count(_ range: some KeyBounds<ID> & Sendable, in database: Database) async throws -> Int {
    try await store(in: database).count(range)
  }
}
