/// Repairs an object database after damaged blocks were given up.
///
/// # Steps
/// 1. `begin`, before any block is given up, durably writes a mark to the catalog (`CatalogKey.damageRepair`), and
///    restarts the feed if the feed itself is damaged or rows may be lost.
/// 2. The engine gives up the blocks. Then `markExtensions` marks the extensions that may have lost something as stale.
/// 3. `finish` repairs rows, metadata, counts and numbers, and counts the entries of counted parts again. The mark is
///    removed last, in the same commit as the counts of rows are written.
///
/// A crash before the end leaves the mark. The affected families are then no longer known, so all are treated as
/// affected.
struct DamageRepair {
  private let backend: EngineBackend
  private let catalog: StorageFamily
  /// Whether rows may be lost or may have an older value again.
  let concernsRows: Bool
  /// Whether the rows have to be counted again.
  private let concernsCounts: Bool
  /// Whether extensions still have to be marked as stale.
  private let isInterrupted: Bool

  private static let batchSize = 1 << 20
  /// The number of shapes that the catalog may have lost and that only appear within values, as in `ObjectSalvage`.
  private static let lostShapes: UInt32 = 1 << 20

  /// Continues a repair that was interrupted; nil if there is none.
  init?(_ backend: EngineBackend) throws {
    guard let catalog = try backend.families().first(where: { $0.name == "catalog" }) else { return nil }
    do {
      guard try backend.snapshot().contains(CatalogKey.damageRepair, in: catalog) else { return nil }
    } catch let error as DatabaseError where error.code == .corruption {
      // A catalog that cannot be read before its blocks are given up may have had the mark, so the repair counts as
      // interrupted.
    }
    self.init(backend, catalog, concernsRows: true, concernsCounts: true, isInterrupted: true)
  }

  private init(
    _ backend: EngineBackend, _ catalog: StorageFamily, concernsRows: Bool, concernsCounts: Bool, isInterrupted: Bool
  ) {
    self.backend = backend
    self.catalog = catalog
    self.concernsRows = concernsRows
    self.concernsCounts = concernsCounts
    self.isInterrupted = isInterrupted
  }

  // MARK: - 1. Before

  /// Writes the mark durably before blocks of these families are given up.
  static func begin(_ backend: EngineBackend, _ families: Set<String>) throws -> DamageRepair {
    guard let catalog = try backend.families().first(where: { $0.name == "catalog" }) else {
      throw DatabaseError(.notADatabase, "the directory holds no database of objects: family \"catalog\" is missing")
    }
    let concernsRows = families.contains { name in
      ["catalog", "objects", "metadata"].contains(name) || CollectionRecord.number(ofFamily: name) != nil
    }
    let repair = DamageRepair(
      backend, catalog, concernsRows: concernsRows, concernsCounts: concernsRows || families.contains("counts"),
      isInterrupted: false)
    var batch = StorageBatch()
    batch.put(CatalogKey.damageRepair, [], in: catalog)
    if concernsRows || families.contains("feed") { try repair.cutFeed(&batch) }
    try repair.commit(batch)
    return repair
  }

  /// Removes all entries of the feed, so that a subscription that resumes receives a gap.
  private func cutFeed(_ batch: inout StorageBatch) throws {
    guard let feed = try family("feed") else { return }
    let snapshot = try backend.snapshot()
    var record = FeedRecord()
    do {
      if let bytes = try snapshot.value(of: FeedKey.record, in: feed) { record.isOff = try FeedRecord(bytes).isOff }
    } catch let error as DatabaseError where error.code == .corruption {
      // The open that follows updates the record to match its options.
    }
    record.trimmedThrough = snapshot.version
    batch.deleteRange(FeedKey.range(after: .zero), in: feed)
    batch.put(FeedKey.record, record.bytes, in: feed)
  }

  private func commit(_ batch: StorageBatch) throws {
    try backend.commit(batch, check: nil, durability: .power).wait()
  }

  private func family(_ name: String) throws -> StorageFamily? { try backend.families().first { $0.name == name } }

  // MARK: - 2. Extensions

