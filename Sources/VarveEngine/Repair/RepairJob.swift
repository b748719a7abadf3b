/// Rebuilds the MANIFEST of a damaged database from the intact parts (`Engine.repair`).
///
/// # Steps
/// 1. Read the MANIFEST (`DatabaseSurvey`, `ManifestEvidence`), every table that may be live, and the log.
/// 2. Write the readable entries of damaged tables to new tables, and those of the log if it can't be kept.
/// 3. Assign each family's tables to levels (`RepairPlacement`), or merge them if that is not possible.
/// 4. Create an empty log segment if the old ones are not kept.
/// 5. Give files that are replaced a second name in `lost`.
/// 6. Write a new MANIFEST, and CURRENT. From here on the repaired database counts.
/// 7. Remove the old names of the files in `lost`.
///
/// Each step is durable before the next one. A crash before step 6 leaves the damaged database with a few additional
/// files, which the next repair identifies as orphans or copies.
final class RepairJob {
  private let survey: DatabaseSurvey
  private let options: EngineOptions
  private let environment: EngineEnvironment
  private var fileSystem: any FileSystem { environment.fileSystem }
  private var report = RepairReport()
  private var families: SalvagedFamilies
  private var writer: SalvageTableWriter
  private var placed: [SalvageOwner: [RepairPlacement.Table]] = [:]
  private var aside: Set<String> = []
  private let lost: LostDirectory

  init(_ survey: DatabaseSurvey, _ options: EngineOptions, _ environment: EngineEnvironment) throws(EngineError) {
    self.survey = survey
    self.options = options
    self.environment = environment
    families = SalvagedFamilies(survey.evidence, [])
    lost = LostDirectory(survey.directory, environment.fileSystem)
    writer = SalvageTableWriter(survey, lost, options, environment)
  }

  func run() throws(EngineError) -> RepairReport {
    report.losses = survey.losses
    let (tables, doubts) = try survey.liveTables(verifies: true)
    let logFault = try findLogFault()
    let isWhole = survey.isSettled && survey.hasCurrent && survey.losses.isEmpty
    if isWhole, logFault == nil, tables.allSatisfy({ $0.fault == nil }) {
      report.lastSequence = survey.evidence.lastSequence
      return report
    }
    report.isChanged = true
    report.doubts = doubts
    families = SalvagedFamilies(survey.evidence, tables)
    for table in tables { try take(table) }
    let keepsLog = survey.isSettled && logFault == nil
    if !keepsLog { try takeLog() }
    let versions = try placeAll()
    try install(versions, keepsLog: keepsLog)
    return report
  }

  // MARK: - 1 and 2. Tables

  private func take(_ table: DamagedTableReader) throws(EngineError) {
    let owner = table.owner
    if table.fault == nil, let metadata = table.metadata {
      placed[owner, default: []].append(.init(metadata: metadata, level: table.known?.level, isNew: false))
      return
    }
    if !table.isMissing { aside.insert(table.path) }
    let level = table.known?.level
    let output = try writer.begin(owner, families, level: level ?? 0)
    report.losses += try table.read(fileSystem, family: families.name(owner)) {
      (key, trailer, value) throws(EngineError) in
      try output.add(key, trailer, value)
    } tombstones: { (list) throws(EngineError) in
      try output.add(list)
    }
    if let metadata = try writer.finish(output) {
      placed[owner, default: []].append(.init(metadata: metadata, level: level, isNew: true))
    }
  }

  // MARK: - 1 and 2. The log

  /// Returns the reason for which the log can't be kept, or `nil` if recovery reads all of it.
  private func findLogFault() throws(EngineError) -> EngineError? {
    guard let state = survey.evidence.state, state.oldestLog.value > 0 else {
      return survey.evidence.state == nil ? .corruption("MANIFEST is damaged") : nil
    }
    let recovery = LogRecovery(
      directory: survey.directory, fileSystem: fileSystem, numbers: survey.logs, oldest: state.oldestLog,
      cuts: Dictionary(
        uniqueKeysWithValues: state.logCuts.map { ($0.segment, .init(lifeID: $0.lifeID, end: $0.endOffset)) }))
    do throws(EngineError) {
      let outcome = try recovery.replay { (record, segment) throws(EngineError) in
        var entries = LogEntryReader(record, file: recovery.path(segment))
        while let (_, entry) = try entries.next() {
          guard state.families[entry.family] != nil || state.isDropped(entry.family) else {
            throw .corruption("log record names an unknown column family", file: recovery.path(segment))
          }
        }
      }
      try requireNothingAfterCut(outcome)
      return nil
    } catch { return try error.requireDamage() }
  }

