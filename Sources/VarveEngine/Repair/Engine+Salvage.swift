/// The result of a salvage: the parts of a database that were copied, and those that could not be.
public struct SalvageReport: Sendable {
  /// A column family of the new database.
  public struct Family: Sendable, Hashable {
    /// The name of the family in the new database.
    public var name: String
    /// The number of the family's keys that have a value.
    public var rowCount: Int
  }

  /// All families of the new database, by name.
  public internal(set) var families: [Family] = []
  /// The number of versions and tombstones that were read, in tables and in the log.
  public internal(set) var entriesRead: UInt64 = 0
  /// The number of tables that were read, damaged ones included.
  public internal(set) var tablesRead = 0
  /// The unreadable parts, file by file.
  public internal(set) var losses: [DamagedPart] = []
  /// Descriptions of facts that could not be determined: keys that were deleted and may exist again, and the reason.
  public internal(set) var doubts: [String] = []

  /// A Boolean value that indicates whether every entry of the database was read.
  public var isComplete: Bool { !losses.contains(where: \.holdsEntries) && doubts.isEmpty }
}

extension Engine {
  /// Copies every readable row of a damaged database into a new one at `target`.
  ///
  /// A damaged block of a table, or a damaged record of the log, loses only its own entries. The indexes and footers of
  /// tables, CURRENT and the MANIFEST can be missing or damaged. For each key, the newest readable version wins, by its
  /// sequence number; a batch of which a part is lost is copied in part. The report names what is lost: the file,
  /// the bytes, and the last readable key before and the first one after them.
  ///
  /// If nothing is lost, the new database holds the same rows. If the MANIFEST is lost, families can have other names
  /// (`recovered-NUMBER`), and rows that were deleted shortly before can be visible again; the report says where.
  ///
  /// Two losses leave no trace that a report could name: commits after the last readable record of the log of a
  /// database that was not closed, and its last segment if the whole file is missing.
  ///
  /// The source is not changed. It must not be open elsewhere (`.locked`). `target` must not exist, or must be an empty
  /// directory (`.alreadyExists`). It appears in one step when everything is durable; until then it is built in
  /// `TARGET.salvage`. `options` are those of the new database. Throws `.notADatabase` if the source contains no file
  /// of a database, and errors that keep the target from being written.
  ///
  /// Complexity: reads everything once, and looks up and writes each entry in the new database.
  @discardableResult
  public static func salvage(
    from source: String, to target: String, options: EngineOptions = EngineOptions(),
    environment: EngineEnvironment = .system
  ) throws(EngineError) -> SalvageReport {
    try SalvageJob(source: source, target: target, options: options, environment: environment).run()
  }
}
