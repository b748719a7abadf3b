/// The division of the memory budget, as computed from the options.
///
///     limit
///     ├── memtables    4 units    one active over all families, the rest frozen or kept to be reused
///     ├── log          1 unit     two mapped segments of half a unit
///     ├── compaction   1 unit     at most 64 MiB
///     ├── open tables             at most an eighth; the cache has that much less
///     └── cache                   seven eighths of what the others leave at the moment, but at least its floor
///
/// A unit is the size of a memtable: an eighth of the budget, at most 64 MiB. Explicit options are used as they are;
/// the unit is chosen so that the rest fits.
///
/// # Invariants
/// 1. memtables + log + compaction + `cacheFloor` <= `limit`.
/// 2. `logSegmentSize` is a multiple of a page, and so is `memtableSize` unless it is given.
struct MemoryPlan: Sendable, Equatable {
  /// The budget.
  var limit: Int
  /// The bytes that a memtable, and all active memtables together, hold before a flush.
  var memtableSize: Int
  var logSegmentSize: Int
  /// The approximate bytes of all buffers of flushes and compactions.
  var compactionBytes: Int
  var cacheFloor: Int
  var cacheMaximum: Int
  /// The memory of open tables, including their root indexes.
  var openTableBytes: Int
  var openTableCount: Int

  /// The budget if the options set no sizes.
  static let defaultLimit = 512 << 20
  static let limitMinimum = 1 << 20
  private static let memtableSizeMaximum = 64 << 20
  private static let memtableSizeMinimum = 64 << 10
  /// The smallest memtable that a small device leads to.
  private static let memtableOnDiskMinimum = 1 << 20
  private static let compactionMaximum = 64 << 20
  /// The cache size if the options set the memtable size but no cache size.
  private static let cacheSizeDefault = 128 << 20
  private static let page = 4096

  /// The bytes of memtables that wait to be flushed before writers wait as well.
  var frozenBytesMaximum: Int { 3 * memtableSize }

  /// The memory of the active memtables of all families before the largest is flushed.
  ///
  /// It is at least the whole arena of a single family.
  var activeBytesMaximum: Int { MemTable.reservedSize(capacity: memtableSize) }

  /// The memory of all memtables up to which retired ones are kept at all.
  var reusedBytesMaximum: Int { frozenBytesMaximum + activeBytesMaximum }

  /// The memory of retired memtables that is kept for new ones during flushes.
  var poolBytesMaximum: Int { 2 * MemTable.reservedSize(capacity: memtableSize) }
  var idlePoolBytes: Int { MemTable.reservedSize(capacity: memtableSize) }

  /// The bytes of log segments kept before the families that need the oldest are flushed.
  var logBytesMaximum: Int { 2 * (frozenBytesMaximum + memtableSize) }

  /// Returns the read-ahead size for each of `runCount` inputs of one part of a compaction.
  func readAheadSize(runCount: Int, threadCount: Int) -> Int {
    let share = compactionBytes / 2 / max(threadCount, 1) / max(runCount, 1)
    return min(max(share / Self.page * Self.page, Self.readAheadMinimum), 512 << 10)
  }

  /// Returns the number of level 0 runs that one part of a compaction has buffers for.
  ///
  /// They are at least as many as make level 0 deep.
  func runCountMaximum(threadCount: Int) -> Int {
    max(compactionBytes / 2 / max(threadCount, 1) / Self.readAheadMinimum, Self.runCountMinimum)
  }

  private static let readAheadMinimum = 16 << 10
  private static let runCountMinimum = 24

  /// Returns the size of a write to a table.
  func writeBufferSize(threadCount: Int) -> Int {
    let share = compactionBytes / 8 / (max(threadCount, 1) + 1)
    return min(max(share / Self.page * Self.page, 32 << 10), 512 << 10)
  }

  /// The size at which compactions cut their outputs.
  ///
  /// The memory for building a table, mainly its filter's hashes, grows with it.
  var tableSize: UInt64 { UInt64(min(max(2 * memtableSize, 2 << 20), 32 << 20)) }

