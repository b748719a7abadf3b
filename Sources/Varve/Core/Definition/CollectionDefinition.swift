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
  /// How rows may be encoded that were written before `coder` was chosen, where that was another.
  public let formerCoders: [CoderKind]
  /// The names that the collection had before: see ``formerly(_:)``.
  public internal(set) var formerKeys: [String] = []
  /// Where it is kept.
  public let storage: CollectionStorage
  /// Made by the first use of a type that has a collection and nothing else: a format may replace it.
  var isProvisional = false
  let keyTypeID: ObjectIdentifier
  let keyTypeName: String
  var codec: ObjectCodec
  /// Its indexes; nil where its definition says nothing of any: what the database has of them stays.
  var indexing: (any CollectionIndexing)?
  /// What indexes of its rows are added to; nil where it has a format.
  var indexable: (any CollectionIndexing)?

  /// A collection of objects of one type, with keys of one type.
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

  /// The same, of a collection that had other names in earlier versions of the program: the newest first.
  ///
  /// ```swift
  /// CollectionDefinition("letters", Letter.self, key: UUID.self).formerly("mails", "messages")
  /// ```
  ///
  /// Where the database has a collection by one of these names, and none by the present one, opening it gives that one the
  /// present name, in one commit: see `Database.renameCollection`. Where it has both, or two by former
  /// names, opening throws `.invalidDefinition`: nothing shows which rows are meant. A database that is only read stays as
  /// it is, and a use of the collection throws `.readOnly` until a program that writes has renamed it.
  public func formerly(_ names: String...) -> CollectionDefinition {
    var copy = self
    copy.formerKeys += names
    return copy
  }

  /// Throws `.definitionDiffers` where the collection was made by another definition, naming what was found and what was
  /// expected.
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

  /// The coder that writes may be another where the definition names that among its former ones. So may be that of rows
  /// which name none, which is looked at when they are read.
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
  /// Decodes an object of any version. Of the type `type`.
  private(set) var decoder: ObjectDecoder
  var rules = ObjectRules()

  init<Object: Codable & Sendable>(_ object: Object.Type) {
    type = object
    decoder = TypedDecoder<Object> { stored, _ in try stored.decode(Object.self) }
  }

  /// Decodes objects as `decode` does.
  mutating func setDecoder<Object: Codable & Sendable>(
    _ decode: @escaping @Sendable (StoredValue, _ version: String?) throws -> Object
  ) {
    precondition(Object.self == type, "the collection holds \(type), not \(Object.self)")
    decoder = TypedDecoder(decode)
  }
}

/// What makes objects of rows.
class ObjectDecoder: @unchecked Sendable {
  // Unchecked: the subclass has constants alone.

  func decodeAny(_ value: StoredValue, _ version: String?) throws -> Any {
    preconditionFailure("objects are decoded by a subclass")
  }

  /// The object; nil where the collection holds those of another type.
  @inline(__always)
  final func object<Object>(_ type: Object.Type, _ value: StoredValue, _ version: String?) throws -> Object? {
    if let typed = self as? TypedDecoder<Object> { return try typed.decode(value, version) }
    return try decodeAny(value, version) as? Object
  }
}

/// The same where the type is known: an object that goes through an existential is allocated, and cast at the other end.
private final class TypedDecoder<Object>: ObjectDecoder, @unchecked Sendable {
  let decode: @Sendable (StoredValue, _ version: String?) throws -> Object

  init(_ decode: @escaping @Sendable (StoredValue, _ version: String?) throws -> Object) { self.decode = decode }

  override func decodeAny(_ value: StoredValue, _ version: String?) throws -> Any {
    try decode(value, version)
  }
}
