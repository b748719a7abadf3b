// The calls of ``ItemReader`` on a database or a connection: each is one transaction.

// MARK: - On this thread

extension ItemReader where Source: DatabaseReader {
  /// The item with a key; nil where there is none.
  @_disfavoredOverload
  public func byKey(_ key: Item.ID) throws -> Item? { try source.read { tx in try Item.read(from: tx).byKey(key) } }

  /// The items with several keys.
  @_disfavoredOverload
  public func byKeys(_ keys: some Sequence<Item.ID>) throws -> [Item] {
    try source.read { tx in try Item.read(from: tx).byKeys(keys) }
  }

  /// The item of a row; nil where there is none. Throws `.invalidArgument` for a row of another collection.
  @_disfavoredOverload
  public func at(_ row: RowKey) throws -> Item? { try source.read { tx in try Item.read(from: tx).at(row) } }

  /// The items of several rows. Throws `.invalidArgument` for a row of another collection.
  @_disfavoredOverload
  public func at(_ rows: some Sequence<RowKey>) throws -> [Item] {
    try source.read { tx in try Item.read(from: tx).at(rows) }
  }

  /// All items, in the order of their keys.
  @_disfavoredOverload
  public func all() throws -> [Item] { try source.read { tx in try Item.read(from: tx).all() } }

  /// The items of those keys that have one, and the keys that have none; each as often and in the order as the keys
  /// come. Complexity: O(n).
  @_disfavoredOverload
  public func filterExisting(_ keys: some Sequence<Item.ID>) throws -> (existing: [Item], missing: [Item.ID]) {
    try source.read { tx in try Item.read(from: tx).filterExisting(keys) }
  }

  /// The metadata of a key; nil where it has none, or no item. The item is not read.
  @_disfavoredOverload
  public func metadata(byKey key: Item.ID) throws -> Item.Metadata? {
    try source.read { tx in try Item.read(from: tx).metadata(byKey: key) }
  }

  /// The metadata of those of several keys that have some.
  @_disfavoredOverload
  public func metadata(byKeys keys: some Sequence<Item.ID>) throws -> [Item.Metadata] {
    try source.read { tx in try Item.read(from: tx).metadata(byKeys: keys) }
  }

  /// The metadata of a row; nil where it has none, or there is no row.
  @_disfavoredOverload
  public func metadata(at row: RowKey) throws -> Item.Metadata? {
    try source.read { tx in try Item.read(from: tx).metadata(at: row) }
  }

  /// The metadata of those of several rows that have some.
  @_disfavoredOverload
  public func metadata(at rows: some Sequence<RowKey>) throws -> [Item.Metadata] {
    try source.read { tx in try Item.read(from: tx).metadata(at: rows) }
  }
}

// MARK: - For tasks

extension ItemReader where Source: DatabaseReader {
  /// The item with a key; nil where there is none.
  public func byKey(_ key: Item.ID) async throws -> Item? {
    try await source.look(in: Item.collection) { tx in try Item.read(from: tx).byKey(key) }
  }

  /// The items with several keys.
  public func byKeys(_ keys: some Sequence<Item.ID>) async throws -> [Item] {
    let keys = Array(keys)
    return try await source.read { tx in try Item.read(from: tx).byKeys(keys) }
  }

  /// The item of a row; nil where there is none. Throws `.invalidArgument` for a row of another collection.
  public func at(_ row: RowKey) async throws -> Item? {
    try await source.look(in: Item.collection) { tx in try Item.read(from: tx).at(row) }
  }

  /// The items of several rows. Throws `.invalidArgument` for a row of another collection.
  public func at(_ rows: some Sequence<RowKey>) async throws -> [Item] {
    let rows = Array(rows)
    return try await source.read { tx in try Item.read(from: tx).at(rows) }
  }

  /// All items, in the order of their keys.
  public func all() async throws -> [Item] { try await source.read { tx in try Item.read(from: tx).all() } }

  /// The items of those keys that have one, and the keys that have none; each as often and in the order as the keys
  /// come. Complexity: O(n).
  public func filterExisting(_ keys: some Sequence<Item.ID>) async throws -> (existing: [Item], missing: [Item.ID]) {
    let keys = Array(keys)
    return try await source.read { tx in try Item.read(from: tx).filterExisting(keys) }
  }

  /// The metadata of a key; nil where it has none, or no item. The item is not read.
  public func metadata(byKey key: Item.ID) async throws -> Item.Metadata? {
    try await source.look(in: Item.collection) { tx in try Item.read(from: tx).metadata(byKey: key) }
  }

  /// The metadata of those of several keys that have some.
  public func metadata(byKeys keys: some Sequence<Item.ID>) async throws -> [Item.Metadata] {
    let keys = Array(keys)
    return try await source.read { tx in try Item.read(from: tx).metadata(byKeys: keys) }
  }

  /// The metadata of a row; nil where it has none, or there is no row.
  public func metadata(at row: RowKey) async throws -> Item.Metadata? {
    try await source.look(in: Item.collection) { tx in try Item.read(from: tx).metadata(at: row) }
  }

  /// The metadata of those of several rows that have some.
  public func metadata(at rows: some Sequence<RowKey>) async throws -> [Item.Metadata] {
    let rows = Array(rows)
    return try await source.read { tx in try Item.read(from: tx).metadata(at: rows) }
  }
}
