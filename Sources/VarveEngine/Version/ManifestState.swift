/// The result of all edits of a MANIFEST: the engine's durable state, except for entries that are only in the log.
///
/// # Invariants
/// 1. Family ids and names are unique; every id is below `nextFamilyID`, and an id below it without a family belongs to
///    a dropped one, forever.
/// 2. A table number is on one level of one family only.
/// 3. Log cuts name segments from `oldestLog` on; freed segments are before it.
/// 4. The existence of volatile families is durable, and their tables are not: the state of a running engine includes
///    them, but what is written of it (`snapshotEdit`, `durablePart`) omits them. For a recovery their files are
///    orphans.
///
/// `prepare` checks an edit and computes its result, and `commit` can't fail, so that a caller can write the edit in
/// between. A state is a value, and a copy is a cheap snapshot.
struct ManifestState: Sendable {
  /// The durable state of one family.
  struct Family: Sendable {
    let id: FamilyID
    let name: String
    var options: [UInt8] { didSet { isVolatile = FamilyFlags(options: options).contains(.volatile) } }
    /// Whether its tables are known in memory only: see invariant 4.
    private(set) var isVolatile: Bool
    var version: Version
    /// Every entry at or below this sequence is in the tables (or was never logged).
    var flushedSequence: SequenceNumber

    fileprivate init(_ creation: VersionEdit.FamilyCreation) {
      id = creation.family
      name = creation.name
      options = creation.options
      isVolatile = FamilyFlags(options: creation.options).contains(.volatile)
      version = .empty
      flushedSequence = .zero
    }
  }

  /// The newest format that this version of the engine writes and reads. On disk: a number never changes its meaning.
  static let formatVersion: UInt32 = 1
  /// The features that this version of the engine supports. On disk: never change a bit.
  ///
  /// | bit | feature |
  /// |---|---|
  /// | 0 | there is, or was, a volatile family (`FamilyFlags`) |
  static let knownFeatures: UInt64 = FamilyFlags.volatileFeature

  private(set) var databaseID: UInt64
  /// An id that differs in every copy of the database. It is the database id if the database is not a copy.
  private(set) var incarnation: UInt64
  private(set) var formatVersion: UInt32
  private(set) var requiredFeatures: UInt64
  private(set) var families: [FamilyID: Family] = [:]
  private(set) var nextFamilyID = FamilyID.default
  private(set) var nextFileNumber = FileNumber(1)
  private(set) var lastSequence = SequenceNumber.zero
  /// The first log segment that recovery replays.
  private(set) var oldestLog = FileNumber(0)
  /// The cuts of log segments, in ascending order of segment.
  private(set) var logCuts: [VersionEdit.LogCut] = []
  private var namesTaken: [String: FamilyID] = [:]
  private var tables = TableIndex()

  /// Creates the state of a database without families.
  init(databaseID: UInt64) {
    self.databaseID = databaseID
    incarnation = databaseID
    formatVersion = Self.formatVersion
    requiredFeatures = 0
  }

  func family(named name: String) -> Family? { namesTaken[name].flatMap { families[$0] } }

  /// Returns whether a family with this id existed and was dropped. An id that is neither live nor dropped was never
  /// used.
  func isDropped(_ family: FamilyID) -> Bool { family < nextFamilyID && families[family] == nil }

  /// The number of tables of all families.
  var tableCount: Int { tables.count }

  /// Returns whether a table of any family has this number.
  func isLiveTable(_ number: FileNumber) -> Bool { tables[number] != nil }

  /// Returns the table with this number, of any family.
  func table(_ number: FileNumber) -> TableMetadata? { tables[number]?.table }

  func logCut(of segment: FileNumber) -> VersionEdit.LogCut? { logCuts.first { $0.segment == segment } }

  /// Checks and applies an edit. If it throws, the state is unchanged.
  mutating func apply(_ edit: VersionEdit) throws(EngineError) { commit(try prepare(edit)) }

  // MARK: - Many edits at once

