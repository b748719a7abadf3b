/// One collection, as an open database knows it: never changed, but replaced when it gets a definition.
package final class CollectionInfo: Sendable {
  package let name: String
  package let record: CollectionRecord
  package let coder: CoderKind
  /// Where its objects and metadata are, and what their keys begin with there.
  let objects: StorageFamily
  let metadata: StorageFamily
  package let prefix: [UInt8]
  /// Where the collection's count of rows is kept.
  let countKey: [UInt8]
  let definition: CollectionDefinition?
  /// What the extension of its indexes is registered as, where it has some.
  let indexesName: String
  /// The catalog's numbers of the format's versions, and where each stands in the definition.
  let versions: VersionNumbers
  /// Whether some of them are not the definition's, so that there may be rows of a newer program.
  let hasForeignVersions: Bool
  /// The Swift type whose keys were found to be the collection's: a shortcut before comparing names.
  private let keyTypeID: ObjectIdentifier?

  init(
    name: String, record: CollectionRecord, coder: CoderKind, objects: StorageFamily, metadata: StorageFamily,
    definition: CollectionDefinition?, versions: VersionNumbers
  ) {
    self.name = name
    self.record = record
    self.coder = coder
    self.objects = objects
    self.metadata = metadata
    self.definition = definition
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

  /// The place of a row among those of all collections: by id, and then by key.
  func walkKey(_ storageKey: [UInt8]) -> [UInt8] {
    record.isOwn ? BigEndian.bytes(record.id) + storageKey : storageKey
  }

  /// The key without what the family demands.
  func key(of storageKey: [UInt8]) -> RowKey {
    RowKey(collection: name, stored: storageKey, start: prefix.count)
  }
}

/// How the versions of a format are numbered in rows.
struct VersionNumbers: Sendable {
  /// What rows are written with; 0 where the collection has no format.
  var current: UInt32 = 0
  /// The raw value of each version that rows may have, as text.
  var names: [UInt32: String] = [:]
}
