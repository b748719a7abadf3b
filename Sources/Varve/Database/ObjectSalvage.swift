internal import VarveEngine

/// Copies the readable content of an object database into a new one, from rows that the engine has salvaged.
///
/// # Steps
/// 1. If the MANIFEST was lost, the families of the tables have numbers instead of names. An object database creates
///    its families in a fixed order, so the number of the family that holds the catalog determines the others.
///    Collections with their own families and extensions are not recognized then.
/// 2. Rows whose header can be read are copied family by family. If the metadata of a row is lost, its header is
///    changed to state that; metadata is copied if its row states that it has some. Rows are counted again. The feed
///    and the records of extensions are not copied: extensions are built again. Rows of a collection whose record is
///    lost are kept but not accessible: their number is logged.
/// 3. If the catalog has lost which numbers are free, the counters are set past all numbers that rows use, so that none
///    is assigned twice.
final class ObjectSalvage {
  private let target: Engine
  private let families: Families
  /// The largest numbers that were found in rows.
  private var highest = Highest()
  /// The ids of the collections whose records were found.
  private var collections: Set<UInt32> = []
  private var counts: [UInt32: Int64] = [:]

  private static let batchSize = 1 << 20
  /// The number of shapes that may have been lost together with their counter in the catalog, and whose numbers appear
  /// only within values, not in row headers. Skipping a number has no other cost.
  private static let lostShapes: UInt32 = 1 << 20

  private struct Families {
    let catalog: ColumnFamily
    let objects: ColumnFamily
    let metadata: ColumnFamily
    let counts: ColumnFamily
    let feed: ColumnFamily
  }

  private struct Highest {
    var collection: UInt32 = 0
    var row: UInt64 = 0
    var shape: UInt32 = 0
    var version: UInt32 = 0
    var coder: UInt8 = 0
  }

  /// The source and target families of the rows of some collections.
  private struct FamilyMapping {
    let objectsFrom: ColumnFamily?
    let metadataFrom: ColumnFamily?
    let objects: ColumnFamily
    let metadata: ColumnFamily
    /// The id of a collection with its own families, or nil if the keys begin with the id.
    var collection: UInt32?
  }

  /// Creates the families of an empty database as an open would. The feed has no entries up to `feedBase`.
  init(_ target: Engine, feedBase: UInt64) throws {
    self.target = target
    families = Families(
      catalog: try target.createFamily("catalog"), objects: try target.createFamily("objects"),
      metadata: try target.createFamily("metadata"),
      counts: try target.createFamily("counts", options: FamilyOptions(mergeOperator: CounterOperator().name)),
      feed: try target.createFamily("feed"))
    var record = FeedRecord()
    record.trimmedThrough = CommitVersion(feedBase)
    try target.put(FeedKey.record, record.bytes, in: families.feed)
  }

  /// Copies the content. Throws `.corruption` if there is no catalog, without which rows cannot be interpreted.
  func run(_ source: Engine) throws {
    let found = try sources(source)
    try copyCatalog(source, found.catalog)
    try copy(
      source,
      FamilyMapping(
        objectsFrom: found.objects, metadataFrom: found.metadata, objects: families.objects,
        metadata: families.metadata))
    try copyOwn(source)
    for (id, count) in counts {
      try target.put(BigEndian.bytes(id), CounterOperator.bytes(count), in: families.counts)
    }
    let lost = counts.filter { !collections.contains($0.key) }
    if !lost.isEmpty { DatabaseLog.rowsWithoutCollection(count: lost.values.reduce(0, +)) }
    try reserve(highest.collection + 1, at: CatalogKey.nextCollection)
    try reserve(highest.row + 1, at: CatalogKey.rowIDs)
    try reserve(highest.version + 1, at: CatalogKey.nextVersion)
    if highest.coder >= CoderTable.firstNumber { try reserve(highest.coder &+ 1, at: CatalogKey.nextCoder) }
    try reserve(highest.shape + min(Self.lostShapes, .max - highest.shape), at: CatalogKey.nextShape)
  }

  /// Sets the counter at a key to the next free number, unless it is larger already.
  private func reserve<Number: FixedWidthInteger>(_ number: Number, at key: [UInt8]) throws {
    let known = try target.get(key, in: families.catalog).flatMap { BigEndian.number($0, as: Number.self) } ?? 0
    if known < number { try target.put(key, BigEndian.bytes(number), in: families.catalog) }
  }

  // MARK: - Which family is which

  private func sources(
    _ source: Engine
  ) throws -> (catalog: ColumnFamily, objects: ColumnFamily?, metadata: ColumnFamily?) {
    func family(_ name: String) -> ColumnFamily? { source.families.first { $0.name == name } }
    func number(_ family: ColumnFamily) -> Int? { Int(family.name.dropFirst("recovered-".count)) }
    let candidates = source.families.filter { $0.name == "catalog" || $0.name.hasPrefix("recovered-") }
    guard let catalog = try candidates.first(where: { try source.contains(CatalogKey.format, in: $0) }) else {
      throw DatabaseError(.corruption, "nothing is left of the catalog, so nothing says what the rows are")
    }
    // These families are the first that a database creates, after the engine's own.
    let first = number(catalog) ?? 1
    return (
      catalog, family("objects") ?? family("recovered-\(first + 1)"),
      family("metadata") ?? family("recovered-\(first + 2)")
    )
  }

  // MARK: - Copying

