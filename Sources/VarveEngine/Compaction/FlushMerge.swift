/// Writes the entries that a job keeps into tables.
extension CompactionIterator where Child == MergeSource {
  /// Appends the current entry to `builder`, or the whole block that it begins if none of the block's rows can be
  /// dropped, and advances.
  ///
  /// Requires: valid.
  @inline(__always)
  mutating func move(into builder: TableBuilder) throws(EngineError) {
    if isAtWholeBlock, try copyBlock(into: builder) { return }
    try builder.add(userKey, trailer, value)
    let isNewKey = builder.addedNewKey
    if !isNewKey || isInFragment { countHidden(isNewKey: isNewKey, in: builder) }
    previous = trailer
    try next()
  }

  /// Copies the block at which the iterator is. Returns false, without any effect, if the builder prefers rows.
  @inline(never)
  private mutating func copyBlock(into builder: TableBuilder) throws(EngineError) -> Bool {
    guard let table = withBlock({ $0.tableIterator }), builder.canCopyBlock(table) else { return false }
    try builder.copyBlock(from: table)
    try skipBlock()
    return true
  }
}

/// The merge of a flush: it writes memtables into tables, with one version of a key for each snapshot interval.
enum FlushMerge {
  /// Writes the entries of `memtables` that some reader could need.
  ///
  /// `snapshots` are the live ones and the visible sequence, ascending. A flush does not check the levels below, so
  /// every tombstone stays. `builder` returns the builder of the table for a key; it is valid until the next call.
  static func run(
    _ memtables: [MemTable], snapshots: [SequenceNumber], tombstones: CompactionTombstones = .none,
    merge function: MergeFunction? = nil,
    into builder: (ByteView) throws(EngineError) -> Unmanaged<TableBuilder>
  ) throws(EngineError) {
    var merge = MergingIterator<MergeSource>(capacity: memtables.count)
    for memtable in memtables { merge.append(memtable) }
    var entries = CompactionIterator(
      merge, snapshots: SnapshotIntervals(snapshots), deeper: .everyKey(), zeroesSequences: false,
      tombstones: tombstones.covering, merge: function)
    try entries.seekToFirst()
    while entries.isValid {
      let builder = unsafe try builder(entries.userKey)
      try unsafe builder.withGuaranteed { (builder) throws(EngineError) in try entries.move(into: builder) }
    }
  }
}
