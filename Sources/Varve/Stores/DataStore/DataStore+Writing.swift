public import Foundation

/// Setting and removing bytes. They are given as `Data`, `[UInt8]` or whatever else is `DataProtocol`.
/// A row that a format with versions has written is replaced by no call (`.unsupportedVersion`).
extension DataStore {
  // MARK: - Inside of a transaction

  /// Sets the bytes of a key, new or not, and keeps its stored metadata. Returns what was there.
  @discardableResult
  public func persist(_ bytes: some DataProtocol, for key: Key, in tx: WriteTransaction) throws -> Data? {
    try door.persist(Data(bytes), key, .keep, tx)
  }

  /// Sets the bytes of a key, new or not, and its metadata; nil: it has none then. Returns what was there.
  @discardableResult
  public func persist(
    _ bytes: some DataProtocol, for key: Key, metadata: Metadata?, in tx: WriteTransaction
  ) throws -> Data? {
    try door.persist(Data(bytes), key, .set(metadata), tx)
  }

  /// Sets the bytes of several keys: all of them, or where it throws none. What was there is not copied.
  public func persist(
    contentsOf values: some Sequence<(key: Key, value: Data)>, in tx: WriteTransaction
  ) throws {
    try tx.savepoint {
      for (key, value) in values { try door.set(value, key, .keep, tx) }
    }
  }

  /// Sets the bytes of a key that has none. Throws `.alreadyExists`.
  public func insert(
    _ bytes: some DataProtocol, for key: Key, metadata: Metadata? = nil, in tx: WriteTransaction
  ) throws {
    try door.insert(Data(bytes), key, .set(metadata), tx)
  }

  /// Sets the bytes of a key that has some, and keeps its stored metadata. Returns what was there. Throws `.notFound`.
  @discardableResult
  public func update(_ bytes: some DataProtocol, for key: Key, in tx: WriteTransaction) throws -> Data {
    try door.update(Data(bytes), key, .keep, tx)
  }

  /// Sets the bytes of a key that has some, and its metadata; nil: it has none then. Returns what was there. Throws
  /// `.notFound`.
  @discardableResult
  public func update(
    _ bytes: some DataProtocol, for key: Key, metadata: Metadata?, in tx: WriteTransaction
  ) throws -> Data {
    try door.update(Data(bytes), key, .set(metadata), tx)
  }

  /// Changes the bytes of a key that has some, and keeps its stored metadata. Returns what they are then. Throws
  /// `.notFound`, and what `body` throws.
  @discardableResult
  public func modify(_ key: Key, in tx: WriteTransaction, _ body: (inout Data) throws -> Void) throws -> Data {
    try door.modify(key, tx, check: { _ in }, body)
  }

  /// Sets the metadata of a key that has bytes; nil: it has none then. Throws `.notFound`.
  public func setMetadata(_ metadata: Metadata?, of key: Key, in tx: WriteTransaction) throws {
    try door.setMetadata(metadata, key, tx)
  }

  /// Removes the bytes of a key that has some, and returns them. Throws `.notFound`.
  @discardableResult
  public func delete(_ key: Key, in tx: WriteTransaction) throws -> Data { try door.delete(key, tx) }

  /// Removes the bytes of a key, and returns them; nil where there are none.
  @discardableResult
  public func deleteIfPresent(_ key: Key, in tx: WriteTransaction) throws -> Data? {
    try door.deleteIfPresent(key, tx)
  }

  /// Removes the bytes of several keys. Returns how many keys had some.
  @discardableResult
  public func delete(keys: some Sequence<Key>, in tx: WriteTransaction) throws -> Int {
    try door.delete(ids: keys, tx)
  }

  /// Removes the bytes of a range of keys. Returns how many keys had some.
  @discardableResult
  public func delete(_ range: some KeyBounds<Key> & Sendable, in tx: WriteTransaction) throws -> Int {
    try door.delete(WalkRange(range), tx)
  }