  private func copyCatalog(_ source: Engine, _ from: ColumnFamily) throws {
    try copyRows(source, from, into: families.catalog) { key, value in
      switch key.first {
      case CatalogKey.extensions[0], CatalogKey.settings[0]: return nil
      case CatalogKey.collections[0]: return try hasItsRows(key, value.copied, source) ? value.copied : nil
      case CatalogKey.dropped[0]:
        // Only the feed needed the name.
        note(BigEndian.number(Array(key.dropFirst()), as: UInt32.self), in: \.collection)
        return nil
      case CatalogKey.shapes[0]:
        guard let number = BigEndian.number(Array(key.dropFirst()), as: UInt32.self), number < .max else { return nil }
        note(number, in: \.shape)
        return value.copied
      default: return isFull(key, value.copied) ? nil : value.copied
      }
    }
  }

  /// Returns whether a number is so large that none follows it, so it must be damaged. The next number is then derived
  /// from the rows.
  private func isFull(_ key: [UInt8], _ value: [UInt8]) -> Bool {
    if key.first == CatalogKey.versions[0] { return BigEndian.number(key, at: 5, as: UInt32.self) == .max }
    if key == CatalogKey.rowIDs { return BigEndian.number(value, as: UInt64.self) ?? 0 >= Catalog.rowIDMaximum }
    return key.count == 1 && BigEndian.number(value, as: UInt32.self) == .max
  }

  /// Returns whether the families of a collection's record exist. If they are not known, nothing of the collection is
  /// left, and its name is free.
  private func hasItsRows(_ key: [UInt8], _ value: [UInt8], _ source: Engine) throws -> Bool {
    let name = String(decoding: key.dropFirst(), as: UTF8.self)
    guard let record = try? CollectionRecord(value, name: name), record.id < .max else { return false }
    note(record.id, in: \.collection)
    let isThere = !record.isOwn || source.families.contains { $0.name == record.familyName("objects") }
    if isThere { collections.insert(record.id) }
    return isThere
  }

  /// Copies collections with their own families, provided that the families have kept their names.
  private func copyOwn(_ source: Engine) throws {
    for objectsFrom in source.families where objectsFrom.name.hasPrefix("c.") && objectsFrom.name.hasSuffix(".objects")
    {
      guard let id = UInt32(objectsFrom.name.dropFirst(2).dropLast(".objects".count)) else { continue }
      try copy(
        source,
        FamilyMapping(
          objectsFrom: objectsFrom, metadataFrom: source.families.first { $0.name == "c.\(id).metadata" },
          objects: try target.createFamily(objectsFrom.name), metadata: try target.createFamily("c.\(id).metadata"),
          collection: id))
    }
  }

  /// Copies and counts the rows that can be read, with their metadata.
  private func copy(_ source: Engine, _ mapping: FamilyMapping) throws {
    if let from = mapping.objectsFrom {
      try copyRows(source, from, into: mapping.objects) { key, value in
        guard let id = mapping.collection ?? BigEndian.number(key, as: UInt32.self),
          mapping.collection != nil || key.count > 4, let row = try kept(value, of: key, mapping, source)
        else { return nil }
        counts[id, default: 0] += 1
        note(id, in: \.collection)
        return row
      }
    }
    if let from = mapping.metadataFrom {
      try copyRows(source, from, into: mapping.metadata) { key, value in
        let isWanted = try target.withValue(forKey: unsafe key.span.bytes, in: mapping.objects) {
          try RowHeader.read($0).header.hasMetadata
        }
        guard isWanted == true else { return nil }
        let head = try? RowHeader.readMetadata(value)
        note(head?.version, in: \.version)
        note(head?.shape, in: \.shape)
        highest.coder = max(highest.coder, head?.coder ?? 0)
        return value.copied
      }
    }
  }

  /// Returns a row as it is copied, or nil if its header cannot be read.
  private func kept(
    _ value: RawSpan, of key: [UInt8], _ mapping: FamilyMapping, _ source: Engine
  ) throws -> [UInt8]? {
    guard let (found, offset) = try? RowHeader.read(value) else { return nil }
    var header = found
    if header.id.number < Catalog.rowIDMaximum - Catalog.rowIDRange { highest.row = max(highest.row, header.id.number) }
    note(header.version, in: \.version)
    note(header.shape, in: \.shape)
    highest.coder = max(highest.coder, header.coder ?? 0)
    guard header.hasMetadata else { return value.copied }
    if let from = mapping.metadataFrom, try source.contains(key, in: from) { return value.copied }
    header.hasMetadata = false
    return header.row(value.extracting(offset...))
  }

  /// Notes a number as used. The largest possible number is ignored as damage, because none could follow it.
  private func note(_ number: UInt32?, in part: WritableKeyPath<Highest, UInt32>) {
    guard let number, number < .max else { return }
    highest[keyPath: part] = max(highest[keyPath: part], number)
  }

  /// Copies the rows of a family as `transform` returns them; rows for which it returns nil are skipped.
  private func copyRows(
    _ source: Engine, _ from: ColumnFamily, into family: ColumnFamily,
    _ transform: ([UInt8], RawSpan) throws -> [UInt8]?
  ) throws {
    var cursor = try source.cursor(in: from)
    try cursor.seekToFirst()
    var batch = WriteBatch()
    while cursor.isValid {
      let key = cursor.keyBytes
      if let row = try transform(key, cursor.value) { try batch.put(key, row, in: family) }
      if batch.byteCount > Self.batchSize {
        try target.write(batch)
        batch.removeAll()
      }
      try cursor.next()
    }
    if !batch.isEmpty { try target.write(batch) }
  }
}