  /// Marks extensions as stale: all of them if rows may be lost, because no removal was applied to what they keep, and
  /// otherwise those with a part among the families, unless it has only counts. Returns their names in order.
  func markExtensions(of families: Set<String>) throws -> [String] {
    let owned = Dictionary(grouping: families) { ExtensionRecord.owner(ofFamily: $0)?.number }.mapValues { Set($0) }
    var batch = StorageBatch()
    var names: [String] = []
    var cursor = FamilyCursor(
      StorageRange(prefix: CatalogKey.extensions), in: catalog, of: try backend.snapshot(), isReverse: false)
    while let (key, value) = try cursor.next() {
      let name = try CatalogKey.name(in: key)
      var record = try ExtensionRecord(value, name: name)
      let isAffected = owned[record.number].map { !record.concernsOnlyCounts($0) } ?? false
      guard concernsRows || isAffected, !record.state.isFailed else { continue }
      if !RowIDMap.isMap(name) { names.append(name) }
      record.state = .stale(nil)
      // A replacement that was being built begins again.
      record.shadow = nil
      batch.put(key, record.bytes, in: catalog)
    }
    try commit(batch)
    return names.sorted()
  }

  // MARK: - 3. Rows, metadata, counts, numbers

  /// The row counts and the largest numbers that were found in rows.
  private struct Found {
    var counts: [UInt32: Int64] = [:]
    var row: UInt64 = 0
    var collection: UInt32 = 0
    var shape: UInt32 = 0
    var version: UInt32 = 0
    var coder: UInt8 = 0

    mutating func note(coder: UInt8?, shape: UInt32, version: UInt32) {
      self.coder = max(self.coder, coder ?? 0)
      if shape < .max { self.shape = max(self.shape, shape) }
      if version < .max { self.version = max(self.version, version) }
    }
  }

  /// Completes the repair, and removes the mark. Returns the counted parts whose entries were counted again.
  @discardableResult
  func finish() throws -> [RecountedPart] {
    if isInterrupted {
      var batch = StorageBatch()
      try cutFeed(&batch)
      try commit(batch)
      _ = try markExtensions(of: [])
    }
    var batch = StorageBatch()
    if concernsCounts { try repairRows(&batch) }
    let recounted = try CountRepair(backend: backend, catalog: catalog).run()
    batch.delete(CatalogKey.damageRepair, in: catalog)
    try commit(batch)
    return recounted
  }

  private func repairRows(_ batch: inout StorageBatch) throws {
    let dropped = try repairCollections()
    var found = Found()
    for (objects, metadata, collection) in try rowFamilies() {
      try repairRows(objects, metadata, collection, dropped, &found)
    }
    if let counts = try family("counts") {
      batch.deleteRange(StorageRange(lower: [], upper: [UInt8](repeating: 0xFF, count: 5)), in: counts)
      for (id, count) in found.counts {
        batch.put(BigEndian.bytes(id), StorageBatch.counterBytes(count), in: counts)
      }
    }
    try reserveNumbers(found, &batch)
  }

  /// Returns the families that have rows, each with the family of their metadata and, for a collection with its own
  /// families, its id.
  private func rowFamilies() throws -> [(StorageFamily, StorageFamily?, UInt32?)] {
    let families = try backend.families()
    func named(_ name: String) -> StorageFamily? { families.first { $0.name == name } }
    var found: [(StorageFamily, StorageFamily?, UInt32?)] = []
    if let objects = named("objects") { found.append((objects, named("metadata"), nil)) }
    for family in families where family.name.hasSuffix(".objects") {
      guard let id = CollectionRecord.number(ofFamily: family.name) else { continue }
      found.append((family, named("c.\(id).metadata"), id))
    }
    return found
  }

  /// Removes the records of collections whose own families are missing: they were dropped, and the entry that recorded
  /// it is lost. Returns the ids of the collections that are known to be dropped.
  private func repairCollections() throws -> Set<UInt32> {
    let snapshot = try backend.snapshot()
    var batch = StorageBatch()
    var dropped: Set<UInt32> = []
    var living: Set<UInt32> = []
    var cursor = FamilyCursor(
      StorageRange(prefix: CatalogKey.collections), in: catalog, of: snapshot, isReverse: false)
    while let (key, value) = try cursor.next() {
      let record = try CollectionRecord(value, name: try CatalogKey.name(in: key))
      if record.isOwn, try family(record.familyName("objects")) == nil {
        batch.delete(key, in: catalog)
      } else {
        living.insert(record.id)
      }
    }
    cursor = FamilyCursor(StorageRange(prefix: CatalogKey.dropped), in: catalog, of: snapshot, isReverse: false)
    while let key = try cursor.nextKey() {
      if let id = BigEndian.number(key, at: 1, as: UInt32.self) { dropped.insert(id) }
    }
    if !batch.isEmpty { try commit(batch) }
    return dropped.subtracting(living)
  }

