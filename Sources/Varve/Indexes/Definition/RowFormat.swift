/// The requirements of every format: the versions of its instances, their coder, and their storage.
///
/// A program conforms to ``StoreFormat``, or to ``KeyedFormat`` if instances don't know their identifiers.
public protocol RowFormat<Instance, Identifier>: Sendable {
  /// The versions, the oldest first.
  associatedtype Version: RawRepresentable & Hashable & CaseIterable & Sendable = SingleVersion
  where Version.RawValue: VersionRawValue
  /// The type that is stored, as the program uses it now.
  associatedtype Instance: Codable & Sendable
  /// The type of the identifiers by which instances are found.
  associatedtype Identifier: KeyCodable
  /// The type of the metadata that are stored with an instance, and can be read without it. Default: none.
  associatedtype Metadata: Codable & Sendable = Never

  /// Creates a format. It is called by the database.
  init()
  /// The version that is written.
  static var currentVersion: Version { get }
  /// The coder of instances. Default: `.binary`.
  static var coder: CoderKind { get }
  /// The coders of instances that were written before `coder` was chosen. Their rows can still be read, and new rows
  /// are encoded by `coder`. A collection whose coder on disk is neither `coder` nor one of these is refused. Default:
  /// none.
  static var formerCoders: [CoderKind] { get }
  /// The storage of the rows. Default: `.shared`.
  static var storage: CollectionStorage { get }

  /// Decodes the instance of a row that was written by a version.
  static func decode(_ stored: StoredValue, version: Version) throws -> Instance
  /// Decodes the metadata of a row that was written by a version. Formats without metadata, and those with one version,
  /// have a default implementation.
  static func decodeMetadata(_ stored: StoredValue, version: Version) throws -> Metadata
  /// The property in which instances contain their metadata themselves: it is set when they are read, and written with
  /// them. Such a property must not be encoded with its instance: ``StoredSeparately``. Default: none.
  static var metadataPath: (any WritableKeyPath<Instance, Metadata?> & Sendable)? { get }
  /// The answer for a row that this build of the program can't decode. Default: `.throws`.
  static var undecodable: UndecodablePolicy { get }
}

extension RowFormat {
  /// The answer of this format for rows that can't be decoded.
  public typealias UndecodablePolicy = UndecodableRowPolicy<Instance>

  /// The default, `.throws`.
  public static var undecodable: UndecodablePolicy { .throws }
  /// The default, `.binary`.
  public static var coder: CoderKind { .binary }
  /// The default: none.
  public static var formerCoders: [CoderKind] { [] }
  /// The default, `.shared`.
  public static var storage: CollectionStorage { .shared }
  /// The default: none.
  public static var metadataPath: (any WritableKeyPath<Instance, Metadata?> & Sendable)? { nil }
}

/// A format for a type that does not define one: the coder, storage and versions of its collection are those of the
/// definition, if there is one, and of the catalog otherwise.
protocol AdoptingFormat: RowFormat {
  /// The coder of a collection that has no definition yet, or `nil` for that of the options.
  static var firstCoder: CoderKind? { get }
}

extension AdoptingFormat {
  static var firstCoder: CoderKind? { nil }
}

// MARK: - Formats with one version

/// The version of a format that has shipped in only one. Rows do not contain it.
public enum SingleVersion: Int, CaseIterable, Sendable {
  /// The only version.
  case only = 1
}

extension RowFormat where Version == SingleVersion {
  /// The only version.
  public static var currentVersion: SingleVersion { .only }

  /// Decodes the instance without conversion.
  public static func decode(_ stored: StoredValue, version: SingleVersion) throws -> Instance {
    try stored.decode(Instance.self)
  }

  /// Decodes the metadata without conversion.
  public static func decodeMetadata(_ stored: StoredValue, version: SingleVersion) throws -> Metadata {
    try stored.decode(Metadata.self)
  }
}

extension RowFormat where Metadata == Never {
  /// Throws, because there are no metadata.
  public static func decodeMetadata(_ stored: StoredValue, version: Version) throws -> Never {
    throw DatabaseError(.decodingFailed, "\(Self.self) has no metadata")
  }
}

extension RowFormat where Metadata == Never, Version == SingleVersion {
  /// Throws, because there are no metadata.
  public static func decodeMetadata(_ stored: StoredValue, version: SingleVersion) throws -> Never {
    throw DatabaseError(.decodingFailed, "\(Self.self) has no metadata")
  }
}

/// The raw value of a format's version: an integer or a string. Its description is on disk.
public protocol VersionRawValue: LosslessStringConvertible, Hashable, Sendable {}

extension Int: VersionRawValue {}
extension String: VersionRawValue {}