  /// Applies an edit except to the versions, which are out of date until `buildVersions`. If it throws, the state is
  /// unchanged.
  ///
  /// The numbers in an edit are checked here: a deleted table must exist, and an added one must not. Whether the tables
  /// of a level overlap is checked by `buildVersions`, for the final tables only.
  ///
  /// Complexity: linear in the edit. A dropped family's tables stay in the index until `buildVersions`.
  mutating func fold(_ edit: VersionEdit) throws(EngineError) {
    try check(edit)
    commit(PreparedEdit(edit: edit, versions: []))
  }

  /// Builds the version of each family from the tables that the folded edits left.
  ///
  /// Complexity: O(n log n) in the tables, however many edits there were.
  mutating func buildVersions() throws(EngineError) {
    for location in Array(tables.locations) where families[location.family] == nil {
      tables[location.table.number] = nil
    }
    let byFamily = tables.tablesByFamily { _ in true }
    for id in byFamily.keys.sorted() {
      var builder = VersionBuilder(.empty)
      for (level, members) in (byFamily[id] ?? []).enumerated() {
        for table in members { try builder.add(table, level: level) }
      }
      families[id]?.version = try builder.build()
    }
  }
}

// MARK: - Prepare and commit

extension ManifestState {
  /// An edit that was checked against a state, and the resulting Versions.
  struct PreparedEdit: Sendable {
    let edit: VersionEdit
    fileprivate let versions: [(family: FamilyID, version: Version)]
  }

  /// Checks an edit. Throws `.corruption` if it contradicts the state, or `.unsupportedFormat` if it requires features
  /// that this version does not know.
  ///
  /// Complexity: linear in the edit, apart from `VersionBuilder.build`.
  func prepare(_ edit: VersionEdit) throws(EngineError) -> PreparedEdit {
    try check(edit)
    return PreparedEdit(edit: edit, versions: try buildVersions(edit))
  }

  private func check(_ edit: VersionEdit) throws(EngineError) {
    try checkIdentity(edit)
    try checkFamilies(edit)
    try checkLog(edit)
    try checkTableNumbers(edit)
  }

  private func checkIdentity(_ edit: VersionEdit) throws(EngineError) {
    if let databaseID = edit.databaseID, databaseID != self.databaseID {
      throw .corruption("an edit of another database")
    }
    if let formatVersion = edit.formatVersion, formatVersion > Self.formatVersion {
      throw EngineError(
        .unsupportedFormat, "format version \(formatVersion); this engine knows up to \(Self.formatVersion)")
    }
    if let requiredFeatures = edit.requiredFeatures, requiredFeatures & ~Self.knownFeatures != 0 {
      let unknown = String(requiredFeatures & ~Self.knownFeatures, radix: 16)
      throw EngineError(.unsupportedFormat, "the database needs features 0x\(unknown), unknown to this engine")
    }
  }

  private func checkFamilies(_ edit: VersionEdit) throws(EngineError) {
    var created: Set<FamilyID> = []
    var names: Set<String> = []
    // Names of dropped families become available only to families created by a later edit.
    for creation in edit.createdFamilies {
      // In a snapshot the ids are below the `nextFamilyID` of the same edit.
      guard families[creation.family] == nil, !isDropped(creation.family), created.insert(creation.family).inserted
      else { throw .corruption("family id \(creation.family) is created again") }
      guard namesTaken[creation.name] == nil, names.insert(creation.name).inserted else {
        throw .corruption("family name \"\(creation.name)\" is created again")
      }
      guard creation.family < .maximum else { throw .corruption("there are no family ids left") }
    }
    func check(_ family: FamilyID) throws(EngineError) {
      guard families[family] != nil || created.contains(family) else {
        throw .corruption(
          isDropped(family) ? "an edit of family \(family), which was dropped" : "an edit of unknown family \(family)")
      }
    }
    for changed in edit.changedOptions { try check(changed.family) }
    for added in edit.addedTables { try check(added.family) }
    for deleted in edit.deletedTables { try check(deleted.family) }
    for flushed in edit.flushedSequences {
      try check(flushed.family)
      if let family = families[flushed.family], flushed.sequence < family.flushedSequence {
        throw .corruption("the flushed sequence of family \(flushed.family) goes back")
      }
    }
    var dropped: Set<FamilyID> = []
    for family in edit.droppedFamilies {
      try check(family)
      guard dropped.insert(family).inserted else { throw .corruption("family \(family) is dropped twice") }
    }
  }