  /// The size at which compactions cut their outputs on the deepest levels.
  var tableSizeMaximum: UInt64 { min(8 * tableSize, 256 << 20) }

  /// Returns the memory that the builder of one table may take: a table ends there, even if its file is small.
  ///
  /// For small entries the filter's hashes dominate, 8 bytes each.
  func builderBytesMaximum(threadCount: Int) -> Int {
    max(compactionBytes / 2 / max(threadCount, 1), 4 << 20)
  }

  // MARK: - From the options

  /// Computes the plan. Throws `.invalidArgument` if the explicit sizes don't fit the explicit budget.
  ///
  /// Requires: each size is within its own bounds.
  init(_ options: EngineOptions, limit: Int?) throws(EngineError) {
    let parts = Parts(options, limit: limit)
    let cache = options.cacheSize ?? 0
    let (needed, overflows) = parts.needed.addingReportingOverflow(cache)
    if let limit, overflows || needed > limit { throw Self.impossible(options, limit, parts) }
    guard !overflows else {
      throw EngineError(.invalidArgument, "cacheSize is \(cache), which no memory budget holds")
    }
    self.limit = limit ?? parts.needed + (options.cacheSize ?? Self.cacheSizeDefault)
    memtableSize = parts.memtableSize
    logSegmentSize = parts.logSegmentSize
    compactionBytes = parts.compactionBytes
    cacheFloor = options.cacheSize ?? min(parts.memtableSize, self.limit - needed)
    cacheMaximum = options.cacheSize ?? .max
    openTableBytes = max(self.limit / 8, 256 << 10)
    openTableCount = options.openTableCount ?? max(DescriptorLimit.forTables, OpenTables.countMinimum)
  }

  /// Cuts what the options do not set for a small device, of `diskSize` bytes: a memtable is at most a 64th of it,
  /// because a flush needs space for its tables beside the log, also from the reserve of a full disk.
  mutating func fit(_ options: EngineOptions, diskSize: UInt64?) {
    guard let diskSize, options.memtableSize == nil else { return }
    let share = Int(clamping: diskSize / 64) / Self.page * Self.page
    guard share < memtableSize else { return }
    memtableSize = max(share, min(memtableSize, Self.memtableOnDiskMinimum))
    if options.logSegmentSize == nil {
      logSegmentSize = min(logSegmentSize, max(memtableSize / 2 / Self.page * Self.page, Limits.logSegmentSizeMinimum))
    }
  }

  private struct Parts {
    let memtableSize: Int
    let logSegmentSize: Int

    var compactionBytes: Int { min(memtableSize, MemoryPlan.compactionMaximum) }
    var needed: Int { 4 * memtableSize + 2 * logSegmentSize + compactionBytes }

    init(_ options: EngineOptions, limit: Int?) {
      let memtable = options.memtableSize ?? MemoryPlan.unit(options, limit: limit)
      memtableSize = memtable
      // Without a budget, a small memtable does not require small segments.
      let smallest = limit == nil ? Limits.logSegmentSizeMinimum : MemoryPlan.memtableSizeMinimum
      let largest = Limits.logSegmentSizeDefaultMaximum
      let derived = min(max(memtable / 2, smallest), largest) / MemoryPlan.page * MemoryPlan.page
      logSegmentSize = options.logSegmentSize ?? derived
    }
  }

  /// Returns the memtable size for a budget: an eighth, or a sixth of what remains besides an explicit cache.
  private static func unit(_ options: EngineOptions, limit: Int?) -> Int {
    guard let limit else { return memtableSizeMaximum }
    let log = options.logSegmentSize.map { 2 * $0 }
    let rest = limit - min(options.cacheSize ?? 0, limit) - min(log ?? 0, limit)
    let share = rest / ((log == nil ? 6 : 5) + (options.cacheSize == nil ? 2 : 0))
    return min(max(share / page * page, memtableSizeMinimum), memtableSizeMaximum)
  }

