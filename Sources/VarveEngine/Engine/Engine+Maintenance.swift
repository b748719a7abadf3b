/// Maintenance on request: flush, compaction, statistics.
extension Engine {
  /// Writes every memtable to tables, and returns when they are durable.
  public func flush() throws(EngineError) {
    try core.requireOpen()
    try core.requireWritable()
    try core.background.flushAll()
  }

  /// Flushes, and then merges all tables of a family with keys from `lower` (included) up to `upper` (excluded) into
  /// the last level. A nil bound is open; a nil family means all families.
  ///
  /// Throws `.invalidArgument` if the range ends before it begins, and does nothing for an empty one. Throws
  /// `.corruption` if a table of the range is damaged; tables that do not need its keys are compacted first.
  ///
  /// Reads and writes continue during the call; later writes are not part of the work. When the call returns, the
  /// space of the replaced tables is free, unless a snapshot or cursor needs it. The call runs `progress` on the
  /// calling thread between the parts of the work.
  public func compact(
    family: ColumnFamily? = nil, from lower: [UInt8]? = nil, to upper: [UInt8]? = nil,
    progress: ((CompactionProgress) -> Void)? = nil
  ) throws(EngineError) {
    try core.requireOpen()
    try core.requireWritable()
    if try Self.isEmptyRange(lower, upper) { return }
    try core.background.flushAll()
    let newest = core.pipeline.visible
    let range = UserKeyRange(lower: lower ?? [], upper: upper, upperIsExcluded: true)
    for family in family.map({ [$0] }) ?? core.registry.all {
      let state = core.state(of: family)
      let total = state.version.approximateSize(of: range)
      progress?(CompactionProgress(bytesDone: 0, bytesTotal: total))
      try core.background.compactions.compactManually(state, range: range, newest: newest)
      progress?(CompactionProgress(bytesDone: total, bytesTotal: total))
    }
    core.background.waitForRemovals()
  }

  /// Returns whether there is no key between two bounds. Throws `.invalidArgument` if the second precedes the first.
  private static func isEmptyRange(_ lower: [UInt8]?, _ upper: [UInt8]?) throws(EngineError) -> Bool {
    guard let upper else { return false }
    let lower = lower ?? []
    guard !upper.lexicographicallyPrecedes(lower) else {
      throw EngineError(
        .invalidArgument,
        "a range that ends at \(upper.withByteView { $0.printable }), before it begins at "
          + "\(lower.withByteView { $0.printable })")
    }
    return lower == upper
  }

  /// Returns when no flush or compaction is due.
  public func waitForCompaction() throws(EngineError) {
    try core.requireOpen()
    try core.requireWritable()
    try core.background.waitUntilIdle()
  }

  /// Metrics of the engine: its current content, and counts since it was opened.
  public var statistics: EngineStatistics {
    core.checkOpen()
    return EngineStatistics(core.background)
  }

  /// The effective options, one per line with its reason, and the current use of memory. See `derivedOptions`.
  public func explain() -> String {
    core.checkOpen()
    return core.explain()
  }

  /// The limit in bytes of all memory that grows with use.
  public var memoryBudget: Int {
    core.checkOpen()
    return core.background.plan.limit
  }

  /// Changes the budget of an open engine: the cache changes at once, memtables and buffers as they are replaced.
  ///
  /// Sizes set in the options stay as they are. The log's maximum segment size and the size at which tables are cut
  /// stay as they were at open.
  ///
  /// Throws `.invalidArgument` below 1 MiB, and if the sizes set in the options, and the log's segments as they were at
  /// open, don't fit: with default options that is about 65 MiB.
  public func setMemoryBudget(_ bytes: Int) throws(EngineError) {
    try core.requireOpen()
    var changed = core.options
    changed.memoryBudget = bytes
    changed.logSegmentSize = core.background.plan.logSegmentSize
    try changed.validate()
    var plan = try changed.memoryPlan()
    plan.fit(changed, diskSize: core.tree.diskSize)
    core.background.setPlan(plan)
  }
}

extension EngineCore {
  /// The implementation of `Engine.explain`.
  fileprivate func explain() -> String {
    var lines = ["database \(path)"]
    let derived = derivedOptions
    for part in DerivedOption.Part.allCases {
      lines.append("\(part.rawValue):")
      lines += derived.filter { $0.part == part }.map { "  " + $0.description }
    }
    let log = pipeline.log.extent
    lines.append(
      "now: \(log.bytes) bytes in \(log.segmentCount) log segments, \(tree.openTables.count) open tables")
    lines += background.compactions.damagedBlocks.map {
      "damaged: \($0); the table stays out of compactions until resume() finds it whole or giveUp() rewrites it"
    }
    lines.append(views?.overview ?? pipeline.announcer.overview)
    lines.append(keptOverview)
    if let excess = excessOverview { lines.append(excess) }
    if background.reserve.isExhausted {
      lines.append("full disk: until there is space again, only writes that free some are accepted")
    }
    return lines.joined(separator: "\n") + "\n" + tree.budget.overview
  }

  /// A line of `explain()` about the memory that lookups retain.
  private var keptOverview: String {
    let readers = EngineStatistics.Readers(background)
    var text = "readers: "
    if let age = readers.oldestReadAgeNanoseconds {
      text += "the oldest lookup has run for \(age / 1_000_000) ms at least and keeps "
      text += "\(readers.keptMemTableCount) memtables, \(readers.keptBytes) bytes"
    } else {
      text += "no lookup keeps memory"
    }
    return text + "; \(readers.keptFileCount) files of replaced tables wait (\(readers.keptFileBytes) bytes)"
  }

  /// A line of `explain()` about the memory used beyond the budget, or `nil` if there is no excess.
  private var excessOverview: String? {
    let excess = tree.budget.used - tree.budget.limit
    guard excess > 0 else { return nil }
    let text = "memory: \(excess) bytes more than the budget"
    if options.readOnly { return text + ", since an engine that only reads can't flush what it replayed" }
    return background.reserve.isExhausted ? text + ", since there is no space to flush what it replayed" : text
  }
}
