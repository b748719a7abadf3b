/// Opens an object database over a storage: its families, the catalog, and the collections of the definition.
struct DatabaseOpening {
  private let backend: any StorageBackend
  private let path: String
  private let definition: DatabaseDefinition
  private let options: DatabaseOptions

  init(
    _ backend: any StorageBackend, _ path: String, _ definition: DatabaseDefinition, _ options: DatabaseOptions
  ) {
    self.backend = backend
    self.path = path
    self.definition = definition
    self.options = options
  }

  /// Opens the database. If this throws, the storage is closed.
  func run() throws -> DatabaseCore {
    do {
      return try open()
    } catch {
      try? backend.close()
      throw error
    }
  }

  private func open() throws -> DatabaseCore {
    let families = try openFamilies()
    let catalog = Catalog(
      backend: backend, families: families, definitions: definition.collections.mapValues(\.rows), coder: options.coder)
    try catalog.load(try backend.snapshot())
    try writeFormat(families)
    try FormerCollections(catalog).rename(for: definition.collections.values)
    for rows in definition.collections.values.map(\.rows).sorted(by: { $0.name < $1.name }) {
      if backend.isReadOnly, catalog.collection(rows.name) == nil { continue }
      _ = try catalog.collection(
        rows.name, definition: rows, keyType: rows.keyTypeName, coder: rows.coder)
    }
    let extensionCatalog = ExtensionCatalog()
    try extensionCatalog.load(try backend.snapshot(), families)
    try dropOrphans(extensionCatalog, catalog)
    let feed = try ChangeFeed(backend: backend, family: families.feed, options: options)
    return DatabaseCore(
      path: path, options: options, backend: backend, catalog: catalog, extensionCatalog: extensionCatalog, feed: feed)
  }

  private func openFamilies() throws -> Catalog.Families {
    var known: [String: StorageFamily] = [:]
    for family in try backend.families() { known[family.name] = family }
    func family(_ name: String, _ options: StorageFamilyOptions = StorageFamilyOptions()) throws -> StorageFamily {
      if let family = known[name] { return family }
      if backend.isReadOnly {
        throw DatabaseError(.notADatabase, "\(path) holds no database of objects: family \"\(name)\" is missing")
      }
      return try backend.createFamily(name, options: options)
    }
    return Catalog.Families(
      catalog: try family("catalog"), objects: try family("objects"), metadata: try family("metadata"),
      counts: try family("counts", StorageFamilyOptions(counter: .sum)), feed: try family("feed"))
  }

  /// Drops families that are no longer needed.
  ///
  /// These are the families of an extension that was unregistered, or whose definition was replaced, if the process
  /// ended before they were dropped; runs of builds that no record needs; and the emptied families of dropped
  /// collections.
  private func dropOrphans(_ extensions: ExtensionCatalog, _ catalog: Catalog) throws {
    guard !backend.isReadOnly else { return }
    let records = extensions.names.compactMap { extensions.record($0) }
    let dropped = catalog.droppedNumbers
    for family in try backend.families() {
      if let owner = ExtensionRecord.owner(ofFamily: family.name), !isNeeded(family, owner, records) {
        try backend.dropFamily(family)
      } else if let number = CollectionRecord.number(ofFamily: family.name), dropped.contains(number),
        catalog.collection(number) == nil
      {
        try backend.dropFamily(family)
      }
    }
  }

  private func isNeeded(
    _ family: StorageFamily, _ owner: (number: UInt32, generation: UInt32), _ records: [ExtensionRecord]
  ) -> Bool {
    guard let record = records.first(where: { $0.number == owner.number }) else { return false }
    if ExtensionRecord.isSpill(family.name) {
      return record.keepsSpill(family.name) || record.shadow?.keepsSpill(family.name) ?? false
    }
    return record.generation == owner.generation || record.shadow?.generation == owner.generation
      || family.name == ExtensionRecord.settingsFamily(of: record.number)
  }

  private func writeFormat(_ families: Catalog.Families) throws {
    guard !backend.isReadOnly else { return }
    if try backend.snapshot().contains(CatalogKey.format, in: families.catalog) { return }
    var batch = StorageBatch()
    batch.put(CatalogKey.format, BigEndian.bytes(CatalogKey.currentFormat), in: families.catalog)
    _ = try backend.commit(batch, check: nil, durability: .process)
  }
}
