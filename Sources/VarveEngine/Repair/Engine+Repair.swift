/// The result of a repair: the parts of a database that were kept, and those that are lost.
public struct RepairReport: Sendable {
  /// A table of the repaired database.
  public struct Table: Sendable, Hashable {
    /// The path of the table's file.
    public var file: String
    /// The column family of the table in the repaired database.
    public var family: String
    /// The level of the table in the repaired database.
    public var level: Int
    /// The number of versions and tombstones in the table.
    public var entryCount: UInt64
    /// The first key of the table.
    public var smallestKey: [UInt8]
    /// The last key of the table.
    public var largestKey: [UInt8]
    /// The sequences of the table's entries.
    public var sequences: ClosedRange<SequenceNumber>
    /// A Boolean value that indicates whether the repair wrote the table.
    ///
    /// It was then written from the log, from the readable entries of a damaged table, or from several tables.
    public var isNew: Bool
  }

  /// A Boolean value that indicates whether the repair found a fault. If not, it wrote no file.
  public internal(set) var isChanged = false
  /// All tables of the repaired database, by family and level.
  public internal(set) var tables: [Table] = []
  /// The number of entries of the log that were written to tables, or 0 if the log was kept as it is.
  public internal(set) var logEntriesRead: UInt64 = 0
  /// The last commit that the repaired database has.
  public internal(set) var lastSequence = SequenceNumber.zero
  /// The unreadable parts, file by file.
  public internal(set) var losses: [DamagedPart] = []
  /// Descriptions of facts that could not be determined: keys that were deleted and may exist again, and the reason;
  /// column families whose names are lost.
  public internal(set) var doubts: [String] = []
  /// Files that are now in the directory `lost` of the database.
  public internal(set) var movedAside: [String] = []

  /// A Boolean value that indicates whether every entry of the database was kept.
  public var isComplete: Bool { !losses.contains(where: \.holdsEntries) && doubts.isEmpty }
}

extension Engine {
  /// Repairs a damaged database in place, so that it opens again: writes a new MANIFEST and CURRENT from the intact
  /// parts.
  ///
  /// - Keeps intact tables. Writes the readable entries of damaged tables to new tables.
  /// - Uses what is readable of the MANIFEST. Without it, places tables by their keys and sequence numbers; if they
  ///   cannot be ordered, merges the tables of a family into new ones.
  /// - Keeps the log if all of it is readable and the MANIFEST is intact; otherwise writes its entries to tables.
  /// - Removes no file: replaced and unreadable files move to the directory `lost` of the database, which can take as
  ///   much space as the tables.
  ///
  /// The report names every live table, and everything that is lost, with bytes and keys. If the MANIFEST is lost,
  /// families get the names that their tables record, or `recovered-NUMBER`. A database without a fault is not changed.
  ///
  /// A crash leaves the database unchanged or repaired; the call can be repeated. Throws `.locked` if an engine has the
  /// database open, `.notADatabase` if the directory contains no file of a database, and errors of the file system.
  /// `options` say how new tables are written.
  ///
  /// Complexity: reads everything once, tables of a damaged MANIFEST up to three times.
  @discardableResult
  public static func repair(
    at path: String, options: EngineOptions = EngineOptions(), environment: EngineEnvironment = .system
  ) throws(EngineError) -> RepairReport {
    try options.validate()
    var survey = try DatabaseSurvey(path, environment.fileSystem)
    var environment = environment
    environment.fileSystem = try environment.fileSystem.anchored(at: path)
    let lock = try environment.fileSystem.lock(survey.path(.lock))
    defer { lock.release() }
    // The survey is repeated under the lock.
    survey = try DatabaseSurvey(path, environment.fileSystem)
    return try RepairJob(survey, options, environment).run()
  }
}
