/// What a commit survives when `write` returns.
public enum Durability: Hashable, Sendable {
  /// The death of the process, even by SIGKILL. Not a loss of power. The default.
  case process
  /// A loss of power: the log is synced before the commit is acknowledged.
  case power
  /// As `process`, and at most so many nanoseconds later also a loss of power: a timer syncs.
  case powerEvery(nanoseconds: UInt64)
  /// Nothing: the batch is not logged at all, and gone at a crash unless it was flushed before.
  case none
}

/// How the blocks of tables are compressed.
public enum CompressionKind: String, Hashable, Sendable, CaseIterable {
  /// Not at all.
  case none
  /// LZ4: fast both ways. The default.
  case lz4
  /// Zstandard: smaller, slower to write.
  case zstd
}

/// How an engine is opened. Each has a default that suits most programs.
public struct EngineOptions: Sendable {
  /// Makes a database where there is none. Default true.
  public var createIfMissing = true
  /// Throws `.alreadyExists` where there is one. Default false.
  public var errorIfExists = false
  /// Opens without writing anything: nothing is created, renamed or locked, and the log is replayed in
  /// memory. Another process may write the database meanwhile; this engine shows what was there when it was
  /// opened (`Engine.follow` goes on). Default false.
  public var readOnly = false
  /// All memory that grows with use: memtables, the mapped log, the cache, open tables, the buffers of
  /// compactions. From 1 MiB. The resident memory of a process that does nothing else stays within it,
  /// plus a tenth, plus 32 MiB.
  ///
  /// Everything below that is nil is derived from it: memtables of an eighth, at most 64 MiB; log
  /// segments of half of that; the cache takes what the others leave, and shrinks when they grow. What is
  /// not nil is taken as it is, and has to fit. `Engine.explain()` says what it came to. Default nil:
  /// 512 MiB, or what the sizes below come to where any is given.
  public var memoryBudget: Int?
  /// The bytes that a memtable holds, and the memtables of all families hold together, before the
  /// largest is flushed; three times as many may wait to be flushed. 64 KiB to 1 GiB. Default nil: from
  /// the budget.
  public var memtableSize: Int?
  /// The bytes of decoded blocks kept in memory, over all families. Default nil: what the budget leaves.
  public var cacheSize: Int?
  /// What a commit survives that does not say so itself. Default `.process`.
  public var durability: Durability = .process
  /// How tables are compressed. Default LZ4.
  public var compression: CompressionKind = .lz4
  /// How the tables of the last level are compressed, where most of the data is and least is written: Zstd
  /// there makes a database smaller for little. Default nil: as the others.
  public var lastLevelCompression: CompressionKind?
  /// How many threads compact; two more wait for flushes and for the log's segments. Default nil: one a core,
  /// at least 2 and at most 16.
  public var backgroundThreads: Int?
  /// Compacts in the background as it is due. False: only `Engine.compact` does, writers are not slowed down for what is
  /// due, and reads look into each table that flushes leave. For loads that are compacted once at their end.
  /// Default true.
  public var compactsInBackground = true
  /// The bytes of a data block before compression. 1 KiB to 1 MiB, default 4 KiB: the best of 4, 8, 16 and
  /// 32 where keys are read at random from the page cache (decision 0004).
  public var blockSize = 4 << 10
  /// Bits a key of the filters; 0 for none. Default 10: one false positive in a hundred.
  public var bloomBitsPerKey = 10
  /// The largest segment of the log, of which two are mapped. 64 KiB to 1 GiB. Default nil: from the
  /// budget, at most 64 MiB.
  public var logSegmentSize: Int?
  /// How many tables are kept open between reads, each with a file descriptor. From 16. Default nil: half
  /// of the process's limit of descriptors, at most 4,096.
  public var openTableCount: Int?

  /// So many dead keys in a row, and a cursor that has passed them puts one range tombstone over them when it ends,
  /// so that the next one passes them by a seek: a commit of its own, which changes no answer and waits for nothing. From
  /// 32 on; 0 for never. Default 128: to step over so many takes longer than the commit.
  public var deadRunMinimum = 128

