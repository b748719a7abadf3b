public import VarveEngine

/// The result of `Database.giveUpDamagedBlocks`.
public struct GivenUpBlocks: Sendable {
  /// The damage that was given up, one element per table, each with the table's family. Empty if nothing is damaged.
  public internal(set) var tables: [GivenUpDamage] = []
  /// The names of the extensions that are built again when they are registered, in order.
  public internal(set) var staleExtensions: [String] = []
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
  /// - Rows of the lost blocks are missing, or have an older value again, because the lost entries no longer hide those
  ///   that they replaced. Rows are counted again, and metadata without a row is removed.
  /// - Numbers that the catalog has lost are not assigned again. A collection whose record is lost is unknown until it
  ///   is defined; it is then a new collection, and its old rows remain in the storage.
  /// - The feed begins again if it or rows are affected: a subscription that resumes receives a gap.
  ///
  /// After a crash during the call, the next open or the next call completes the repair. Throws as `open` does, and
  /// `.notReadableNow` if a file cannot be read at present: nothing counts as damaged then.
  /// Complexity: reads every table once, and every row once if the rows, their counts or the catalog are affected.
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
        try (earlier ?? repair).finish()
      } else {
        try DamageRepair(backend)?.finish()
      }
      return given
    }
  }

  /// Repairs an object database from which a repair of the engine has removed something. `losses` names the affected
  /// families; nil stands for any family. Does nothing if the database does not hold objects.
  package static func repairDamage(after losses: [String?], at path: String) throws {
    var options = DatabaseOptions()
    options.createsIfMissing = false
    try withEngine(path, options, .system) { backend in
      let known = try backend.families().map(\.name)
      guard known.contains("catalog") else { return }
      let families = Set(losses.contains(nil) ? known : losses.compactMap(\.self))
      guard !families.isEmpty else { return }
      let repair = try DamageRepair.begin(backend, families)
      _ = try repair.markExtensions(of: families)
      try repair.finish()
    }
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