  /// Throws if the log has readable records after the position at which recovery would cut it.
  ///
  /// Recovery cuts a log that was not synced at the first record that can't be read. A repair keeps the readable
  /// records after it.
  private func requireNothingAfterCut(_ outcome: LogRecovery.Outcome) throws(EngineError) {
    let hints = try survey.logHints()
    for number in outcome.dropped + [outcome.chain.last?.number].compactMap({ $0 }) {
      let isLast = number == outcome.chain.last?.number
      let file = try fileSystem.openFile(survey.path(.log(number)), writable: false)
      defer { file.close() }
      let found = try LogSalvage.read(file, number: number, hints: hints[number] ?? .init()) { _ in }
      guard isLast ? found.parts.isEmpty && found.doubtfulTail == nil : found.recordCount == 0 else {
        throw .corruption("log bytes that recovery would cut", file: file.path)
      }
    }
  }

  /// Writes entries that only the log has to tables of level 0.
  private func takeLog() throws(EngineError) {
    var flushed = survey.evidence.flushed
    if !survey.isSettled {
      // A flush writes all of a memtable, so entries at or below a table's newest entry are in tables. A damaged table
      // does not show that, because other tables of its flush may be lost.
      for (owner, tables) in placed {
        guard case .family(let id) = owner else { continue }
        let newest = tables.filter { !$0.isNew }.map(\.metadata.largestSequence).max() ?? .zero
        flushed[id] = max(flushed[id] ?? .zero, newest)
      }
    }
    var log = DamagedLogReader(survey)
    var entries: [FamilyID: [SalvagedEntry]] = [:]
    let evidence = survey.evidence
    try log.run { (family, trailer, key, value) throws(EngineError) in
      guard !evidence.isDropped(family), trailer.sequence > flushed[family] ?? .zero else { return }
      entries[family, default: []].append(SalvagedEntry(key: key.bytes, trailer: trailer, value: value.bytes))
    }
    report.losses += log.losses
    for number in log.segmentsRead { aside.insert(survey.path(.log(number))) }
    for family in entries.keys.sorted() {
      let output = try writer.begin(.family(family), families, level: 0)
      var sorted = entries[family] ?? []
      sorted.sort(by: SalvagedEntry.isBefore)
      report.logEntriesRead += UInt64(sorted.count)
      try output.add(SalvagedEntry.takeRangeTombstones(&sorted))
      // Entries that were logged again are in the list twice.
      for entry in sorted {
        try entry.key.withByteView { (key) throws(EngineError) in
          try entry.value.withByteView { (value) throws(EngineError) in try output.add(key, entry.trailer, value) }
        }
      }
      if let metadata = try writer.finish(output) {
        placed[.family(family), default: []].append(.init(metadata: metadata, level: 0, isNew: true))
      }
    }
    report.lastSequence = log.lastSequence
  }

  // MARK: - 3. Places

  /// Returns the level of each table. Tables that had to be merged are replaced.
  private func placeAll() throws(EngineError) -> [SalvageOwner: [RepairPlacement.Table]] {
    var result: [SalvageOwner: [RepairPlacement.Table]] = [:]
    for (owner, tables) in placed {
      if let found = RepairPlacement.assignLevels(tables, trustsLevels: survey.evidence.state != nil) {
        result[owner] = found
        continue
      }
      let merged = try writer.merge(tables.map(\.metadata), owner, families)
      result[owner] = merged.map { .init(metadata: $0, level: Limits.levelCount - 1, isNew: true) }
      for table in tables { aside.insert(survey.path(.table(table.metadata.number))) }
    }
    return result
  }

  // MARK: - 4 to 7. The new database

  private func install(
    _ versions: [SalvageOwner: [RepairPlacement.Table]], keepsLog: Bool
  ) throws(EngineError) {
    var edit = makeEdit(versions)
    if keepsLog, let state = survey.evidence.state {
      edit.oldestLog = state.oldestLog
      edit.logCuts = state.logCuts
    } else {
      let cut = try writer.makeEmptySegment(databaseID: edit.databaseID ?? 0)
      edit.oldestLog = cut.segment
      edit.logCuts = [cut]
    }
    edit.nextFileNumber = writer.nextNumber
    report.doubts += families.doubts(versions.keys)
    let state = try ManifestState(snapshot: edit)
    for file in survey.files {
      if case .manifest = file { aside.insert(survey.path(file)) }
      if case .current = file, !survey.hasCurrent { aside.insert(survey.path(file)) }
    }
    // The replaced files get their second names before the new MANIFEST counts (step 5).
    try lost.link(aside.sorted())
    try fileSystem.syncDirectory(survey.directory)
    let manifest = try Manifest.create(
      directory: survey.directory, fileSystem: fileSystem, state: state, random: environment.random)
    manifest.close()
    report.movedAside = try lost.removeOriginals(but: survey.path(.current))
    describe(versions)
  }

