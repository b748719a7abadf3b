/// The failures that a commit survives when `write` returns.
public enum Durability: Hashable, Sendable {
  /// The death of the process, even by SIGKILL, but not a power loss. The default.
  case process
  /// A power loss: the log is synced before the commit is acknowledged.
  case power
  /// The failures of `process`, and after at most `nanoseconds` also a power loss: a timer syncs the log.
  case powerEvery(nanoseconds: UInt64)
  /// No failure: the batch is not logged. A crash loses it unless it was flushed before.
  case none
}

/// The compression of the blocks of tables.
public enum CompressionKind: String, Hashable, Sendable, CaseIterable {
  /// No compression.
  case none
  /// LZ4: fast in both directions. The default.
  case lz4
  /// Zstandard: smaller, slower to write.
  case zstd
}

/// The options with which an engine is opened. Each option has a default that suits most programs.
public struct EngineOptions: Sendable {
  /// A Boolean value that indicates whether the database is created if it does not exist. Default true.
  public var createIfMissing = true
  /// A Boolean value that indicates whether the open throws `.alreadyExists` if the database exists. Default false.
  public var errorIfExists = false
  /// A Boolean value that indicates whether the database is opened without writing. Default false.
  ///
  /// A read-only engine creates, renames and locks no file, and replays the log in memory. Another process may write
  /// the database at the same time; this engine shows the state at its opening (`Engine.follow` advances it).
  public var readOnly = false
  /// The bound of all memory that grows with use, in bytes: memtables, the mapped log, the cache, open tables, and the
  /// buffers of compactions.
  ///
  /// At least 1 MiB. The resident memory of a process that does no other work stays within the budget plus a tenth plus
  /// 32 MiB.
  ///
  /// The engine derives every option below that is `nil` from the budget: memtables of an eighth, at most 64 MiB; log
  /// segments of half of that; the cache takes the rest, and shrinks when the other parts grow. An option that is not
  /// `nil` is used as it is and must fit. `Engine.explain()` prints the result. Default `nil`: 512 MiB, or the sum of
  /// the sizes below if any is set.
  public var memoryBudget: Int?
  /// The bytes that one memtable holds before it is flushed, and all active memtables together before the largest is
  /// flushed.
  ///
  /// Three times as many bytes may wait to be flushed. 64 KiB to 1 GiB. Default `nil`: derived from the budget.
  public var memtableSize: Int?
  /// The bytes of decoded blocks kept in memory, over all families. Default nil: the rest of the budget.
  public var cacheSize: Int?
  /// The durability of commits that do not specify one. Default `.process`.
  public var durability: Durability = .process
  /// The compression of tables. Default LZ4.
  public var compression: CompressionKind = .lz4
  /// The compression of tables of the last level, which has most of the data and the fewest writes.
  ///
  /// Zstandard there makes a database smaller at little cost. Default `nil`: the compression of the other levels.
  public var lastLevelCompression: CompressionKind?
  /// The number of compaction threads; two more wait for flushes and for the log's segments. Default nil: one per core,
  /// at least 2 and at most 16.
  public var backgroundThreads: Int?
  /// A Boolean value that indicates whether the engine compacts in the background. Default true.
  ///
  /// If false, only `Engine.compact` compacts, writers are not slowed down for pending compactions, and reads search
  /// every flushed table. Set it to false for bulk loads that are compacted once at the end.
  public var compactsInBackground = true
  /// The bytes of a data block before compression. 1 KiB to 1 MiB, default 4 KiB: the best of 4, 8, 16 and 32 KiB for
  /// random reads from the page cache (decision 0004).
  public var blockSize = 4 << 10
  /// The number of filter bits per key, or 0 for no filters. Default 10: one false positive in a hundred.
  public var bloomBitsPerKey = 10
  /// The maximum size of a log segment; two segments are mapped. 64 KiB to 1 GiB. Default nil: derived from the budget,
  /// at most 64 MiB.
  public var logSegmentSize: Int?
  /// The number of tables kept open between reads, each with a file descriptor. At least 16. Default nil: the process's
  /// descriptor limit less 1,024, or half of it if that is more; also bounded by an eighth of the memory budget.
  public var openTableCount: Int?
  /// A Boolean value that indicates whether opening the engine raises the process's soft limit of file descriptors to
  /// its hard limit.
  ///
  /// More tables stay open then. It changes the whole process, so a library leaves the choice to the program: programs
  /// that use `select`, or start others that do, may not want it. Default false.
  public var raisesDescriptorLimit = false

  /// The length of a run of dead keys from which a cursor that passed it covers it with one range tombstone.
  ///
  /// The tombstone is written when the cursor ends, so that later cursors skip the run with a seek. It is a commit of
  /// the engine that changes no result and waits for no sync. At least 32; 0 turns it off. Default 128: stepping over
  /// that many keys takes longer than the commit.
  public var deadRunMinimum = 128

