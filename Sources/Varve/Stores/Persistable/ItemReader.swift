/// Reads items of a ``Persistable`` type: what `Book.read(from: tx)` and `Book.read(from: database)` give.
///
/// From a transaction it belongs to that. From a database each call is a transaction of its own, in two forms: one that
/// waits on its thread, and one for tasks.
///
/// Of several keys the items come in the order of the keys, as often as their keys do; keys without an item are left
/// out. Metadata is read with its item.
public struct ItemReader<Item: Persistable, Source> {
  let source: Source
}

extension ItemReader: Sendable where Source: Sendable {}

extension Persistable {
  /// Reads in a transaction.
  public static func read(from tx: ReadTransaction) -> ItemReader<Self, ReadTransaction> { ItemReader(source: tx) }

  /// Reads from a database or a connection, each call by itself.
  public static func read<Source: DatabaseReader>(from source: Source) -> ItemReader<Self, Source> {
    ItemReader(source: source)
  }
}

// MARK: - In a transaction

extension ItemReader where Source == ReadTransaction {
  private var door: RowDoor<FormatRows<PersistableFormat<Item>>> { Item.door(source.database) }

  /// The item with a key; nil where there is none.
  public func byKey(_ key: Item.ID) throws -> Item? { try door.load(key, source) }

  /// The items with several keys.
  public func byKeys(_ keys: some Sequence<Item.ID>) throws -> [Item] {
    try door.load(ids: keys, source).compactMap(\.self)
  }

  /// The item of a row; nil where there is none. Throws `.invalidArgument` for a row of another collection.
  public func at(_ row: RowKey) throws -> Item? { try byKey(try Item.key(of: row)) }

  /// The items of several rows. Throws `.invalidArgument` for a row of another collection.
  public func at(_ rows: some Sequence<RowKey>) throws -> [Item] { try byKeys(try rows.map { try Item.key(of: $0) }) }

  /// All items, in the order of their keys.
  public func all() throws -> [Item] {
    try door.all(WalkTerms(range: .all, isDescending: false, limit: nil), source)
  }

  /// The items of those keys that have one, and the keys that have none; each as often and in the order as the keys
  /// come. Complexity: O(n).
  public func filterExisting(_ keys: some Sequence<Item.ID>) throws -> (existing: [Item], missing: [Item.ID]) {
    let keys = Array(keys)
    var result: (existing: [Item], missing: [Item.ID]) = ([], [])
    for (key, item) in zip(keys, try door.load(ids: keys, source)) {
      if let item { result.existing.append(item) } else { result.missing.append(key) }
    }
    return result
  }

  /// The metadata of a key; nil where it has none, or no item. The item is not read.
  public func metadata(byKey key: Item.ID) throws -> Item.Metadata? { try door.metadata(of: key, source) }

  /// The metadata of those of several keys that have some.
  public func metadata(byKeys keys: some Sequence<Item.ID>) throws -> [Item.Metadata] {
    try door.metadata(of: keys, source).compactMap(\.self)
  }

  /// The metadata of a row; nil where it has none, or there is no row.
  public func metadata(at row: RowKey) throws -> Item.Metadata? { try metadata(byKey: try Item.key(of: row)) }

  /// The metadata of those of several rows that have some.
  public func metadata(at rows: some Sequence<RowKey>) throws -> [Item.Metadata] {
    try metadata(byKeys: try rows.map { try Item.key(of: $0) })
  }
}
