/// A type with a collection of its own: the API for `Codable` values with an `id`.
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
/// The calls are those of ``Store``, by the same names and with the same errors: with `in: tx` they belong to a
/// transaction and are synchronous, with `in: database` they are asynchronous and one transaction by themselves, or belong
/// to the `perform` around them.
///
/// The collection may be named in the definition of the database (``DatabaseDefinition``), with a coder and a
/// storage; otherwise it is defined at first use. The same rows may be read through a ``Store`` and by collection and
/// key. A type that needs versions gets a ``StoreFormat``, whose first version is what was written so.
///
/// # Metadata
/// An item that has a `Metadata` type carries it in `metadata`: it is kept beside the object, set on items that are
/// read, and written with them, so that an item with nil has none in the database after its write. ``KeptApart`` keeps
/// it out of the object's own encoding:
///
/// ```swift
/// @KeptApart var metadata: Size? = nil
/// ```
/// Without the wrapper it would be stored twice; builds for debugging look for that, and throw `.invalidDefinition`.
public protocol Persistable: Codable, Identifiable, Sendable where ID: KeyCodable {
  /// What is kept beside an item. Default: nothing.
  associatedtype Metadata: Codable & Sendable = Never
  /// The name of the collection: one type, one collection.
  static var collection: String { get }
  /// What is kept beside the item.
  var metadata: Metadata? { get set }
}

extension Persistable where Metadata == Never {
  /// Nothing.
  public var metadata: Never? {
    get { nil }
    set {}
  }
}

extension Persistable {
  /// The row of the item. Throws `.invalidKey` where its `id` can't be a key.
  public var rowKey: RowKey { get throws { try Self.rowKey(id) } }

  /// The row of a key. Throws `.invalidKey` where it can't be one.
  public static func rowKey(_ key: ID) throws -> RowKey { try RowKey(key, in: collection) }

  /// The key of a row, which change sets and extensions give. Throws `.invalidArgument` for a row of another collection,
  /// and `.keyTypeDiffers` for one with keys of another type.
  public static func identifier(of row: RowKey) throws -> ID {
    guard row.collection == collection else {
      throw DatabaseError(
        .invalidArgument, "\(Self.self) is kept in \"\(collection)\"", collection: row.collection, key: row.text)
    }
    return try row.key()
  }

  /// The store of the type's collection: the same calls, without `in: database`.
  public static func store(in database: Database) -> Store<PersistableFormat<Self>> { Store(in: database) }

  static func access(_ tx: ReadTransaction) -> RowAccess<PersistableFormat<Self>> { RowAccess(tx.database, collection) }
}

/// The format of a ``Persistable`` type: one version, the type's collection, its metadata where it has it.
public struct PersistableFormat<Item: Persistable>: StoreFormat, AdoptingFormat {
  /// The type.
  public typealias Instance = Item
  /// Its `ID`.
  public typealias Identifier = Item.ID
  /// Its metadata.
  public typealias Metadata = Item.Metadata
  /// None.
  public typealias Version = SingleVersion

  /// A format.
  public init() {}

  /// The type's collection.
  public static var collection: String { Item.collection }
  /// The item's `id`.
  public static func identifier(of instance: Item) -> Item.ID { instance.id }
  /// The item's `metadata`.
  public static var metadataPath: (any WritableKeyPath<Item, Item.Metadata?> & Sendable)? {
    Metadata.self == Never.self ? nil : \Item.metadata
  }
}