  private func checkLog(_ edit: VersionEdit) throws(EngineError) {
    let oldest = edit.oldestLog ?? oldestLog
    guard oldest >= oldestLog else {
      throw .corruption("the oldest log segment goes back from \(oldestLog) to \(oldest)")
    }
    for log in edit.droppedLogs + edit.pooledLogs where log >= oldest {
      throw .corruption("log segment \(log) is freed, and recovery replays from \(oldest)")
    }
    for cut in edit.logCuts {
      guard cut.segment >= oldest else { throw .corruption("a cut of log segment \(cut.segment), which is free") }
      if let known = logCut(of: cut.segment), known != cut {
        throw .corruption("log segment \(cut.segment) is cut a second time")
      }
    }
  }

  private func checkTableNumbers(_ edit: VersionEdit) throws(EngineError) {
    var gone: Set<FileNumber> = []
    for deleted in edit.deletedTables {
      guard let location = tables[deleted.number], location.family == deleted.family else {
        throw .corruption("table \(deleted.number) is deleted from family \(deleted.family), which does not have it")
      }
      guard location.level == deleted.level else {
        throw .corruption(
          "table \(deleted.number) is deleted from level \(deleted.level), and it is on level \(location.level)")
      }
      guard gone.insert(deleted.number).inserted else {
        throw .corruption("table \(deleted.number) is deleted from level \(deleted.level) twice")
      }
    }
    var new: Set<FileNumber> = []
    for added in edit.addedTables {
      guard added.level >= 0, added.level < Limits.levelCount else {
        throw .corruption("table \(added.table.number) is added to level \(added.level), which does not exist")
      }
      guard new.insert(added.table.number).inserted else {
        throw .corruption("table \(added.table.number) is added twice")
      }
      // Tables of dropped families may be in the index while edits are folded.
      guard let location = tables[added.table.number], families[location.family] != nil else { continue }
      guard location.family == added.family, gone.contains(added.table.number) else {
        throw .corruption("table \(added.table.number) is added, and family \(location.family) has it")
      }
    }
  }

  private func buildVersions(_ edit: VersionEdit) throws(EngineError) -> [(family: FamilyID, version: Version)] {
    guard !edit.addedTables.isEmpty || !edit.deletedTables.isEmpty else { return [] }
    var builders: [FamilyID: VersionBuilder] = [:]
    for id in edit.familiesWithTables { builders[id] = VersionBuilder(families[id]?.version ?? .empty) }
    for deleted in edit.deletedTables {
      try builders[deleted.family]?.delete(deleted.number, level: deleted.level, known: tables[deleted.number]?.table)
    }
    for added in edit.addedTables { try builders[added.family]?.add(added.table, level: added.level) }
    var versions: [(family: FamilyID, version: Version)] = []
    for id in builders.keys.sorted() {
      if let version = try builders[id]?.build() { versions.append((id, version)) }
    }
    return versions
  }

  /// Makes a prepared edit part of the state. Nothing may have been committed since `prepare`.
  mutating func commit(_ prepared: PreparedEdit) {
    let edit = prepared.edit
    if let incarnation = edit.incarnation { self.incarnation = incarnation }
    if let formatVersion = edit.formatVersion { self.formatVersion = formatVersion }
    if let requiredFeatures = edit.requiredFeatures { self.requiredFeatures = requiredFeatures }
    for created in edit.createdFamilies {
      families[created.family] = Family(created)
      namesTaken[created.name] = created.family
      nextFamilyID = max(nextFamilyID, created.family.next)
    }
    for changed in edit.changedOptions { families[changed.family]?.options = changed.options }
    for deleted in edit.deletedTables { tables[deleted.number] = nil }
    for added in edit.addedTables {
      tables[added.table.number] = TableIndex.Location(family: added.family, level: added.level, table: added.table)
      raiseFileNumber(above: added.table.number)
    }
    for (family, version) in prepared.versions { families[family]?.version = version }
    for flushed in edit.flushedSequences {
      families[flushed.family]?.flushedSequence = flushed.sequence
      lastSequence = max(lastSequence, flushed.sequence)
    }
    for dropped in edit.droppedFamilies { drop(dropped) }
    commitNumbers(edit)
  }

