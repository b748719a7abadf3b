/// What every format says: the versions of its instances, how they are encoded, and where they are kept.
///
/// A program conforms to ``StoreFormat``, or to ``KeyedFormat`` where instances don't know their identifiers.
public protocol RowFormat<Instance, Identifier>: Sendable {
  /// The versions, the oldest first.
  associatedtype Version: RawRepresentable & Hashable & CaseIterable & Sendable = SingleVersion
  where Version.RawValue: VersionRawValue
  /// What is stored, as the program uses it now.
  associatedtype Instance: Codable & Sendable
  /// What instances are found by.
  associatedtype Identifier: KeyCodable
  /// What is kept beside an instance, and read without it. Default: nothing.
  associatedtype Metadata: Codable & Sendable = Never

  /// Formats are made by the database.
  init()
  /// What is written.
  static var currentVersion: Version { get }
  /// How instances are encoded. Default: `.binary`.
  static var coder: CoderKind { get }
  /// How instances may be encoded that were written before `coder` was chosen: their rows are read as they are, and what is
  /// written from now on is encoded by `coder`. A collection whose coder on disk is neither is refused. Default: none.
  static var formerCoders: [CoderKind] { get }
  /// Where they are kept. Default: `.shared`.
  static var storage: CollectionStorage { get }

  /// The instance of a row that a version wrote.
  static func decode(_ stored: StoredValue, version: Version) throws -> Instance
  /// The metadata of a row that a version wrote. Formats without metadata, and those with one version, have it.
  static func decodeMetadata(_ stored: StoredValue, version: Version) throws -> Metadata
  /// Where instances have their metadata themselves: it is set when they are read, and written with them. Such a
  /// property must not be encoded with its instance: ``KeptApart``. Default: nowhere.
  static var metadataPath: (any WritableKeyPath<Instance, Metadata?> & Sendable)? { get }
}

extension RowFormat {
  /// `.binary`.
  public static var coder: CoderKind { .binary }
  /// None.
  public static var formerCoders: [CoderKind] { [] }
  /// `.shared`.
  public static var storage: CollectionStorage { .shared }
  /// None.
  public static var metadataPath: (any WritableKeyPath<Instance, Metadata?> & Sendable)? { nil }
}

/// A format of a type that knows nothing of formats: its collection's coder, storage and versions are those of the
/// definition, where there is one, and of the catalog otherwise.
protocol AdoptingFormat: RowFormat {
  /// The coder of a collection that has no definition yet; nil: that of the options.
  static var firstCoder: CoderKind? { get }
}

extension AdoptingFormat {
  static var firstCoder: CoderKind? { nil }
}

// MARK: - Formats with one version

/// The versions of a format that has shipped in one: rows say nothing of it.
public enum SingleVersion: Int, CaseIterable, Sendable {
  /// The one.
  case only = 1
}

extension RowFormat where Version == SingleVersion {
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

extension RowFormat where Metadata == Never {
  /// There is none.
  public static func decodeMetadata(_ stored: StoredValue, version: Version) throws -> Never {
    throw DatabaseError(.decodingFailed, "\(Self.self) has no metadata")
  }
}

extension RowFormat where Metadata == Never, Version == SingleVersion {
  /// There is none.
  public static func decodeMetadata(_ stored: StoredValue, version: SingleVersion) throws -> Never {
    throw DatabaseError(.decodingFailed, "\(Self.self) has no metadata")
  }
}

/// The raw value of a format's version: an integer or a string. Its description is on disk.
public protocol VersionRawValue: LosslessStringConvertible, Hashable, Sendable {}

extension Int: VersionRawValue {}
extension String: VersionRawValue {}
