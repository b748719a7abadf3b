public import VarveEngine

/// The options with which a database is opened. Each has a default that suits most programs.
public struct DatabaseOptions: Sendable {
  /// A Boolean value that indicates whether a missing database is created. Default true.
  public var createsIfMissing = true
  /// A Boolean value that indicates whether the database is opened for reading only. Another process may write
  /// meanwhile: see `follows`. Default false.
  public var isReadOnly = false
  /// A Boolean value that indicates whether the database is opened for reading only and follows the process that writes
  /// it: each transaction sees what that process has committed by then. Default false.
  public var follows = false
  /// The durability of commits that do not specify their own. Default `.process`.
  public var durability: StorageDurability = .process
  /// The time that a transaction waits for the writer before it throws `.writerBusy`. Default 30 s.
  public var writerTimeout: Duration = .seconds(30)
  /// The time after which a transaction that holds the writer is logged. Default 1 s.
  public var slowTransaction: Duration = .seconds(1)
  /// The coder of collections without a definition. Default `.binary`.
  public var coder: CoderKind = .binary
  /// The policy of `open` for a database that is too damaged to be opened. Default `.fail`.
  public var onCorruption: CorruptionPolicy = .fail
  /// The limits of the feed of changes, from which subscriptions resume; `nil` keeps no feed. Default 64 MiB and 24 h.
  public var feed: FeedOptions? = FeedOptions()
  /// The memory, in bytes, that all parts of the storage that grow with use may take together: at least 1 MiB, or `nil`
  /// for the engine's default.
  public var memoryBudget: Int?
  /// The bytes that the changes of one transaction may take, including those of its indexes and other extensions: at
  /// least 16 MiB, at most 1 GiB, or `nil` for the default.
  ///
  /// A transaction is in memory as a whole until its commit, and for the time of the commit three times: as the
  /// changes, as the record of the log, and in the memtables. The row that would exceed the limit is refused with
  /// `.batchTooLarge`. The default is half of `memoryBudget`, but at least 256 MiB and at most 1 GiB; without a
  /// `memoryBudget` it is 1 GiB.
  public var transactionBytes: Int?
  /// The compression of values. Default LZ4.
  public var compression: CompressionKind = .lz4
  /// The data protection class of the database's files on iOS, tvOS, watchOS and visionOS, or `nil` for the system's
  /// default.
  ///
  /// The directory and all its files get the class when the database is opened for writing; files that are made later
  /// inherit it from the directory. On other systems the option has no effect. Default nil.
  ///
  /// If a file can't be read because the device is locked, calls throw `.notReadableNow`. A program that works in the
  /// background needs `.completeUntilFirstAuthentication`, the default of iOS, or a weaker class: files under
  /// `.complete`, including open ones, can't be read from 10 seconds after the device was locked.
  public var fileProtection: FileProtection?
  /// A Boolean value that indicates whether the directory and all its files are excluded from backups of the device.
  ///
  /// Use it on Apple's systems for data that can be made again. False leaves the files as they are. On other systems
  /// the option has no effect. Default false.
  public var isExcludedFromBackup = false
  /// A Boolean value that indicates whether other processes of the same user may request checkpoints, compactions and
  /// backups of the open database, as the commands of `varve` do. Default true.
  public var takesRequests = true
  /// The folders in which, and below which, other processes may request checkpoints and backups, besides the directory
  /// that contains the database. Default none.
  public var backupFolders: [String] = []
  /// The clock that dates change sets and measures the age of the feed. Default `.system`.
  public var clock = WallClock.system

  /// Creates options with the defaults.
  public init() {}

  /// Throws `.invalidArgument` with the first option whose value is invalid.
  func validate() throws {
    func require(_ condition: Bool, _ message: String) throws {
      if !condition { throw DatabaseError(.invalidArgument, message) }
    }
    try require(writerTimeout > .zero, "writerTimeout is \(writerTimeout); it must be positive")
    try require(slowTransaction > .zero, "slowTransaction is \(slowTransaction); it must be positive")
    try require(
      memoryBudget.map { $0 >= 1 << 20 } ?? true, "memoryBudget is \(memoryBudget ?? 0); it must be 1 MiB at least")
    try require(
      transactionBytes.map { (16 << 20...Self.transactionBytesMaximum).contains($0) } ?? true,
      "transactionBytes is \(transactionBytes ?? 0); it must be from 16 MiB to 1 GiB")
    if let feed {
      try require(feed.sizeMaximum >= 1 << 16, "feed.sizeMaximum is \(feed.sizeMaximum); it must be 64 KiB at least")
      try require(feed.ageMaximum > .zero, "feed.ageMaximum is \(feed.ageMaximum); it must be positive")
    }
  }

  /// The size of the largest commit of the engine.
  private static var transactionBytesMaximum: Int { 1 << 30 }

  /// The bytes that the changes of one transaction may take.
  var transactionLimit: Int {
    if let transactionBytes { return transactionBytes }
    guard let memoryBudget else { return Self.transactionBytesMaximum }
    return min(max(memoryBudget / 2, 256 << 20), Self.transactionBytesMaximum)
  }

  var engineOptions: EngineOptions {
    var options = EngineOptions()
    options.createIfMissing = createsIfMissing
    options.readOnly = isReadOnly || follows
    options.compression = compression
    options.memoryBudget = memoryBudget
    options.takesRequests = takesRequests
    options.backupFolders = backupFolders
    return options
  }
}

/// The data protection class of a database's files: when the system can read them.
public enum FileProtection: Hashable, Sendable, CaseIterable {
  /// The files can be read while the device is unlocked.
  case complete
  /// The files can be read while the device is unlocked; a file that is open can also be read after the device is
  /// locked.
  case completeUnlessOpen
  /// The files can be read once the device has been unlocked for the first time after it was started.
  case completeUntilFirstAuthentication
  /// The files can always be read.
  case none
}

/// The policy of `open` for a database that can't be opened because it is damaged.
///
/// If the database is opened read-only or followed, `open` throws in any case. A crash during the replacement leaves
/// the damaged database or the new one, but never neither.
public enum CorruptionPolicy: Hashable, Sendable {
  /// `open` throws `.corruption`.
  case fail
  /// The damaged database is renamed to `<name>.<n>.corrupt`, and an empty one replaces it.
  case renameAside
  /// The damaged database is renamed likewise, and what can be read of it is copied into a new one.
  case salvage
}

/// The limits of the feed of changes.
public struct FeedOptions: Hashable, Sendable {
  /// The maximum number of bytes of the feed. Default 64 MiB.
  public var sizeMaximum = 64 << 20
  /// The maximum age of an entry of the feed. Default 24 h.
  public var ageMaximum: Duration = .seconds(24 * 60 * 60)

  /// Creates options with the defaults.
  public init() {}
}
