/// Step 5 of opening: the log's records become memtables again.
///
/// Most records are batches in the order of their commits. Those of kind *entries* hold what was logged
/// again: their entries may be there already, or be older than what was replayed before them.
extension Opening {
  /// What the log held.
  struct ReplayedLog {
    var outcome = LogRecovery.Outcome()
    var lastSequence = SequenceNumber.zero
  }

  func replayLog(
    _ state: ManifestState, files: [FileName], registry: FamilyRegistry, memory: MemTableKeeper
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
    var last = replayed.lastSequence
    replayed.outcome = try recovery.replay { (record, segment) throws(EngineError) in
      var entries = LogEntryReader(record, file: recovery.path(segment))
      // An empty batch has a sequence, too.
      if record.header.sequence > last { last = record.header.sequence }
      let isCopy = record.header.kind == .entries
      while let (sequence, entry) = try entries.next() {
        try insert(entry, sequence, isCopy: isCopy, segment: segment, state, registry, memory)
        if sequence > last { last = sequence }
      }
    }
    replayed.lastSequence = last
    return replayed
  }

  /// A database that was made and not opened since has no log yet. The edit that names its first segment
  /// is durable before the first record and the first table: what is there without it shows that the
  /// MANIFEST lost its edits.
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
        guard reader.next() == nil, reader.findPromise(above: 0) == nil else {
          throw .corruption("the MANIFEST ends before any edit, but this segment has records", file: name)
        }
      case .lock, .current, .currentTemporary, .manifest, .shared, .statistics: continue
      }
    }
  }

  func insert(
    _ entry: BatchReader.Entry, _ sequence: SequenceNumber, isCopy: Bool, segment: FileNumber,
    _ state: ManifestState, _ registry: FamilyRegistry, _ memory: MemTableKeeper
  ) throws(EngineError) {
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
    if isCopy, sequence <= family.newestSequence {
      insertLate(entry, sequence, segment: segment, family, memory)
      return
    }
    if !family.active.hasRoom(keySize: entry.key.count, valueSize: entry.value.count) {
      memory.makeReplayRoom(in: family, byteCount: entry.key.count + entry.value.count)
    }
    if family.activeSegment == nil { family.beginActive(segment: segment) }
    family.active.insert(entry.key, Trailer(sequence, entry.kind), entry.value)
  }

  /// Inserts a copy of an entry that newer ones of its family came before, unless the first copy is there.
  ///
  /// Reads, and the flushed sequence, want memtables in the order of their entries: the older entry must
  /// not come into a newer memtable.
  private func insertLate(
    _ entry: BatchReader.Entry, _ sequence: SequenceNumber, segment: FileNumber, _ family: FamilyState,
    _ memory: MemTableKeeper
  ) {
    let frozen = family.frozen
    for table in frozen.map(\.table) + [family.active] {
      if entry.kind == .rangeDelete ? table.rangeTombstones.contains(sequence) : table.holds(entry.key, sequence) {
        return
      }
    }
    if entry.kind == .rangeDelete, options.readOnly {
      // A follower's memtables are read meanwhile.
      if family.activeSegment == nil { family.beginActive(segment: segment) }
      let late = (entry.key, entry.value, sequence)
      return memory.mergeReplayed(family, byteCount: entry.key.count + entry.value.count, late: late)
    }
    if !frozen.isEmpty || !family.active.hasRoom(keySize: entry.key.count, valueSize: entry.value.count) {
      memory.mergeReplayed(family, byteCount: entry.key.count + entry.value.count)
    }
    if family.activeSegment == nil { family.beginActive(segment: segment) }
    family.active.insert(entry.key, Trailer(sequence, entry.kind), entry.value)
  }
}

extension MemTable {
  fileprivate func holds(_ key: ByteView, _ sequence: SequenceNumber) -> Bool {
    get(key, at: sequence)?.trailer.sequence == sequence
  }
}
