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

  /// The collection where a store of this format keeps its instances, unless it is told another.
  static var collection: String { get }
  /// What an instance is found by. Default: its `id`.
  static func identifier(of instance: Instance) -> Identifier
}

extension StoreFormat where Instance: Identifiable, Instance.ID: KeyCodable {
  /// The instance's own. It also says what type the identifiers of such a format have.
  public static func identifier(of instance: Instance) -> Instance.ID { instance.id }
}
