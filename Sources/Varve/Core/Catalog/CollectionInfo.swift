/// A collection of an open database. It is immutable, and is replaced when the collection gets a definition.
package final class CollectionInfo: Sendable {
  package let name: String
  package let record: CollectionRecord
  /// The coder that writes the collection's objects.
  package let coder: CoderKind
  /// The coder with which the collection was made: that of rows that name none.
  let firstCoder: CoderKind
  /// The coder number in rows that are written now, or `nil` if they have none because the first coder writes them.
  package let coderMark: UInt8?
  private let coders: CoderTable
  /// The families with the collection's objects and metadata, and the prefix of the keys there.
  let objects: StorageFamily
  let metadata: StorageFamily
  package let prefix: [UInt8]
  /// The key of the collection's count of rows.
  let countKey: [UInt8]
  let definition: RowDefinition?
  /// The properties of the definition that are needed for each row.
  let reading: RowReading
  /// The name under which the extension of the collection's indexes is registered, if it has indexes.
  let indexesName: String
  /// The catalog's numbers of the format's versions.
  let versions: VersionNumbers
  /// Whether some numbered versions are not in the definition, so that rows of a newer program may exist. Without a
  /// definition, the program knows none.
  let hasForeignVersions: Bool
  /// The Swift key type that is known to match the collection: a shortcut for comparing names.
  private let keyTypeID: ObjectIdentifier?

  init(
    name: String, record: CollectionRecord, coders: CoderTable, objects: StorageFamily, metadata: StorageFamily,
    definition: RowDefinition?, versions: VersionNumbers
  ) {
    self.name = name
    self.record = record
    self.coders = coders
    firstCoder = coders.kind(record.coder) ?? .own(UnnamedCoder.self)
    coder = coders.kind(record.writer) ?? .own(UnnamedCoder.self)
    coderMark = record.mark(record.writer)
    self.objects = objects
    self.metadata = metadata
    self.definition = definition
    reading = RowReading(definition)
    self.versions = versions
    indexesName = IndexesName.name(for: name)
    hasForeignVersions =
      definition.map { definition in versions.names.values.contains { !definition.codec.versions.contains($0) } }
      ?? !versions.names.isEmpty
    countKey = BigEndian.bytes(record.id)
    prefix = record.isOwn ? [] : countKey
    keyTypeID = definition?.keyTypeID
  }

  /// Whether a row of the collection may need a coder that the program had not named when this object was made.
  var lacksCoder: Bool { firstCoder.isUnnamed || coder.isUnnamed }

  /// Returns the coder of a row, according to its header. Throws `.unsupportedVersion` for a number that no coder has.
  @inline(__always)
  func coder(marked mark: UInt8?) throws -> CoderKind {
    guard let mark else { return firstCoder }
    return try coders.known(mark, name)
  }

  /// Returns the name of the coder of a row.
  package func coderName(marked mark: UInt8?) -> String { coders.name(mark ?? record.coder) }

  /// Returns the error for reading a row whose coder the program has not named.
  func unknownCoder(marked mark: UInt8?) -> DatabaseError {
    let error = coders.unknown(mark ?? record.coder)
    return DatabaseError(error.code, error.message, collection: name)
  }

  /// The range of the collection's keys in its families.
  var range: StorageRange { StorageRange(prefix: prefix) }

  /// Returns the key of a row in the collection's families. Throws `.keyTypeDiffers`, `.invalidKey`, `.keyTooLong`.
  func storageKey<Key: KeyCodable>(_ key: Key, limit: Int) throws -> [UInt8] {
    if keyTypeID != ObjectIdentifier(Key.self), Key.keyType.description != record.keyType {
      throw DatabaseError(
        .keyTypeDiffers, "its keys are \(record.keyType), not \(Key.keyType)", collection: name, key: "\(key)")
    }
    var encoder = KeyEncoder(capacity: prefix.count + 40)
    encoder.bytes.append(contentsOf: prefix)
    do {
      try key.encodeKey(into: &encoder)
    } catch let error as DatabaseError {
      throw DatabaseError(error.code, error.message, collection: name, cause: error.cause)
    }
    let bytes = encoder.bytes
    guard bytes.count <= limit else {
      throw DatabaseError(
        .keyTooLong,
        "the key has \(bytes.count - prefix.count) bytes, and the storage takes \(limit - prefix.count) here",
        collection: name)
    }
    return bytes
  }

  /// Returns the position of a row among the rows of all collections, ordered by the id of the collection and then by
  /// key.
  func scanKey(_ storageKey: [UInt8]) -> [UInt8] {
    record.isOwn ? BigEndian.bytes(record.id) + storageKey : storageKey
  }

  /// Returns the row key for a key in the collection's families, without the prefix.
  func key(of storageKey: [UInt8]) -> RowKey {
    RowKey(collection: name, stored: storageKey, start: prefix.count)
  }
}

/// The properties of a definition that are needed for each row. They are stored separately, because accessing the
/// definition copies all of it.
struct RowReading: Sendable {
  let isDefined: Bool
  /// The type of the objects, or `nil` if any type is allowed.
  let type: ObjectIdentifier?
  /// The format that made the definition, or `nil` if none did.
  let formatID: ObjectIdentifier?
  /// Whether objects are decoded without conversion between bytes and type.
  let isPlain: Bool
  /// The function that makes objects of rows, or `nil` if they are decoded as the requested type.
  let decoder: ObjectDecoder?
  /// Whether a rule is applied to objects before they are written.
  let sanitizes: Bool
  /// Whether a rule receives objects after they were written.
  let reports: Bool

  init(_ definition: RowDefinition?) {
    isDefined = definition != nil
    type = definition.map { ObjectIdentifier($0.codec.type) }
    formatID = definition?.codec.formatID
    isPlain = definition?.codec.isPlain ?? true
    decoder = definition?.codec.decoder
    sanitizes = definition?.codec.rules.before != nil
    reports = definition?.codec.rules.after != nil
  }
}

/// The numbers of the versions of a format in rows.
struct VersionNumbers: Sendable {
  /// The version with which rows are written, or 0 if the collection has no format.
  var current: UInt32 = 0
  /// The raw values of the versions that rows may have, as text, by number.
  var names: [UInt32: String] = [:]
}

extension CoderTable {
  /// Returns the coder with a number. Throws `.unsupportedVersion` for a coder of a newer Varve.
  func known(_ number: UInt8, _ collection: String) throws -> CoderKind {
    if let kind = kind(number) { return kind }
    throw DatabaseError(.unsupportedVersion, "its coder has the number \(number)", collection: collection)
  }
}

extension CollectionRecord {
  /// Returns the coder number that a row contains if the coder with that number writes it, or `nil` if it contains
  /// none.
  package func mark(_ number: UInt8) -> UInt8? { number == coder ? nil : number }
}
