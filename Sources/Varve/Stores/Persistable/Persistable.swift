/// A type with its own collection: the API for `Codable` values with an `id`.
///
/// ```swift
/// struct Book: Persistable {
///   static let collection = "books"
///   var id: UUID
///   var title: String
/// }
/// try book.persist(in: tx)                           // in a transaction
/// try await book.persist(in: database)               // one transaction by itself
/// let book = try await Book.load(id, in: database)
/// for try await book in Book.load(..., in: database) { print(book.title) }
/// ```
///
/// The methods have the names and errors of those of ``Store``, which has more: `Book.store(in: database)`. With
/// `in: tx` they are synchronous and part of that transaction. With `in: database` they are asynchronous: each call is
/// a transaction of its own, or part of the surrounding `perform` if there is one.
///
/// The collection may be listed in the definition of the database (``DatabaseDefinition``), with a coder and a storage;
/// otherwise it is defined at its first use. The same rows may be read through a ``Store``, and by collection and key.
/// A type that needs versions gets a ``StoreFormat``, whose first version is the one written by this API.
///
/// # Metadata
/// If the type has a `Metadata` type, the property `metadata` contains the metadata of an item, which is stored
/// separately from the object. Reading an item sets the property. Writing an item writes the property, too: if it is
/// nil, the item has no metadata in the database afterward. ``StoredSeparately`` excludes the property from the
/// object's own encoding:
///
/// ```swift
/// @StoredSeparately var metadata: Size? = nil
/// ```
/// Without the wrapper it would be stored twice; debug builds check for that, and throw `.invalidDefinition`.
public protocol Persistable: Codable, Identifiable, Sendable where ID: KeyCodable {
  /// The type of the metadata that is stored with an item. Default: no metadata.
  associatedtype Metadata: Codable & Sendable = Never
  /// The name of the collection. Each type needs its own.
  static var collection: String { get }
  /// The metadata that is stored with the item.
  var metadata: Metadata? { get set }
  /// The answer for an item that this build of the program can't decode. Default: `.throws`.
  static var undecodable: UndecodableRowPolicy<Self> { get }
}

extension Persistable {
  /// The default, `.throws`.
  public static var undecodable: UndecodableRowPolicy<Self> { .throws }
}

extension Persistable where Metadata == Never {
  /// The metadata of an item without metadata: always nil.
  public var metadata: Never? {
    get { nil }
    set {}
  }
}

extension Persistable {
  /// The row key of the item. Throws `.invalidKey` if its `id` cannot be a key.
  public var rowKey: RowKey { get throws { try Self.rowKey(id) } }

  /// Returns the row key for a key. Throws `.invalidKey` if it cannot be a key.
  public static func rowKey(_ key: ID) throws -> RowKey { try RowKey(key, in: collection) }

  /// Returns the key of a row, as change sets and extensions provide it. Throws `.invalidArgument` for a row of another
  /// collection, and `.keyTypeDiffers` for one with keys of another type.
  public static func identifier(of row: RowKey) throws -> ID {
    guard row.collection == collection else {
      throw DatabaseError(
        .invalidArgument, "\(Self.self) is kept in \"\(collection)\"", collection: row.collection, key: row.text)
    }
    return try row.key()
  }

  /// Returns the store of the type's collection, which has the methods of ``Persistable`` without `in: database`, and
  /// those that it lacks: `Book.store(in: database).count`.
  public static func store(in database: Database) -> Store<PersistableFormat<Self>> { Store(in: database) }

  static func access(_ tx: ReadTransaction) -> RowAccess<PersistableFormat<Self>> { RowAccess(tx.database, collection) }
}

/// The format of a ``Persistable`` type: a single version, the type's collection, and its metadata if it has any.
public struct PersistableFormat<Item: Persistable>: StoreFormat, AdoptingFormat {
  /// The type of the items.
  public typealias Instance = Item
  /// The type of the items' `id`.
  public typealias Identifier = Item.ID
  /// The type of the items' metadata.
  public typealias Metadata = Item.Metadata
  /// The format has a single version.
  public typealias Version = SingleVersion

  /// Creates a format.
  public init() {}

  /// The collection of the type.
  public static var collection: String { Item.collection }
  /// Returns the `id` of an item.
  public static func identifier(of instance: Item) -> Item.ID { instance.id }
  /// The path to the `metadata` of an item, or nil if the type has none.
  public static var metadataPath: (any WritableKeyPath<Item, Item.Metadata?> & Sendable)? {
    Metadata.self == Never.self ? nil : \Item.metadata
  }
  /// The answer for an item that can't be decoded, as the type says.
  public static var undecodable: UndecodableRowPolicy<Item> { Item.undecodable }
}
