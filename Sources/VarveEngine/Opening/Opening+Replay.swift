/// Step 5 of opening: replays the log's records into memtables.
///
/// Most records are batches in commit order. Records of kind *entries* contain entries that were logged again: these
/// may have been replayed already, or be older than what was replayed before them.
extension Opening {
  /// The result of replaying the log.
  struct ReplayedLog {
    var outcome = LogRecovery.Outcome()
    var lastSequence = SequenceNumber.zero
    /// Tables written during the replay, and the sequence up to which they have entries.
    var edit = VersionEdit()
  }

  func replayLog(
    _ state: ManifestState, files: [FileName], registry: FamilyRegistry, memory: MemTableManager,
    maker: ReplayFlush.Maker
  ) throws(EngineError) -> ReplayedLog {
    var replayed = ReplayedLog(lastSequence: max(state.lastSequence, sequenceBase))
    guard state.oldestLog.value != 0 else {
      try requireNoContent(files)
      return replayed
    }
    let recovery = LogRecovery(
      directory: path, fileSystem: environment.fileSystem, numbers: files.compactMap(\.logNumber),
      oldest: state.oldestLog,
      cuts: state.recoveryCuts)
    let flush = ReplayFlush(maker, registry, memory) { (body) throws(EngineError) in
      try recovery.forEachCopy(body)
    }
    do throws(EngineError) {
      try replay(recovery, state, registry, memory, flush, into: &replayed)
      try flush.finish()
    } catch {
      flush.discard()
      throw error
    }
    replayed.edit = flush.edit
    return replayed
  }

  private func replay(
    _ recovery: LogRecovery, _ state: ManifestState, _ registry: FamilyRegistry, _ memory: MemTableManager,
    _ flush: ReplayFlush, into replayed: inout ReplayedLog
  ) throws(EngineError) {
    var last = replayed.lastSequence
    var number = 0
    replayed.outcome = try recovery.replay { (record, segment) throws(EngineError) in
      var entries = LogEntryReader(record, file: recovery.path(segment))
      // An empty batch also has a sequence.
      if record.header.sequence > last { last = record.header.sequence }
      let isCopy = record.header.kind == .entries
      let edits = ReplayedEdits()
      defer { edits.end() }
      while let (sequence, entry) = try entries.next() {
        if entry.kind == .rangeDelete { edits.begin(entry.family, registry, .beforeOpen) }
        try insert(entry, sequence, isCopy: isCopy, segment: segment, state, registry, memory, edits)
        if sequence > last { last = sequence }
      }
      // Late range deletes are inserted before a flush reads the memtables.
      try edits.insertLate(memory, .beforeOpen)
      edits.end()
      try flush.flushIfDue(at: number)
      number += 1
    }
    replayed.lastSequence = last
  }

  /// Throws if the directory has content although the MANIFEST names no log.
  ///
  /// A database that was created and not opened since has no log yet. The edit that names its first segment is durable
  /// before the first record and the first table, so files without that edit show that the MANIFEST lost edits.
  func requireNoContent(_ files: [FileName]) throws(EngineError) {
    for file in files {
      let name = path + "/" + file.name
      switch file {
      case .table, .pooledLog:
        throw .corruption("the MANIFEST ends before any edit, but this file is there", file: name)
      case .log(let number):
        let segment = try environment.fileSystem.openFile(name, writable: false)
        defer { segment.close() }
        guard var reader = try LogReader.open(segment, number: number, name: name) else { continue }
        guard reader.next() == nil, reader.findDurableMark(above: 0) == nil else {
          throw .corruption("the MANIFEST ends before any edit, but this segment has records", file: name)
        }
      case .lock, .current, .currentTemporary, .manifest, .shared, .statistics: continue
      }
    }
  }

  func insert(
    _ entry: BatchReader.Entry, _ sequence: SequenceNumber, isCopy: Bool, segment: FileNumber,
    _ state: ManifestState, _ registry: FamilyRegistry, _ memory: MemTableManager, _ edits: ReplayedEdits
  ) throws(EngineError) {
    let lead = CommitLead.beforeOpen
    guard let durable = state.families[entry.family], let family = registry.find(entry.family) else {
      guard state.isDropped(entry.family) else {
        throw .corruption(
          "a log record names column family \(entry.family), which never was",
          file: path + "/" + FileName.log(segment).name)
      }
      return
    }
    guard sequence > durable.flushedSequence else { return }
    guard entry.kind != .rangeDelete || entry.key < entry.value else {
      throw .corruption(
        "a range tombstone that ends before it begins", file: path + "/" + FileName.log(segment).name)
    }
    if isCopy, sequence <= family.newestSequence(lead) {
      try insertLate(entry, sequence, segment: segment, family, memory, edits, lead)
      return
    }
    if !family.active(lead).hasRoom(keySize: entry.key.count, valueSize: entry.value.count) {
      try memory.makeReplayRoom(
        in: family, byteCount: entry.key.count + entry.value.count, isBounded: !options.readOnly, lead)
    }
    if family.activeSegment(lead) == nil { family.beginActive(segment: segment, lead) }
    family.active(lead).insert(entry.key, Trailer(sequence, entry.kind), entry.value)
  }

