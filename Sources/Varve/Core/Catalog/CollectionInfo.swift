/// One collection, as an open database knows it: never changed, but replaced when it gets a definition.
package final class CollectionInfo: Sendable {
  package let name: String
  package let record: CollectionRecord
  /// How its objects are written.
  package let coder: CoderKind
  /// The coder that it was made with: that of rows that name none.
  let firstCoder: CoderKind
  /// What rows say of their coder that are written now; nil: nothing, it is the first one.
  package let coderMark: UInt8?
  private let coders: CoderTable
  /// Where its objects and metadata are, and what their keys begin with there.
  let objects: StorageFamily
  let metadata: StorageFamily
  package let prefix: [UInt8]
  /// Where the collection's count of rows is kept.
  let countKey: [UInt8]
  let definition: CollectionDefinition?
  /// What each row asks of the definition.
  let reading: RowReading
  /// What the extension of its indexes is registered as, where it has some.
  let indexesName: String
  /// The catalog's numbers of the format's versions, and where each stands in the definition.
  let versions: VersionNumbers
  /// Whether some of them are not the definition's, so that there may be rows of a newer program.
  let hasForeignVersions: Bool
  /// The Swift type whose keys were found to be the collection's: a shortcut before comparing names.
  private let keyTypeID: ObjectIdentifier?

  init(
    name: String, record: CollectionRecord, coders: CoderTable, objects: StorageFamily, metadata: StorageFamily,
    definition: CollectionDefinition?, versions: VersionNumbers
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
      ?? false
    countKey = BigEndian.bytes(record.id)
    prefix = record.isOwn ? [] : countKey
    keyTypeID = definition?.keyTypeID
  }

  /// Whether its definition has versions without a number.
  var lacksVersions: Bool {
    let numbered = Set(versions.names.values)
    return definition?.codec.versions.contains { !numbered.contains($0) } ?? false
  }

  /// Whether a row of it may need a coder that the program had not named when this was made.
  var lacksCoder: Bool { firstCoder.isUnnamed || coder.isUnnamed }

  /// The coder of a row, by what its header says. Throws `.unsupportedVersion` for a number that no coder has.
  @inline(__always)
  func coder(marked mark: UInt8?) throws -> CoderKind {
    guard let mark else { return firstCoder }
    return try coders.known(mark, name)
  }

  /// The name of the coder of a row.
  package func coderName(marked mark: UInt8?) -> String { coders.name(mark ?? record.coder) }

  /// Why a row with a coder that the program has not named can't be read.
  func unknownCoder(marked mark: UInt8?) -> DatabaseError {
    let error = coders.unknown(mark ?? record.coder)
    return DatabaseError(error.code, error.message, collection: name)
  }

  /// All of its keys in its families.
  var range: StorageRange { StorageRange(prefix: prefix) }

  /// The key of a row in the collection's families. Throws `.keyTypeDiffers`, `.invalidKey`, `.keyTooLong`.
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

  /// The position of a row among those of all collections: by id, and then by key.
  func scanKey(_ storageKey: [UInt8]) -> [UInt8] {
    record.isOwn ? BigEndian.bytes(record.id) + storageKey : storageKey
  }

  /// The key without what the family demands.
  func key(of storageKey: [UInt8]) -> RowKey {
    RowKey(collection: name, stored: storageKey, start: prefix.count)
  }
}

/// What a definition says of each row. By itself: to look into the definition copies all of it.
struct RowReading: Sendable {
  let isDefined: Bool
  /// The type of the objects; nil: any.
  let type: ObjectIdentifier?
  /// The format that made the definition; nil: none.
  let formatID: ObjectIdentifier?
  /// Whether nothing stands between bytes and type.
  let isPlain: Bool
  /// What makes objects of rows; nil: the type that is asked for.
  let decoder: ObjectDecoder?
  /// Whether objects go through a rule before they are written.
  let sanitizes: Bool
  /// Whether objects are given to a rule after they were written.
  let reports: Bool

  init(_ definition: CollectionDefinition?) {
    isDefined = definition != nil
    type = definition.map { ObjectIdentifier($0.codec.type) }
    formatID = definition?.codec.formatID
    isPlain = definition?.codec.isPlain ?? true
    decoder = definition?.codec.decoder
    sanitizes = definition?.codec.rules.before != nil
    reports = definition?.codec.rules.after != nil
  }
}

/// How the versions of a format are numbered in rows.
struct VersionNumbers: Sendable {
  /// What rows are written with; 0 where the collection has no format.
  var current: UInt32 = 0
  /// The raw value of each version that rows may have, as text.
  var names: [UInt32: String] = [:]
}

extension CoderTable {
  /// The coder with a number. Throws `.unsupportedVersion` for one of a newer Varve.
  func known(_ number: UInt8, _ collection: String) throws -> CoderKind {
    if let kind = kind(number) { return kind }
    throw DatabaseError(.unsupportedVersion, "its coder has the number \(number)", collection: collection)
  }
}

extension CollectionRecord {
  /// What a row says that the coder with a number writes; nil: nothing.
  package func mark(_ number: UInt8) -> UInt8? { number == coder ? nil : number }
}
