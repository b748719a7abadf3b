/// The memtables and tables of a family that may contain entries newer than a snapshot.
///
/// Ingested tables don't record when their entries were written. If tables were ingested after the snapshot, every key
/// counts as changed.
struct ChangedSources {
  private let above: SequenceNumber
  private let tree: Tree
  private let memTables: [MemTable]
  private let tables: [TableMetadata]
  /// The sequence at which tables were ingested, if newer than the snapshot: a write of the whole family.
  private let ingestion: SequenceNumber?

  /// Collects the sources newer than a snapshot.
  ///
  /// Complexity: O(chunks of tables, plus the tables of those chunks that have newer entries).
  init(_ view: ReadView, _ tree: Tree, above: SequenceNumber) {
    self.above = above
    self.tree = tree
    ingestion = view.floor > above ? view.floor : nil
    memTables = ([view.memTable] + view.frozen).filter { $0.entryCount > 0 && $0.largestSequence > above }
    var tables: [TableMetadata] = []
    view.version.forEachRun { run, _ in
      guard run.largestSequence > above else { return }
      run.forEachTable(ofChunks: { $0.largestSequence > above }) {
        if $0.largestSequence > above { tables.append($0) }
      }
    }
    self.tables = tables
  }

  /// Collects the sources newer than an earlier check, which are memtables only.
  ///
  /// Returns `nil` if a table may contain an entry that is in no available memtable; then only another full check can
  /// decide.
  ///
  /// # Why memtables are enough
  /// `old` is the view of the earlier check, which was taken after everything up to `sequence` was visible. Every newer
  /// entry went into the memtables of `old` or into later ones, and those are in `now`, unless they were flushed. A
  /// flushed memtable of `old` is still retained by `old`. So a table with newer entries is accounted for if none of
  /// them is newer than the newest flushed memtable of `old`; any other such table came from a memtable that no view
  /// retains, or was not written by a flush at all, as in an ingest into an empty family.
  ///
  /// Complexity: O(memtables of both views); the number of tables does not matter. The commit leader calls this.
  init?(since sequence: SequenceNumber, old: ReadView, now: ReadView, _ tree: Tree) {
    above = sequence
    self.tree = tree
    ingestion = now.floor > sequence ? now.floor : nil
    tables = []
    let current = [now.memTable] + now.frozen
    let flushed = ([old.memTable] + old.frozen).filter { table in !current.contains { $0 === table } }
    memTables = (current + flushed).filter { $0.entryCount > 0 && $0.largestSequence > sequence }
    if now.version === old.version { return }
    let wasEmpty = old.version.isEmpty && old.memTable.entryCount == 0 && old.frozen.isEmpty
    let explained = wasEmpty ? .zero : flushed.map(\.largestSequence).max() ?? .zero
    let bound = max(explained, sequence)
    if now.version.largestSequence > bound { return nil }
  }

  var isEmpty: Bool { memTables.isEmpty && tables.isEmpty && ingestion == nil }
  var hasTables: Bool { !tables.isEmpty || ingestion != nil }

  /// Returns the sequence of the newest change of a key, or `nil` if there is none.
  func change(of key: ByteView) throws(EngineError) -> SequenceNumber? {
    var newest = ingestion ?? above
    for table in memTables {
      if let hit = table.get(key, at: .maximum) { newest = max(newest, hit.trailer.sequence) }
      newest = max(newest, table.rangeTombstones.change(of: key, above: above) ?? .zero)
    }
    let hash = KeyHash.hash(key)
    for table in tables where table.covers(key) {
      let reader = try tree.reader(table)
      if let sequence = try reader.newestSequence(key, hash: hash) { newest = max(newest, sequence) }
      newest = max(newest, try reader.tombstone(covering: key, at: .maximum))
    }
    return newest > above ? newest : nil
  }

  /// Returns the key and the sequence of any change in a range, or `nil` if there is none.
  func change(in range: ReadRange) throws(EngineError) -> ([UInt8], SequenceNumber)? {
    if let ingestion { return (range.lower?.bytes ?? [], ingestion) }
    for table in memTables {
      var found: ([UInt8], SequenceNumber)?
      table.rangeTombstones.forEachChange(above: above) { start, end, sequence in
        if range.overlaps(start, end) { found = (start.bytes, sequence) }
      }
      if let found { return found }
      if let found = firstChange(in: table, range) { return found }
    }
    for table in tables where overlaps(table, range) {
      let reader = try tree.reader(table)
      let list = try reader.rangeTombstones()
      for index in 0..<list.count where range.overlaps(list.start(index), list.end(index)) {
        let newest = list.newest(index, at: .maximum)
        if newest > above { return (list.start(index).bytes, newest) }
      }
      if let found = try firstChange(MergeSource(reader.makeIterator(.user, above: above)), range) { return found }
    }
    return nil
  }

  private func overlaps(_ table: TableMetadata, _ range: ReadRange) -> Bool {
    if let lower = range.lower, table.endsBefore(lower) { return false }
    return !range.endsBefore(table.smallest)
  }

  /// Returns the first entry of a memtable in the range that is newer than the snapshot.
  ///
  /// Skips keys under a range tombstone that the snapshot sees and after which no entry was written.
  private func firstChange(in table: MemTable, _ range: ReadRange) -> ([UInt8], SequenceNumber)? {
    var source = table.makeIterator()
    let hasTombstones = !table.rangeTombstones.isEmpty
    var looksFrom: ByteView?
    if let lower = range.lower {
      source.seek(InternalKey(lower, Trailer(word: .max)))
    } else {
      source.seekToFirst()
    }
    while source.isValid, !range.endsBefore(source.userKey) {
      if source.trailer.sequence > above { return (source.userKey.bytes, source.trailer.sequence) }
      if hasTombstones, looksFrom.map({ $0 <= source.userKey }) ?? true {
        let segment = table.rangeTombstones.unchanged(around: source.userKey, since: above)
        if segment.coversAll, let end = segment.upper {
          source.seek(InternalKey(end, Trailer(word: .max)))
          continue
        }
        looksFrom = segment.upper
      }
      source.next()
    }
    return nil
  }

  /// Returns the first entry of a source in the range that is newer than the snapshot.
  private func firstChange(
    _ source: consuming MergeSource, _ range: ReadRange
  ) throws(EngineError) -> ([UInt8], SequenceNumber)? {
    if let lower = range.lower {
      try source.seek(InternalKey(lower, Trailer(word: .max)))
    } else {
      try source.seekToFirst()
    }
    while source.isValid, !range.endsBefore(source.userKey) {
      if source.trailer.sequence > above { return (source.userKey.bytes, source.trailer.sequence) }
      try source.next()
    }
    return nil
  }
}

extension TableReader {
  /// Returns the sequence of the newest entry of a key, of any kind.
  fileprivate func newestSequence(_ key: ByteView, hash: UInt64) throws(EngineError) -> SequenceNumber? {
    guard let hit = try get(key, hash: hash, at: .maximum) else { return nil }
    return hit.trailer.sequence
  }
}
