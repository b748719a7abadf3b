public import VarveEngine

/// The result of `Database.giveUpDamagedBlocks`.
public struct GivenUpBlocks: Sendable {
  /// The damage that was given up, one element per table, each with the table's family. Empty if nothing is damaged.
  public internal(set) var tables: [GivenUpDamage] = []
  /// The names of the extensions that are built again when they are registered, in order.
  public internal(set) var staleExtensions: [String] = []
  /// The names of the extensions with counted parts whose entries were counted again, because their counts were lost or
  /// wrong, in order. They need not be built again, unless they are among `staleExtensions`.
  public internal(set) var recountedExtensions: [String] = []
  /// Whether rows may be lost or have an older value again: one of the tables had rows, metadata or the catalog.
  public internal(set) var concernsRows = false
  /// Whether one of the tables had the catalog. Whole collections may then be unknown, and look empty. A warning in the
  /// log reports it. A backup is better than such a database.
  public internal(set) var concernsCatalog = false
}

extension Database {
  /// Gives up the unreadable blocks of a damaged database, so that all others can be compacted and read again.
  ///
  /// The database must not be open, and is consistent when this returns:
  ///
  /// - Extensions with a part in a damaged table are built again when they are registered; if rows may be lost, all
  ///   are. Tasks can't be built again: what is left of them is made consistent instead.
  /// - Counts of entries (`PartDefinition.isCounted`) are made again where they are wrong, also if nothing is damaged.
  ///   An extension that has lost nothing but counts is not built again.
  /// - Rows of the lost blocks are missing, or have an older value again, because the lost entries no longer hide those
  ///   that they replaced. Rows are counted again, and metadata without a row is removed.
  /// - Numbers that the catalog has lost are not assigned again. A collection whose record is lost is unknown until it
  ///   is defined; it is then a new collection, and its old rows remain in the storage.
  /// - The feed begins again if it or rows are affected: a subscription that resumes receives a gap.
  ///
  /// After a crash during the call, the next open or the next call completes the repair. Throws as `open` does, and
  /// `.notReadableNow` if a file cannot be read at present: nothing counts as damaged then.
  /// Complexity: reads every table once, the entries of counted parts once more, and every row once if the rows, their
  /// counts or the catalog are affected.
  @discardableResult
  public static func giveUpDamagedBlocks(
    at path: String, options: DatabaseOptions = DatabaseOptions()
  ) throws -> GivenUpBlocks {
    try giveUpDamagedBlocks(at: path, options: options, environment: .system)
  }

  /// Gives up the unreadable blocks of a damaged database without blocking the task's thread: see the synchronous form.
  @discardableResult
  public static func giveUpDamagedBlocks(
    at path: String, options: DatabaseOptions = DatabaseOptions()
  ) async throws -> GivenUpBlocks {
    try await openings.run { try giveUpDamagedBlocks(at: path, options: options, environment: .system) }
  }

  static func giveUpDamagedBlocks(
    at path: String, options: DatabaseOptions, environment: EngineEnvironment
  ) throws -> GivenUpBlocks {
    var options = options
    options.createsIfMissing = false
    return try withEngine(path, options, environment) { backend in
      var given = GivenUpBlocks()
      let damage = try mapped { () throws(EngineError) in try backend.engine.findDamage() }
      if !damage.isEmpty {
        // An earlier call may have been interrupted; it is noted before the mark is written again.
        let earlier = try DamageRepair(backend)
        let families = Set(damage.map(\.family))
        // The mark is written before any block is given up, so that a crash leaves the information that a repair is
        // needed.
        let repair = try DamageRepair.begin(backend, families)
        given.concernsRows = repair.concernsRows
        given.concernsCatalog = families.contains("catalog")
        if given.concernsCatalog { DatabaseLog.catalogGivenUp(path: path) }
        for block in damage {
          given.tables.append(try mapped { () throws(EngineError) in try backend.engine.giveUp(block) })
        }
        given.staleExtensions = try repair.markExtensions(of: families)
        given.note(try (earlier ?? repair).finish())
      } else {
        given.note(try DamageRepair(backend)?.finish() ?? recount(backend))
      }
      return given
    }
  }

  /// Repairs an object database from which a repair of the engine has removed something. `losses` names the affected
  /// families; nil stands for any family. Does nothing if the database does not hold objects.
  /// Returns the counted parts whose entries were counted again.
  @discardableResult
  package static func repairDamage(after losses: [String?], at path: String) throws -> [RecountedPart] {
    try withEngine(path, existing, .system) { backend in
      let known = try backend.families().map(\.name)
      guard known.contains("catalog") else { return [] }
      let families = Set(losses.contains(nil) ? known : losses.compactMap(\.self))
      guard !families.isEmpty else { return try recount(backend) }
      let repair = try DamageRepair.begin(backend, families)
      _ = try repair.markExtensions(of: families)
      return try repair.finish()
    }
  }

  /// Counts the entries of counted parts again whose counts are wrong. Returns these parts.
  ///
  /// The database must not be open. Throws as `open` does. Complexity: O(n) of the entries of counted parts.
  package static func recount(at path: String) throws -> [RecountedPart] {
    try withEngine(path, existing, .system) { try recount($0) }
  }

  private static func recount(_ backend: EngineBackend) throws -> [RecountedPart] {
    guard let catalog = try backend.families().first(where: { $0.name == "catalog" }) else { return [] }
    return try CountRepair(backend: backend, catalog: catalog).run()
  }

  /// Marks an extension so that it is built again when the program registers it: everything that is derived from rows
  /// is made from them again. What the program itself has written stays.
  ///
  /// The database must not be open. Throws `.unknownExtension` if the catalog has no such extension, `.corruption` if
  /// its record can't be read, and as `open` does.
  package static func rebuildExtension(named name: String, at path: String) throws {
    try withEngine(path, existing, .system) { backend in
      guard let catalog = try backend.families().first(where: { $0.name == "catalog" }),
        let value = try backend.snapshot().value(of: CatalogKey.databaseExtension(name), in: catalog)
      else { throw DatabaseError(.unknownExtension, "no extension is registered as \"\(name)\"") }
      var record = try ExtensionRecord(value, name: name)
      record.state = .stale(nil)
      // A replacement that was being built begins again.
      record.shadow = nil
      var batch = StorageBatch()
      batch.put(CatalogKey.databaseExtension(name), record.bytes, in: catalog)
      try backend.commit(batch, check: nil, durability: .power).wait()
    }
  }

  /// The options of a repair, which creates no database.
  private static var existing: DatabaseOptions {
    var options = DatabaseOptions()
    options.createsIfMissing = false
    return options
  }

  private static func withEngine<Result>(
    _ path: String, _ options: DatabaseOptions, _ environment: EngineEnvironment,
    _ body: (EngineBackend) throws -> Result
  ) throws -> Result {
    let opened = try BackendOpening(path: path, options: options, environment: environment).run()
    guard let backend = opened as? EngineBackend, !backend.isReadOnly else {
      try opened.close()
      throw DatabaseError(.readOnly, "blocks are given up in a database that is opened for writing")
    }
    do {
      let result = try body(backend)
      try backend.close()
      return result
    } catch {
      try? backend.close()
      throw error
    }
  }
}

extension GivenUpBlocks {
  fileprivate mutating func note(_ recounted: [RecountedPart]) {
    recountedExtensions = Set(recounted.map(\.extensionName)).sorted()
  }
}
