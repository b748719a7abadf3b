public import Varve

extension Store where Format: StoreFormat {
  /// A store of the format over a database of its own in memory, which is gone with the last store that has it.
  ///
  /// ```swift
  /// let books = try Store<BookFormat>.inMemory(containing: [emma, persuasion])
  /// ```
  ///
  /// `database` of the store is the database: for a second store, for `fill`, or to be closed. Where several stores
  /// are tested together, or extensions, the database is made first, and the stores in it as everywhere:
  ///
  /// ```swift
  /// let database = try Database.inMemory { BookFormat.self; ShelfFormat.self }
  /// let books = Store<BookFormat>(in: database)
  /// ```
  ///
  /// Throws what is wrong with the format, `.alreadyExists` where two instances have one identifier, and what encoding
  /// an instance throws.
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