  /// Removes all bytes. Returns how many keys there were. Complexity: as of ``Store/truncate(in:)``.
  @discardableResult
  public func truncate(in tx: WriteTransaction) throws -> Int { try door.truncate(tx) }

  // MARK: - By itself

  /// Sets the bytes of a key, new or not, and keeps its stored metadata. Returns what was there.
  @discardableResult
  public func persist(_ bytes: some DataProtocol, for key: Key) async throws -> Data? {
    let data = Data(bytes)
    return try await database.write { tx in try door.persist(data, key, .keep, tx) }
  }

  /// Sets the bytes of a key, new or not, and its metadata; nil: it has none then. Returns what was there.
  @discardableResult
  public func persist(_ bytes: some DataProtocol, for key: Key, metadata: Metadata?) async throws -> Data? {
    let data = Data(bytes)
    return try await database.write { tx in try door.persist(data, key, .set(metadata), tx) }
  }

  /// Sets the bytes of several keys in one transaction: all of them, or where it throws none. What was there is not
  /// copied.
  public func persist(contentsOf values: some Sequence<(key: Key, value: Data)> & Sendable) async throws {
    try await database.write { tx in try persist(contentsOf: values, in: tx) }
  }

  /// Sets the bytes of a key that has none. Throws `.alreadyExists`.
  public func insert(_ bytes: some DataProtocol, for key: Key, metadata: Metadata? = nil) async throws {
    let data = Data(bytes)
    try await database.write { tx in try door.insert(data, key, .set(metadata), tx) }
  }

  /// Sets the bytes of a key that has some, and keeps its stored metadata. Returns what was there. Throws `.notFound`.
  @discardableResult
  public func update(_ bytes: some DataProtocol, for key: Key) async throws -> Data {
    let data = Data(bytes)
    return try await database.write { tx in try door.update(data, key, .keep, tx) }
  }

  /// Sets the bytes of a key that has some, and its metadata; nil: it has none then. Returns what was there. Throws
  /// `.notFound`.
  @discardableResult
  public func update(_ bytes: some DataProtocol, for key: Key, metadata: Metadata?) async throws -> Data {
    let data = Data(bytes)
    return try await database.write { tx in try door.update(data, key, .set(metadata), tx) }
  }

  /// Changes the bytes of a key that has some, and keeps its stored metadata. Returns what they are then. Throws
  /// `.notFound`, and what `body` throws.
  @discardableResult
  public func modify(_ key: Key, _ body: @Sendable (inout Data) throws -> Void) async throws -> Data {
    try await database.write { tx in try modify(key, in: tx, body) }
  }

  /// Sets the metadata of a key that has bytes; nil: it has none then. Throws `.notFound`.
  public func setMetadata(_ metadata: Metadata?, of key: Key) async throws {
    try await database.write { tx in try setMetadata(metadata, of: key, in: tx) }
  }

  /// Removes the bytes of a key that has some, and returns them. Throws `.notFound`.
  @discardableResult
  public func delete(_ key: Key) async throws -> Data { try await database.write { tx in try delete(key, in: tx) } }

  /// Removes the bytes of a key, and returns them; nil where there are none.
  @discardableResult
  public func deleteIfPresent(_ key: Key) async throws -> Data? {
    try await database.write { tx in try deleteIfPresent(key, in: tx) }
  }

  /// Removes the bytes of several keys. Returns how many keys had some.
  @discardableResult
  public func delete(keys: some Sequence<Key> & Sendable) async throws -> Int {
    try await database.write { tx in try delete(keys: keys, in: tx) }
  }

  /// Removes the bytes of a range of keys. Returns how many keys had some.
  @discardableResult
  public func delete(_ range: some KeyBounds<Key> & Sendable) async throws -> Int {
    let range = WalkRange(range)
    return try await database.write { tx in try door.delete(range, tx) }
  }

  /// Removes all bytes. Returns how many keys there were. Complexity: as of ``Store/truncate(in:)``.
  @discardableResult
  public func truncate() async throws -> Int { try await database.write { tx in try truncate(in: tx) } }
}
