/// A row: its key at once, and its object and metadata when they are asked for, each decoded at most once.
///
/// It sees the row as it was when it was read, also after later writes. It belongs to the thread and the time of its
/// transaction; what it decoded may leave both.
public struct Row {
  private let stored: StoredRow
  private let transaction: ReadTransaction

  init(_ stored: StoredRow, in transaction: ReadTransaction) {
    self.stored = stored
    self.transaction = transaction
  }

  var info: CollectionInfo { stored.info }
  /// The key in the collection's families.
  var storageKey: [UInt8] { stored.key }

  /// The row as it stands in the collection's family.
  var storedBytes: [UInt8] { stored.bytes }

  /// Which row it is.
  public var key: RowKey { stored.info.key(of: stored.key) }

  /// The key as a type. Throws `.invalidKey` where it is of another.
  public func key<Key: KeyCodable>(as type: Key.Type = Key.self) throws -> Key { try key.key(as: type) }

  /// The number of the row.
  public var id: RowID { stored.header.id }

  /// Whether the row has metadata. Nothing is read.
  public var hasMetadata: Bool { stored.header.hasMetadata }

  /// The object. Throws `.decodingFailed` where it is not of the type.
  public func object<Object: Decodable>(as type: Object.Type = Object.self) throws -> Object {
    if let known = stored.object as? Object { return known }
    let object = try transaction.database.coding.object(type, stored)
    stored.object = object
    return object
  }

  /// The type of the collection's objects, where the program has defined the collection.
  public var objectType: (any (Codable & Sendable).Type)? { stored.info.definition?.codec.type }

  /// The object as the definition of its collection reads it, for who doesn't know its type. Throws
  /// `.typeNotDefined` where the program has not defined the collection.
  public func definedObject() throws -> any Codable {
    try transaction.database.coding.definedObject(stored)
  }

  /// The metadata; nil where the row has none.
  public func metadata<Metadata: Decodable>(as type: Metadata.Type = Metadata.self) throws -> Metadata? {
    guard stored.header.hasMetadata else { return nil }
    if let known = stored.metadata as? Metadata { return known }
    guard let bytes = try loadMetadata() else { return nil }
    let metadata = try transaction.database.coding.metadata(type, bytes, stored.key, stored.info)
    stored.metadata = metadata
    return metadata
  }

  /// The object as it is stored.
  public var objectBytes: [UInt8] { Array(stored.bytes[stored.objectOffset...]) }

  /// The metadata as it is stored; nil where the row has none.
  public func metadataBytes() throws -> [UInt8]? {
    guard stored.header.hasMetadata, let bytes = try loadMetadata() else { return nil }
    return Array(bytes[unsafe try RowHeader.readMetadata(bytes.span.bytes).offset...])
  }

  private func loadMetadata() throws -> [UInt8]? {
    if let known = stored.metadataBytes { return known }
    try transaction.check()
    // As it was when the row was read: the transaction may have written the metadata since.
    let bytes = try transaction.value(of: stored.key, in: stored.info.metadata, from: stored.metadataSource)
    stored.metadataBytes = bytes
    return bytes
  }
}

@available(*, unavailable)
extension Row: Sendable {}

/// The bytes of a row, and what was decoded of them.
final class StoredRow {
  let info: CollectionInfo
  /// In the collection's families.
  let key: [UInt8]
  let bytes: [UInt8]
  let header: RowHeader
  let objectOffset: Int
  var object: Any?
  var metadata: Any?
  /// As they are in their family, where they were read.
  var metadataBytes: [UInt8]?
  /// Where the metadata are read as they were with the row, if not in the snapshot.
  var metadataSource: (any StorageReading)?

  init(key: [UInt8], bytes: [UInt8], info: CollectionInfo) throws {
    self.info = info
    self.key = key
    self.bytes = bytes
    (header, objectOffset) = unsafe try RowHeader.read(bytes.span.bytes)
  }
}

extension DatabaseError {
  /// The same, about a row.
  package func about(_ key: RowKey) -> DatabaseError {
    DatabaseError(code, message, collection: collection ?? key.collection, key: self.key ?? key.text, cause: cause)
  }
}
