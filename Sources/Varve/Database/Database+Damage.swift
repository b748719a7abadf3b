public import VarveEngine

/// What `Database.giveUpDamagedBlocks` did.
public struct GivenUpBlocks: Sendable {
  /// What was given up, a table each, with the family that it belongs to. Empty: nothing is damaged.
  public internal(set) var tables: [GivenUpDamage] = []
  /// The extensions that are built again when they are registered, in order.
  public internal(set) var staleExtensions: [String] = []
  /// Whether rows may be gone, or as they were before: one of the tables had rows, metadata or the catalog.
  public internal(set) var concernsRows = false
  /// Whether one of them had the catalog: then whole collections may be unknown, which look empty. A warning in the log says so,
  /// too. A backup is better than such a database.
  public internal(set) var concernsCatalog = false
}

extension Database {
  /// Gives up the blocks of a damaged database that can't be read, so that all others can be compacted and read again. The
  /// database must not be open, and is in order when this returns:
  ///
  /// - Extensions with a part in a damaged table are built again when they are registered; where rows may be gone, all are.
  /// - Rows of the lost blocks are gone, or are there as they were before: what is lost no longer hides what it replaced. Row
  ///   counts are counted again, and metadata without a row is removed.
  /// - Of the catalog, numbers that it has lost are not given again. A collection whose record is lost is unknown until it is
  ///   defined; then it is a new one, and its rows remain in the storage.
  /// - The feed begins again where it or rows are concerned: a subscription that resumes receives a gap.
  ///
  /// A crash on the way leaves a database that the next open, or the next call, brings into order. Throws as `open` does,
  /// and `.notReadableNow` where a file can't be read now: nothing counts as damaged then.
  ///
  /// Complexity: reads every table once, and every row once where the rows, their counts or the catalog are concerned.
  @discardableResult
  public static func giveUpDamagedBlocks(
    at path: String, options: DatabaseOptions = DatabaseOptions()
  ) throws -> GivenUpBlocks {
    try giveUpDamagedBlocks(at: path, options: options, environment: .system)
  }

  /// Gives up the blocks of a damaged database that can't be read without blocking the task's thread: see the synchronous
  /// form.
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
        // What an earlier call was interrupted at, before it is forgotten which families that concerned.
        let earlier = try DamageMending(backend)
        let families = Set(damage.map(\.family))
        // Before anything is given up: after a crash it is known what is to be done.
        let mending = try DamageMending.begin(backend, families)
        given.concernsRows = mending.concernsRows
        given.concernsCatalog = families.contains("catalog")
        if given.concernsCatalog { DatabaseLog.catalogGivenUp(path: path) }
        for block in damage {
          given.tables.append(try mapped { () throws(EngineError) in try backend.engine.giveUp(block) })
        }
        given.staleExtensions = try mending.markExtensions(of: families)
        try (earlier ?? mending).finish()
      } else {
        try DamageMending(backend)?.finish()
      }
      return given
    }
  }

  /// Brings a database into order that a repair of the engine has taken something from. Nil among the families: what is lost
  /// may be of any. Does nothing where it does not hold objects.
  package static func mend(after losses: [String?], at path: String) throws {
    var options = DatabaseOptions()
    options.createsIfMissing = false
    try withEngine(path, options, .system) { backend in
      let known = try backend.families().map(\.name)
      guard known.contains("catalog") else { return }
      let families = Set(losses.contains(nil) ? known : losses.compactMap(\.self))
      guard !families.isEmpty else { return }
      let mending = try DamageMending.begin(backend, families)
      _ = try mending.markExtensions(of: families)
      try mending.finish()
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
