internal import VarveEngine

/// Saves what can be read of a damaged database of objects.
///
/// # Steps
/// 1. The engine copies every readable row into a database beside the target.
/// 2. Where the MANIFEST was lost its families have numbers for names. The object floor makes its families in one
///    order, so the one that holds the catalog tells the others; families of collections of their own and of
///    extensions can't be told.
/// 3. Rows go family by family into a new database: those whose header can be read, and metadata whose row says that it
///    has some. Counts are counted, the feed is left, and records of extensions too: they are built anew.
/// 4. Where the catalog has lost which numbers are free, those behind all that rows have: none is given twice.
struct ObjectSalvage {
  let damaged: String
  let target: String
  let options: EngineOptions

  /// The families of the object floor, in the order in which an open makes them.
  private static let order = ["catalog", "objects", "metadata"]
  private static let batchSize = 1 << 20

  /// The largest numbers that rows have.
  private final class Highest {
    var collection: UInt32 = 0
    var row: UInt64 = 0
  }

  private let highest = Highest()

  init(damaged: String, target: String, options: EngineOptions) {
    self.damaged = damaged
    self.target = target
    self.options = options
  }

  func run() throws {
    let raw = target + ".salvage-raw"
    try Engine.salvage(from: damaged, to: raw, options: options)
    let source = try Engine.open(at: raw, options: options)
    do {
      let engine = try Engine.open(at: target, options: options)
      do {
        try copy(source, engine)
      } catch {
        try engine.close()
        try Engine.destroy(at: target)
        throw error
      }
      try engine.close()
    } catch {
      try source.close()
      throw error
    }
    try source.close()
    try Engine.destroy(at: raw)
  }

  private func copy(_ source: Engine, _ target: Engine) throws {
    // An open makes these, in this order: the new database has to look as if one had.
    var made: [String: ColumnFamily] = [:]
    for name in Self.order { made[name] = try target.createFamily(name) }
    made["counts"] = try target.createFamily("counts", options: FamilyOptions(mergeOperator: CounterOperator().name))
    made["feed"] = try target.createFamily("feed")
    guard let found = try sources(source), let catalog = made["catalog"], let objects = made["objects"],
      let metadata = made["metadata"], let counts = made["counts"]
    else { return }
    try copyRows(source, found[0], target, catalog) { key, value in
      switch key.first {
      case CatalogKey.extensions[0], CatalogKey.settings[0]: false
      case CatalogKey.collections[0]: try hasItsRows(key, value.copied, source)
      default: true
      }
    }
    try copyObjects(source, found[1], found[2], target, objects, metadata, counts, idSize: 4)
    try copyOwn(source, target, counts)
    try reserve(highest.collection + 1, at: CatalogKey.nextCollection, in: catalog, of: target)
    try reserve(highest.row + 1, at: CatalogKey.rowIDs, in: catalog, of: target)
    try target.flush()
  }

  /// Makes a number the next that is free, unless a larger one is.
  private func reserve<Number: FixedWidthInteger>(
    _ number: Number, at key: [UInt8], in catalog: ColumnFamily, of target: Engine
  ) throws {
    let known = try target.get(key, in: catalog).flatMap { BigEndian.number($0, as: Number.self) } ?? 0
    if known < number { try target.put(key, BigEndian.bytes(number), in: catalog) }
  }

  /// Whether what a collection's record says of its families is so: of those whose families can't be told nothing is
  /// left, and their names are free.
  private func hasItsRows(_ key: [UInt8], _ value: [UInt8], _ source: Engine) throws -> Bool {
    let name = String(decoding: key.dropFirst(), as: UTF8.self)
    guard let record = try? CollectionRecord(value, name: name) else { return false }
    return !record.isOwn || source.families.contains { $0.name == record.familyName("objects") }
  }

  /// Where catalog, objects and metadata are; nil where no family holds a catalog.
  private func sources(_ source: Engine) throws -> [ColumnFamily]? {
    let families = source.families
    if let catalog = families.first(where: { $0.name == "catalog" }) {
      let rest = Self.order.dropFirst().compactMap { name in families.first { $0.name == name } }
      return rest.count == 2 ? [catalog] + rest : nil
    }
    for family in families where try source.contains(CatalogKey.format, in: family) {
      guard let number = UInt32(family.name.dropFirst("recovered-".count)) else { continue }
      let rest = (1...2).compactMap { step in families.first { $0.name == "recovered-\(Int(number) + step)" } }
      if rest.count == 2 { return [family] + rest }
    }
    return nil
  }

  private func copyRows(
    _ source: Engine, _ from: ColumnFamily, _ target: Engine, _ into: ColumnFamily,
    where isWanted: ([UInt8], RawSpan) throws -> Bool
  ) throws {
    var cursor = try source.cursor(in: from)
    try cursor.seekToFirst()
    var batch = WriteBatch()
    while cursor.isValid {
      let key = cursor.keyBytes
      if try isWanted(key, cursor.value) { try batch.put(key, cursor.valueBytes, in: into) }
      if batch.byteCount > Self.batchSize {
        try target.write(batch)
        batch.removeAll()
      }
      try cursor.next()
    }
    if !batch.isEmpty { try target.write(batch) }
  }

  /// Copies the rows that can be read, with their metadata, and counts them.
  private func copyObjects(
    _ source: Engine, _ objectsFrom: ColumnFamily, _ metadataFrom: ColumnFamily, _ target: Engine,
    _ objects: ColumnFamily, _ metadata: ColumnFamily, _ counts: ColumnFamily, idSize: Int, countKey: [UInt8] = []
  ) throws {
    var found: [[UInt8]: Int64] = [:]
    try copyRows(source, objectsFrom, target, objects) { key, value in
      guard key.count > idSize, let header = try? RowHeader.read(value).header else { return false }
      if try header.hasMetadata && !source.contains(key, in: metadataFrom) { return false }
      let collection = idSize == 0 ? countKey : Array(key.prefix(idSize))
      found[collection, default: 0] += 1
      // An id that is none is damage, too; the largest there can be leaves no next one.
      if let id = BigEndian.number(collection, as: UInt32.self), id < .max {
        highest.collection = max(highest.collection, id)
      }
      if header.id.number < .max { highest.row = max(highest.row, header.id.number) }
      return true
    }
    try copyRows(source, metadataFrom, target, metadata) { key, _ in
      try target.withValue(forKey: unsafe key.span.bytes, in: objects) { try RowHeader.read($0).header.hasMetadata }
        ?? false
    }
    for (key, count) in found { try target.put(key, CounterOperator.bytes(count), in: counts) }
  }

  /// Collections with families of their own, where these have kept their names.
  private func copyOwn(_ source: Engine, _ target: Engine, _ counts: ColumnFamily) throws {
    for objectsFrom in source.families where objectsFrom.name.hasPrefix("c.") && objectsFrom.name.hasSuffix(".objects")
    {
      guard let id = UInt32(objectsFrom.name.dropFirst(2).dropLast(".objects".count)),
        let metadataFrom = source.families.first(where: { $0.name == "c.\(id).metadata" })
      else { continue }
      let objects = try target.createFamily(objectsFrom.name)
      let metadata = try target.createFamily(metadataFrom.name)
      try copyObjects(
        source, objectsFrom, metadataFrom, target, objects, metadata, counts, idSize: 0, countKey: BigEndian.bytes(id))
    }
  }
}
