/// Encodes and decodes the objects and metadata of rows, by the coder and the definition of their collection.
///
/// Safe from any thread.
final class ObjectCoding: Sendable {
  private let raw: ValueCoder
  private let binary: ValueCoder
  private let json: ValueCoder
  private let propertyList: ValueCoder
  /// The coder of `binary`.
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

  /// The coder of an object, by what its row says of it. Throws `.unknownCoder`.
  @inline(__always)
  func coder(marked mark: UInt8?, _ info: CollectionInfo) throws -> ValueCoder {
    // What nearly all rows have.
    if mark == nil, case .binary = info.firstCoder { return binary }
    return try coder(try info.coder(marked: mark), marked: mark, info)
  }

  /// The coder of an object that is written now. Throws `.unknownCoder`.
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

  /// The row of an object; its shape and version are set in the header. Throws `.encodingFailed`.
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
      // The coder's, which has what the type threw as its cause, or the storage's, which could not take a new shape.
      throw error.about(info.key(of: key))
    }
  }

  @inline(never)
  private static func differs(_ type: Any.Type, _ info: CollectionInfo) -> DatabaseError {
    let own = info.definition.map { "\($0.codec.type)" } ?? "objects"
    return DatabaseError(.invalidArgument, "the collection holds \(own), not \(type)", collection: info.name)
  }

  /// The object of a row. Throws `.decodingFailed`, and `.unsupportedVersion` for one of a version that the definition
  /// does not know.
  func object<Object: Decodable>(_ type: Object.Type, _ stored: StoredRow) throws -> Object {
    try object(type, stored.key, stored.bytes, stored.header, stored.objectOffset, stored.info)
  }

  /// The same, of a row as it stands in its family.
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

  /// Whether nothing stands between the bytes and the type.
  private func isPlain(_ type: Any.Type, _ header: RowHeader, _ info: CollectionInfo) -> Bool {
    let reading = info.reading
    guard let own = reading.type else { return true }
    return header.version == 0 && reading.isPlain && own == ObjectIdentifier(type)
  }

  /// By the definition.
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

  /// The object of a row as its collection's definition reads it. Throws `.typeNotDefined`.
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

  /// Bytes are objects of a collection, never metadata: the metadata of such a collection is written by our own coder.
  /// On disk: never change.
  private func metadataCoder(_ kind: CoderKind, marked mark: UInt8?, _ info: CollectionInfo) throws -> ValueCoder {
    try coder(kind.ofMetadata, marked: mark, info)
  }

  /// The metadata as it stands in its family.
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

  /// The metadata of a row, from what stands in its family.
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

  /// An object that stands by itself.
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

  /// An error of a coder that says what it is about. Its cause stays what the type threw.
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

/// An object as it is stored, for formats that read several versions.
public struct StoredValue: Sendable {
  private let coder: ValueCoder
  private let shape: UInt32
  private let stored: [UInt8]
  private let offset: Int

  init(coder: ValueCoder, shape: UInt32, bytes: [UInt8], offset: Int) {
    self.coder = coder
    self.shape = shape
    stored = bytes
    self.offset = offset
  }

  /// The object as a type: the one that its version had.
  public func decode<Object: Decodable>(_ type: Object.Type = Object.self) throws -> Object {
    unsafe try coder.decode(type, from: stored.span.bytes.extracting(offset..<stored.count), shape: shape)
  }

  /// The bytes as the coder wrote them.
  public var bytes: [UInt8] { Array(stored[offset...]) }
}
