/// Formats and types with a collection in the definition of a database. A format that is not in the definition is
/// defined by the first store that uses it, so its errors are thrown only then.
extension DatabaseDefinitionBuilder {
  /// Adds a format with its own collection. ``CollectionDefinition/init(_:collection:)`` uses another collection.
  public static func buildExpression<Format: StoreFormat>(_ format: Format.Type) -> DatabaseDefinition {
    DatabaseDefinition(inserting: { definition in
      definition = DatabaseDefinition(try CollectionDefinition(format))
    })
  }

  /// Adds a type with a collection. ``CollectionDefinition/init(_:coder:storage:)`` gives it a coder and a storage.
  public static func buildExpression<Item: Persistable>(_ type: Item.Type) -> DatabaseDefinition {
    DatabaseDefinition(inserting: { definition in
      definition = DatabaseDefinition(try CollectionDefinition(type))
    })
  }
}

extension DatabaseDefinition {
  /// The names of the definition's collections in order, each with its format, or nil if the collection has none or its
  /// instances do not know their identifiers. `VarveTesting` uses it to migrate and check all of them.
  package var collectionFormats: [(name: String, format: (any StoreFormat.Type)?)] {
    collections.values.map { ($0.name, $0.format) }.sorted { $0.name < $1.name }
  }
}

extension DatabaseDefinition {
  /// The definitions of each collection's indexes by their names, and the former names of the collection. A prebuilt
  /// database is only usable if the definitions are equal. For `VarveTesting`.
  package var collectionIndexes: [(collection: String, formerKeys: [String], definitions: [String: String])] {
    collections.values.map { collection in
      let indexes = collection.indexing.map { Self.definitions(of: $0) } ?? [:]
      return (collection.name, collection.formerKeys, indexes)
    }.sorted { $0.collection < $1.collection }
  }

  private static func definitions(of indexing: some IndexSpecification) -> [String: String] {
    Dictionary(indexing.indexes.map { ($0.name, $0.definition) }) { first, _ in first }
  }
}

extension CollectionDefinition {
  /// Defines the collection of a persistable type. Throws `.invalidDefinition`.
  public init<Item: Persistable>(
    _ type: Item.Type, coder: CoderKind = .binary, formerCoders: [CoderKind] = [],
    storage: CollectionStorage = .shared
  ) throws {
    try self.init(
      PersistableFormat<Item>.self, name: Item.collection, coder: coder, formerCoders: formerCoders, storage: storage)
  }
}
