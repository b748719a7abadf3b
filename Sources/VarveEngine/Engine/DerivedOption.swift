/// A size or bound of an engine, and its origin; see `Engine.derivedOptions`.
public struct DerivedOption: Sendable, Hashable, CustomStringConvertible {
  /// A part of the engine.
  public enum Part: String, Sendable, Hashable, CaseIterable {
    /// The memory budget and its parts.
    case memory
    /// The log.
    case log
    /// Tables and how they are written.
    case tables
    /// Flushes and compactions.
    case background
    /// The bounds by which writers are slowed down.
    case writers
    /// Statistics, events and asynchronous calls.
    case observation
  }

  /// The part of the engine that the value belongs to.
  public let part: Part
  /// The name, as in the source.
  public let name: String
  /// The value as text: bytes, a count, a word.
  public let value: String
  /// The origin of the value, and its effect.
  public let reason: String

  init(_ part: Part, _ name: String, _ value: some CustomStringConvertible, _ reason: String) {
    self.part = part
    self.name = name
    self.value = value.description
    self.reason = reason
  }

  /// The text `name = value: reason`.
  public var description: String { "\(name) = \(value): \(reason)" }
}

/// Every value that the engine derives from its options, or that a user might expect as an option.
extension Engine {
  /// The effective values of the options, each with its reason.
  public var derivedOptions: [DerivedOption] {
    core.checkOpen()
    return core.derivedOptions
  }
}

extension EngineCore {
  /// The implementation of `Engine.derivedOptions`.
  var derivedOptions: [DerivedOption] {
    let plan = background.plan
    return memoryOptions(plan) + logOptions(plan) + tableOptions(plan) + backgroundOptions(plan) + writerOptions
      + observationOptions
  }

  private func given(_ value: Any?, _ derived: String) -> String { value == nil ? derived : "as the options say" }

  private func memoryOptions(_ plan: MemoryPlan) -> [DerivedOption] {
    let saysSize = options.memtableSize != nil || options.cacheSize != nil || options.logSegmentSize != nil
    return [
      DerivedOption(
        .memory, "limit", plan.limit,
        given(
          options.memoryBudget, saysSize ? "what the given sizes come to" : "512 MiB, since the options name no size")
          + "; all memory that grows with use"),
      DerivedOption(
        .memory, "memtableSize", plan.memtableSize,
        given(
          options.memtableSize, "an eighth of the budget, or a sixth of what a given cache leaves, 64 KiB to 64 MiB")),
      DerivedOption(
        .memory, "activeBytesMaximum", plan.activeBytesMaximum,
        "one whole memtable with its nodes; above it the largest of all families is flushed"),
      DerivedOption(
        .memory, "frozenBytesMaximum", plan.frozenBytesMaximum,
        "three memtables may wait to be flushed; above that writers wait"),
      DerivedOption(
        .memory, "poolBytesMaximum", plan.poolBytesMaximum, "two memtables' memory is kept while flushes go on"),
      DerivedOption(.memory, "idlePoolBytes", plan.idlePoolBytes, "one memtable's memory is kept between flushes"),
      DerivedOption(
        .memory, "cacheFloor", plan.cacheFloor,
        given(options.cacheSize, "at most a memtable's size of what the other parts leave at their bounds")
          + "; what the block cache has in any case"),
      DerivedOption(
        .memory, "cacheMaximum", plan.cacheMaximum == .max ? "what the others leave" : "\(plan.cacheMaximum)",
        given(options.cacheSize, "seven eighths of what is not used otherwise at the moment")),
      DerivedOption(
        .memory, "openTableBytes", plan.openTableBytes,
        "an eighth of the budget, at least 256 KiB, out of the cache's"),
      DerivedOption(
        .memory, "raisesDescriptorLimit", options.raisesDescriptorLimit,
        "as the options say; the process may open \(DescriptorLimit.current) files"),
      DerivedOption(
        .memory, "openTableCount", plan.openTableCount,
        given(
          options.openTableCount,
          "the limit of descriptors without 1,024, or half of it, at least \(OpenTables.countMinimum)")
      ),
      DerivedOption(
        .memory, "compactionBytes", plan.compactionBytes, "a memtable's size, at most 64 MiB; for buffers of all jobs"),
    ]
  }

