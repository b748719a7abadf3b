/// Access to rows whose keys begin with the same values, the purpose of compound keys.
///
/// ```swift
/// try tx.set(verse, key: Compound("Genesis", 1, 3), in: "verses")
/// var chapter = try tx.rows(in: "verses", beginningWith: Compound("Genesis", 1))
/// let count = try tx.count(in: "verses", beginningWith: "Genesis")
/// ```
extension ReadTransaction {
  /// Returns the rows whose compound keys begin with a value, or with the values of a shorter `Compound`. Throws
  /// `.keyTypeDiffers` if the keys of the collection don't begin with those types.
  public final func rows(
    in collection: String, beginningWith first: some KeyCodable, descending: Bool = false
  ) throws -> RowCursor {
    guard let info = try info(collection) else { return RowCursor(self, []) }
    return RowCursor(self, [scan(info, try info.storageRange(beginningWith: first), descending)])
  }

  /// Returns the rows whose compound keys begin with a value of a range: `tx.rows(in: "verses", beginningWith:
  /// "A"..<"F")`. Throws `.keyTypeDiffers` likewise.
  public final func rows<First: KeyCodable>(
    in collection: String, beginningWith range: some KeyBounds<First>, descending: Bool = false
  ) throws -> RowCursor {
    guard let info = try info(collection) else { return RowCursor(self, []) }
    return RowCursor(self, [scan(info, try info.storageRange(EncodedKeyRange(with: range)), descending)])
  }

  /// Returns the number of rows whose compound keys begin with a value. Complexity: O(n) of these; nothing is decoded.
  public final func count(in collection: String, beginningWith first: some KeyCodable) throws -> Int {
    guard let info = try info(collection) else { return 0 }
    return try count(try info.storageRange(beginningWith: first), info)
  }

  /// Returns the number of rows whose keys begin with a value of a range. Complexity: O(n) of these; nothing is
  /// decoded.
  public final func count<First: KeyCodable>(
    in collection: String, beginningWith range: some KeyBounds<First>
  ) throws -> Int {
    guard let info = try info(collection) else { return 0 }
    return try count(try info.storageRange(EncodedKeyRange(with: range)), info)
  }

  /// Returns the number of rows whose keys are in a range. Complexity: O(n) of these; nothing is decoded.
  public final func count<Key: KeyCodable>(in collection: String, _ range: some KeyBounds<Key>) throws -> Int {
    guard let info = try info(collection) else { return 0 }
    return try count(try info.storageRange(range, limit: database.limits.keySize), info)
  }

  private func count(_ range: StorageRange, _ info: CollectionInfo) throws -> Int {
    try cursor(range, in: info.objects, keysOnly: true).count()
  }
}

extension WriteTransaction {
  /// Removes the rows whose compound keys begin with a value, or with the values of a shorter `Compound`. Returns their
  /// number. Throws as `rows(in:beginningWith:)` does.
  @discardableResult
  public func remove(in collection: String, beginningWith first: some KeyCodable) throws -> Int {
    guard let info = try info(collection) else { return 0 }
    let range = try info.storageRange(beginningWith: first)
    return try savepoint { try remove(range, info) }
  }

  /// Removes the rows whose compound keys begin with a value of a range. Returns their number. Throws as
  /// `rows(in:beginningWith:)` does.
  @discardableResult
  public func remove<First: KeyCodable>(
    in collection: String, beginningWith range: some KeyBounds<First>
  ) throws -> Int {
    guard let info = try info(collection) else { return 0 }
    let range = try info.storageRange(EncodedKeyRange(with: range))
    return try savepoint { try remove(range, info) }
  }
}

extension CollectionInfo {
  /// Returns the range of keys in the collection's families that begin with the parts of a key.
  func storageRange<Key: KeyCodable>(beginningWith first: Key) throws -> StorageRange {
    try storageRange(EncodedKeyRange(with: KeyInterval(from: .including(first), to: .including(first))))
  }

  /// Returns the range of keys in the collection's families with a given beginning. Throws `.keyTypeDiffers`.
  func storageRange(_ beginning: EncodedKeyRange) throws -> StorageRange {
    guard KeyType(record.keyType).begins(with: beginning.keyType) else {
      throw DatabaseError(
        .keyTypeDiffers,
        "its keys are \(record.keyType); rows that begin with \(beginning.keyType) are asked for, which needs compound keys whose first part is that",
        collection: name
      )
    }
    let (lower, upper) = try beginning.bounds()
    return StorageRange(lower: prefix + lower, upper: upper.map { prefix + $0 } ?? range.upper)
  }
}
