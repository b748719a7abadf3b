/// Encodes and decodes the objects and metadata of rows, by the coder and the definition of their collection.
///
/// It is safe to use from any thread.
final class ObjectCoding: Sendable {
  private let raw: ValueCoder
  private let binary: ValueCoder
  private let json: ValueCoder
  private let propertyList: ValueCoder
  /// The coder that `binary` uses.
  let binaryCoder: BinaryCoder

  init(shapes: any ShapeRegistry) {
    binaryCoder = BinaryCoder(shapes: shapes)
    raw = ValueCoder(.raw, binary: binaryCoder)
    binary = ValueCoder(.binary, binary: binaryCoder)
    json = ValueCoder(.json, binary: binaryCoder)
    propertyList = ValueCoder(.propertyList, binary: binaryCoder)
  }

  private func coder(_ kind: CoderKind) -> ValueCoder {
    switch kind {
    case .raw: raw
    case .binary: binary
    case .json: json
    case .propertyList: propertyList
    case .own: ValueCoder(kind, binary: binaryCoder)
    }
  }

  /// Returns the coder of an object, according to its row. Throws `.unknownCoder`.
  @inline(__always)
  func coder(marked mark: UInt8?, _ info: CollectionInfo) throws -> ValueCoder {
    // Nearly all rows use this coder.
    if mark == nil, case .binary = info.firstCoder { return binary }
    return try coder(try info.coder(marked: mark), marked: mark, info)
  }

  /// Returns the coder for an object that is written now. Throws `.unknownCoder`.
  @inline(__always)
  private func writer(_ info: CollectionInfo) throws -> ValueCoder {
    if case .binary = info.coder { return binary }
    return try coder(info.coder, marked: info.coderMark, info)
  }

  @inline(never)
  private func coder(_ kind: CoderKind, marked mark: UInt8?, _ info: CollectionInfo) throws -> ValueCoder {
    if kind.isOwn, kind.isUnnamed { throw info.unknownCoder(marked: mark) }
    return coder(kind)
  }

  // MARK: - Objects

  /// Returns the row of an object, and sets the shape and the version in the header. Throws `.encodingFailed`.
  func encodeRow<Object: Encodable>(
    _ object: Object, _ key: [UInt8], _ info: CollectionInfo, _ header: inout RowHeader
  ) throws -> [UInt8] {
    if let type = info.reading.type, type != ObjectIdentifier(Object.self) { throw Self.differs(Object.self, info) }
    do {
      header.version = info.versions.current
      header.coder = info.coderMark
      return try writer(info).withEncoded(object) { shape, bytes in
        header.shape = shape
        return header.row(bytes)
      }
    } catch let error as DatabaseError {
      // The error is that of the coder, with the error of the type as its cause, or that of the storage, which could
      // not store a new shape.
      throw error.about(info.key(of: key))
    }
  }

  @inline(never)
  private static func differs(_ type: Any.Type, _ info: CollectionInfo) -> DatabaseError {
    let own = info.definition.map { "\($0.codec.type)" } ?? "objects"
    return DatabaseError(.invalidArgument, "the collection holds \(own), not \(type)", collection: info.name)
  }

  /// Returns the stored object of a row, for a format to decode.
  func value(_ row: StoredRow) throws -> StoredValue {
    StoredValue(
      coder: try coder(marked: row.header.coder, row.info), shape: row.header.shape, bytes: row.bytes,
      offset: row.objectOffset)
  }

  /// Returns the object of a row. Throws `.decodingFailed`, and `.unsupportedVersion` for an object of a version that
  /// the definition does not know.
  func object<Object: Decodable>(_ type: Object.Type, _ stored: StoredRow) throws -> Object {
    try object(type, stored.key, stored.bytes, stored.header, stored.objectOffset, stored.info)
  }

  /// Returns the object of a row that is given as stored in its family.
  @inline(__always)
  func object<Object: Decodable>(
    _ type: Object.Type, _ key: [UInt8], _ row: [UInt8], _ info: CollectionInfo
  ) throws -> Object {
    let header: RowHeader
    let offset: Int
    do {
      (header, offset) = unsafe try RowHeader.read(row.span.bytes)
    } catch let error as DatabaseError {
      throw error.about(info.key(of: key))
    }
    return try object(type, key, row, header, offset, info)
  }

  @inline(__always)
  private func object<Object: Decodable>(
    _ type: Object.Type, _ key: [UInt8], _ row: [UInt8], _ header: RowHeader, _ offset: Int, _ info: CollectionInfo
  ) throws -> Object {
    do {
      if isPlain(type, header, info) {
        return try coder(marked: header.coder, info).decode(
          type, from: unsafe row.span.bytes.extracting(offset..<row.count), shape: header.shape)
      }
      let value = StoredValue(
        coder: try coder(marked: header.coder, info), shape: header.shape, bytes: row, offset: offset)
      return try object(type, value, header, info)
    } catch let error as DatabaseError {
      throw error.about(info.key(of: key))
    } catch {
      throw Self.failed(.decodingFailed, "the object can't be decoded as \(type)", key, info, error)
    }
  }

