/// The instances of a format: the API for types with versions, migrations and indexes.
///
/// ```swift
/// let books = Store<BookFormat>(in: database)
/// try await books.persist(book)
/// let book = try await books.load(id)
/// for try await book in books.load(...) { print(book.title) }
/// try database.write { tx in try books.modify(id, in: tx) { $0.year = 1851 } }
/// ```
///
/// `Persistable` has the same methods for a type that has a collection: `try await book.persist(in: database)`.
///
/// A store is a value that is created without `try` or `await`: it identifies a format and a database, and has no state
/// of its own. Errors of the format are thrown when the database is opened with it, or by the first call:
/// `.definitionDiffers` if the collection on disk has other keys, another coder or another storage; `.alreadyDefined`
/// if it has another format; `.invalidDefinition`.
///
/// Each method has two forms. One takes the transaction that it belongs to, `in: tx`, and is synchronous. The other is
/// asynchronous, and is a transaction of its own or belongs to the surrounding `perform`; it is complete when it
/// returns. Methods that change rows take the `label` and the `durability` of ``Database/write(label:durability:_:)``.
/// Each method throws what ``Database/read(_:)`` and ``Database/write(label:durability:_:)`` throw, and in addition
/// `.decodingFailed`, `.encodingFailed`, `.unsupportedVersion` for a row that a newer program has written,
/// `.keyTooLong` and `.invalidKey`. A method that throws has changed nothing.
///
/// # Rows that cannot be decoded
/// Reading treats such a row as the format says: ``RowFormat/undecodable``. Writing is the same for all formats.
///
/// A row can always be replaced and removed. `persist` and `deleteIfPresent` return nil for an instance that cannot be
/// decoded, and still replace or remove it; `update` and `delete` have to return it, and throw `.decodingFailed`;
/// methods with several instances, identifiers or a range decode none. If an extension requests the old object, the
/// method throws `.decodingFailed` with the collection and the key.
///
/// No method replaces a row that a newer program has written, including `insert`: they throw `.unsupportedVersion`. All
/// methods can remove it, except `delete` of a single instance, which would have to return it; `deleteIfPresent`
/// returns nil.
public struct Store<Format: RowFormat>: Sendable {
  /// The type of the instances.
  public typealias Instance = Format.Instance
  /// The type of the identifiers.
  public typealias Identifier = Format.Identifier
  /// The type of the metadata that is stored with instances.
  public typealias Metadata = Format.Metadata

  /// The database.
  public let database: Database
  /// The name of the collection.
  public let collection: String
  let access: RowAccess<Format>

  /// Creates a store of a format in a collection.
  public init(_ format: Format.Type = Format.self, in database: Database, collection: String) {
    self.database = database
    self.collection = collection
    access = RowAccess(database.core, collection)
  }

  // MARK: - Inside a transaction

  /// Returns the instance with an identifier, or nil if there is none.
  public func load(_ id: Identifier, in tx: ReadTransaction) throws -> Instance? { try access.load(id, tx) }

  /// Returns the instances with several identifiers, in their order, with nil for missing ones.
  public func load(ids: some Sequence<Identifier>, in tx: ReadTransaction) throws -> [Instance?] {
    try access.load(ids: ids, tx)
  }

  /// Returns whether there is an instance with an identifier. Nothing is decoded.
  public func contains(_ id: Identifier, in tx: ReadTransaction) throws -> Bool { try access.contains(id, tx) }

  /// Returns the metadata of an instance, or nil if it has none or does not exist.
  public func metadata(of id: Identifier, in tx: ReadTransaction) throws -> Metadata? {
    try access.metadata(of: id, tx)
  }

  /// Returns the metadata of several instances, in the order of the identifiers, with nil for missing ones.
  public func metadata(ids: some Sequence<Identifier>, in tx: ReadTransaction) throws -> [Metadata?] {
    try access.metadata(of: ids, tx)
  }

  /// Returns the number of instances. Complexity: one lookup, or O(n) if the format skips or replaces rows that can't
  /// be decoded.
  public func count(in tx: ReadTransaction) throws -> Int { try access.count(tx) }

  /// Returns the number of instances whose identifiers are in a range. Complexity: O(n) in these; nothing is decoded.
  public func count(_ range: some KeyBounds<Identifier> & Sendable, in tx: ReadTransaction) throws -> Int {
    try access.count(ScanRange(range), tx)
  }

  // MARK: - In a transaction of its own

  /// Returns the instance with an identifier, or nil if there is none.
  public func load(_ id: Identifier) async throws -> Instance? {
    try await database.readMemoryFirst(in: access.name) { tx in try access.load(id, tx) }
  }

  /// Returns the instances with several identifiers, in their order, with nil for missing ones.
  public func load(ids: sending some Sequence<Identifier>) async throws -> [Instance?] {
    let ids = AwaitedElements(ids)
    return try await database.read { tx in try access.load(ids: ids, tx) }
  }

  /// Returns whether there is an instance with an identifier. Nothing is decoded.
  public func contains(_ id: Identifier) async throws -> Bool {
    try await database.readMemoryFirst(in: access.name) { tx in try access.contains(id, tx) }
  }

  /// Returns the metadata of an instance, or nil if it has none or does not exist.
  public func metadata(of id: Identifier) async throws -> Metadata? {
    try await database.readMemoryFirst(in: access.name) { tx in try access.metadata(of: id, tx) }
  }

  /// Returns the metadata of several instances, in the order of the identifiers, with nil for missing ones.
  public func metadata(ids: sending some Sequence<Identifier>) async throws -> [Metadata?] {
    let ids = AwaitedElements(ids)
    return try await database.read { tx in try access.metadata(of: ids, tx) }
  }

  /// Returns the number of instances. Complexity: one lookup.
  public var count: Int {
    get async throws { try await database.readMemoryFirst(in: access.name) { tx in try access.count(tx) } }
  }

  /// Returns the number of instances whose identifiers are in a range. Complexity: O(n) in these; nothing is decoded.
  public func count(_ range: some KeyBounds<Identifier> & Sendable) async throws -> Int {
    let range = ScanRange(range)
    return try await database.read { tx in try access.count(range, tx) }
  }
}

extension Store where Format: StoreFormat {
  /// Creates a store of a format in the format's own collection.
  public init(_ format: Format.Type = Format.self, in database: Database) {
    self.init(format, in: database, collection: Format.collection)
  }
}

extension Store {
  /// Creates a store of values whose keys are passed to each call, for example of `Data`, which is stored without
  /// encoding.
  ///
  /// ```swift
  /// let thumbnails = Store(of: Data.self, key: UUID.self, in: database, collection: "thumbnails")
  /// try await thumbnails.persist(png, for: id)
  /// let png = try await thumbnails.load(id)
  /// ```
  public init<Key: KeyCodable, Value: Codable & Sendable>(
    of value: Value.Type, key: Key.Type, in database: Database, collection: String
  ) where Format == ValueFormat<Key, Value, Never> {
    self.init(in: database, collection: collection)
  }

  /// Creates a store of values with metadata, which is stored separately from a value and read without it.
  public init<Key: KeyCodable, Value: Codable & Sendable, Metadata: Codable & Sendable>(
    of value: Value.Type, key: Key.Type, metadata: Metadata.Type, in database: Database, collection: String
  ) where Format == ValueFormat<Key, Value, Metadata> {
    self.init(in: database, collection: collection)
  }
}