  /// Repairs and counts the rows of a family.
  ///
  /// Removes reappeared rows of dropped collections, and metadata whose row is missing or states that it has none. Rows
  /// whose metadata is lost are rewritten to state that they have none.
  private func repairRows(
    _ objects: StorageFamily, _ metadata: StorageFamily?, _ collection: UInt32?, _ dropped: Set<UInt32>,
    _ found: inout Found
  ) throws {
    let snapshot = try backend.snapshot()
    var batch = StorageBatch()
    func give() throws {
      if batch.byteCount > Self.batchSize {
        try commit(batch)
        batch = StorageBatch()
      }
    }
    var cursor = FamilyCursor(StorageRange(), in: objects, of: snapshot, isReverse: false)
    while let (key, value) = try cursor.next() {
      guard let id = collection ?? BigEndian.number(key, as: UInt32.self) else { continue }
      if dropped.contains(id) {
        batch.delete(key, in: objects)
        try give()
        continue
      }
      found.counts[id, default: 0] += 1
      if id < .max { found.collection = max(found.collection, id) }
      let read = try? RowHeader.read(unsafe value.span.bytes)
      guard let (stored, offset) = read else { continue }
      var header = stored
      if header.id.number < Catalog.rowIDMaximum - Catalog.rowIDRange { found.row = max(found.row, header.id.number) }
      found.note(coder: header.coder, shape: header.shape, version: header.version)
      guard header.hasMetadata else { continue }
      if let metadata, try snapshot.contains(key, in: metadata) { continue }
      header.hasMetadata = false
      batch.put(key, header.row(unsafe value.span.bytes.extracting(offset...)), in: objects)
      try give()
    }
    if let metadata {
      cursor = FamilyCursor(StorageRange(), in: metadata, of: snapshot, isReverse: false)
      while let (key, value) = try cursor.next() {
        let isWanted = try snapshot.withValue(of: key, in: objects) { try RowHeader.read($0).header.hasMetadata }
        let id = collection ?? BigEndian.number(key, as: UInt32.self) ?? 0
        if isWanted == true, !dropped.contains(id) {
          if let read = try? RowHeader.readMetadata(unsafe value.span.bytes) {
            found.note(coder: read.coder, shape: read.shape, version: read.version)
          }
          continue
        }
        batch.delete(key, in: metadata)
        try give()
      }
    }
    if !batch.isEmpty { try commit(batch) }
  }

  /// Reserves all numbers that are in use, so that none is assigned again, whatever the catalog has lost.
  private func reserveNumbers(_ found: Found, _ batch: inout StorageBatch) throws {
    let snapshot = try backend.snapshot()
    func reserve<Number: FixedWidthInteger>(_ number: Number, at key: [UInt8]) throws {
      let known = try snapshot.value(of: key, in: catalog).flatMap { BigEndian.number($0, as: Number.self) } ?? 0
      if known < number { batch.put(key, BigEndian.bytes(number), in: catalog) }
    }
    var (collection, number) = (found.collection, UInt32(0))
    for family in try backend.families() {
      collection = max(collection, CollectionRecord.number(ofFamily: family.name) ?? 0)
      number = max(number, ExtensionRecord.owner(ofFamily: family.name)?.number ?? 0)
    }
    var cursor = FamilyCursor(StorageRange(prefix: CatalogKey.dropped), in: catalog, of: snapshot, isReverse: false)
    while let key = try cursor.nextKey() { collection = max(collection, BigEndian.number(key, at: 1) ?? 0) }
    try reserve(collection &+ 1, at: CatalogKey.nextCollection)
    try reserve(number &+ 1, at: CatalogKey.nextExtension)
    try reserve(found.row + 1, at: CatalogKey.rowIDs)
    guard concernsRows else { return }
    // The catalog's counters for these cover the shapes and versions that it has, but records of them may be lost.
    try reserve(found.version + 1, at: CatalogKey.nextVersion)
    if found.coder >= CoderTable.firstNumber { try reserve(found.coder &+ 1, at: CatalogKey.nextCoder) }
    try reserve(found.shape + min(Self.lostShapes, .max - found.shape), at: CatalogKey.nextShape)
  }
}
