/// Access to rows by the numbers of their collections, for extensions that keep the keys of many rows and therefore not
/// the names of their collections.
///
/// A number is never given twice, and a collection that is renamed keeps its number.
extension ReadTransaction {
  /// Returns the number of a collection, or `nil` if nothing was ever stored in it.
  public final func collectionNumber(of collection: String) throws -> UInt32? { try info(collection)?.record.id }

  /// Returns the name of the collection with a number, or `nil` if it does not exist or was dropped.
  @_spi(Extensions) public final func collectionName(of number: UInt32) throws -> String? { try info(number)?.name }

  /// Returns the row key for a key in the collection with a number, or `nil` if the collection does not exist. The key
  /// is not checked. Complexity: a copy of the key.
  @_spi(Extensions) public final func rowKey(_ key: RawSpan, inCollection number: UInt32) throws -> RowKey? {
    guard let info = try info(number) else { return nil }
    return RowKey(collection: info.name, stored: info.storageKey(key), start: info.prefix.count)
  }

  /// Returns whether a row exists. Nothing is decoded.
  @_spi(Extensions) public final func contains(_ key: RawSpan, inCollection number: UInt32) throws -> Bool {
    guard let info = try info(number) else { return false }
    return try withValue(of: info.storageKey(key), in: info.objects) { _ in true } != nil
  }

  /// Returns the rows of a collection after a given row, in the order of their keys, or from the first one if `row` is
  /// `nil`.
  public final func rows(in collection: String, after row: RowKey?) throws -> RowCursor {
    guard let info = try info(collection) else { return RowCursor(self, []) }
    var range = info.range
    if let row { range.lower = row.storageKey(in: info) + [0] }
    return RowCursor(self, [scan(info, range, false)])
  }

  /// Returns the collection with a number, or `nil` if it does not exist or was dropped.
  final func info(_ number: UInt32) throws -> CollectionInfo? {
    try check()
    let edition = database.catalog.edition
    if let numbered, numbered.edition == edition {
      if let info = numbered.infos[number] { return info }
    } else {
      numbered = ([:], edition)
    }
    guard let name = database.catalog.collection(number)?.name, let info = try info(name), info.record.id == number
    else {
      return nil
    }
    numbered?.infos[number] = info
    return info
  }
}

extension WriteTransaction {
  /// Returns whether a row existed when the transaction began, whatever the transaction has done since.
  @_spi(Extensions) public func containedAtBeginning(_ key: RawSpan, inCollection number: UInt32) throws -> Bool {
    guard let info = try info(number) else { return false }
    return try snapshot.contains(info.storageKey(key), in: info.objects)
  }

  /// Returns the number of a row's collection.
  ///
  /// If the collection does not exist yet, it is made with the type of the row's key, as the first row with that key
  /// would make it. The collection stays even if the transaction is rolled back. Throws `.invalidKey` if the bytes are
  /// not a valid key.
  @_spi(Extensions) public func collectionNumber(creating row: RowKey) throws -> UInt32 {
    if let info = try knownInfo(row.collection) { return info.record.id }
    let keyType = KeyType(of: try row.withBytes { try KeyPart.parts(of: $0) })
    return try database.makeCollection(row.collection, keyType: keyType.description).record.id
  }

  /// Removes rows of one or several collections. Returns the number of rows that existed.
  ///
  /// Consecutive rows of the same collection are removed together, in the order of their keys: extensions are first
  /// asked for all of them, and then receive each.
  @discardableResult
  public func remove(_ rows: some Sequence<RowKey>) throws -> Int {
    var sum = 0
    var info: CollectionInfo?
    var keys: [[UInt8]] = []
    for row in rows {
      if info?.name != row.collection {
        if let info { sum += try remove(keys, info) }
        keys.removeAll(keepingCapacity: true)
        info = try self.info(row.collection)
      }
      if let info { keys.append(row.storageKey(in: info)) }
    }
    if let info { sum += try remove(keys, info) }
    return sum
  }

  /// Sets the object of an existing row, and keeps its metadata. Returns false if there is no row. Throws as
  /// `replaceObject(_:key:in:)` does.
  @discardableResult
  public func replaceObject(_ object: some Encodable, of row: RowKey) throws -> Bool {
    guard let info = try info(row.collection) else { return false }
    return try replaceObject(object, row.storageKey(in: info), info)
  }
}

extension CollectionInfo {
  /// Returns the key in the collection's families.
  func storageKey(_ key: RawSpan) -> [UInt8] {
    var bytes: [UInt8] = []
    bytes.reserveCapacity(prefix.count + key.byteCount)
    bytes.append(contentsOf: prefix)
    bytes.append(key)
    return bytes
  }
}

extension KeyType {
  /// Creates the type of a key with the given parts. A part that is nil does not show its type otherwise.
  init(of parts: [KeyPart]) {
    self = parts.count == 1 ? KeyType(of: parts[0]) : .compound(parts.map { KeyType(of: $0) })
  }

  private init(of part: KeyPart) {
    self =
      switch part {
      case .null: .optional(.string)
      case .some(let value): .optional(KeyType(of: value))
      case .bool: .bool
      case .integer, .largeInteger: .integer
      case .double: .double
      case .date: .date
      case .uuid: .uuid
      case .string: .string
      case .data: .data
      case .decimal: .decimal
      case .duration: .duration
      case .descending(let value): .descending(KeyType(of: value))
      }
  }
}
