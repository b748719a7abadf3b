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
/// `Persistable` has the same calls for a type that has a collection: `try await book.persist(in: database)`.
///
/// A store is a value, made without `try` or `await`: it names a format and a database, and holds nothing. What is
/// wrong with the format is thrown when the database is opened with it, or by the first call: `.definitionDiffers`
/// where the collection on disk has other keys, another coder or another storage; `.alreadyDefined` where it has
/// another format; `.invalidDefinition`.
///
/// Each call comes in two forms. One takes the transaction that it belongs to, `in: tx`, and is synchronous. The other
/// is asynchronous and one transaction by itself, or belongs to the `perform` around it; it is done when it returns. Those
/// that change rows take the `label` and the `durability` of ``Database/write(label:durability:_:)``.
/// Each throws what ``Database/read(_:)`` and ``Database/write(label:durability:_:)`` throw, and beside that
/// `.decodingFailed`, `.encodingFailed`, `.unsupportedVersion` for a row that a newer program has written,
/// `.keyTooLong` and `.invalidKey`. A call that throws has changed nothing.
///
/// # Rows that can't be decoded
/// A row can always be replaced and removed. `persist` and `deleteIfPresent` return nil for an instance that can't be
/// decoded, and do what they are to do; `update` and `delete` have to return it, and throw `.decodingFailed`; calls with
/// several instances, identifiers or a range decode none. An extension that asks for the old object throws what it gets:
/// `.decodingFailed` with the collection and the key.
///
/// A row that a newer program has written is replaced by no call, `insert` included: `.unsupportedVersion`. It is removed
/// by all of them but `delete` of one instance, which would have to return it; `deleteIfPresent` returns nil.
public struct Store<Format: RowFormat>: Sendable {
  /// What is stored.
  public typealias Instance = Format.Instance
  /// What it is found by.
  public typealias Identifier = Format.Identifier
  /// What is kept beside it.
  public typealias Metadata = Format.Metadata

  /// The database.
  public let database: Database
  /// The name of the collection.
  public let collection: String
  let access: RowAccess<Format>

  /// A store of a format in a collection.
  public init(_ format: Format.Type = Format.self, in database: Database, collection: String) {
    self.database = database
    self.collection = collection
    access = RowAccess(database.core, collection)
  }

  // MARK: - Inside of a transaction

  /// The instance with an identifier; nil where there is none.
  public func load(_ id: Identifier, in tx: ReadTransaction) throws -> Instance? { try access.load(id, tx) }

  /// The instances with several identifiers, in the order of these; nil where there is none.
  public func load(ids: some Sequence<Identifier>, in tx: ReadTransaction) throws -> [Instance?] {
    try access.load(ids: ids, tx)
  }

  /// Whether there is an instance with an identifier. Nothing is decoded.
  public func contains(_ id: Identifier, in tx: ReadTransaction) throws -> Bool { try access.contains(id, tx) }

  /// The metadata of an instance; nil where it has none, or there is no instance.
  public func metadata(of id: Identifier, in tx: ReadTransaction) throws -> Metadata? {
    try access.metadata(of: id, tx)
  }

  /// The metadata of several instances, in the order of these identifiers; nil where one has none.
  public func metadata(ids: some Sequence<Identifier>, in tx: ReadTransaction) throws -> [Metadata?] {
    try access.metadata(of: ids, tx)
  }

  /// How many instances there are. Complexity: one lookup.
  public func count(in tx: ReadTransaction) throws -> Int { try access.count(tx) }

  /// How many instances have their identifiers in a range. Complexity: O(n) of these; nothing is decoded.
  public func count(_ range: some KeyBounds<Identifier> & Sendable, in tx: ReadTransaction) throws -> Int {
    try access.count(ScanRange(range), tx)
  }

  // MARK: - By itself

  /// The instance with an identifier; nil where there is none.
  public func load(_ id: Identifier) async throws -> Instance? {
    try await database.look(in: access.name) { tx in try access.load(id, tx) }
  }

  /// The instances with several identifiers, in the order of these; nil where there is none.
  public func load(ids: some Sequence<Identifier> & Sendable) async throws -> [Instance?] {
    try await database.read { tx in try access.load(ids: ids, tx) }
  }

  /// Whether there is an instance with an identifier. Nothing is decoded.
  public func contains(_ id: Identifier) async throws -> Bool {
    try await database.look(in: access.name) { tx in try access.contains(id, tx) }
  }

  /// The metadata of an instance; nil where it has none, or there is no instance.
  public func metadata(of id: Identifier) async throws -> Metadata? {
    try await database.look(in: access.name) { tx in try access.metadata(of: id, tx) }
  }

  /// The metadata of several instances, in the order of these identifiers; nil where one has none.
  public func metadata(ids: some Sequence<Identifier> & Sendable) async throws -> [Metadata?] {
    try await database.read { tx in try access.metadata(of: ids, tx) }
  }

  /// How many instances there are. Complexity: one lookup.
  public var count: Int {
    get async throws { try await database.look(in: access.name) { tx in try access.count(tx) } }
  }

  /// How many instances have their identifiers in a range. Complexity: O(n) of these; nothing is decoded.
  public func count(_ range: some KeyBounds<Identifier> & Sendable) async throws -> Int {
    let range = ScanRange(range)
    return try await database.read { tx in try access.count(range, tx) }
  }
}

extension Store where Format: StoreFormat {
  /// A store of a format in the format's own collection.
  public init(_ format: Format.Type = Format.self, in database: Database) {
    self.init(format, in: database, collection: Format.collection)
  }
}

extension Store {
  /// A store of values whose keys are given at each call: of `Data` for example, which is stored as it is.
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

  /// The same with metadata, which is kept beside a value and read without it.
  public init<Key: KeyCodable, Value: Codable & Sendable, Metadata: Codable & Sendable>(
    of value: Value.Type, key: Key.Type, metadata: Metadata.Type, in database: Database, collection: String
  ) where Format == ValueFormat<Key, Value, Metadata> {
    self.init(in: database, collection: collection)
  }
}
