/// The implementation of the typed APIs `Store` and `Persistable`: it reads and writes the rows of a collection as
/// instances of one type.
///
/// # Definitions
/// The collection is looked up at each call: it has the definition that the database was opened with, or gets the
/// definition of this API at the first call. Two definitions of one collection are an error.
///
/// Safe from any thread. Each call belongs to the transaction that it is given.
struct RowAccess<Format: RowFormat>: Sendable {
  let core: DatabaseCore
  /// The name of the collection.
  let name: String

  init(_ core: DatabaseCore, _ name: String) {
    self.core = core
    self.name = name
  }

  // MARK: - The collection

  /// Returns the collection, or nil if it does not exist. A definition that contradicts itself throws in either case.
  func collection(_ tx: ReadTransaction) throws -> CollectionInfo? {
    if let info = try known(tx) { return info }
    try core.checkedDefinitions.check(Format.formatID, of: name) { _ = try Format.definition(name, nil, core.options) }
    if let format = Format.self as? any StoreFormat.Type {
      try core.catalog.requireNoFormer(format.formerKeys(of: name), of: name, at: tx.version)
    }
    tx.noteRecord(of: name)
    return nil
  }

  /// Returns the collection, created if necessary, and the key of a row.
  func location(_ id: Format.Identifier, _ tx: WriteTransaction) throws -> (CollectionInfo, [UInt8]) {
    // It does not matter whether another caller creates it meanwhile.
    let info = try known(tx) ?? define(nil)
    return (info, try key(id, info))
  }

  private func known(_ tx: ReadTransaction) throws -> CollectionInfo? {
    try check(tx)
    guard let found = try tx.knownInfo(name) else { return nil }
    return found.reading.isDefined ? try checked(found) : try define(found)
  }

  func key(_ id: Format.Identifier, _ info: CollectionInfo) throws -> [UInt8] {
    try info.storageKey(id, limit: core.limits.keySize)
  }

  private func check(_ tx: ReadTransaction) throws {
    guard tx.database === core else {
      throw DatabaseError(.invalidArgument, "the transaction is of another database than the store", collection: name)
    }
    try tx.check()
  }

  private func define(_ found: CollectionInfo?) throws -> CollectionInfo {
    var definition = try Format.definition(name, found, core.options)
    if let indexing = definition.indexing, !indexing.isEmpty {
      throw DatabaseError(
        .invalidDefinition,
        "\(Format.self) declares indexes, which are put in use when a database is opened: add the format to the definition that it is opened with",
        collection: name)
    }
    definition.rows.isProvisional = Format.adoptsDefinitions
    if let found { return try checked(try core.catalog.define(found, definition.rows)) }
    return try checked(
      try core.catalog.collection(
        name, definition: definition.rows, keyType: definition.rows.keyTypeName, coder: definition.coder))
  }

  @inline(__always)
  private func checked(_ info: CollectionInfo) throws -> CollectionInfo {
    let found = info.reading.formatID
    return found != nil && found == Format.formatID ? info : try compared(info)
  }

  @inline(never)
  private func compared(_ info: CollectionInfo) throws -> CollectionInfo {
    guard let definition = info.definition, definition.codec.formatID != Format.formatID else { return info }
    let codec = definition.codec
    if definition.isProvisional, !Format.adoptsDefinitions, codec.type == Format.Instance.self {
      // Rows that were written by the type alone have no version: a format with several versions would assume its first
      // one.
      let own = try Format.definition(name, info, core.options)
      if own.rows.codec.versions.count <= 1 { return try define(info) }
    }
    let isSame =
      Format.adoptsDefinitions && codec.type == Format.Instance.self
      && definition.keyTypeName == Format.Identifier.keyType.description
      && (codec.metadataType == nil || codec.metadataType == Format.Metadata.self)
    guard isSame else {
      throw DatabaseError(
        .alreadyDefined,
        "the collection is defined already, with objects of type \(codec.type), and this store is of \(Format.Instance.self) by \(Format.self); "
          + "add the store's format to the definition that the database is opened with", collection: name)
    }
    return info
  }

  func identifier(of row: RowKey) throws -> Format.Identifier {
    guard row.collection == name else {
      throw DatabaseError(
        .invalidArgument, "\(Format.Instance.self) is kept in \"\(name)\"", collection: row.collection, key: row.text)
    }
    return try row.key()
  }

  // MARK: - Decoding

  /// Returns the stored row of a key, or nil if there is none.
  func row(_ key: [UInt8], _ info: CollectionInfo, _ tx: ReadTransaction) throws -> StoredRow? {
    guard let bytes = try tx.value(of: key, in: info.objects) else { return nil }
    return try tx.stored(key, bytes, info)
  }

  /// Decodes the instance of a row, without its metadata.
  func decode(_ row: StoredRow) throws -> Format.Instance {
    guard row.info.reading.formatID == Format.formatID else {
      return try core.coding.object(Format.Instance.self, row)
    }
    do {
      return try Format.decode(try core.coding.value(row), version: row.header.version, row.info)
    } catch let error as DatabaseError {
      throw error.about(row.info.key(of: row.key))
    } catch {
      let key = row.info.key(of: row.key)
      throw DatabaseError(
        .decodingFailed, "the object can't be decoded as \(Format.Instance.self)", collection: name, key: key.text,
        cause: error)
    }
  }

