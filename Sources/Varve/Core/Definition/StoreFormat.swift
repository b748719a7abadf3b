/// What a ``Store`` keeps, in which versions: the namespace of a type that is stored. Instances know their identifiers;
/// ``KeyedFormat`` is for those that don't.
///
/// ```swift
/// struct BookFormat: StoreFormat {
///   static let collection = "books"
///   static let currentVersion = Version.second
///   enum Version: String, CaseIterable, Sendable { case first = "2024-04-01", second = "2024-04-09" }
///
///   struct BookV1: Codable { var id: UUID; var title: String; var author: String }
///   struct Book: Codable, Identifiable, Sendable { var id: UUID; var title: String; var authors: [String] }
///   typealias Instance = Book
///
///   static func decode(_ stored: StoredValue, version: Version) throws -> Book {
///     switch version {
///     case .first:
///       let old = try stored.decode(BookV1.self)
///       return Book(id: old.id, title: old.title, authors: [old.author])
///     case .second: return try stored.decode()
///     }
///   }
/// }
/// ```
///
/// A version that is forgotten in the switch does not compile. A format that has shipped in one version needs no
/// `Version` and no `decode`: ``SingleVersion`` stands in. ``DecoderTableFormat`` takes a dictionary of closures
/// instead of the switch.
///
/// # Versions
/// They are in the order of their declaration (`allCases`), whatever their raw values are. A row says which version
/// wrote it, by the raw value; the name of a case may change, its raw value may not. Reads convert; `migrate`
/// rewrites. A row that no versioned format has written (the collection had a ``SingleVersion`` format, a
/// ``Persistable`` or no definition then) is of the version that is declared first. So who adds a second version
/// declares the one that has shipped before it.
public protocol StoreFormat<Instance, Identifier>: RowFormat {
  /// What is stored, as the program uses it now.
  override associatedtype Instance
  /// What instances are found by. That of an `Identifiable` instance is its `ID`.
  override associatedtype Identifier

  /// The collection where a store of this format keeps its instances, unless another one is given.
  static var collection: String { get }
  /// The names that the collection had in earlier versions of the program, the newest first. Where a database has a collection
  /// by one of these, and none by `collection`, opening it with this format gives that one the present name, in one commit;
  /// where it has both, or two of them, opening throws `.invalidDefinition`. They count for stores that keep their instances in
  /// `collection`. Default: none.
  static var formerKeys: [String] { get }
  /// What an instance is found by. Default: its `id`.
  static func identifier(of instance: Instance) -> Identifier
  /// Whether an instance is found by its `id`: then a query takes a condition on `id` as one on the identifier. Default: true
  /// where the instance is `Identifiable` and the identifier has the type of its `id`. A format of such instances with an
  /// `identifier(of:)` of its own, which returns something else, says false.
  static var isIdentifiedByID: Bool { get }

  /// The indexes by their names. Default: the stored properties of the format that are indexes. A format implements it
  /// where these can't be found: in a program that is built without reflection metadata, or where an index stands in a tuple
  /// or is computed. Each must be the same index at each call.
  var indexes: [String: any StoreIndex] { get }
  /// Whether converting an instance from each older version leaves all its values in indexes as they were. Default false:
  /// another `currentVersion` lets the indexes be reviewed in the background, row by row. With true nothing is reviewed; where
  /// it does not hold, ``Store/verifyIndexes(sample:)`` finds that.
  static var indexesSurvive: Bool { get }
  /// What becomes of the build of an index that meets a row which can't be decoded, or whose value can't be a key. Default:
  /// the row is listed, and the build continues.
  static var unindexableRows: UnindexableRows { get }
  /// Whether queries may compare fields as they are stored, without decoding the row. Default true, which is right where
  /// `init(from:)` gives each property the value that is stored under its name. A type that changes values there says false:
  /// otherwise a query that meets such a value decodes each row, if it meets it early, and else throws
  /// `.invalidDefinition` or leaves the row out.
  static var readsStoredFields: Bool { get }
}

/// What becomes of the build of an index that meets a row which can't be decoded, or whose value can't be a key.
public enum UnindexableRows: Sendable {
  /// The row is in no index, and ``Store/unindexedRows(in:)`` returns it; the build continues.
  case listed
  /// The build fails with the error.
  case fail
}

extension StoreFormat {
  /// An index in which a value may have many instances, by one field or several.
  public typealias Index<each Part: KeyCodable> = PlainIndex<Instance, repeat each Part>
  /// An index in which a value has one instance, by one field or several.
  public typealias OneToOneIndex<each Part: KeyCodable> = UniqueIndex<Instance, repeat each Part>
  /// An index in which an instance has several values, and a value may have many instances.
  public typealias ManyToManyIndex<Value: KeyCodable> = ManyValuedIndex<Instance, Value>
  /// An index in which an instance has several values, and a value has one instance.
  public typealias ManyToOneIndex<Value: KeyCodable> = ManyValuedUniqueIndex<Instance, Value>

  /// The stored properties that are indexes.
  public var indexes: [String: any StoreIndex] { FormatMirror.indexes(of: self) }
  /// None.
  public static var formerKeys: [String] { [] }
  /// False.
  public static var isIdentifiedByID: Bool { false }
  /// False.
  public static var indexesSurvive: Bool { false }
  /// True.
  public static var readsStoredFields: Bool { true }
  /// Listed.
  public static var unindexableRows: UnindexableRows { .listed }
}

extension StoreFormat {
  /// The former names of a collection of this format.
  static func formerKeys(of name: String) -> [String] {
    Name.composed(name) == Name.composed(collection) ? formerKeys : []
  }
}

extension StoreFormat where Instance: Identifiable, Instance.ID: KeyCodable {
  /// The instance's own. It also says what type the identifiers of such a format have.
  public static func identifier(of instance: Instance) -> Instance.ID { instance.id }
  /// True.
  public static var isIdentifiedByID: Bool { Identifier.self == Instance.ID.self }
}