  /// Merge operators for families, in addition to those that every engine has. Default none.
  ///
  /// A family whose operator is missing can be opened; reads of keys with operands then throw `.mergeFailed`, and
  /// merges throw `.invalidArgument`.
  public var mergeOperators: [any MergeOperator] = []
  /// The options of the default family of a new database. By default it uses the engine's options.
  public var defaultFamilyOptions = FamilyOptions()
  /// A listener for the events of the engine, from the opening on. Default `nil`: no listener, at no cost.
  ///
  /// `Engine.addListener` adds further ones.
  public var listener: (any EventListener)?
  /// A Boolean value that indicates whether the engine publishes its statistics in the file `STATS` of the database.
  /// Default true.
  ///
  /// It publishes them about once a second and only while they change, for `varve stats` and `PublishedStatistics`. A
  /// read-only engine and one whose files other processes cannot see publish no statistics.
  public var publishesStatistics = true

  /// A Boolean value that indicates whether the engine carries out requests of other processes of the same user, such
  /// as those of `varve checkpoint`, `compact`, `flush` and `backup`. Default true.
  ///
  /// A read-only engine and one whose files other processes cannot see take no requests.
  public var takesRequests = true
  /// The folders in which, and below which, other processes may request checkpoints, besides the directory that
  /// contains the database. Default none.
  public var backupFolders: [String] = []

  /// Whether families may be created with operators that the engine doesn't know, by tools that copy the families of a
  /// program. Default false.
  package var acceptsUnknownMergeOperators = false

  /// The size in bytes from which on a database keeps a reserve for a full disk (`SpaceReserve`).
  var reserveDatabaseMinimum: UInt64 = 64 << 20

  /// Creates options with the defaults.
  public init() {}

  /// Throws `.invalidArgument` with the option's name if a value is not valid.
  func validate() throws(EngineError) {
    if let memtableSize {
      try Self.check("memtableSize", memtableSize, Limits.memtableSizes.lowerBound, Limits.memtableSizes.upperBound)
    }
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

  /// Throws `.invalidArgument` if a family can't be created with these options.
  func validate(_ family: FamilyOptions) throws(EngineError) {
    try validateSizes(of: family)
    guard let name = family.mergeOperator, mergeFunction(named: name) == nil else { return }
    if acceptsUnknownMergeOperators, (1...255).contains(name.utf8.count) { return }
    throw EngineError(
      .invalidArgument, "no merge operator is named \"\(name)\": pass it in EngineOptions.mergeOperators")
  }

  /// Validates all options but the operator, which a family keeps whether or not the engine knows it.
  func validateSizes(of family: FamilyOptions) throws(EngineError) {
    guard let size = family.memtableSize else { return }
    try Self.check("memtableSize", size, Limits.memtableSizes.lowerBound, Limits.memtableSizes.upperBound)
  }

  /// Returns the operator with a name, or `nil` if it isn't known. The memory of large folds is charged to `account`.
  func mergeFunction(named name: String?, account: MemoryAccount? = nil) -> MergeFunction? {
    guard let name else { return nil }
    let found = mergeOperators.first { $0.name == name } ?? BuiltInOperators.all.first { $0.name == name }
    return found.map { MergeFunction(mergeOperator: $0, account: account) }
  }

  private static func check(_ name: String, _ value: Int, _ low: Int, _ high: Int) throws(EngineError) {
    guard value >= low, value <= high else {
      throw EngineError(.invalidArgument, "\(name) is \(value); it must be between \(low) and \(high)")
    }
  }
}

/// Values derived from the options.
extension EngineOptions {
  /// The number of background threads, not counting the one reserved for urgent jobs.
  var threadCount: Int { backgroundThreads ?? min(max(ProcessorCount.current, 2), 16) }
}

extension MemoryPlan {
  func logOptions(usesMapping: Bool) -> LogWriter.Options {
    LogWriter.Options(
      initialSegmentSize: min(Limits.logSegmentSizeMinimum, logSegmentSize), maximumSegmentSize: logSegmentSize,
      poolBytes: 2 * logSegmentSize, usesMapping: usesMapping)
  }

  /// The smallest share of a device that tables are cut to.
  private static let tableShareMinimum: UInt64 = 64 << 10

  /// Returns the options of the picker. On a small device, of `diskSize` bytes, tables are at most a 64th of it: a
  /// compaction needs space for its outputs beside its inputs.
  func pickerOptions(threadCount: Int, diskSize: UInt64? = nil) -> CompactionPickerOptions {
    var picker = CompactionPickerOptions()
    picker.memtableSize = UInt64(memtableSize)
    let share = diskSize.map { max($0 / 64, Self.tableShareMinimum) } ?? .max
    picker.targetFileSize = min(tableSize, share)
    picker.targetFileSizeMaximum = min(tableSizeMaximum, share)
    picker.runCountMaximum = runCountMaximum(threadCount: threadCount)
    return picker
  }
}