  private static func impossible(_ options: EngineOptions, _ limit: Int, _ parts: Parts) -> EngineError {
    var text = "memoryBudget is \(limit), but memtables take \(4 * parts.memtableSize) (four"
    text += options.memtableSize == nil ? " of the smallest)" : " of memtableSize)"
    text += ", the log \(2 * parts.logSegmentSize), compactions \(parts.compactionBytes)"
    if let cacheSize = options.cacheSize { text += ", the cache \(cacheSize)" }
    return EngineError(.invalidArgument, text)
  }
}

extension MemoryPlan {
  /// Returns the values of the plan for `Engine.derivedOptions`, as computed from `options`.
  func derived(from options: EngineOptions, threadCount threads: Int) -> [DerivedOption] {
    let saysSize = options.memtableSize != nil || options.cacheSize != nil || options.logSegmentSize != nil
    let given = DerivedOption.reason
    return [
      .init(
        .memory, "limit", limit,
        given(
          options.memoryBudget, saysSize ? "what the given sizes come to" : "512 MiB, since the options name no size")
          + "; all memory that grows with use"),
      .init(
        .memory, "memtableSize", memtableSize,
        given(
          options.memtableSize, "an eighth of the budget, or a sixth of what a given cache leaves, 64 KiB to 64 MiB")),
      .init(
        .memory, "activeBytesMaximum", activeBytesMaximum,
        "one whole memtable with its nodes; above it the largest of all families is flushed"),
      .init(
        .memory, "frozenBytesMaximum", frozenBytesMaximum,
        "three memtables may wait to be flushed; above that writers wait"),
      .init(
        .memory, "poolBytesMaximum", poolBytesMaximum, "two memtables' memory is kept during flushes"),
      .init(.memory, "idlePoolBytes", idlePoolBytes, "one memtable's memory is kept between flushes"),
      .init(
        .memory, "cacheFloor", cacheFloor,
        given(options.cacheSize, "at most a memtable's size of what the other parts leave at their bounds")
          + "; what the block cache has in any case"),
      .init(
        .memory, "cacheMaximum", cacheMaximum == .max ? "what the others leave" : "\(cacheMaximum)",
        given(options.cacheSize, "seven eighths of what is not used otherwise at the moment")),
      .init(
        .memory, "openTableBytes", openTableBytes,
        "an eighth of the budget, at least 256 KiB, out of the cache's"),
      .init(
        .memory, "openTableCount", openTableCount,
        given(
          options.openTableCount,
          "the limit of descriptors without 1,024, or half of it, at least \(OpenTables.countMinimum)")
      ),
      .init(
        .memory, "compactionBytes", compactionBytes, "a memtable's size, at most 64 MiB; for buffers of all jobs"),
      .init(
        .log, "logSegmentSize", logSegmentSize,
        given(options.logSegmentSize, "half a memtable, at most 64 MiB") + "; the largest segment, two are mapped"),
      .init(
        .log, "logBytesMaximum", logBytesMaximum,
        "twice the memtables; beyond it families that need the oldest segment are logged again or flushed"),
      .init(
        .tables, "tableSize", tableSize,
        "two memtables, 2 to 32 MiB, as it was at open: where outputs to level 0 and the base level are cut"),
      .init(
        .tables, "tableSizeMaximum", tableSizeMaximum,
        "eight times tableSize, at most 256 MiB: it doubles with each level from the base level on"),
      .init(
        .tables, "builderBytesMaximum", builderBytesMaximum(threadCount: threads),
        "half of compactionBytes over all threads, at least 4 MiB: a table whose builder takes more ends"),
      .init(
        .tables, "readAheadSize", readAheadSize(runCount: 1, threadCount: threads),
        "half of compactionBytes over all threads and inputs, 16 to 512 KiB; for one input"),
      .init(
        .tables, "writeBufferSize", writeBufferSize(threadCount: threads),
        "an eighth of compactionBytes over all threads, 32 to 512 KiB"),
    ]
  }
}

extension EngineOptions {
  /// Returns the division of the memory. Throws `.invalidArgument` if the options contradict each other.
  func memoryPlan() throws(EngineError) -> MemoryPlan {
    let saysNothing = memtableSize == nil && cacheSize == nil && logSegmentSize == nil
    return try MemoryPlan(self, limit: memoryBudget ?? (saysNothing ? MemoryPlan.defaultLimit : nil))
  }
}
