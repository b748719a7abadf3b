public import VarveEngine

/// The types of a database, their collections and formats, and its extensions: what a program knows before it opens it.
///
/// ```swift
/// var definition = DatabaseDefinition()
/// try definition.add(BookFormat.self)
/// try definition.add(CollectionDefinition("notes", Note.self, key: UUID.self))
/// let words = try definition.add(WordCount(), as: "words")
/// let database = try Database.open(at: path, definition: definition)
/// ```
///
/// A collection has one type, one coder and one format: a second definition of it is an error.
public struct DatabaseDefinition: Sendable {
  private(set) var collections: [String: CollectionDefinition] = [:]
  /// In the order in which they were added.
  private(set) var extensions: [DefinedExtension] = []

  /// Nothing is defined.
  public init() {}

  /// Adds a collection. Throws `.alreadyDefined`, and `.invalidDefinition` where a rule is for objects of another type.
  public mutating func add(_ collection: CollectionDefinition) throws {
    guard collections[collection.name] == nil else {
      throw DatabaseError(.alreadyDefined, "the definition has it already", collection: collection.name)
    }
    try collection.checkRules()
    collections[collection.name] = collection
  }

  /// Adds an extension, which is registered when the database is opened: no write of the program goes past it.
  ///
  /// `open` returns when what the extension keeps is that of all rows, and throws what `Database.register` throws.
  /// Those that it depends on are added before. An extension whose build is long and that the program can do without
  /// for a while is rather registered behind the open. Of a database that is only read it is each use that throws where
  /// the disk has not what the extension would keep. Throws `.alreadyDefined`. The handle is the one that
  /// `Database.register` returns.
  @discardableResult
  public mutating func add<Definition: DatabaseExtension>(
    _ definition: Definition, as name: String, progress: (@Sendable (BuildProgress) -> Void)? = nil
  ) throws -> Registered<Definition> {
    guard !extensions.contains(where: { $0.name == name }) else {
      throw DatabaseError(.alreadyDefined, "the definition has an extension \"\(name)\" already")
    }
    extensions.append(
      DefinedExtension(name: name) { core in
        if core.backend.isReadOnly {
          _ = try core.registerReadOnly(definition, name, isCheckedAtUse: true)
        } else {
          _ = try core.register(definition, name, progress)
        }
      })
    return Registered(name: name)
  }
}

/// An extension that a definition has.
struct DefinedExtension: Sendable {
  let name: String
  let register: @Sendable (DatabaseCore) throws -> Void
}

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
  /// The same as a type; nil also for plain bytes.
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