  /// Operators that families name in their options, beside those that every engine knows. A family whose
  /// operator is missing can be opened; reads of keys with operands throw `.mergeFailed` then, and merges
  /// `.invalidArgument`. Default none.
  public var mergeOperators: [any MergeOperator] = []
  /// The options that the default family of a new database gets. Default: the engine's.
  public var defaultFamilyOptions = FamilyOptions()
  /// Who is told of what happens in the background, from the opening on. Others can be added later
  /// (`Engine.addListener`). Default nil: nobody, which costs nothing.
  public var listener: (any EventListener)?
  /// Publishes the figures of the engine in the file `STATS` of the database, about once a second and only
  /// while something changes, for `varve stats` and `PublishedStatistics`. Where files are not seen by other
  /// processes, and read-only, nothing is published in any case. Default true.
  public var publishesStatistics = true

  /// The defaults.
  public init() {}

  /// Throws `.invalidArgument` with the option's name where a value has no meaning.
  func validate() throws(EngineError) {
    if let memtableSize { try Self.check("memtableSize", memtableSize, 64 << 10, 1 << 30) }
    if let cacheSize { try Self.check("cacheSize", cacheSize, 0, Int.max) }
    try Self.check("blockSize", blockSize, 1 << 10, 1 << 20)
    try Self.check("bloomBitsPerKey", bloomBitsPerKey, 0, 64)
    if let logSegmentSize { try Self.check("logSegmentSize", logSegmentSize, 64 << 10, 1 << 30) }
    if let openTableCount { try Self.check("openTableCount", openTableCount, OpenTables.countMinimum, Int.max) }
    if let backgroundThreads { try Self.check("backgroundThreads", backgroundThreads, 1, 256) }
    if deadRunMinimum != 0 { try Self.check("deadRunMinimum", deadRunMinimum, 32, Int.max) }
    if let memoryBudget { try Self.check("memoryBudget", memoryBudget, MemoryPlan.limitMinimum, Int.max) }
    _ = try memoryPlan()
    try validateMergeOperators()
    if readOnly && errorIfExists {
      throw EngineError(.invalidArgument, "readOnly and errorIfExists exclude each other")
    }
  }

  private func validateMergeOperators() throws(EngineError) {
    var names = Set(BuiltInOperators.all.map(\.name))
    for mergeOperator in mergeOperators {
      let name = mergeOperator.name
      guard (1...255).contains(name.utf8.count) else {
        throw EngineError(.invalidArgument, "mergeOperators: a name of \(name.utf8.count) bytes; it has 1 to 255")
      }
      guard names.insert(name).inserted else {
        throw EngineError(.invalidArgument, "mergeOperators: two are named \"\(name)\"")
      }
    }
    try validate(defaultFamilyOptions)
  }

  /// Throws `.invalidArgument` where a family can't be made with these options.
  func validate(_ family: FamilyOptions) throws(EngineError) {
    guard let name = family.mergeOperator, mergeFunction(named: name) == nil else { return }
    throw EngineError(
      .invalidArgument, "no merge operator is named \"\(name)\": pass it in EngineOptions.mergeOperators")
  }

  /// The operator with a name; nil if it isn't known.
  func mergeFunction(named name: String?) -> MergeFunction? {
    guard let name else { return nil }
    let found = mergeOperators.first { $0.name == name } ?? BuiltInOperators.all.first { $0.name == name }
    return found.map { MergeFunction(mergeOperator: $0) }
  }

  private static func check(_ name: String, _ value: Int, _ low: Int, _ high: Int) throws(EngineError) {
    guard value >= low, value <= high else {
      throw EngineError(.invalidArgument, "\(name) is \(value); it must be between \(low) and \(high)")
    }
  }
}

/// What follows from the options.
extension EngineOptions {
  /// Threads for background work besides the one that is kept for what others wait for.
  var threadCount: Int { backgroundThreads ?? min(max(ProcessorCount.current, 2), 16) }
}

extension MemoryPlan {
  func logOptions(usesMapping: Bool) -> LogWriter.Options {
    LogWriter.Options(
      initialSegmentSize: min(Limits.logSegmentSizeMinimum, logSegmentSize), maximumSegmentSize: logSegmentSize,
      poolBytes: 2 * logSegmentSize, usesMapping: usesMapping)
  }

  var pickerOptions: CompactionPickerOptions {
    var picker = CompactionPickerOptions()
    picker.memtableSize = UInt64(memtableSize)
    picker.targetFileSize = tableSize
    return picker
  }
}
