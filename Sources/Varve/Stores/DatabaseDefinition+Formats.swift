/// Formats and persistable types in the definition of a database.
extension DatabaseDefinition {
  /// Adds a format, in its own collection.
  ///
  /// A format that is not added is defined by the first store that uses it: later, so what is wrong with it is thrown
  /// then. Throws `.alreadyDefined`, `.invalidDefinition`.
  public mutating func add<Format: StoreFormat>(_ format: Format.Type) throws {
    try add(try CollectionDefinition(format))
  }

  /// Adds a format in another collection than its own, or one that has none. Throws `.alreadyDefined`,
  /// `.invalidDefinition`.
  public mutating func add<Format: RowFormat>(_ format: Format.Type, collection: String) throws {
    try add(try CollectionDefinition(format, collection: collection))
  }

  /// Adds the collection of a type. Throws `.alreadyDefined`, `.invalidDefinition`.
  public mutating func add<Item: Persistable>(
    _ type: Item.Type, coder: CoderKind = .binary, storage: CollectionStorage = .shared
  ) throws {
    try add(try CollectionDefinition(type, coder: coder, storage: storage))
  }
}

extension DatabaseDefinition {
  /// The definition of some formats, each in its own collection: `try DatabaseDefinition(BookFormat.self, ShelfFormat.self)`.
  ///
  /// Throws `.alreadyDefined` where two have one collection, and `.invalidDefinition`.
  public init<First: StoreFormat, each Other: StoreFormat>(
    _ first: First.Type, _ other: repeat (each Other).Type
  ) throws {
    self.init()
    try add(first)
    repeat try add((each other))
  }

  /// The names of the collections that it has, in order, and their formats; nil for those that have none, or whose
  /// instances don't know their identifiers. For `VarveTesting`, which migrates and checks all of them.
  package var collectionFormats: [(name: String, format: (any StoreFormat.Type)?)] {
    collections.values.map { ($0.name, $0.codec.format) }.sorted { $0.name < $1.name }
  }
}

extension CollectionDefinition {
  /// The collection of a persistable type, in the same way. Throws `.invalidDefinition`.
  public init<Item: Persistable>(
    _ type: Item.Type, coder: CoderKind = .binary, storage: CollectionStorage = .shared
  ) throws {
    try self.init(PersistableFormat<Item>.self, name: Item.collection, coder: coder, storage: storage)
  }
}
