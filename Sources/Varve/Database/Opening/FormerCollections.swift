/// Renames collections that are on disk under former names to the names in the program's definition, before they are
/// used.
///
/// Each renaming is one commit of the collection's record, the records of extensions (`RenamedScope`), and the feed.
/// The feed begins again, so that a subscription that resumes receives a gap instead of changes under names that its
/// program does not know. A crash leaves the collection under one of the two names.
struct FormerCollections {
  private let backend: any StorageBackend
  private let families: Catalog.Families
  private let catalog: Catalog

  init(_ catalog: Catalog) {
    backend = catalog.backend
    families = catalog.families
    self.catalog = catalog
  }

  /// Renames the collections. Throws, before anything is written, `.invalidDefinition` if a collection exists under two
  /// names, and `.definitionDiffers` if the collection on disk does not match the definition.
  func rename(for definitions: some Collection<CollectionDefinition>) throws {
    var renamed = false
    for definition in definitions.sorted(by: { $0.name < $1.name }) {
      let present = definition.formerKeys.compactMap { catalog.collection($0) }
      guard let former = present.first else { continue }
      if let second = present.dropFirst().first { throw Catalog.isThereTwice(former.name, second.name) }
      if catalog.collection(definition.name) != nil { throw Catalog.isThereTwice(definition.name, former.name) }
      // Uses of the collection throw until another process has renamed it.
      if backend.isReadOnly { continue }
      try rename(former, for: definition)
      renamed = true
    }
    if renamed { try catalog.load(try backend.snapshot()) }
  }

  private func rename(_ former: CollectionInfo, for definition: CollectionDefinition) throws {
    let generation = try catalog.beginRenaming(former, to: definition.name)
    var batch = StorageBatch()
    catalog.rename(former, to: definition.name, generation: generation, &batch)
    try renameExtensions(RenamedScope(old: former.name, new: definition.name), &batch)
    let snapshot = try backend.snapshot()
    var isOff = false
    do {
      if let bytes = try snapshot.value(of: FeedKey.record, in: families.feed) { isOff = try FeedRecord(bytes).isOff }
    } catch let error as DatabaseError where error.code == .corruption {
      // The feed is updated to match the options when it is opened.
    }
    FeedRecord.beginAgain(isOff: isOff, in: families.feed, &batch)
    _ = try backend.commit(batch, check: nil, durability: .process)
  }

  private func renameExtensions(_ scope: RenamedScope, _ batch: inout StorageBatch) throws {
    let snapshot = try backend.snapshot()
    var records: [String: ExtensionRecord] = [:]
    var cursor = FamilyCursor(
      StorageRange(prefix: CatalogKey.extensions), in: families.catalog, of: snapshot, isReverse: false)
    while let (key, value) = try cursor.next() {
      let name = try CatalogKey.name(in: key)
      records[name] = try ExtensionRecord(value, name: name)
    }
    for (name, record) in records {
      switch scope.outcome(name, record, isTaken: { records[$0] != nil }) {
      case .stays: break
      case .moves(let record, let target):
        batch.delete(CatalogKey.databaseExtension(name), in: families.catalog)
        batch.put(CatalogKey.databaseExtension(target), record.bytes, in: families.catalog)
      // The families of the extension are dropped when the extensions are read.
      case .isRemoved: batch.delete(CatalogKey.databaseExtension(name), in: families.catalog)
      case .isBuiltAgain(let record):
        batch.put(CatalogKey.databaseExtension(name), record.bytes, in: families.catalog)
      }
    }
  }
}