  private func makeEdit(_ versions: [SalvageOwner: [RepairPlacement.Table]]) -> VersionEdit {
    let evidence = survey.evidence
    var edit = VersionEdit()
    edit.databaseID = evidence.databaseID ?? environment.random()
    edit.incarnation = evidence.incarnation
    edit.formatVersion = evidence.state?.formatVersion ?? ManifestState.formatVersion
    var features = evidence.state?.requiredFeatures ?? 0
    var ids: [SalvageOwner: FamilyID] = [:]
    for id in families.known { ids[.family(id)] = id }
    for case .family(let id) in versions.keys { ids[.family(id)] = id }
    var next = max(evidence.nextFamilyID, (ids.values.max() ?? .default).next)
    for case .table(let number) in versions.keys.sorted(by: { families.name($0) < families.name($1) }) {
      ids[.table(number)] = next
      next = next.next
    }
    edit.nextFamilyID = next
    var last = max(evidence.lastSequence, report.lastSequence)
    for (owner, id) in ids.sorted(by: { $0.value < $1.value }) {
      let options = families.encodedOptions(owner)
      edit.createFamily(id, name: families.name(owner), options: options)
      features |= FamilyFlags(options: options).requiredFeatures
      var flushed = evidence.flushed[id] ?? .zero
      for table in versions[owner] ?? [] {
        edit.addTable(table.metadata, family: id, level: table.level ?? 0)
        flushed = max(flushed, table.metadata.largestSequence)
      }
      if flushed > .zero { edit.setFlushed(flushed, family: id) }
      last = max(last, flushed)
    }
    edit.requiredFeatures = features
    edit.lastSequence = last
    report.lastSequence = last
    return edit
  }

  private func describe(_ versions: [SalvageOwner: [RepairPlacement.Table]]) {
    for (owner, tables) in versions {
      for table in tables {
        let metadata = table.metadata
        report.tables.append(
          .init(
            file: survey.path(.table(metadata.number)), family: families.name(owner), level: table.level ?? 0,
            entryCount: metadata.entryCount, smallestKey: metadata.smallestKey, largestKey: metadata.largestKey,
            sequences: metadata.smallestSequence...metadata.largestSequence, isNew: table.isNew))
      }
    }
    report.tables.sort { ($0.family, $0.level, $0.file) < ($1.family, $1.level, $1.file) }
  }
}

/// A copy of an entry of the log.
struct SalvagedEntry {
  let key: [UInt8]
  let trailer: Trailer
  let value: [UInt8]

  /// Removes the range tombstones from a log's entries, and returns them as fragments.
  static func takeRangeTombstones(_ entries: inout [SalvagedEntry]) -> RangeTombstoneList {
    var merge = RangeTombstoneMerge()
    for entry in entries where entry.trailer.kind == .rangeDelete {
      let keys = KeyPair(entry.key, entry.value)
      merge.add(keys.first, keys.second, entry.trailer.sequence, owner: keys)
    }
    entries.removeAll { $0.trailer.kind == .rangeDelete }
    return merge.allFragments()
  }

  static func isBefore(_ left: SalvagedEntry, _ right: SalvagedEntry) -> Bool {
    left.key.withByteView { leftKey in
      right.key.withByteView { InternalKey(leftKey, left.trailer).compare(InternalKey($0, right.trailer)) < 0 }
    }
  }
}

/// Two keys in memory that the object owns.
final class KeyPair {
  private var bytes: ByteWriter
  private let firstSize: Int

  init(_ first: [UInt8], _ second: [UInt8]) {
    bytes = ByteWriter(capacity: first.count + second.count)
    bytes.append(first)
    bytes.append(second)
    firstSize = first.count
  }

  /// The first key, valid while the object lives.
  var first: ByteView { bytes.view.slice(0, firstSize) }
  /// The second key, valid while the object lives.
  var second: ByteView { bytes.view.dropFirst(firstSize) }
}

extension RangeTombstoneMerge {
  /// Returns the fragments with the newest tombstone of each, for a database that has no readers yet.
  func newestFragments() -> RangeTombstoneList { fragments(interval: { _ in 0 }, unsettled: -1) }

  /// Returns the fragments with all their tombstones.
  func allFragments() -> RangeTombstoneList { fragments(interval: { _ in 0 }, unsettled: 0) }
}
