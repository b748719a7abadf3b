/// Reading rows: the API for callers that name the collection and the type in each call.
extension ReadTransaction {
  /// Returns whether a row exists. Nothing is decoded.
  public final func contains(key: some KeyCodable, in collection: String) throws -> Bool {
    guard let info = try info(collection) else { return false }
    let key = try info.storageKey(key, limit: database.limits.keySize)
    return try withValue(of: key, in: info.objects) { _ in true } ?? false
  }

  /// Returns a row, whose object and metadata are decoded when they are requested, or `nil` if there is none.
  public final func row(key: some KeyCodable, in collection: String) throws -> Row? {
    guard let info = try info(collection) else { return nil }
    return try row(try info.storageKey(key, limit: database.limits.keySize), info)
  }

  final func row(_ key: [UInt8], _ info: CollectionInfo) throws -> Row? {
    guard let bytes = try value(of: key, in: info.objects) else { return nil }
    return Row(try stored(key, bytes, info), in: self)
  }

  final func stored(_ key: [UInt8], _ bytes: [UInt8], _ info: CollectionInfo) throws -> StoredRow {
    let stored = try stored(key, bytes, info, nil)
    // The transaction may overwrite its own metadata before they are requested, so they are read now.
    if stored.header.hasMetadata, let writing, writing.decides(key, in: info.metadata) {
      stored.metadataBytes = try value(of: key, in: info.metadata)
    }
    return stored
  }

  /// Makes the stored row. `metadata` is the source of the row's metadata if it is not the snapshot.
  final func stored(
    _ key: [UInt8], _ bytes: [UInt8], _ info: CollectionInfo, _ metadata: (any StorageReading)?
  ) throws -> StoredRow {
    do {
      return try StoredRow(key: key, bytes: bytes, info: info, metadataSource: metadata)
    } catch let error as DatabaseError {
      throw error.about(info.key(of: key))
    }
  }

  /// Returns the object of a row, or `nil` if there is no row.
  ///
  /// Throws `.decodingFailed` if the object is not of the type, and `.keyTypeDiffers` if the collection has other keys:
  /// the result is never nil for an object that can't be read.
  public final func object<Object: Decodable>(
    _ type: Object.Type = Object.self, key: some KeyCodable, in collection: String
  ) throws -> Object? {
    guard let info = try info(collection) else { return nil }
    return try object(type, try info.storageKey(key, limit: database.limits.keySize), info)
  }

  final func object<Object: Decodable>(
    _ type: Object.Type, _ key: [UInt8], _ info: CollectionInfo
  ) throws -> Object? {
    // The object type of a definition is `Sendable`. Objects of other types are not cached, because other threads would
    // get them too.
    if let cache, info.reading.type == ObjectIdentifier(Object.self) {
      return try object(type, key, info, cache.objects, cache.generation)
    }
    guard let bytes = try value(of: key, in: info.objects) else { return nil }
    return try database.coding.object(type, key, bytes, info)
  }

  @inline(never)
  private func object<Object: Decodable>(
    _ type: Object.Type, _ key: [UInt8], _ info: CollectionInfo, _ cache: ObjectCache, _ generation: UInt64
  ) throws -> Object? {
    let location = ObjectCache.Key(collection: info.record.id, key: key)
    if let known = cache.find(location, generation: generation) as? Object { return known }
    guard let bytes = try value(of: key, in: info.objects) else { return nil }
    let object = try database.coding.object(type, key, bytes, info)
    cache.keep(CachedObject(object: object), for: location, generation: generation)
    return object
  }

  /// Returns the metadata of a row, or `nil` if it has none or there is no row.
  public final func metadata<Metadata: Decodable>(
    _ type: Metadata.Type = Metadata.self, key: some KeyCodable, in collection: String
  ) throws -> Metadata? {
    guard let info = try info(collection) else { return nil }
    return try metadata(type, try info.storageKey(key, limit: database.limits.keySize), info)
  }

  final func metadata<Metadata: Decodable>(
    _ type: Metadata.Type, _ key: [UInt8], _ info: CollectionInfo
  ) throws -> Metadata? {
    guard let bytes = try value(of: key, in: info.metadata) else { return nil }
    return try database.coding.metadata(type, bytes, key, info)
  }

  /// Returns the stored bytes of a row's object, undecoded, or `nil` if there is no row. With a coder of bytes these
  /// are the bytes that were set.
  public final func objectBytes(key: some KeyCodable, in collection: String) throws -> [UInt8]? {
    guard let info = try info(collection) else { return nil }
    let key = try info.storageKey(key, limit: database.limits.keySize)
    return try withValue(of: key, in: info.objects) { row in
      do {
        return row.extracting(try RowHeader.read(row).objectOffset..<row.byteCount).copied
      } catch let error as DatabaseError {
        throw error.about(info.key(of: key))
      }
    }
  }

  /// Returns the stored bytes of a row's metadata, undecoded, or `nil` if it has none or there is no row.
  public final func metadataBytes(key: some KeyCodable, in collection: String) throws -> [UInt8]? {
    try row(key: key, in: collection)?.metadataBytes()
  }

  /// Returns the rows of several keys, in the order of the keys, with `nil` for each key without a row.
  public final func rows<Key: KeyCodable>(keys: some Sequence<Key>, in collection: String) throws -> [Row?] {
    guard let info = try info(collection) else { return keys.map { _ in nil } }
    let keys = try keys.map { try info.storageKey($0, limit: database.limits.keySize) }
    let values = try self.values(of: keys, in: info.objects)
    return try zip(keys, values).map { key, bytes in try bytes.map { Row(try stored(key, $0, info), in: self) } }
  }

  /// Returns the values of several keys at once. Values that the transaction has written take precedence over those of
  /// the snapshot.
  final func values(of keys: [[UInt8]], in family: StorageFamily) throws -> [[UInt8]?] {
    guard isWritable else { return try snapshot.values(of: keys, in: family) }
    return try keys.map { try value(of: $0, in: family) }
  }

  // MARK: - Counts and names

  /// Returns the number of rows of a collection. Complexity: one lookup.
  public final func count(in collection: String) throws -> Int {
    guard let info = try info(collection) else { return 0 }
    return try count(info)
  }

  final func count(_ info: CollectionInfo) throws -> Int {
    let bytes = try value(of: info.countKey, in: database.catalog.families.counts)
    return Int(bytes.flatMap(StorageBatch.counterNumber) ?? 0) + rowsAdded(to: info)
  }

  /// Returns the number of rows of the database. Complexity: O(collections).
  public final func count() throws -> Int {
    try check()
    return try infos().reduce(0) { try $0 + count($1) }
  }

  /// Returns the names of all collections that have rows, in ascending order.
  public final func collections() throws -> [String] {
    try check()
    return try infos().filter { try count($0) > 0 }.map(\.name).sorted()
  }
}
