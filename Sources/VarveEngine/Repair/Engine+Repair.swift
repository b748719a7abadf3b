/// What a repair kept of a database, and what is lost.
public struct RepairReport: Sendable {
  /// A table of the repaired database.
  public struct Table: Sendable, Hashable {
    /// Its file.
    public var file: String
    /// The column family that it is of now.
    public var family: String
    /// The level that it is on now.
    public var level: Int
    /// Versions and tombstones in it.
    public var entryCount: UInt64
    /// Its first key.
    public var smallestKey: [UInt8]
    /// Its last key.
    public var largestKey: [UInt8]
    /// The sequences of its entries.
    public var sequences: ClosedRange<SequenceNumber>
    /// Whether the repair wrote it: of the log, of what a damaged table still held, or of several tables.
    public var isNew: Bool
  }

  /// Whether anything was wrong. If not, nothing was written.
  public internal(set) var isChanged = false
  /// All tables of the repaired database, by family and level.
  public internal(set) var tables: [Table] = []
  /// Entries of the log that were written to tables; 0 where the log was kept as it is.
  public internal(set) var logEntriesRead: UInt64 = 0
  /// The last commit that the repaired database has.
  public internal(set) var lastSequence = SequenceNumber.zero
  /// What can't be read, file by file.
  public internal(set) var losses: [LostPart] = []
  /// What could not be found out: where keys that were deleted may be there again, and why.
  public internal(set) var doubts: [String] = []
  /// Files that are in the directory `lost` of the database now.
  public internal(set) var movedAside: [String] = []

  /// Whether every entry of the database was kept.
  public var isComplete: Bool { !losses.contains(where: \.holdsEntries) && doubts.isEmpty }
}

extension Engine {
  /// Makes a damaged database one that opens, in its place: a new MANIFEST and CURRENT from what is intact.
  ///
  /// - Intact tables are kept as they are. Of a damaged one what can be read is written to a new table.
  /// - What the MANIFEST still says is used. Without it tables are placed by their keys and sequences; where
  ///   those can't be ordered, the tables of a family are merged into new ones.
  /// - The log is kept if all of it can be read and the MANIFEST is whole; otherwise its entries are written to
  ///   tables.
  /// - Nothing is removed: what is replaced or can't be read goes into the directory `lost` of the database,
  ///   which nobody needs but for another look. It may take as much space as the tables.
  ///
  /// The report names every table that is there now, and everything that is lost, with bytes and keys. Where
  /// the MANIFEST is lost, families are named by their tables, or `recovered-NUMBER`. A database without a
  /// fault is left as it is.
  ///
  /// A crash leaves the database as it was, or repaired; the call can be repeated. Throws `.locked` where an
  /// engine has the database open, `.notADatabase` where no file of one is there, and what keeps the
  /// directory from being read or written. `options` say how new tables are written.
  ///
  /// Complexity: reads everything once, tables of a damaged MANIFEST up to three times.
  @discardableResult
  public static func repair(
    at path: String, options: EngineOptions = EngineOptions(), environment: EngineEnvironment = .system
  ) throws(EngineError) -> RepairReport {
    try options.validate()
    let survey = try DatabaseSurvey(path, environment.fileSystem)
    let lock = try environment.fileSystem.lock(survey.path(.lock))
    defer { lock.release() }
    // Again, under the lock.
    return try RepairJob(try DatabaseSurvey(path, environment.fileSystem), options, environment).run()
  }
}
