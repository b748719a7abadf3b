/// What an owner asks for now and then: flush, compact, look.
extension Engine {
  /// Writes every memtable to tables, and returns when they are durable.
  public func flush() throws(EngineError) {
    checkOpen()
    try requireWritable()
    try background.flushAll()
  }

  /// Merges all tables of a family that hold keys from `lower` (included) up to `upper` (excluded) down
  /// to its last level, after a flush. Nil bounds are open; nil for the family means all families.
  ///
  /// Reads and writes go on meanwhile; what is written after the call began is left alone. `progress` is
  /// called on the calling thread, between the parts of the work.
  public func compact(
    family: ColumnFamily? = nil, from lower: [UInt8]? = nil, to upper: [UInt8]? = nil,
    progress: ((CompactionProgress) -> Void)? = nil
  ) throws(EngineError) {
    checkOpen()
    try requireWritable()
    try background.flushAll()
    let newest = visibleSequence
    let range = UserKeyRange(lower: lower ?? [], upper: upper, upperIsExcluded: true)
    for family in family.map({ [$0] }) ?? families {
      let state = state(of: family)
      let total = state.version.approximateSize(of: range)
      progress?(CompactionProgress(bytesDone: 0, bytesTotal: total))
      try background.compactions.compactManually(state, range: range, newest: newest)
      progress?(CompactionProgress(bytesDone: total, bytesTotal: total))
    }
  }

  /// Returns when no flush and no compaction is due.
  public func waitForCompaction() throws(EngineError) {
    checkOpen()
    try requireWritable()
    try background.waitUntilIdle()
  }

  /// What the engine holds, and what it did since it was opened.
  public var statistics: EngineStatistics {
    checkOpen()
    return EngineStatistics(self)
  }

  /// What the options come to: derived sizes, how the log is written, what the memory is for.
  public func explain() -> String {
    checkOpen()
    let log = pipeline.log
    var lines = ["database \(path)"]
    lines.append(
      "memtables: \(options.memtableSize) bytes each; writers wait above \(options.frozenBytesMaximum) frozen")
    lines.append(
      "log: written through \(log.usesMapping ? "a mapping" : "pwrite"); \(log.liveBytes) bytes in \(log.liveSegmentCount) segments, at most \(options.logBytesMaximum) before the oldest families are flushed"
    )
    lines.append("cache: \(options.cacheSize) bytes")
    lines.append(
      "tables: \(options.compression.rawValue), blocks of \(options.blockSize) bytes, \(options.bloomBitsPerKey) filter bits a key"
    )
    lines.append("background: \(executor.parallelism) threads for compactions, one kept for flushes")
    return lines.joined(separator: "\n")
  }
}

/// How far a compaction that was asked for is.
public struct CompactionProgress: Sendable, Hashable {
  /// Bytes of tables that are merged.
  public var bytesDone: UInt64
  /// Bytes of tables that are to be merged.
  public var bytesTotal: UInt64
}
