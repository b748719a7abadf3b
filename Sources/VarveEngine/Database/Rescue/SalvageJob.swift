/// Copies what can be read of a damaged database into a new one (`Engine.salvage`).
///
/// # How the newest version wins
/// Entries come in any order: table by table, then the log. The new database itself keeps, in a family beside
/// each, which sequence a key has so far; an older entry is skipped. So memory stays within the budget of the
/// new engine, however large the source is.
///
/// # What is read
/// - Tables that the MANIFEST names. Where it may have lost edits, also all others, but for those that it or
///   their content shows to be obsolete (`ObsoleteInputs`).
/// - Records of the log, from the oldest segment that may be needed. Entries that are in tables for certain
///   are skipped, unless a table of their family is damaged: then the log may have what is lost there.
struct SalvageJob {
  let source: String
  let target: String
  let options: EngineOptions
  let environment: EngineEnvironment

  func run() throws(EngineError) -> SalvageReport {
    let fileSystem = environment.fileSystem
    let survey = try DatabaseSurvey(source, fileSystem)
    // A directory without the file is open nowhere, and the source is not written to.
    let lock = survey.files.contains(.lock) ? try takeLock(survey) : nil
    defer { lock?.release() }
    let directory = DirectoryUnderConstruction(target, purpose: "a salvage", suffix: "salvage", fileSystem)
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

  /// Nil where the lock can't be taken for another reason than that somebody has it: a medium that can't be
  /// written to, say.
  private func takeLock(_ survey: DatabaseSurvey) throws(EngineError) -> (any FileLock)? {
    do throws(EngineError) { return try survey.fileSystem.lock(survey.path(.lock)) } catch {
      guard error.code != .locked else { throw error }
      return nil
    }
  }

  private func build(_ survey: DatabaseSurvey, _ workspace: String) throws(EngineError) -> SalvageReport {
    var options = options
    options.createIfMissing = true
    options.errorIfExists = false
    options.readOnly = false
    let engine = try Engine.open(at: workspace, options: options, environment: environment)
    do throws(EngineError) {
      let report = try copy(survey, to: engine)
      try engine.close()
      return report
    } catch {
      try? engine.close()
      throw error
    }
  }

  private func copy(_ survey: DatabaseSurvey, to engine: Engine) throws(EngineError) -> SalvageReport {
    var report = SalvageReport()
    report.losses = survey.losses
    let (tables, doubts) = try survey.liveTables(verifies: false)
    report.doubts = doubts
    let families = RescuedFamilies(survey.evidence, tables)
    let writer = SalvageWriter(engine, families)
    for id in families.known { try writer.begin(.family(id)) }
    var damaged: Set<RescueOwner> = []
    for table in tables {
      let losses = try table.read(survey.fileSystem, family: families.name(table.owner)) {
        (key, trailer, value) throws(EngineError) in
        report.entriesRead += 1
        try writer.add(table.owner, key, trailer, value)
      }
      report.tablesRead += 1
      report.losses += losses
      if losses.contains(where: \.holdsEntries) { damaged.insert(table.owner) }
    }
    var log = LogHarvest(survey)
    let evidence = survey.evidence
    try log.run { (family, trailer, key, value) throws(EngineError) in
      guard !evidence.isDropped(family) else { return }
      let isInTables = trailer.sequence <= evidence.flushed[family] ?? .zero
      guard !isInTables || !survey.isSettled || damaged.contains(.family(family)) else { return }
      report.entriesRead += 1
      try writer.add(.family(family), key, trailer, value)
    }
    report.losses += log.losses
    report.families = try writer.finish()
    if writer.unknownKindCount > 0 {
      report.losses.append(
        LostPart("\(writer.unknownKindCount) entries of a kind that can't be copied one by one", file: source))
    }
    return report
  }
}

/// Writes entries that come in any order; the newest of each key wins.
private final class SalvageWriter {
  private struct Place {
    let family: ColumnFamily
    /// For each key the trailer of its newest entry so far.
    let trailers: ColumnFamily
    var rowCount = 0
  }

  private let engine: Engine
  private let families: RescuedFamilies
  private var places: [RescueOwner: Place] = [:]
  private var batch = WriteBatch()
  private(set) var unknownKindCount = 0

  init(_ engine: Engine, _ families: RescuedFamilies) {
    self.engine = engine
    self.families = families
  }

  func begin(_ owner: RescueOwner) throws(EngineError) { _ = try place(owner) }

  private func place(_ owner: RescueOwner) throws(EngineError) -> Place {
    if let known = places[owner] { return known }
    let name = families.name(owner)
    let family =
      owner == .family(0) ? engine.defaultFamily : try engine.createFamily(name, options: families.options(owner))
    let place = Place(
      family: family, trailers: try engine.createFamily("salvage: trailers of family \(places.count)"))
    places[owner] = place
    return place
  }

  func add(_ owner: RescueOwner, _ key: ByteView, _ trailer: Trailer, _ value: ByteView) throws(EngineError) {
    guard let kind = trailer.kind, kind != .rangeDelete, kind != .merge else {
      unknownKindCount += 1
      return
    }
    let place = try place(owner)
    let known = try engine.get(key.bytes, in: place.trailers)?.withByteView { $0.load(0, as: UInt64.self) }
    if let known, known >= trailer.word { return }
    batch.removeAll()
    var word = ByteWriter(capacity: 8)
    word.append(integer: trailer.word)
    try batch.append(.put, place.trailers.id, key, word.view)
    try batch.append(kind == .put ? .put : .delete, place.family.id, key, kind == .put ? value : ByteView())
    // Nothing needs it before the end, when all is in tables.
    try engine.write(batch, durability: Durability.none)
    let wasPut = known.map { Trailer(word: $0).kind == .put } ?? false
    places[owner]?.rowCount += (kind == .put ? 1 : 0) - (wasPut ? 1 : 0)
  }

  /// Makes everything durable, and removes what only the copying needed.
  func finish() throws(EngineError) -> [SalvageReport.Family] {
    for place in places.values.sorted(by: { $0.trailers.id < $1.trailers.id }) {
      try engine.dropFamily(place.trailers)
    }
    try engine.flush()
    return places.values.map { .init(name: $0.family.name, rowCount: $0.rowCount) }.sorted { $0.name < $1.name }
  }
}
