/// What a ``Store`` keeps, in which versions: the namespace of a type that is stored.
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
public protocol StoreFormat<Instance, Identifier>: Sendable {
  /// The versions, the oldest first.
  associatedtype Version: RawRepresentable & Hashable & CaseIterable & Sendable = SingleVersion
  where Version.RawValue: VersionRawValue
  /// What is stored, as the program uses it now.
  associatedtype Instance: Codable & Sendable
  /// What instances are found by. That of an `Identifiable` instance is its `ID`.
  associatedtype Identifier: KeyCodable
  /// What is kept beside an instance, and read without it. Default: nothing.
  associatedtype Metadata: Codable & Sendable = Never

  /// Formats are made by the database.
  init()
  /// The collection where a store of this format keeps its instances, unless it is told another.
  static var collection: String { get }
  /// What is written.
  static var currentVersion: Version { get }
  /// How instances are encoded. Default: `.binary`.
  static var coder: CoderKind { get }
  /// Where they are kept. Default: `.shared`.
  static var storage: CollectionStorage { get }

  /// The instance of a row that a version wrote.
  static func decode(_ stored: StoredValue, version: Version) throws -> Instance
  /// The metadata of a row that a version wrote. Formats without metadata, and those with one version, have it.
  static func decodeMetadata(_ stored: StoredValue, version: Version) throws -> Metadata
  /// What an instance is found by. Default: its `id`.
  static func identifier(of instance: Instance) -> Identifier
  /// Where instances have their metadata themselves: it is set when they are read, and written with them. Such a
  /// property must not be encoded with its instance: ``KeptApart``. Default: nowhere.
  static var metadataPath: (any WritableKeyPath<Instance, Metadata?> & Sendable)? { get }
}

extension StoreFormat {
  /// `.binary`.
  public static var coder: CoderKind { .binary }
  /// `.shared`.
  public static var storage: CollectionStorage { .shared }
  /// None.
  public static var metadataPath: (any WritableKeyPath<Instance, Metadata?> & Sendable)? { nil }
}

extension StoreFormat where Instance: Identifiable, Instance.ID: KeyCodable {
  /// The instance's own. It also says what type the identifiers of such a format have.
  public static func identifier(of instance: Instance) -> Instance.ID { instance.id }
}

/// A format of a type that knows nothing of formats: its collection's coder, storage and versions are those of the
/// definition, where there is one, and of the catalog otherwise.
protocol AdoptingFormat: StoreFormat {}

// MARK: - Formats with one version

/// The versions of a format that has shipped in one: rows say nothing of it.
public enum SingleVersion: Int, CaseIterable, Sendable {
  /// The one.
  case only = 1
}

extension StoreFormat where Version == SingleVersion {
  /// The one.
  public static var currentVersion: SingleVersion { .only }

  /// Decodes the instance as it is.
  public static func decode(_ stored: StoredValue, version: SingleVersion) throws -> Instance {
    try stored.decode(Instance.self)
  }

  /// Decodes the metadata as it is.
  public static func decodeMetadata(_ stored: StoredValue, version: SingleVersion) throws -> Metadata {
    try stored.decode(Metadata.self)
  }
}

extension StoreFormat where Metadata == Never {
  /// There is none.
  public static func decodeMetadata(_ stored: StoredValue, version: Version) throws -> Never {
    throw DatabaseError(.decodingFailed, "\(Self.self) has no metadata")
  }
}

extension StoreFormat where Metadata == Never, Version == SingleVersion {
  /// There is none.
  public static func decodeMetadata(_ stored: StoredValue, version: SingleVersion) throws -> Never {
    throw DatabaseError(.decodingFailed, "\(Self.self) has no metadata")
  }
}

/// The raw value of a format's version: an integer or a string. Its description is on disk.
public protocol VersionRawValue: LosslessStringConvertible, Hashable, Sendable {}

extension Int: VersionRawValue {}
extension String: VersionRawValue {}
