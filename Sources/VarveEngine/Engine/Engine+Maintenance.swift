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
  /// Reads and writes go on meanwhile; what is written after the call began is left alone. When the call returns, the
  /// space of what was replaced is free, as far as no snapshot or cursor needs it. `progress` is
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
    background.waitForRemovals()
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
    return EngineStatistics(background)
  }

  /// What the options come to, a line each with its reason, and what the memory is used for now. See
  /// `derivedOptions`.
  public func explain() -> String {
    checkOpen()
    var lines = ["database \(path)"]
    let derived = derivedOptions
    for part in DerivedOption.Part.allCases {
      lines.append("\(part.rawValue):")
      lines += derived.filter { $0.part == part }.map { "  " + $0.description }
    }
    let log = pipeline.log
    lines.append(
      "now: \(log.liveBytes) bytes in \(log.liveSegmentCount) log segments, \(tree.openTables.count) open tables")
    lines.append(views?.overview ?? pipeline.announcer.overview)
    return lines.joined(separator: "\n") + "\n" + tree.budget.overview
  }

  /// The bytes that all memory which grows with use is kept within.
  public var memoryBudget: Int {
    checkOpen()
    return background.plan.limit
  }

  /// Changes the budget while everything is open: the cache at once, memtables and buffers as they come and
  /// go. Sizes that the options name stay as they are; the log's largest segment and where tables are cut
  /// stay as they were at open.
  ///
  /// Throws `.invalidArgument` below 1 MiB, and where the sizes that the options name don't fit.
  public func setMemoryBudget(_ bytes: Int) throws(EngineError) {
    checkOpen()
    var changed = options
    changed.memoryBudget = bytes
    changed.logSegmentSize = background.plan.logSegmentSize
    try changed.validate()
    background.setPlan(try changed.memoryPlan())
  }
}

/// How far a compaction that was asked for is.
public struct CompactionProgress: Sendable, Hashable {
  /// Bytes of tables that are merged.
  public var bytesDone: UInt64
  /// Bytes of tables that are to be merged.
  public var bytesTotal: UInt64
}
