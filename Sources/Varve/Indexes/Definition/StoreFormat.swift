/// The format of a ``Store``: what it stores, and in which versions. It is the namespace of a stored type. Instances
/// know their identifiers; use ``KeyedFormat`` for those that don't.
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
/// A version that is missing in the switch does not compile. A format that has shipped in one version needs no
/// `Version` and no `decode`, and has ``SingleVersion`` instead. ``DecoderTableFormat`` uses a dictionary of closures
/// instead of the switch.
///
/// # Versions
/// Versions are ordered by their declaration (`allCases`), whatever their raw values are. A row contains the raw value
/// of the version that wrote it; the name of a case may change, but its raw value may not. Reads convert, and `migrate`
/// rewrites. A row that no versioned format has written, because the collection had a ``SingleVersion`` format, a
/// ``Persistable`` or no definition at that time, has the version that is declared first. When you add a second
/// version, declare the one that has already shipped before it.
public protocol StoreFormat<Instance, Identifier>: RowFormat {
  /// The type that is stored, as the program uses it now.
  override associatedtype Instance
  /// The type of the identifiers by which instances are found. For an `Identifiable` instance it is its `ID`.
  override associatedtype Identifier

  /// The collection in which a store of this format keeps its instances, unless another one is given.
  static var collection: String { get }
  /// The names that the collection had in earlier versions of the program, the newest first. Default: none.
  ///
  /// If a database has a collection under one of these names, and none under `collection`, opening it with this format
  /// renames that collection, in one commit. If it has both, or two under former names, opening throws
  /// `.invalidDefinition`. The names count for stores that keep their instances in `collection`.
  static var formerKeys: [String] { get }
  /// Returns the identifier by which an instance is found. Default: its `id`.
  static func identifier(of instance: Instance) -> Identifier
  /// A Boolean value that indicates whether instances are found by their `id`, so that a query uses a condition on `id`
  /// as one on the identifier.
  ///
  /// Default: true if the instance is `Identifiable` and the identifier has the type of its `id`. Return false if the
  /// format of such instances has an `identifier(of:)` of its own that returns something else.
  static var isIdentifiedByID: Bool { get }

  /// The indexes by their names. Default: the stored properties of the format that are indexes.
  ///
  /// Implement it if these can't be found: in a program that is built without reflection metadata, or if an index is in
  /// a tuple or is computed. Each must be the same index at each call.
  var indexes: [String: any StoreIndex] { get }
  /// A Boolean value that indicates whether converting an instance from each older version leaves all its index values
  /// unchanged.
  ///
  /// If false, the default, another `currentVersion` makes the indexes be reviewed in the background, row by row. If
  /// true, nothing is reviewed; if that is wrong, ``Store/verifyIndexes(sample:)`` detects it.
  static var indexesSurvive: Bool { get }
  /// A Boolean value that indicates whether queries may compare fields as they are stored, without decoding the row.
  ///
  /// The default, true, is right if `init(from:)` sets each property to the value that is stored under its name. Return
  /// false for a type that changes values there: otherwise a query that encounters such a value early decodes each row,
  /// and one that encounters it later throws `.invalidDefinition` or omits the row.
  static var readsStoredFields: Bool { get }
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
  /// The default: none.
  public static var formerKeys: [String] { [] }
  /// The default, false.
  public static var isIdentifiedByID: Bool { false }
  /// The default, false.
  public static var indexesSurvive: Bool { false }
  /// The default, true.
  public static var readsStoredFields: Bool { true }
}

extension StoreFormat {
  /// Returns the former names of a collection of this format.
  static func formerKeys(of name: String) -> [String] {
    Name.composed(name) == Name.composed(collection) ? formerKeys : []
  }
}

extension StoreFormat {
  /// Makes a format of instances that have no `id` a compiler error.
  @available(
    *, unavailable,
    message: "the instance is not Identifiable by a KeyCodable id; add one, or a `static func identifier(of:)`"
  )
  public static func identifier(of instance: Instance) -> Int {
    fatalError("the compiler accepts no call of what is unavailable")
  }
}

extension StoreFormat where Instance: Identifiable, Instance.ID: KeyCodable {
  /// Returns the instance's `id`. This also infers the type of the identifiers of such a format.
  public static func identifier(of instance: Instance) -> Instance.ID { instance.id }
  /// The default: true if the identifier has the type of the instance's `id`.
  public static var isIdentifiedByID: Bool { Identifier.self == Instance.ID.self }
}
