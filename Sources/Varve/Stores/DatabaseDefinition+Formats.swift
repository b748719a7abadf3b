/// Formats and types with a collection in the definition of a database. One that is not there is defined by the first
/// store that uses it: later, so what is wrong with it is thrown then.
extension DatabaseDefinitionBuilder {
  /// A format, in its own collection. ``CollectionDefinition/init(_:collection:)`` puts it into another.
  public static func buildExpression<Format: StoreFormat>(_ format: Format.Type) -> DatabaseDefinition {
    DatabaseDefinition(inserting: { definition in
      definition = DatabaseDefinition(try CollectionDefinition(format))
    })
  }

  /// A type with a collection. ``CollectionDefinition/init(_:coder:storage:)`` gives it a coder and a storage.
  public static func buildExpression<Item: Persistable>(_ type: Item.Type) -> DatabaseDefinition {
    DatabaseDefinition(inserting: { definition in
      definition = DatabaseDefinition(try CollectionDefinition(type))
    })
  }
}

extension DatabaseDefinition {
  /// The names of the collections that it has, in order, and their formats; nil for those that have none, or whose
  /// instances don't know their identifiers. For `VarveTesting`, which migrates and checks all of them.
  package var collectionFormats: [(name: String, format: (any StoreFormat.Type)?)] {
    collections.values.map { ($0.name, $0.codec.format) }.sorted { $0.name < $1.name }
  }
}

extension DatabaseDefinition {
  /// What the indexes of a collection are, by their names: what must be the same for what a database has to be of use. With the
  /// names that the collection may have there. For `VarveTesting`.
  package var collectionIndexes: [(collection: String, formerKeys: [String], definitions: [String: String])] {
    collections.values.map { collection in
      let indexes = collection.indexing.map { Self.definitions(of: $0) } ?? [:]
      return (collection.name, collection.formerKeys, indexes)
    }.sorted { $0.collection < $1.collection }
  }

  private static func definitions(of indexing: some CollectionIndexing) -> [String: String] {
    Dictionary(indexing.indexes.map { ($0.name, $0.definition) }) { first, _ in first }
  }
}

extension CollectionDefinition {
  /// The collection of a persistable type, in the same way. Throws `.invalidDefinition`.
  public init<Item: Persistable>(
    _ type: Item.Type, coder: CoderKind = .binary, formerCoders: [CoderKind] = [],
    storage: CollectionStorage = .shared
  ) throws {
    try self.init(
      PersistableFormat<Item>.self, name: Item.collection, coder: coder, formerCoders: formerCoders, storage: storage)
  }
}