  /// Decodes the instance of a row. If instances have their metadata, `metadata` is called to get it for a row that has
  /// some.
  func instance(_ row: StoredRow, metadata: () throws -> [UInt8]?) throws -> Format.Instance {
    var instance = try decode(row)
    if Format.readsMetadata, let path = Format.metadataPath {
      let bytes = row.header.hasMetadata ? try metadata() : nil
      instance[keyPath: path] = try bytes.map { try decodeMetadata($0, row.key, row.info) }
    }
    return instance
  }

  func instance(_ row: StoredRow, _ tx: ReadTransaction) throws -> Format.Instance {
    try instance(row) { try tx.value(of: row.key, in: row.info.metadata) }
  }

  func decodeMetadata(_ bytes: [UInt8], _ key: [UInt8], _ info: CollectionInfo) throws -> Format.Metadata {
    try core.coding.metadata(Format.Metadata.self, bytes, key, info)
  }

  // MARK: - Reading

  func load(_ id: Format.Identifier, _ tx: ReadTransaction) throws -> Format.Instance? {
    guard let info = try collection(tx) else { return nil }
    let key = try key(id, info)
    // A connection caches objects without their metadata.
    if tx.cache != nil, !Format.readsMetadata {
      do { return try tx.object(Format.Instance.self, key, info) } catch let error as DatabaseError
        where Format.decodesEachRow && error.isOfUndecodableRow
      {}
    }
    guard let bytes = try tx.value(of: key, in: info.objects) else { return nil }
    return try AnswerReading(self, info, tx).instance(key, bytes) { try tx.value(of: key, in: info.metadata) }
  }

  /// Returns the instances in the order of the identifiers, with nil for missing ones.
  func load(ids: some Sequence<Format.Identifier>, _ tx: ReadTransaction) throws -> [Format.Instance?] {
    guard let info = try collection(tx) else { return ids.map { _ in nil } }
    let keys = try ids.map { try key($0, info) }
    let values = try tx.values(of: keys, in: info.objects)
    if Format.decodesEachRow {
      let reading = AnswerReading(self, info, tx)
      return try zip(keys, values).map { key, bytes in
        guard let bytes else { return nil }
        return try reading.instance(key, bytes) { try tx.value(of: key, in: info.metadata) }
      }
    }
    let rows = try zip(keys, values).map { key, bytes in try bytes.map { try tx.stored(key, $0, info) } }
    var metadata = try self.metadata(of: rows, info, tx)
    return try rows.map { row in
      try row.map { row in try instance(row) { metadata.next() ?? nil } }
    }
  }

  /// Returns an iterator over the metadata of those rows that have some, which is read at once.
  private func metadata(
    of rows: [StoredRow?], _ info: CollectionInfo, _ tx: ReadTransaction
  ) throws -> IndexingIterator<[[UInt8]?]> {
    guard Format.readsMetadata else { return [].makeIterator() }
    let keys = rows.compactMap { row in row?.header.hasMetadata == true ? row?.key : nil }
    return keys.isEmpty ? [].makeIterator() : try tx.values(of: keys, in: info.metadata).makeIterator()
  }

  func contains(_ id: Format.Identifier, _ tx: ReadTransaction) throws -> Bool {
    if Format.decodesEachRow { return try load(id, tx) != nil }
    guard let info = try collection(tx) else { return false }
    return try tx.header(try key(id, info), info) != nil
  }

  func metadata(of id: Format.Identifier, _ tx: ReadTransaction) throws -> Format.Metadata? {
    guard let info = try collection(tx) else { return nil }
    let key = try key(id, info)
    return try tx.value(of: key, in: info.metadata).flatMap { try readMetadata($0, key, info, tx) }
  }

  func metadata(of ids: some Sequence<Format.Identifier>, _ tx: ReadTransaction) throws -> [Format.Metadata?] {
    guard let info = try collection(tx) else { return ids.map { _ in nil } }
    let keys = try ids.map { try key($0, info) }
    return try zip(keys, try tx.values(of: keys, in: info.metadata)).map { key, bytes in
      try bytes.flatMap { try readMetadata($0, key, info, tx) }
    }
  }

  /// Decodes the metadata of a row, or returns nil if they are left out because they can't be decoded.
  private func readMetadata(
    _ bytes: [UInt8], _ key: [UInt8], _ info: CollectionInfo, _ tx: ReadTransaction
  ) throws -> Format.Metadata? {
    do { return try decodeMetadata(bytes, key, info) } catch let error as DatabaseError
      where Format.decodesEachRow && error.isOfUndecodableRow
    {
      AnswerReading(self, info, tx).note(key, error)
      return nil
    }
  }

  func count(_ tx: ReadTransaction) throws -> Int {
    if Format.decodesEachRow { return try count(.all, tx) }
    guard let info = try collection(tx) else { return 0 }
    return try tx.count(info)
  }

  func count(_ range: ScanRange, _ tx: ReadTransaction) throws -> Int {
    guard let info = try collection(tx) else { return 0 }
    if Format.decodesEachRow {
      return try InstanceScan(self, info, ScanTerms(range: range, isDescending: false, limit: nil), tx).count()
    }
    return try tx.cursor(try range.storage(info, core.limits.keySize), in: info.objects, keysOnly: true).count()
  }
}
