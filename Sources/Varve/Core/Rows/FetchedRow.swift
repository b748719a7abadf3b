/// A row that has left its transaction: the element of an asynchronous sequence of rows.
///
/// It contains the row as of the sequence's snapshot, and does not change. Nothing is decoded until it is requested,
/// and then again for each request. It is safe to use from any thread.
public struct FetchedRow: Sendable {
  let info: CollectionInfo
  /// The key in the collection's families.
  let storageKey: [UInt8]
  private let bytes: [UInt8]
  private let header: RowHeader
  private let objectOffset: Int
  /// The metadata as stored in their family, or `nil` if the row has none.
  private let metadataRow: [UInt8]?
  private let coding: ObjectCoding

  /// Creates a row. `metadata` is called if the row has metadata. Throws `.corruption`, with the row's key.
  init(
    _ key: [UInt8], _ bytes: [UInt8], _ info: CollectionInfo, _ coding: ObjectCoding, metadata: () throws -> [UInt8]?
  ) throws {
    self.info = info
    self.coding = coding
    storageKey = key
    self.bytes = bytes
    do {
      (header, objectOffset) = unsafe try RowHeader.read(bytes.span.bytes)
    } catch let error as DatabaseError {
      throw error.about(info.key(of: key))
    }
    metadataRow = header.hasMetadata ? try metadata() : nil
  }

  /// The key of the row.
  public var key: RowKey { info.key(of: storageKey) }

  /// Returns the key as a type. Throws `.invalidKey` if it is of another type.
  public func key<Key: KeyCodable>(as type: Key.Type = Key.self) throws -> Key { try key.key(as: type) }

  /// The number of the row.
  public var id: RowID { header.id }

  /// A Boolean value that indicates whether the row has metadata.
  public var hasMetadata: Bool { header.hasMetadata }

  /// Returns the object. Throws `.decodingFailed` if it is not of the type.
  public func object<Object: Decodable>(as type: Object.Type = Object.self) throws -> Object {
    try coding.object(type, storageKey, bytes, info)
  }

  /// Returns the object as the definition of its collection reads it, for callers that don't know its type. Throws
  /// `.typeNotDefined` if the program has not defined the collection.
  public func definedObject() throws -> any Codable {
    try coding.definedObject(try StoredRow(key: storageKey, bytes: bytes, info: info))
  }

  /// Returns the metadata, or `nil` if the row has none. Throws `.decodingFailed` if they are not of the type.
  public func metadata<Metadata: Decodable>(as type: Metadata.Type = Metadata.self) throws -> Metadata? {
    guard let metadataRow else { return nil }
    return try coding.metadata(type, metadataRow, storageKey, info)
  }

  /// The object's stored bytes.
  public var objectBytes: [UInt8] { unsafe bytes.span.bytes.extracting(objectOffset..<bytes.count).copied }

  /// Returns the metadata's stored bytes, or `nil` if the row has none.
  public func metadataBytes() throws -> [UInt8]? {
    guard let metadataRow else { return nil }
    return Array(metadataRow[unsafe try RowHeader.readMetadata(metadataRow.span.bytes).offset...])
  }
}

/// A scan over rows of one collection, or of several, one after the other.
struct FetchedRowScan: RowScan {
  private struct Part {
    let info: CollectionInfo
    var objects: FamilyCursor
    var metadata: MetadataScan
  }

  /// The remaining parts, the next one last.
  private var parts: [Part]
  private var remaining: Int
  private let coding: ObjectCoding

  /// Creates a scan of a range of each collection. The ranges are those of keys in the collections' families.
  init(_ ranges: [(CollectionInfo, StorageRange)], isDescending: Bool, limit: Int?, _ tx: ReadTransaction) {
    coding = tx.database.coding
    remaining = limit ?? .max
    parts = ranges.reversed().map { info, range in
      Part(
        info: info, objects: tx.cursor(range, in: info.objects, isReverse: isDescending),
        metadata: MetadataScan(
          tx.cursor(range, in: info.metadata, isReverse: isDescending), isReverse: isDescending))
    }
  }

  mutating func next() throws -> (element: FetchedRow, byteCount: Int)? {
    guard remaining > 0 else { return nil }
    while !parts.isEmpty {
      let last = parts.count - 1
      guard let (key, bytes) = try parts[last].objects.next() else {
        parts.removeLast()
        continue
      }
      remaining -= 1
      let row = try FetchedRow(key, bytes, parts[last].info, coding) { try parts[last].metadata.value(of: key) }
      return (row, key.count + bytes.count)
    }
    return nil
  }
}
