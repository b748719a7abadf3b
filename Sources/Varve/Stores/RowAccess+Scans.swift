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
    let isDecoding = Format.decodesEachRow
    return IdentifierScan<Format>(
      info: info, keys: tx.cursor(range, in: info.objects, isReverse: terms.isDescending, keysOnly: !isDecoding),
      decoding: isDecoding ? (AnswerReading(self, info, tx), tx.view(of: info.metadata)) : nil,
      remaining: terms.limit ?? .max)
  }
}

/// Scans the identifiers of a range.
private struct IdentifierScan<Format: RowFormat>: SeekableScan {
  let info: CollectionInfo
  var keys: FamilyCursor
  /// What decodes each row, and the source of its metadata, if rows that can't be decoded are left out.
  let decoding: (reading: AnswerReading<Format>, metadata: any StorageReading)?
  var remaining: Int

  mutating func next() throws -> (element: Format.Identifier, byteCount: Int)? {
    guard remaining > 0, let key = try nextKey() else { return nil }
    remaining -= 1
    return (try info.key(of: key).key(), key.count)
  }

  private mutating func nextKey() throws -> [UInt8]? {
    guard let (reading, metadata) = decoding else { return try keys.nextKey() }
    while let (key, bytes) = try keys.next() {
      if try reading.instance(key, bytes, metadata) != nil { return key }
    }
    return nil
  }

  mutating func seek(to key: some KeyCodable, keyLimit: Int) throws {
    keys.seek(to: try info.storageKey(key, limit: keyLimit))
  }

  func count() throws -> Int {
    if decoding == nil { return min(remaining, try keys.count()) }
    var (copy, count) = (self, 0)
    while count < remaining, try copy.nextKey() != nil { count += 1 }
    return count
  }
}

/// Scans the rows of a range as instances. If instances have their metadata, the family of the metadata is scanned in
/// parallel.
struct InstanceScan<Format: RowFormat>: SeekableScan {
  private let reading: AnswerReading<Format>
  private let info: CollectionInfo
  private var objects: FamilyCursor
  private var metadata: MetadataScan?
  private var remaining: Int

  init(_ access: RowAccess<Format>, _ info: CollectionInfo, _ terms: ScanTerms, _ tx: ReadTransaction) throws {
    reading = AnswerReading(access, info, tx)
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
    let reading = reading
    while remaining > 0, let (key, bytes) = try objects.next() {
      guard let instance = try reading.instance(key, bytes, metadata: { try metadata?.value(of: key) }) else {
        continue
      }
      remaining -= 1
      return (instance, key.count + bytes.count)
    }
    return nil
  }

  mutating func seek(to key: some KeyCodable, keyLimit: Int) throws {
    let key = try info.storageKey(key, limit: keyLimit)
    objects.seek(to: key)
    metadata?.seek(to: key)
  }

  func count() throws -> Int {
    if !Format.decodesEachRow { return min(remaining, try objects.count()) }
    var (copy, count) = (self, 0)
    while try copy.next() != nil { count += 1 }
    return count
  }
}