  /// Returns whether the object is decoded from the bytes without conversion.
  private func isPlain(_ type: Any.Type, _ header: RowHeader, _ info: CollectionInfo) -> Bool {
    let reading = info.reading
    guard let own = reading.type else { return true }
    return header.version == 0 && reading.isPlain && own == ObjectIdentifier(type)
  }

  /// Returns the object as the definition decodes it.
  @inline(never)
  private func object<Object: Decodable>(
    _ type: Object.Type, _ value: StoredValue, _ header: RowHeader, _ info: CollectionInfo
  ) throws -> Object {
    let reading = info.reading
    guard let decoder = reading.decoder else { return try value.decode(type) }
    let version = try info.versionName(header.version)
    if reading.isPlain, reading.type == ObjectIdentifier(type) { return try value.decode(type) }
    guard let object = try decoder.object(type, value, version) else {
      throw DatabaseError(.decodingFailed, Self.differs(type, info).message)
    }
    return object
  }

  /// Returns the object of a row as its collection's definition reads it. Throws `.typeNotDefined`.
  func definedObject(_ stored: StoredRow) throws -> any Codable {
    guard let codec = stored.info.definition?.codec else {
      throw DatabaseError(
        .typeNotDefined, "the program has not defined the collection, so its objects can't be read without their type",
        collection: stored.info.name)
    }
    if let known = stored.object as? any Codable { return known }
    return try decode(codec.type, stored)
  }

  private func decode<Object: Codable>(_ type: Object.Type, _ stored: StoredRow) throws -> any Codable {
    try object(type, stored)
  }

  // MARK: - Metadata

  /// Returns the coder of metadata. The raw coder is only for objects: the metadata of such a collection are written by
  /// Varve's own coder. This is on disk and must never change.
  private func metadataCoder(_ kind: CoderKind, marked mark: UInt8?, _ info: CollectionInfo) throws -> ValueCoder {
    try coder(kind.ofMetadata, marked: mark, info)
  }

  /// Returns the metadata as stored in their family.
  func encodeMetadata<Metadata: Encodable>(
    _ metadata: Metadata, _ key: [UInt8], _ info: CollectionInfo
  ) throws -> [UInt8] {
    if let type = info.definition?.codec.metadataType, type != Metadata.self {
      throw DatabaseError(
        .invalidArgument, "the collection's metadata is \(type), not \(Metadata.self)", collection: info.name)
    }
    do {
      let mark = info.coderMark
      return try metadataCoder(info.coder, marked: mark, info).withEncoded(metadata) { shape, encoded in
        var bytes: [UInt8] = []
        bytes.reserveCapacity(encoded.byteCount + 13)
        RowHeader.appendMetadata(coder: mark, version: info.versions.current, shape: shape, to: &bytes)
        bytes.append(encoded)
        return bytes
      }
    } catch let error as DatabaseError {
      throw Self.named("the metadata", error).about(info.key(of: key))
    }
  }

  /// Returns the metadata of a row from the bytes stored in their family.
  func metadata<Metadata: Decodable>(
    _ type: Metadata.Type, _ bytes: [UInt8], _ key: [UInt8], _ info: CollectionInfo
  ) throws -> Metadata {
    do {
      let (mark, version, shape, offset) = unsafe try RowHeader.readMetadata(bytes.span.bytes)
      let coder = try metadataCoder(try info.coder(marked: mark), marked: mark, info)
      let value = StoredValue(coder: coder, shape: shape, bytes: bytes, offset: offset)
      guard let decode = info.definition?.codec.decodeMetadata else { return try value.decode(type) }
      let decoded = try decode(value, try info.versionName(version))
      guard let metadata = decoded as? Metadata else {
        throw DatabaseError(.decodingFailed, "the collection's metadata is not \(Metadata.self)")
      }
      return metadata
    } catch let error as DatabaseError {
      throw error.about(info.key(of: key))
    } catch {
      throw Self.failed(.decodingFailed, "the metadata can't be decoded as \(type)", key, info, error)
    }
  }

  // MARK: - What belongs to no row

  /// Encodes an object that belongs to no row.
  func encodeStandalone<Object: Encodable>(_ object: Object) throws -> [UInt8] {
    do {
      return try json.encode(object).bytes
    } catch let error as DatabaseError {
      throw Self.named("the object of a change set", error)
    }
  }

  func decodeStandalone<Object: Decodable>(_ type: Object.Type, _ bytes: [UInt8]) throws -> Object {
    do {
      return try StoredValue(coder: json, shape: 0, bytes: bytes, offset: 0).decode(type)
    } catch let error as DatabaseError {
      throw Self.named("the object of a change set", error)
    }
  }

  /// Adds the subject to the message of a coder's error. Its cause remains the error of the type.
  private static func named(_ subject: String, _ error: DatabaseError) -> DatabaseError {
    DatabaseError(
      error.code, "\(subject): \(error.message)", collection: error.collection, key: error.key, cause: error.cause)
  }

  private static func failed(
    _ code: DatabaseError.Code, _ message: String, _ key: [UInt8], _ info: CollectionInfo, _ cause: any Error
  ) -> DatabaseError {
    let row = info.key(of: key)
    return DatabaseError(code, message, collection: row.collection, key: row.text, cause: cause)
  }
}
