/// Reading items of ``Persistable`` types by calls of the transaction: `let book: Book? = try tx.read(id)`.
extension ReadTransaction {
  /// The item with a key; nil where there is none. Its type comes from the context, or from `type`.
  public final func read<Item: Persistable>(_ key: Item.ID, as type: Item.Type = Item.self) throws -> Item? {
    try type.read(from: self).byKey(key)
  }

  /// The items with several keys, in the order of these, each as often as its key; keys without an item are left out.
  public final func read<Item: Persistable>(
    keys: some Sequence<Item.ID>, as type: Item.Type = Item.self
  ) throws -> [Item] {
    try type.read(from: self).byKeys(keys)
  }

  /// The item of a row; nil where there is none. Throws `.invalidArgument` for a row of another type's collection.
  public final func read<Item: Persistable>(at row: RowKey, as type: Item.Type = Item.self) throws -> Item? {
    try type.read(from: self).at(row)
  }

  /// The items of several rows, in the order of these. Throws `.invalidArgument` for a row of another type's
  /// collection.
  public final func read<Item: Persistable>(
    at rows: some Sequence<RowKey>, as type: Item.Type = Item.self
  ) throws -> [Item] {
    try type.read(from: self).at(rows)
  }

  /// All items of a type, in the order of their keys.
  public final func readAll<Item: Persistable>(_ type: Item.Type = Item.self) throws -> [Item] {
    try type.read(from: self).all()
  }

  /// The metadata of an item; nil where it has none, or there is no item. The item is not read.
  public final func readMetadata<Item: Persistable>(_ key: Item.ID, of type: Item.Type) throws -> Item.Metadata? {
    try type.read(from: self).metadata(byKey: key)
  }

  /// The metadata of those of several items that have some, in the order of the keys.
  public final func readMetadata<Item: Persistable>(
    keys: some Sequence<Item.ID>, of type: Item.Type
  ) throws -> [Item.Metadata] {
    try type.read(from: self).metadata(byKeys: keys)
  }

  /// The metadata of a row; nil where it has none, or there is no row.
  public final func readMetadata<Item: Persistable>(at row: RowKey, of type: Item.Type) throws -> Item.Metadata? {
    try type.read(from: self).metadata(at: row)
  }

  /// The metadata of those of several rows that have some, in the order of these.
  public final func readMetadata<Item: Persistable>(
    at rows: some Sequence<RowKey>, of type: Item.Type
  ) throws -> [Item.Metadata] {
    try type.read(from: self).metadata(at: rows)
  }
}
