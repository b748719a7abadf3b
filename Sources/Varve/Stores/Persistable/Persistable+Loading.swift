/// Reads items.
extension Persistable {
  // MARK: - Inside a transaction

  /// Returns the item with a key, or nil if there is none.
  public static func load(_ key: ID, in tx: ReadTransaction) throws -> Self? { try access(tx).load(key, tx) }

  /// Returns the items with several keys, in their order, with nil for missing ones.
  public static func load(ids keys: some Sequence<ID>, in tx: ReadTransaction) throws -> [Self?] {
    try access(tx).load(ids: keys, tx)
  }

  /// Returns whether there is an item with a key. Nothing is decoded.
  public static func contains(_ key: ID, in tx: ReadTransaction) throws -> Bool { try access(tx).contains(key, tx) }

  /// Returns the metadata of an item, or nil if it has none or does not exist. The item is not read.
  public static func metadata(of key: ID, in tx: ReadTransaction) throws -> Metadata? {
    try access(tx).metadata(of: key, tx)
  }

  /// Returns the metadata of several items, in the order of the keys, with nil for missing ones. The items are not
  /// read.
  public static func metadata(ids keys: some Sequence<ID>, in tx: ReadTransaction) throws -> [Metadata?] {
    try access(tx).metadata(of: keys, tx)
  }

  /// Returns the number of items. Complexity: one lookup.
  public static func count(in tx: ReadTransaction) throws -> Int { try access(tx).count(tx) }

  /// Returns the number of items whose keys are in a range. Complexity: O(n) in these; nothing is decoded.
  public static func count(_ range: some KeyBounds<ID> & Sendable, in tx: ReadTransaction) throws -> Int {
    try access(tx).count(ScanRange(range), tx)
  }

  // MARK: - In a transaction of its own

  /// Returns the item with a key, or nil if there is none.
  public static func load(_ key: ID, in database: Database) async throws -> Self? {
    try await store(in: database).load(key)
  }

  /// Returns the items with several keys, in their order, with nil for missing ones.
  public static func load(ids keys: some Sequence<ID> & Sendable, in database: Database) async throws -> [Self?] {
    try await store(in: database).load(ids: keys)
  }

  /// Returns whether there is an item with a key. Nothing is decoded.
  public static func contains(_ key: ID, in database: Database) async throws -> Bool {
    try await store(in: database).contains(key)
  }

  /// Returns the metadata of an item, or nil if it has none or does not exist. The item is not read.
  public static func metadata(of key: ID, in database: Database) async throws -> Metadata? {
    try await store(in: database).metadata(of: key)
  }

  /// Returns the metadata of several items, in the order of the keys, with nil for missing ones. The items are not
  /// read.
  public static func metadata(
    ids keys: some Sequence<ID> & Sendable, in database: Database
  ) async throws -> [Metadata?] {
    try await store(in: database).metadata(ids: keys)
  }

  /// Returns the number of items. Complexity: one lookup.
  public static func count(in database: Database) async throws -> Int { try await store(in: database).count }

  /// Returns the number of items whose keys are in a range. Complexity: O(n) in these; nothing is decoded.
  public static func count(_ range: some KeyBounds<ID> & Sendable, in database: Database) async throws -> Int {
    try await store(in: database).count(range)
  }
}
