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
      cuts: state.recoveryCuts, account: maker.tree.budget.account(.log))
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
    var families = ReplayedFamilies()
    replayed.outcome = try recovery.replay { (record, segment) throws(EngineError) in
      var entries = LogEntryReader(record, file: recovery.path(segment))
      // An empty batch also has a sequence.
      if record.header.sequence > last { last = record.header.sequence }
      let isCopy = record.header.kind == .entries
      let replayed = ReplayedRecord(of: segment)
      defer { replayed.endEdits() }
      while let (sequence, entry) = try entries.next() {
        if sequence > last { last = sequence }
        guard let target = families.known(entry.family) ?? families.find(entry.family, state, registry) else {
          try requireDropped(entry.family, state, segment: segment)
          continue
        }
        try insert(entry, sequence, isCopy: isCopy, segment: segment, into: target, memory, replayed)
      }
      try replayed.end(memory, .beforeOpen)
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
      case .lock, .current, .currentTemporary, .manifest, .shared, .statistics, .reserve, .inbox: continue
      }
    }
  }

  /// Throws unless the family of an entry was dropped.
  func requireDropped(_ family: FamilyID, _ state: ManifestState, segment: FileNumber) throws(EngineError) {
    guard state.isDropped(family) else {
      throw .corruption(
        "a log record names column family \(family), which never was",
        file: path + "/" + FileName.log(segment).name)
    }
  }

  /// Inserts an entry of a record, unless it is in a table. It is inserted at the end of the record if it is a copy
  /// that is not newer than all entries of its family.
  func insert(
    _ entry: BatchReader.Entry, _ sequence: SequenceNumber, isCopy: Bool, segment: FileNumber,
    into target: ReplayedFamilies.Target, _ memory: MemTableManager,
    _ record: ReplayedRecord
  ) throws(EngineError) {
    let lead = CommitLead.beforeOpen
    guard sequence > target.flushed else { return }
    guard entry.kind != .rangeDelete || entry.key < entry.value else {
      throw .corruption(
        "a range tombstone that ends before it begins", file: path + "/" + FileName.log(segment).name)
    }
    let family = target.family
    if isCopy, sequence <= family.newestSequence(lead) {
      return record.addLate((Trailer(sequence, entry.kind), entry.key, entry.value), of: family, lead)
    }
    if !family.active(lead).hasRoom(keySize: entry.key.count, valueSize: entry.value.count) {
      try memory.makeReplayRoom(
        in: family, byteCount: entry.key.count + entry.value.count, isBounded: !options.readOnly, lead)
    }
    if entry.kind == .rangeDelete { record.beginEdit(of: family, lead) }
    if family.activeSegment(lead) == nil { family.beginActive(segment: segment, lead) }
    family.active(lead).insert(entry.key, Trailer(sequence, entry.kind), entry.value)
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
