public import VarveEngine

/// Where the rows of a collection are kept. Chosen when it is made.
public enum CollectionStorage: Hashable, Sendable {
  /// With those of others.
  case shared
  /// In families of its own, compressed as it says; nil: as the database's others.
  case own(compression: CompressionKind? = nil)
}

/// What a collection holds.
public struct CollectionDefinition: Sendable {
  /// Its name.
  public let name: String
  /// How its objects are encoded.
  public let coder: CoderKind
  /// Where it is kept.
  public let storage: CollectionStorage
  /// Made by the first use of a type that has a collection and nothing else: a format may take its place.
  var isProvisional = false
  let keyTypeID: ObjectIdentifier
  let keyTypeName: String
  var codec: ObjectCodec
  /// Its indexes; nil where its definition can't have any.
  var indexing: (any CollectionIndexing)?

  /// A collection of objects of one type, with keys of one type.
  public init<Object: Codable & Sendable, Key: KeyCodable>(
    _ name: String, _ object: Object.Type, key: Key.Type, coder: CoderKind = .binary,
    storage: CollectionStorage = .shared
  ) {
    self.init(name: name, key: key, coder: coder, storage: storage, codec: ObjectCodec(object))
  }

  init<Key: KeyCodable>(
    name: String, key: Key.Type, coder: CoderKind, storage: CollectionStorage, codec: ObjectCodec
  ) {
    self.name = name
    self.coder = coder
    self.storage = storage
    self.codec = codec
    keyTypeID = ObjectIdentifier(key)
    keyTypeName = key.keyType.description
  }

  /// Throws `.definitionDiffers` where the collection was made by another definition.
  func check(_ record: CollectionRecord, _ coder: CoderKind) throws {
    func differs(_ what: String, _ disk: String, _ here: String) -> DatabaseError {
      DatabaseError(
        .definitionDiffers, "its \(what) is \(disk) on disk and \(here) in the definition", collection: name)
    }
    guard record.keyType == keyTypeName else { throw differs("key type", record.keyType, keyTypeName) }
    guard coder == self.coder else { throw differs("coder", "\(coder)", "\(self.coder)") }
    guard record.isOwn == (storage != .shared) else {
      throw differs("storage", record.isOwn ? "its own" : "shared", storage == .shared ? "shared" : "its own")
    }
  }
}

/// How the objects of a defined collection are read and written, without their type.
struct ObjectCodec: Sendable {
  let type: any (Codable & Sendable).Type
  /// The raw values of the format's versions, in the order of their declaration; empty: no format.
  var versions: [String] = []
  var currentVersion: String?
  /// Which format made it; nil: none.
  var formatID: ObjectIdentifier?
  /// The same as a type; nil also where instances don't know their identifiers.
  var format: (any StoreFormat.Type)?
  /// The type of the metadata; nil: any.
  var metadataType: (any Sendable.Type)?
  /// Decodes metadata of any version; nil: as the type that is asked for.
  var decodeMetadata: (@Sendable (StoredValue, _ version: String?) throws -> any Sendable)?
  /// Whether nothing stands between bytes and type: no version, and no `decode` of a format's.
  var isPlain = true
  /// Decodes an object of any version.
  var decode: @Sendable (StoredValue, _ version: String?) throws -> any Sendable
  var rules = ObjectRules()

  init<Object: Codable & Sendable>(_ object: Object.Type) {
    type = object
    decode = { stored, _ in try stored.decode(Object.self) }
  }
}
