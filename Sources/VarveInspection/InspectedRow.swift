public import Varve

/// A row as it is stored. Only its key is read until more is requested.
///
/// It belongs to the snapshot of its inspector, and may be used as long as the inspector is open. Safe from any thread.
public struct InspectedRow: Sendable {
  /// The key of the row. Its bytes may be damaged, in which case `key.text` says so.
  public let key: RowKey
  private let inspector: DatabaseInspector
  private let collection: InspectedCollection
  private let storageKey: [UInt8]
  private let bytes: [UInt8]

  init(_ inspector: DatabaseInspector, _ collection: InspectedCollection, key: [UInt8], bytes: [UInt8]) {
    self.inspector = inspector
    self.collection = collection
    self.bytes = bytes
    storageKey = key
    self.key = RowKey(collection: collection.name, bytes: Array(key.dropFirst(collection.prefix.count)))
  }

  /// The position of the row in its collection.
  public var position: InspectedPosition { InspectedPosition(.rows(of: collection), key.bytes) }

  /// Throws `.invalidKey` if the key is damaged, and `.keyTypeDiffers` if it is not a key of the collection.
  public func checkKey() throws { try collection.keyForm.check(key.bytes, collection.keyType, in: collection.name) }

  /// Reads and returns the whole row.
  ///
  /// Throws `.corruption` or `.decodingFailed`, with the collection and the key, if any part of it is damaged, and
  /// `.unsupportedVersion` if a newer version wrote it.
  public func contents() throws -> InspectedContents {
    do {
      // A row without a valid key of the collection can't be transferred to another database.
      try checkKey()
      let (header, offset) = unsafe try RowHeader.read(bytes.span.bytes)
      let coder = try coder(marked: header.coder)
      let object = try value(bytes[offset...], header.shape, header.version, coder)
      return InspectedContents(
        id: header.id, coder: coder, object: object, metadata: header.hasMetadata ? try metadata() : nil)
    } catch let error as DatabaseError {
      let about = error.about(key)
      throw DatabaseError(
        about.code, about.message, collection: about.collection, key: key.text, cause: about.cause)
    }
  }

  /// Returns the coder that wrote an object or metadata, given the mark that precedes it.
  private func coder(marked mark: UInt8?) throws -> CoderName {
    let number = mark ?? collection.record.coder
    if let coder = try inspector.coder(number) { return coder }
    throw DatabaseError(.unsupportedVersion, "its coder has the number \(number)")
  }

  private func metadata() throws -> InspectedValue {
    guard let bytes = try inspector.snapshot.value(of: storageKey, in: collection.metadata) else {
      throw DatabaseError(.corruption, "its header says that it has metadata, and it has none")
    }
    let (mark, version, shape, offset) = unsafe try RowHeader.readMetadata(bytes.span.bytes)
    return try value(bytes[offset...], shape, version, try coder(marked: mark).ofMetadata)
  }

  private func value(
    _ bytes: ArraySlice<UInt8>, _ shape: UInt32, _ version: UInt32, _ coder: CoderName
  ) throws -> InspectedValue {
    let version = try inspector.version(version, of: collection.id)
    let json = try inspector.coding.json(bytes, shape: shape, coder: coder)
    return InspectedValue(
      coding: inspector.coding, coder: coder, json: json, version: version, shape: shape, stored: bytes)
  }
}

/// The content of a row.
public struct InspectedContents: Sendable {
  /// The row id.
  public let id: RowID
  /// The coder that wrote the object.
  public let coder: CoderName
  /// The object.
  public let object: InspectedValue
  /// The metadata, or `nil` if the row has none.
  public let metadata: InspectedValue?
}

/// An object or metadata, as it is stored.
public struct InspectedValue: Sendable {
  fileprivate let coding: InspectedCoding
  /// The coder that wrote it.
  public let coder: CoderName
  /// The value as JSON on one line, or `nil` if its bytes can't be converted.
  ///
  /// Not convertible are the bytes of the coder `raw` and of programs' own coders, and a property list as XML. For the
  /// coder `json` this is its own text, with spaces for line breaks.
  public let json: String?
  /// The raw value of the version of the format that wrote it, or `nil` if there is no format.
  public let version: String?
  fileprivate let shape: UInt32
  fileprivate let stored: ArraySlice<UInt8>

  /// The bytes as the coder wrote them. Those of the binary coder contain numbers of shapes in this catalog.
  public var bytes: [UInt8] { Array(stored) }

  /// Returns the value with everything spelled out that only this catalog defines.
  public func portable() throws -> PortableValue {
    try coding.portable(stored, shape: shape, version: version, coder: coder)
  }
}

extension DatabaseInspector {
  /// Returns the rows of a collection in the order of their keys, from the first to the last or in reverse: all of
  /// them, or those in a range from `InspectedCollection.range`; and after a position, if one is given.
  ///
  /// Throws `.invalidArgument` for a position of another list.
  public func rows(
    in collection: InspectedCollection, range: StorageRange? = nil, isReverse: Bool = false,
    after position: InspectedPosition? = nil
  ) throws -> InspectedList<InspectedRow> {
    let name = "rows of the collection \"\(collection.name)\" by their keys"
    let key = try position.map { collection.prefix + (try InspectedListID.rows(of: collection).key(of: $0, name)) }
    let range = (range ?? StorageRange(prefix: collection.prefix)).following(key, isReverse: isReverse)
    let cursor = FamilyCursor(range, in: collection.objects, of: snapshot, isReverse: isReverse)
    return InspectedList<InspectedRow>(cursor, position: { $0.position }) { cursor in
      try cursor.next().map { InspectedRow(self, collection, key: $0.key, bytes: $0.value) }
    }
  }

  /// Returns the row with an encoded key, or `nil` if there is none.
  public func row(key: [UInt8], in collection: InspectedCollection) throws -> InspectedRow? {
    let storageKey = collection.prefix + key
    guard let bytes = try snapshot.value(of: storageKey, in: collection.objects) else { return nil }
    return InspectedRow(self, collection, key: storageKey, bytes: bytes)
  }
}
