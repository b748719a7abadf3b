public import VarveEngine

/// How a database is opened. Each option has a default that suits most programs.
public struct DatabaseOptions: Sendable {
  /// Makes a database where there is none. Default true.
  public var createsIfMissing = true
  /// Opens for reading only. Another process may write meanwhile: see `follows`. Default false.
  public var isReadOnly = false
  /// Read-only, and each transaction sees what the process that writes has committed by then. Default false.
  public var follows = false
  /// What a commit survives that does not say so itself. Default `.process`.
  public var durability: StorageDurability = .process
  /// How long a transaction waits for the writer until it throws `.writerBusy`. Default 30 s.
  public var writerTimeout: Duration = .seconds(30)
  /// A transaction that holds the writer longer is logged. Default 1 s.
  public var slowTransaction: Duration = .seconds(1)
  /// The coder of collections that no definition names. Default `.binary`.
  public var coder: CoderKind = .binary
  /// What happens where the database is damaged so that it can't be opened. Default `.fail`.
  public var onCorruption: CorruptionPolicy = .fail
  /// What is kept of changes, for subscriptions that resume. Nil: nothing. Default 64 MiB and 24 h.
  public var feed: FeedOptions? = FeedOptions()
  /// All memory of the storage that grows with use, in bytes. Nil: the engine's default. From 1 MiB.
  public var memoryBudget: Int?
  /// How values are compressed. Default LZ4.
  public var compression: CompressionKind = .lz4
  /// On iOS, tvOS, watchOS and visionOS: when the files of the database can be read. The directory and all its files get the
  /// class when the database is opened for writing, and files that are made later get it from the directory. Elsewhere
  /// without an effect. Nil: as the system does by default. Default nil.
  ///
  /// Where a file can't be read because the device is locked, calls throw `.notReadableNow`. A program that works in the
  /// background needs `.completeUntilFirstAuthentication`, the default of iOS, or a weaker class: files under
  /// `.complete` can't be read 10 seconds after the device was locked, also those that are open.
  public var fileProtection: FileProtection?
  /// On the systems of Apple: keeps the directory and all its files out of backups of the device, for what can be made
  /// again. False leaves them as they are. Elsewhere without an effect. Default false.
  public var isExcludedFromBackup = false
  /// The time of day: the date of change sets, and what the feed's age is measured by. Default `.system`.
  public var clock = WallClock.system

  /// The defaults.
  public init() {}

  /// Throws `.invalidArgument` with the option that has no meaning.
  func validate() throws {
    func require(_ condition: Bool, _ message: String) throws {
      if !condition { throw DatabaseError(.invalidArgument, message) }
    }
    try require(writerTimeout > .zero, "writerTimeout is \(writerTimeout); it must be positive")
    try require(slowTransaction > .zero, "slowTransaction is \(slowTransaction); it must be positive")
    try require(
      memoryBudget.map { $0 >= 1 << 20 } ?? true, "memoryBudget is \(memoryBudget ?? 0); it must be 1 MiB at least")
    if let feed {
      try require(feed.sizeMaximum >= 1 << 16, "feed.sizeMaximum is \(feed.sizeMaximum); it must be 64 KiB at least")
      try require(feed.ageMaximum > .zero, "feed.ageMaximum is \(feed.ageMaximum); it must be positive")
    }
  }

  var engineOptions: EngineOptions {
    var options = EngineOptions()
    options.createIfMissing = createsIfMissing
    options.readOnly = isReadOnly || follows
    options.compression = compression
    options.memoryBudget = memoryBudget
    return options
  }
}

/// When the system can read the files of a database: its class of data protection.
public enum FileProtection: Hashable, Sendable, CaseIterable {
  /// While the device is unlocked.
  case complete
  /// While the device is unlocked; a file that is open can be read after that, too.
  case completeUnlessOpen
  /// Since the device was unlocked for the first time after it was started.
  case completeUntilFirstAuthentication
  /// Always.
  case none
}

/// What happens where a database can't be opened because it is damaged. Of one that is opened read-only or followed,
/// `open` throws in any case. A crash on the way leaves the damaged database, or the new one, never neither.
public enum CorruptionPolicy: Hashable, Sendable {
  /// `open` throws `.corruption`.
  case fail
  /// The damaged database is renamed to `<name>.<n>.corrupt`, and an empty one replaces it.
  case renameAside
  /// The damaged database is renamed so, and what can be read of it is copied into a new one.
  case salvage
}

/// How much the feed of changes keeps.
public struct FeedOptions: Hashable, Sendable {
  /// The bytes that it may take. Default 64 MiB.
  public var sizeMaximum = 64 << 20
  /// How old it may grow. Default 24 h.
  public var ageMaximum: Duration = .seconds(24 * 60 * 60)

  /// The defaults.
  public init() {}
}
