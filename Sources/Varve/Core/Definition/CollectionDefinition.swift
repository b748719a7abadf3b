public import VarveEngine

/// The storage of a collection's rows. It is chosen when the collection is made.
public enum CollectionStorage: Hashable, Sendable {
  /// The rows are stored with those of other collections.
  case shared
  /// The rows are stored in families of their own, with the given compression, or that of the database's other families
  /// if it is `nil`.
  case own(compression: CompressionKind? = nil)
}

/// The definition of a collection.
public struct CollectionDefinition: Sendable {
  /// The name of the collection.
  public let name: String
  /// The coder that encodes the collection's objects.
  public let coder: CoderKind
  /// The coders of rows that were written before `coder` was chosen, if they were others.
  public let formerCoders: [CoderKind]
  /// The former names of the collection: see ``formerly(_:)``.
  public internal(set) var formerKeys: [String] = []
  /// The storage of the collection's rows.
  public let storage: CollectionStorage
  /// Whether the definition was made by the first use of a type that declares only a collection. A format may replace
  /// it.
  var isProvisional = false
  let keyTypeID: ObjectIdentifier
  let keyTypeName: String
  var codec: ObjectCodec
  /// The indexes of the collection, or `nil` if the definition does not mention any, so that those in the database
  /// stay.
  var indexing: (any CollectionIndexing)?
  /// The indexing to which indexes of rows are added, or `nil` if the collection has a format.
  var indexable: (any CollectionIndexing)?

  /// Creates the definition of a collection with objects of one type and keys of one type.
  public init<Object: Codable & Sendable, Key: KeyCodable>(
    _ name: String, _ object: Object.Type, key: Key.Type, coder: CoderKind = .binary,
    formerCoders: [CoderKind] = [], storage: CollectionStorage = .shared
  ) {
    self.init(
      name: name, key: key, coder: coder, formerCoders: formerCoders, storage: storage, codec: ObjectCodec(object))
    indexable = RowIndexing<Object>(indexes: [])
  }

  init<Key: KeyCodable>(
    name: String, key: Key.Type, coder: CoderKind, formerCoders: [CoderKind], storage: CollectionStorage,
    codec: ObjectCodec
  ) {
    self.name = name
    self.coder = coder
    self.formerCoders = formerCoders
    self.storage = storage
    self.codec = codec
    keyTypeID = ObjectIdentifier(key)
    keyTypeName = key.keyType.description
  }

  /// Returns the definition with the names that the collection had in earlier versions of the program, the newest
  /// first.
  ///
  /// ```swift
  /// CollectionDefinition("letters", Letter.self, key: UUID.self).formerly("mails", "messages")
  /// ```
  ///
  /// If the database has a collection under one of these names, and none under the current name, opening the database
  /// renames it in one commit: see `Database.renameCollection`. If it has both, or two under former names, opening
  /// throws `.invalidDefinition`, because it is not clear which rows are meant. A read-only database stays as it is,
  /// and using the collection throws `.readOnly` until a program that writes has renamed it.
  public func formerly(_ names: String...) -> CollectionDefinition {
    var copy = self
    copy.formerKeys += names
    return copy
  }

  /// Throws `.definitionDiffers`, with the found and the expected value, if the collection was made by another
  /// definition.
  func check(_ record: CollectionRecord, _ coders: CoderTable) throws {
    func differs(_ what: String, _ disk: String, _ here: String) -> DatabaseError {
      DatabaseError(
        .definitionDiffers, "its \(what) is \(disk) on disk and \(here) in the definition", collection: name)
    }
    guard record.keyType == keyTypeName else { throw differs("key type", record.keyType, keyTypeName) }
    try checkCoder(record, coders)
    guard record.isOwn == (storage != .shared) else {
      throw differs("storage", record.isOwn ? "its own" : "shared", storage == .shared ? "shared" : "its own")
    }
  }

  /// Checks the coder. The coder that writes may be another one if the definition contains it among its former coders.
  /// The coder of rows that name none may differ, too; it is checked when these rows are read.
  private func checkCoder(_ record: CollectionRecord, _ coders: CoderTable) throws {
    guard let found = coders.kind(record.writer) else {
      throw DatabaseError(.unsupportedVersion, "its coder has the number \(record.writer)", collection: name)
    }
    if found == coder || formerCoders.contains(found) || (coder.isUnnamed && found.isOwn) { return }
    let remedy =
      found.isUnnamed
      ? "add the type of \"\(coders.name(record.writer))\" to `formerCoders`, so that its rows can be read"
      : "where the coder is to change, add the one on disk to `formerCoders`"
    throw DatabaseError(
      .definitionDiffers,
      "its coder is \(coders.name(record.writer)) on disk and \(coder) in the definition; \(remedy)", collection: name)
  }
}

/// The decoding and encoding of a defined collection's objects, without their type.
struct ObjectCodec: Sendable {
  let type: any (Codable & Sendable).Type
  /// The raw values of the format's versions, in the order of their declaration. It is empty if there is no format.
  var versions: [String] = []
  var currentVersion: String?
  /// The format that made the definition, or `nil` if there is none.
  var formatID: ObjectIdentifier?
  /// The format as a type. It is `nil` also if instances don't know their identifiers.
  var format: (any StoreFormat.Type)?
  /// The type of the metadata, or `nil` if any type is allowed.
  var metadataType: (any Sendable.Type)?
  /// The function that decodes metadata of any version, or `nil` if they are decoded as the requested type.
  var decodeMetadata: (@Sendable (StoredValue, _ version: String?) throws -> any Sendable)?
  /// Whether objects are decoded without conversion: there are no versions, and the format has no `decode` of its own.
  var isPlain = true
  /// The decoder of objects of any version, which decodes them as `type`.
  private(set) var decoder: ObjectDecoder
  var rules = ObjectRules()

  init<Object: Codable & Sendable>(_ object: Object.Type) {
    type = object
    decoder = TypedDecoder<Object> { stored, _ in try stored.decode(Object.self) }
  }

  /// Sets a decoder that decodes objects by calling `decode`.
  mutating func setDecoder<Object: Codable & Sendable>(
    _ decode: @escaping @Sendable (StoredValue, _ version: String?) throws -> Object
  ) {
    precondition(Object.self == type, "the collection holds \(type), not \(Object.self)")
    decoder = TypedDecoder(decode)
  }
}

/// A decoder of rows' objects.
class ObjectDecoder: @unchecked Sendable {
  // Unchecked: the subclass has only constants.

  func decodeAny(_ value: StoredValue, _ version: String?) throws -> Any {
    preconditionFailure("objects are decoded by a subclass")
  }

  /// Returns the object, or `nil` if the collection contains objects of another type.
  @inline(__always)
  final func object<Object>(_ type: Object.Type, _ value: StoredValue, _ version: String?) throws -> Object? {
    if let typed = self as? TypedDecoder<Object> { return try typed.decode(value, version) }
    return try decodeAny(value, version) as? Object
  }
}

/// A decoder with a known type. It avoids existentials, in which an object is allocated and has to be cast back.
private final class TypedDecoder<Object>: ObjectDecoder, @unchecked Sendable {
  let decode: @Sendable (StoredValue, _ version: String?) throws -> Object

  init(_ decode: @escaping @Sendable (StoredValue, _ version: String?) throws -> Object) { self.decode = decode }

  override func decodeAny(_ value: StoredValue, _ version: String?) throws -> Any {
    try decode(value, version)
  }
}
