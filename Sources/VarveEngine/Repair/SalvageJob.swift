/// Copies the readable entries of a damaged database into a new one (`Engine.salvage`).
///
/// # How the newest version wins
/// Entries come in any order: table by table, then the log. The new database itself stores, in an additional family for
/// each family, the sequence that a key has so far; an older entry is skipped. So memory stays within the budget of the
/// new engine, however large the source is.
///
/// # What is read
/// - The tables that the MANIFEST names. If it may have lost edits, also all others, except those that the MANIFEST or
///   their content shows to be obsolete (`ObsoleteInputs`).
/// - The records of the log, from the oldest segment that may be needed. Entries that are certainly in tables are
///   skipped, unless a table of their family is damaged: the log may then have the entries that are lost there.
struct SalvageJob {
  let source: String
  let target: String
  let options: EngineOptions
  let environment: EngineEnvironment

  /// Runs the salvage. Both directories are found by descriptors, that of the target by its parent's.
  func run() throws(EngineError) -> SalvageReport {
    var anchored = environment
    if try environment.fileSystem.attributes(source)?.isDirectory == true {
      anchored.fileSystem = try environment.fileSystem.anchored(at: source)
    }
    if let parent = Opening.parent(of: target), try environment.fileSystem.attributes(parent)?.isDirectory == true {
      anchored.fileSystem = try anchored.fileSystem.anchored(at: parent)
    }
    return try SalvageJob(source: source, target: target, options: options, environment: anchored).copy()
  }

  private func copy() throws(EngineError) -> SalvageReport {
    let fileSystem = environment.fileSystem
    let survey = try DatabaseSurvey(source, fileSystem)
    // A directory without the lock file is not open in any engine, and the source is not written to.
    let lock = survey.files.contains(.lock) ? try takeLock(survey) : nil
    defer { lock?.release() }
    let directory = DirectoryUnderConstruction(target, purpose: "a salvage", suffix: "salvage", fileSystem)
    try directory.requireOutside(source)
    try directory.prepare()
    do throws(EngineError) {
      let report = try build(survey, directory.workspace)
      try directory.install()
      return report
    } catch {
      directory.discard()
      throw error
    }
  }

  /// Takes the lock of the source, and throws if another engine has it.
  ///
  /// Returns `nil` if the lock can't be taken for another reason, for example because the medium is not writable.
  private func takeLock(_ survey: DatabaseSurvey) throws(EngineError) -> (any FileLock)? {
    do throws(EngineError) { return try survey.fileSystem.lock(survey.path(.lock)) } catch {
      guard error.code != .locked, error.code != .notReadableNow else { throw error }
      return nil
    }
  }

  private func build(_ survey: DatabaseSurvey, _ workspace: String) throws(EngineError) -> SalvageReport {
    var options = options
    options.createIfMissing = true
    options.errorIfExists = false
    options.readOnly = false
    let (tables, doubts) = try survey.liveTables(verifies: false)
    let families = SalvagedFamilies(survey.evidence, tables)
    options.defaultFamilyOptions = families.options(.family(.default), known: options)
    let engine = try Engine.open(at: workspace, options: options, environment: environment)
    do throws(EngineError) {
      var report = try copy(survey, tables, families, to: engine)
      report.doubts = doubts + report.doubts
      try engine.close()
      return report
    } catch {
      try? engine.close()
      throw error
    }
  }

  private func copy(
    _ survey: DatabaseSurvey, _ tables: [DamagedTableReader], _ families: SalvagedFamilies, to engine: Engine
  ) throws(EngineError) -> SalvageReport {
    var report = SalvageReport()
    report.losses = survey.losses
    let writer = SalvageWriter(engine, families)
    for id in families.known { try writer.begin(.family(id)) }
    var damaged: Set<SalvageOwner> = []
    // The newest tables come first: of entries with equal sequences (for example zero) the first one is kept.
    for table in tables.reversed() {
      let losses = try table.read(survey.fileSystem, family: families.name(table.owner)) {
        (key, trailer, value) throws(EngineError) in
        report.entriesRead += 1
        try writer.add(table.owner, key, trailer, value)
      } tombstones: { (list) throws(EngineError) in
        report.entriesRead += UInt64(list.tombstoneCount)
        try writer.add(table.owner, list)
      }
      report.tablesRead += 1
      report.losses += losses
      if losses.contains(where: \.holdsEntries) { damaged.insert(table.owner) }
    }
    var log = DamagedLogReader(survey)
    let evidence = survey.evidence
    try log.run { (family, trailer, key, value) throws(EngineError) in
      guard !evidence.isDropped(family) else { return }
      let isInTables = trailer.sequence <= evidence.flushed[family] ?? .zero
      // Operands may be folded in a table already, and must count only once.
      if isInTables, trailer.kind == .merge { return }
      guard !isInTables || !survey.isSettled || damaged.contains(.family(family)) else { return }
      report.entriesRead += 1
      try writer.add(.family(family), key, trailer, value)
    }
    report.losses += log.losses
    report.doubts = families.doubts(writer.owners)
    report.families = try writer.finish()
    for (name, count) in writer.lostOperands.sorted(by: { $0.key < $1.key }) {
      var lost = DamagedPart("\(count) merge operands, whose operator the options don't have", file: source)
      lost.family = name
      report.losses.append(lost)
    }
    return report
  }
}
