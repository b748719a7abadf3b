extension RowAccess {
  /// Returns a scan over the instances that the transaction sees now.
  func scan(_ terms: ScanTerms, _ tx: ReadTransaction) throws -> any SeekableScan<Format.Instance> {
    try terms.check()
    guard let info = try collection(tx) else { return EmptyScan<Format.Instance>() }
    return try InstanceScan(self, info, terms, tx)
  }

  func cursor(_ terms: ScanTerms, _ tx: ReadTransaction) throws -> StoreCursor<Format.Instance> {
    StoreCursor(tx, try scan(terms, tx))
  }

  /// Returns all instances of a range at once.
  func all(_ terms: ScanTerms, _ tx: ReadTransaction) throws -> [Format.Instance] { try Array(try cursor(terms, tx)) }
}

extension RowAccess {
  /// Returns a scan over identifiers, which does not read the values of rows.
  func identifierScan(_ terms: ScanTerms, _ tx: ReadTransaction) throws -> any SeekableScan<Format.Identifier> {
    try terms.check()
    guard let info = try collection(tx) else { return EmptyScan<Format.Identifier>() }
    let range = try terms.range.storage(info, core.limits.keySize)
    return IdentifierScan(
      info: info, keys: tx.cursor(range, in: info.objects, isReverse: terms.isDescending, keysOnly: true),
      remaining: terms.limit ?? .max)
  }
}

/// Scans the identifiers of a range.
private struct IdentifierScan<Identifier: KeyCodable>: SeekableScan {
  let info: CollectionInfo
  var keys: FamilyCursor
  var remaining: Int

  mutating func next() throws -> (element: Identifier, byteCount: Int)? {
    guard remaining > 0, let key = try keys.nextKey() else { return nil }
    remaining -= 1
    return (try info.key(of: key).key(), key.count)
  }

  mutating func seek(to key: some KeyCodable, keyLimit: Int) throws {
    keys.seek(to: try info.storageKey(key, limit: keyLimit))
  }

  func count() throws -> Int { min(remaining, try keys.count()) }
}

/// Scans the rows of a range as instances. If instances have their metadata, the family of the metadata is scanned in
/// parallel.
struct InstanceScan<Format: RowFormat>: SeekableScan {
  private let access: RowAccess<Format>
  private let info: CollectionInfo
  private var objects: FamilyCursor
  private var metadata: MetadataScan?
  private var remaining: Int

  init(_ access: RowAccess<Format>, _ info: CollectionInfo, _ terms: ScanTerms, _ tx: ReadTransaction) throws {
    self.access = access
    self.info = info
    let range = try terms.range.storage(info, access.core.limits.keySize)
    objects = tx.cursor(range, in: info.objects, isReverse: terms.isDescending)
    if Format.readsMetadata {
      metadata = MetadataScan(
        tx.cursor(range, in: info.metadata, isReverse: terms.isDescending), isReverse: terms.isDescending)
    }
    remaining = terms.limit ?? .max
  }

  mutating func next() throws -> (element: Format.Instance, byteCount: Int)? {
    guard remaining > 0, let (key, bytes) = try objects.next() else { return nil }
    remaining -= 1
    let row: StoredRow
    do {
      row = try StoredRow(key: key, bytes: bytes, info: info)
    } catch let error as DatabaseError {
      throw error.about(info.key(of: key))
    }
    let instance = try access.instance(row) { try metadata?.value(of: key) }
    return (instance, key.count + bytes.count)
  }

  mutating func seek(to key: some KeyCodable, keyLimit: Int) throws {
    let key = try info.storageKey(key, limit: keyLimit)
    objects.seek(to: key)
    metadata?.seek(to: key)
  }

  func count() throws -> Int { min(remaining, try objects.count()) }
}