  /// Inserts a copy of an entry after newer ones of its family, unless the first copy is present.
  ///
  /// Reads, and the flushed sequence, require memtables in the order of their entries, so the older entry must not be
  /// inserted into a newer memtable.
  private func insertLate(
    _ entry: BatchReader.Entry, _ sequence: SequenceNumber, segment: FileNumber, _ family: FamilyState,
    _ memory: MemTableManager, _ edits: ReplayedEdits, _ lead: borrowing CommitLead
  ) throws(EngineError) {
    let frozen = family.frozen
    for table in frozen.map(\.table) + [family.active(lead)] {
      if entry.kind == .rangeDelete ? table.rangeTombstones.contains(sequence) : table.holds(entry.key, sequence) {
        return
      }
    }
    if entry.kind == .rangeDelete {
      if family.activeSegment(lead) == nil { family.beginActive(segment: segment, lead) }
      return edits.addLate((entry.key, entry.value, sequence), to: family)
    }
    if !frozen.isEmpty || !family.active(lead).hasRoom(keySize: entry.key.count, valueSize: entry.value.count) {
      try memory.mergeReplayed(family, byteCount: entry.key.count + entry.value.count, lead)
    }
    if family.activeSegment(lead) == nil { family.beginActive(segment: segment, lead) }
    family.active(lead).insert(entry.key, Trailer(sequence, entry.kind), entry.value)
  }
}

/// The range deletes of one record, which are inserted into each memtable as one edit.
///
/// Inserted separately, each of many would copy paths. Late ones, which are older than their family's entries, are
/// inserted into a new memtable at the end of the record, all at once: a tree of range tombstones accepts them only in
/// the order of the sequences, and a follower's tree is read meanwhile.
final class ReplayedEdits {
  private var tables: [MemTable] = []
  private var late: [(family: FamilyState, tombstones: [MemTableManager.LateTombstone])] = []

  /// Prepares for a range delete of a family. The first one after the memtable changed starts a new edit.
  func begin(_ family: FamilyID, _ registry: FamilyRegistry, _ lead: borrowing CommitLead) {
    guard let table = registry.find(family)?.active(lead), !tables.contains(where: { $0 === table }) else { return }
    table.rangeTombstones.beginEdit()
    tables.append(table)
  }

  /// Stores a late range delete; its bytes belong to the record.
  func addLate(_ tombstone: MemTableManager.LateTombstone, to family: FamilyState) {
    if let index = late.firstIndex(where: { $0.family === family }) {
      late[index].tombstones.append(tombstone)
    } else {
      late.append((family, [tombstone]))
    }
  }

  /// Inserts the late range deletes in the order of their sequences.
  func insertLate(_ memory: MemTableManager, _ lead: borrowing CommitLead) throws(EngineError) {
    for (family, tombstones) in late { try memory.mergeReplayed(family, byteCount: 0, late: tombstones, lead) }
    late = []
  }

  /// Ends the edits after the record was replayed.
  func end() {
    for table in tables { table.rangeTombstones.endEdit() }
    tables = []
  }
}

extension MemTable {
  fileprivate func holds(_ key: ByteView, _ sequence: SequenceNumber) -> Bool {
    get(key, at: sequence)?.trailer.sequence == sequence
  }
}

extension LogRecovery {
  /// Reads the log, and calls `body` for each record of copies with the record's number and its families.
  fileprivate func forEachCopy(_ body: (Int, [FamilyID]) -> Void) throws(EngineError) {
    var number = 0
    _ = try replay { (record, segment) throws(EngineError) in
      defer { number += 1 }
      guard record.header.kind == .entries else { return }
      var entries = LogEntryReader(record, file: path(segment))
      var families: Set<FamilyID> = []
      while let (_, entry) = try entries.next() { families.insert(entry.family) }
      body(number, Array(families))
    }
  }
}
