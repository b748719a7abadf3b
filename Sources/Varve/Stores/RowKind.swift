internal import Foundation

/// What a typed door has to know of its rows. A format gives it for ``Store``, a type for `Persistable`, a type of
/// keys for ``DataStore``; all of it is static, so that one ``RowDoor`` serves the three without a closure.
protocol RowKind: Sendable {
  associatedtype Identifier: KeyCodable
  associatedtype Instance: Codable & Sendable
  associatedtype Metadata: Codable & Sendable

  /// Names the definition that this makes.
  static var formatID: ObjectIdentifier { get }
  /// Whether it says nothing of versions and coders, and so works with any definition of the same types.
  static var adoptsDefinitions: Bool { get }
  /// The definition of a collection that has none yet; `found` is what the catalog knows of it.
  static func definition(
    _ name: String, _ found: CollectionInfo?, _ options: DatabaseOptions
  ) throws -> CollectionDefinition
  /// Where instances have their metadata.
  static var metadataPath: (any WritableKeyPath<Instance, Metadata?> & Sendable)? { get }
  /// The instance of a row of a collection that this has defined.
  static func decode(_ stored: StoredValue, version: UInt32, _ info: CollectionInfo) throws -> Instance
}

extension RowKind {
  /// Whether the metadata of a row is read with it.
  static var readsMetadata: Bool { metadataPath != nil && Metadata.self != Never.self }
}

/// The rows of a format.
enum FormatRows<Format: StoreFormat>: RowKind {
  typealias Identifier = Format.Identifier
  typealias Instance = Format.Instance
  typealias Metadata = Format.Metadata

  static var formatID: ObjectIdentifier { ObjectIdentifier(Format.self) }
  static var adoptsDefinitions: Bool { Format.self is any AdoptingFormat.Type }
  static var metadataPath: (any WritableKeyPath<Instance, Metadata?> & Sendable)? { Format.metadataPath }

  static func definition(
    _ name: String, _ found: CollectionInfo?, _ options: DatabaseOptions
  ) throws -> CollectionDefinition {
    guard adoptsDefinitions else {
      return try CollectionDefinition(Format.self, name: name, coder: Format.coder, storage: Format.storage)
    }
    let storage: CollectionStorage = found?.record.isOwn == true ? .own() : .shared
    return try CollectionDefinition(Format.self, name: name, coder: found?.coder ?? options.coder, storage: storage)
  }

  static func decode(_ stored: StoredValue, version: UInt32, _ info: CollectionInfo) throws -> Instance {
    try Format.decode(stored, version: try FormatVersions<Format>.version(version, info))
  }
}

/// The rows of a ``DataStore``.
enum DataRows<Key: KeyCodable, Metadata: Codable & Sendable>: RowKind {
  typealias Identifier = Key
  typealias Instance = Data

  static var formatID: ObjectIdentifier { ObjectIdentifier(Self.self) }
  static var adoptsDefinitions: Bool { true }
  static var metadataPath: (any WritableKeyPath<Instance, Metadata?> & Sendable)? { nil }

  static func definition(
    _ name: String, _ found: CollectionInfo?, _ options: DatabaseOptions
  ) throws -> CollectionDefinition {
    try definition(name, storage: found?.record.isOwn == true ? .own() : .shared)
  }

  static func definition(_ name: String, storage: CollectionStorage) throws -> CollectionDefinition {
    guard !name.isEmpty else {
      throw DatabaseError(.invalidDefinition, "the name of a data store's collection is empty")
    }
    var codec = ObjectCodec(Data.self)
    codec.formatID = formatID
    codec.metadataType = Metadata.self
    return CollectionDefinition(name: name, key: Key.self, coder: .raw, storage: storage, codec: codec)
  }

  static func decode(_ stored: StoredValue, version: UInt32, _ info: CollectionInfo) throws -> Data {
    guard version == 0 else {
      throw DatabaseError(.unsupportedVersion, "the row was written by a format with versions")
    }
    return try stored.decode(Data.self)
  }
}