  private mutating func drop(_ id: FamilyID) {
    guard let family = families.removeValue(forKey: id) else { return }
    namesTaken[family.name] = nil
    family.version.forEachTable { table, _ in tables[table.number] = nil }
  }

  private mutating func commitNumbers(_ edit: VersionEdit) {
    if let number = edit.nextFileNumber { nextFileNumber = max(nextFileNumber, number) }
    if let id = edit.nextFamilyID { nextFamilyID = max(nextFamilyID, id) }
    if let sequence = edit.lastSequence { lastSequence = max(lastSequence, sequence) }
    for cut in edit.logCuts where logCut(of: cut.segment) == nil {
      logCuts.append(cut)
      raiseFileNumber(above: cut.segment)
    }
    logCuts.sort { $0.segment < $1.segment }
    if let oldest = edit.oldestLog {
      oldestLog = oldest
      raiseFileNumber(above: oldest)
      logCuts.removeAll { $0.segment < oldest }
    }
  }

  private mutating func raiseFileNumber(above number: FileNumber) {
    nextFileNumber = max(nextFileNumber, FileNumber(number.value + 1))
  }

  // MARK: - Volatile families

  /// Returns the part of an edit that is written: everything except the tables of volatile families.
  func durablePart(of edit: VersionEdit) -> VersionEdit {
    let volatile = edit.familiesWithTables.filter { families[$0]?.isVolatile ?? false }
    guard !volatile.isEmpty else { return edit }
    var edit = edit
    edit.leaveOutTables(of: Set(volatile))
    return edit
  }

  /// The numbers of the tables that no MANIFEST names, ascending.
  var volatileTables: [FileNumber] {
    families.values.filter(\.isVolatile).flatMap { family in
      (0..<Limits.levelCount).flatMap { family.version.tables(level: $0).map(\.number) }
    }.sorted()
  }

  /// Empties the volatile families, as a recovery of this state would find them.
  mutating func dropVolatileTables() {
    for number in volatileTables { tables[number] = nil }
    for id in families.keys where families[id]?.isVolatile ?? false { families[id]?.version = .empty }
  }

  // MARK: - Snapshot

  /// Returns the edit that creates this state from an empty one.
  func snapshotEdit() -> VersionEdit {
    var edit = VersionEdit()
    edit.databaseID = databaseID
    if incarnation != databaseID { edit.incarnation = incarnation }
    edit.formatVersion = formatVersion
    edit.requiredFeatures = requiredFeatures
    edit.nextFileNumber = nextFileNumber
    edit.nextFamilyID = nextFamilyID
    edit.lastSequence = lastSequence
    edit.oldestLog = oldestLog
    edit.logCuts = logCuts
    for id in families.keys.sorted() {
      guard let family = families[id] else { continue }
      edit.createFamily(id, name: family.name, options: family.options)
      if family.flushedSequence > .zero { edit.setFlushed(family.flushedSequence, family: id) }
      guard !family.version.isEmpty, !family.isVolatile else { continue }
      family.version.forEachTable { table, level in edit.addTable(table, family: id, level: level) }
    }
    return edit
  }

  /// Creates the state that a snapshot describes.
  init(snapshot edit: VersionEdit, file: String? = nil, offset: UInt64? = nil) throws(EngineError) {
    guard let databaseID = edit.databaseID else {
      throw .corruption("a snapshot without a database id", file: file, offset: offset)
    }
    self.init(databaseID: databaseID)
    try apply(edit)
  }

  /// Creates the state that a snapshot describes, without its versions (see `fold`).
  init(folding edit: VersionEdit) throws(EngineError) {
    guard let databaseID = edit.databaseID else { throw .corruption("a snapshot without a database id") }
    self.init(databaseID: databaseID)
    try fold(edit)
  }
}
