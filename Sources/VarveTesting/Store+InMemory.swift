public import Varve

extension Store where Format: StoreFormat {
  /// Creates a store of the format over its own database in memory, which is released with the last store that uses it.
  ///
  /// ```swift
  /// let books = try Store<BookFormat>.inMemory(containing: [emma, persuasion])
  /// ```
  ///
  /// The store's `database` property is the database: use it for a second store, for `fill`, or to close it. To test
  /// several stores or extensions together, create the database first, and the stores in it as in a program:
  ///
  /// ```swift
  /// let database = try Database.inMemory { BookFormat.self; ShelfFormat.self }
  /// let books = Store<BookFormat>(in: database)
  /// ```
  ///
  /// Throws errors in the format's definition, `.alreadyExists` if two instances have the same identifier, and errors
  /// of encoding an instance.
  public static func inMemory(
    containing instances: [Instance] = [], collection: String = Format.collection,
    options: DatabaseOptions = DatabaseOptions()
  ) throws -> Store {
    let database = try Database.inMemory(options: options) {
      try CollectionDefinition(Format.self, collection: collection)
    }
    try database.fill { Fixture(Format.self, contentsOf: instances, collection: collection) }
    return Store(in: database, collection: collection)
  }
}