  private func logOptions(_ plan: MemoryPlan) -> [DerivedOption] {
    let log = pipeline.log
    return [
      DerivedOption(
        .log, "usesMapping", log.usesMapping,
        log.usesMapping
          ? "the file system overwrites in place, as its name and a probe say: records are stored through a mapping"
          : "the file system is not known to overwrite in place: records are written by pwrite"),
      DerivedOption(
        .log, "logSegmentSize", plan.logSegmentSize,
        given(options.logSegmentSize, "half a memtable, at most 64 MiB") + "; the largest segment, two are mapped"),
      DerivedOption(
        .log, "initialSegmentSize", log.options.initialSegmentSize,
        "the first segment; a segment that fills fast doubles the next"),
      DerivedOption(.log, "maximumSegmentSize", log.options.maximumSegmentSize, "logSegmentSize, as it was at open"),
      DerivedOption(
        .log, "growthNanoseconds", log.options.growthNanoseconds, "a segment that fills sooner doubles the next one"),
      DerivedOption(.log, "poolBytes", log.options.poolBytes, "two segments wait to be used again"),
      DerivedOption(
        .log, "logBytesMaximum", plan.logBytesMaximum,
        "twice the memtables; beyond it families that need the oldest segment are logged again or flushed"),
      DerivedOption(
        .log, "entriesSizeMaximum", log.options.entriesSizeMaximum, "a batch's bound; what is logged again is cut there"
      ),
      DerivedOption(
        .log, "durability", "\(options.durability)", "as the options say; of commits that don't say themselves"),
    ]
  }

  private func tableOptions(_ plan: MemoryPlan) -> [DerivedOption] {
    let threads = executor.parallelism
    return [
      DerivedOption(.tables, "compression", options.compression.rawValue, "as the options say, unless a family does"),
      DerivedOption(
        .tables, "lastLevelCompression", (options.lastLevelCompression ?? options.compression).rawValue,
        given(options.lastLevelCompression, "as the other levels")),
      DerivedOption(
        .tables, "mergeOperators",
        options.mergeOperators.isEmpty ? "none" : options.mergeOperators.map(\.name).description,
        "as the options say, beside those that every engine knows"),
      DerivedOption(
        .tables, "defaultFamilyOptions", "\(options.defaultFamilyOptions)",
        "as the options say; what the default family of a new database gets"),
      DerivedOption(.tables, "blockSize", options.blockSize, "as the options say; before compression"),
      DerivedOption(
        .tables, "bloomBitsPerKey", options.bloomBitsPerKey, "as the options say; 10 let one in a hundred pass"),
      DerivedOption(
        .tables, "tableSize", plan.tableSize,
        "two memtables, 2 to 32 MiB, as it was at open: where outputs to level 0 and the base level are cut"),
      DerivedOption(
        .tables, "tableSizeMaximum", plan.tableSizeMaximum,
        "eight times tableSize, at most 256 MiB: it doubles with each level from the base level on"),
      DerivedOption(
        .tables, "builderBytesMaximum", plan.builderBytesMaximum(threadCount: threads),
        "half of compactionBytes over all threads, at least 4 MiB: a table whose builder takes more ends"),
      DerivedOption(
        .tables, "readAheadSize", plan.readAheadSize(runCount: 1, threadCount: threads),
        "half of compactionBytes over all threads and inputs, 16 to 512 KiB; for one input"),
      DerivedOption(
        .tables, "writeBufferSize", plan.writeBufferSize(threadCount: threads),
        "an eighth of compactionBytes over all threads, 32 to 512 KiB"),
    ]
  }

