/// A row with its key, and with its object and metadata, which are decoded when they are requested, each at most once.
///
/// The row is as it was when it was read, even after later writes. It belongs to the thread and the lifetime of its
/// transaction; the decoded values may be used beyond both.
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

  /// The row's bytes as stored in the collection's family.
  var storedBytes: [UInt8] { stored.bytes }

  /// The key of the row.
  public var key: RowKey { stored.info.key(of: stored.key) }

  /// Returns the key as a type. Throws `.invalidKey` if it is of another type.
  public func key<Key: KeyCodable>(as type: Key.Type = Key.self) throws -> Key { try key.key(as: type) }

  /// The number of the row.
  public var id: RowID { stored.header.id }

  /// A Boolean value that indicates whether the row has metadata. Nothing is read to determine it.
  public var hasMetadata: Bool { stored.header.hasMetadata }

  /// Returns the object. Throws `.decodingFailed` if it is not of the type.
  public func object<Object: Decodable>(as type: Object.Type = Object.self) throws -> Object {
    // The common case does without `as?`, for which the type of the optional would be looked up at each call.
    if let known = stored.object, Swift.type(of: known) == Object.self { return Self.cast(known) }
    return try convertedObject()
  }

  @inline(never)
  private func convertedObject<Object: Decodable>(as type: Object.Type = Object.self) throws -> Object {
    if let known = stored.object as? Object { return known }
    let object = try transaction.database.coding.object(type, stored)
    stored.object = object
    return object
  }

  private static func cast<Known, Object>(_ known: Known) -> Object {
    // Safety: the caller has compared the types.
    unsafe unsafeBitCast(known, to: Object.self)
  }

  /// The type of the collection's objects, or `nil` if the program has not defined the collection.
  public var objectType: (any (Codable & Sendable).Type)? { stored.info.definition?.codec.type }

  /// Returns the object as the definition of its collection reads it, for callers that don't know its type. Throws
  /// `.typeNotDefined` if the program has not defined the collection.
  public func definedObject() throws -> any Codable {
    try transaction.database.coding.definedObject(stored)
  }

  /// Returns the metadata, or `nil` if the row has none.
  public func metadata<Metadata: Decodable>(as type: Metadata.Type = Metadata.self) throws -> Metadata? {
    guard stored.header.hasMetadata else { return nil }
    if let known = stored.metadata as? Metadata { return known }
    guard let bytes = try loadMetadata() else { return nil }
    let metadata = try transaction.database.coding.metadata(type, bytes, stored.key, stored.info)
    stored.metadata = metadata
    return metadata
  }

  /// The object's stored bytes.
  public var objectBytes: [UInt8] { Array(stored.bytes[stored.objectOffset...]) }

  /// Returns the metadata's stored bytes, or `nil` if the row has none.
  public func metadataBytes() throws -> [UInt8]? {
    guard stored.header.hasMetadata, let bytes = try loadMetadata() else { return nil }
    return Array(bytes[unsafe try RowHeader.readMetadata(bytes.span.bytes).offset...])
  }

  /// The description of the row after an error of decoding it.
  func undecodable(_ error: DatabaseError) -> UndecodableRow {
    let value = try? transaction.database.coding.value(stored)
    return UndecodableRow(stored.key, value, stored.info, error.about(key))
  }

  private func loadMetadata() throws -> [UInt8]? {
    if let known = stored.metadataBytes { return known }
    try transaction.check()
    // The metadata are read as of the row's read, because the transaction may have written them since.
    let bytes = try transaction.value(of: stored.key, in: stored.info.metadata, from: stored.metadataSource)
    stored.metadataBytes = bytes
    return bytes
  }
}

@available(*, unavailable)
extension Row: Sendable {}

/// The bytes of a row, and the values that were decoded from them.
final class StoredRow {
  let info: CollectionInfo
  /// The key in the collection's families.
  let key: [UInt8]
  let bytes: [UInt8]
  let header: RowHeader
  let objectOffset: Int
  var object: Any?
  var metadata: Any?
  /// The metadata as stored in their family, if they were read.
  var metadataBytes: [UInt8]?
  /// The source of the metadata as of the row's read, if it is not the snapshot.
  var metadataSource: (any StorageReading)?

  init(
    key: [UInt8], bytes: [UInt8], info: CollectionInfo, object: Any? = nil, metadata: Any? = nil,
    metadataBytes: [UInt8]? = nil, metadataSource: (any StorageReading)? = nil
  ) throws {
    self.info = info
    self.key = key
    self.bytes = bytes
    self.object = object
    self.metadata = metadata
    self.metadataBytes = metadataBytes
    self.metadataSource = metadataSource
    (header, objectOffset) = unsafe try RowHeader.read(bytes.span.bytes)
  }
}

extension DatabaseError {
  /// Returns the error with the collection and the key of a row added.
  package func about(_ key: RowKey) -> DatabaseError {
    DatabaseError(code, message, collection: collection ?? key.collection, key: self.key ?? key.text, cause: cause)
  }
}
