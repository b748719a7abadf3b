/// Scanning rows.
extension ReadTransaction {
  /// Returns the rows of a collection, in the order of their keys.
  public final func rows(in collection: String, descending: Bool = false) throws -> RowCursor {
    guard let info = try info(collection) else { return RowCursor(self, []) }
    return RowCursor(self, [scan(info, info.range, descending)])
  }

  /// Returns the rows of a collection whose keys are in a range: `"a"..<"b"`, `5...`, `...id`, `id..>`.
  public final func rows<Key: KeyCodable>(
    in collection: String, _ range: some KeyBounds<Key>, descending: Bool = false
  ) throws -> RowCursor {
    guard let info = try info(collection) else { return RowCursor(self, []) }
    let storage = try info.storageRange(range, limit: database.limits.keySize)
    return RowCursor(self, [scan(info, storage, descending)])
  }

  /// Returns the rows of a collection whose keys begin with a text.
  public final func rows(
    in collection: String, keyPrefix: String, descending: Bool = false
  ) throws -> RowCursor {
    guard let info = try info(collection) else { return RowCursor(self, []) }
    return RowCursor(self, [scan(info, try info.storageRange(ofPrefix: keyPrefix), descending)])
  }

  /// Returns the rows of all collections, ordered by the name of the collection and then by key.
  public final func rows() throws -> RowCursor {
    try check()
    let infos = infos().sorted { $0.name < $1.name }
    return RowCursor(self, infos.map { scan($0, $0.range, false) })
  }

  final func scan(_ info: CollectionInfo, _ range: StorageRange, _ isReverse: Bool) -> RowCursor.Scan {
    RowCursor.Scan(
      info: info, cursor: cursor(range, in: info.objects, isReverse: isReverse),
      metadata: isWritable ? view(of: info.metadata) : nil)
  }

  /// Returns the keys of a collection, in order. The objects are not read. Throws `.keyTypeDiffers`.
  public final func keys<Key: KeyCodable>(
    _ type: Key.Type = Key.self, in collection: String, descending: Bool = false
  ) throws -> [Key] {
    guard let info = try info(collection) else { return [] }
    return try keys(info, info.range, descending)
  }

  /// Returns the keys of a collection that are in a range, in order.
  public final func keys<Key: KeyCodable>(
    in collection: String, _ range: some KeyBounds<Key>, descending: Bool = false
  ) throws -> [Key] {
    guard let info = try info(collection) else { return [] }
    return try keys(info, try info.storageRange(range, limit: database.limits.keySize), descending)
  }

  private func keys<Key: KeyCodable>(
    _ info: CollectionInfo, _ range: StorageRange, _ isReverse: Bool
  ) throws -> [Key] {
    try info.requireKeyType(Key.self)
    var cursor = cursor(range, in: info.objects, isReverse: isReverse, keysOnly: true)
    var keys: [Key] = []
    while let key = try cursor.nextKey() { keys.append(try info.key(of: key).key()) }
    return keys
  }
}

extension CollectionInfo {
  /// Returns the range of keys in the collection's families.
  func storageRange<Key: KeyCodable>(_ bounds: some KeyBounds<Key>, limit: Int) throws -> StorageRange {
    if let beginning = bounds.beginning { return try storageRange(beginning) }
    var lower = try bounds.lowerKey.map { try storageKey($0, limit: limit) } ?? range.lower
    // No key is a prefix of another, so no key lies between the bound itself and this.
    if bounds.lowerKey != nil, !bounds.includesLowerKey { lower.append(0) }
    guard let upperKey = bounds.upperKey else { return StorageRange(lower: lower, upper: range.upper) }
    var upper = try storageKey(upperKey, limit: limit)
    if bounds.includesUpperKey { upper.append(0) }
    return StorageRange(lower: lower, upper: upper)
  }

  /// Returns the range of keys that begin with a text.
  func storageRange(ofPrefix keyPrefix: String) throws -> StorageRange {
    try requireKeyType(String.self)
    return StorageRange(prefix: KeyRange.prefix(ofStrings: keyPrefix, after: prefix))
  }

  /// Throws `.keyTypeDiffers` if the collection has keys of another type.
  func requireKeyType<Key: KeyCodable>(_ type: Key.Type) throws {
    guard type.keyType.description == record.keyType else {
      throw DatabaseError(.keyTypeDiffers, "its keys are \(record.keyType), not \(type.keyType)", collection: name)
    }
  }
}