  private func backgroundOptions(_ plan: MemoryPlan) -> [DerivedOption] {
    let picker = background.compactions.picker.options
    return [
      DerivedOption(
        .background, "backgroundThreads", executor.parallelism,
        given(options.backgroundThreads, "one a core, 2 to 16") + "; two more wait for flushes and the log's segments"),
      DerivedOption(
        .background, "levelZeroDepthTrigger", picker.levelZeroDepthTrigger, "a constant: level 0 is compacted there"),
      DerivedOption(
        .background, "levelZeroBatchSize", picker.levelZeroBatchSize, "half a memtable for each table of that depth"),
      DerivedOption(
        .background, "levelMultiplierMaximum", picker.levelMultiplierMaximum,
        "a constant: another level is begun where neighbors would differ by more"),
      DerivedOption(
        .background, "runCountMaximum", picker.runCountMaximum,
        "the read buffers of 16 KiB in half of compactionBytes over all threads, at least 24: one merge of level 0 has no more runs"
      ),
      DerivedOption(.background, "targetFileSize", picker.targetFileSize, "tableSize"),
      DerivedOption(.background, "targetFileSizeMaximum", picker.targetFileSizeMaximum, "tableSizeMaximum"),
      DerivedOption(
        .background, "compactsInBackground", options.compactsInBackground,
        "as the options say; without, only Engine.compact does"),
      DerivedOption(
        .background, "deadRunMinimum", options.deadRunMinimum,
        "as the options say; a cursor that passed so many dead keys has a range tombstone put over them, 0 for never"),
      DerivedOption(
        .background, "expansionFactor", picker.expansionFactor, "a constant: inputs grow to so many tables at most"),
      DerivedOption(
        .background, "grandparentOverlapFactor", picker.grandparentOverlapFactor,
        "a constant: a table above so many below it is not moved unread"),
      DerivedOption(
        .background, "intraLevelZeroCountMinimum", picker.intraLevelZeroCountMinimum,
        "a constant: fewer tables of level 0 are not worth a merge among themselves"),
      DerivedOption(
        .background, "reserveDatabaseMinimum", options.reserveDatabaseMinimum,
        "a constant: a database of that size keeps a file RESERVE for a full disk"),
      DerivedOption(
        .background, "rewriteShare", picker.rewriteShare,
        "a constant: a table of which so much can be removed is rewritten while writes continue"),
      DerivedOption(
        .background, "idleRewriteShare", picker.idleRewriteShare,
        "a constant: a table of which so much can be removed is rewritten in a pause of the writes"),
    ]
  }

  private var writerOptions: [DerivedOption] {
    let controller = background.plan.controllerOptions
    return [
      DerivedOption(
        .writers, "memoryBudget", controller.memoryBudget, "all frozen memtables and one more: writes stop there"),
      DerivedOption(
        .writers, "debtMaximum", controller.debtMaximum, "a constant: unpaid compaction bytes of full pressure"),
      DerivedOption(
        .writers, "depthMinimum", controller.depthMinimum, "a constant: the depth of level 0 that begins to count"),
      DerivedOption(
        .writers, "depthMaximum", controller.depthMaximum, "a constant: the depth of level 0 of full pressure"),
      DerivedOption(
        .writers, "rateMinimum", controller.rateMinimum, "a constant: bytes a second that are let through always"),
      DerivedOption(
        .writers, "delayMaximum", controller.delayMaximum, "a constant: nanoseconds that a commit waits at most"),
    ]
  }

  private var observationOptions: [DerivedOption] {
    [
      DerivedOption(
        .observation, "publishesStatistics", watch.publishes,
        watch.publishes
          ? "statistics go to STATS about once a second while something changes"
          : "not asked for, read-only, or files that other processes don't see"),
      DerivedOption(
        .observation, "longLivedNanoseconds", EngineWatch.longLivedNanoseconds,
        "a constant: listeners are notified of snapshots and cursors that are older"),
      DerivedOption(
        .observation, "samplePeriod", OperationLatencies.samplePeriod, "a constant: one operation in so many is timed"),
      DerivedOption(
        .observation, "eventCapacity", EventQueue.capacity, "a constant: events that wait for slow listeners"),
      DerivedOption(
        .observation, "callThreadCountMaximum", Limits.callThreadCountMaximum,
        "a constant: threads for calls of tasks, started as they are needed; \(callThreads.count) so far"),
    ]
  }
}
