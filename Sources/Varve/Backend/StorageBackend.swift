public import VarveEngine

/// The interface to the storage: all operations that the object database needs from it.
///
/// ```
///  database ─▶ StorageBackend ─▶ the engine on a disk, the engine in memory, or another ordered store
/// ```
///
/// A backend keeps byte strings in `memcmp` order, in families, and commits batches atomically. The interface does not
/// mention files, levels or memtables, so that an ordered, transactional store on other machines can replace the
/// engine.
///
/// # Invariants
/// 1. A snapshot sees every commit up to its version and no later commit, in all families.
/// 2. Versions ascend in commit order, also across restarts.
/// 3. `commit` returns when the batch is *applied*: the next snapshot sees it. Its ticket reports when it is as durable
///    as was requested. Tickets become durable in commit order.
/// 4. A commit that throws `.conflict` changed nothing. A commit that throws `.outcomeUnknown` may have taken effect.
///
/// # Concurrency
/// Safe from any thread. The calls may block; the asynchronous forms, which a remote store implements itself, suspend
/// instead.
public protocol StorageBackend: AnyObject, Sendable {
  /// The maximum sizes of keys, values and batches.
  var limits: StorageLimits { get }
  /// Whether commits are refused: a read-only database, or one that follows another process.
  var isReadOnly: Bool { get }
  /// Whether calls never wait for a disk or a network. Asynchronous calls then run on the calling thread.
  var isInMemory: Bool { get }
  /// Whether a commit may have to wait now because the storage cannot keep up with its work. An asynchronous call then
  /// commits on a separate thread. Default: false.
  var mayDelayCommits: Bool { get }
  /// Whether the storage is full, and refuses all commits but those that free space. Default: false.
  var acceptsOnlyDeletes: Bool { get }
  /// Runs `body` so that a read of this thread which would have to wait for a disk or a network throws instead.
  ///
  /// Returns false if a read did so, even if `body` caught the error, and if the storage cannot know, perhaps without
  /// running `body`. The caller must then discard the results of `body`. Throws what `body` throws. Default: false.
  func withoutWaiting(_ body: () throws -> Void) throws -> Bool

  /// Returns the approximate size of the rows of a range in bytes without reading them, or nil if it is not known.
  /// Default: nil.
  func approximateSize(of range: StorageRange, in family: StorageFamily) throws -> UInt64?

  /// Returns all families, in no particular order.
  func families() throws -> [StorageFamily]
  /// Creates a family. Throws `.alreadyExists`.
  func createFamily(_ name: String, options: StorageFamilyOptions) throws -> StorageFamily
  /// Changes the family's options that can be changed: the size of its memtables. Default: no effect, for storages
  /// without memtables.
  func setOptions(_ options: StorageFamilyOptions, of family: StorageFamily) throws
  /// Drops a family and its contents at once.
  func dropFamily(_ family: StorageFamily) throws

  /// Returns the current snapshot.
  func snapshot() throws -> any StorageSnapshot
  /// Returns the current snapshot, which may be `known`, a snapshot of this storage, if nothing was committed since.
  func snapshot(unlessChanged known: any StorageSnapshot) throws -> any StorageSnapshot
  /// Returns the oldest commit that an existing or later snapshot reads at; if there is no snapshot, this is the last
  /// commit. Returns nil if the storage cannot determine it. Default: nil.
  func oldestVersion() throws -> CommitVersion?
  /// Commits a batch. With a check, throws `.conflict` if anything that the check names was changed since its snapshot.
  func commit(
    _ batch: StorageBatch, check: StorageCheck?, durability: StorageDurability
  ) throws -> any StorageTicket
  /// Begins the writes of a transaction that reads at a snapshot of this storage.
  func begin(at snapshot: any StorageSnapshot) throws -> any StorageWriting
  /// Commits the writes of a transaction, followed by a batch that the transaction never read, atomically. `writing`
  /// was returned by `begin`; `batch` deletes no range without an upper bound.
  func commit(
    _ writing: any StorageWriting, then batch: StorageBatch, check: StorageCheck?, durability: StorageDurability
  ) throws -> any StorageTicket

  /// Whether the storage supports `beginIngestion`. Default: false.
  var offersIngestion: Bool { get }
  /// Begins to write tables that are added as a whole, apart from commits, to a family which must be empty at that
  /// time. Throws `.invalidArgument` if the storage or the family does not support ingestion. Default: throws.
  func beginIngestion(into family: StorageFamily) throws -> any StorageIngestion

  /// Waits until there is a commit after `version`, and returns the last commit at that time. Intended for databases
  /// that other processes write: this process knows its own commits. Throws `CancellationError`.
  func changes(since version: CommitVersion) async throws -> CommitVersion

  /// Returns when every logged commit up to a version survives a loss of power.
  func sync(through version: CommitVersion) throws
  /// A number that distinguishes the database from its copies: `checkpoint` gives each copy a different one. Default:
  /// 0.
  var incarnation: UInt64 { get }
  /// Writes a copy of the current database to a path at which no file exists.
  func checkpoint(to path: String, progress: (@Sendable (Double) -> Void)?) throws
  /// Closes the storage. May be called more than once.
  func close() throws
}

extension StorageBackend {
  /// Returns nil: the size is not known.
  public func approximateSize(of range: StorageRange, in family: StorageFamily) throws -> UInt64? { nil }
  /// The default, 0: copies are not distinguished.
  public var incarnation: UInt64 { 0 }
  /// Returns a new snapshot.
  public func snapshot(unlessChanged known: any StorageSnapshot) throws -> any StorageSnapshot { try snapshot() }
  /// The default, false.
  public var mayDelayCommits: Bool { false }
  /// The default, false.
  public var acceptsOnlyDeletes: Bool { false }
  /// Returns nil: the oldest version is not known.
  public func oldestVersion() throws -> CommitVersion? { nil }
  /// Returns false without running `body`.
  public func withoutWaiting(_ body: () throws -> Void) throws -> Bool { false }
  /// Does nothing, for a storage without memtables.
  public func setOptions(_ options: StorageFamilyOptions, of family: StorageFamily) throws {}
  /// The default, false.
  public var offersIngestion: Bool { false }
  /// Throws `.invalidArgument`, for a storage without ingestion.
  public func beginIngestion(into family: StorageFamily) throws -> any StorageIngestion {
    throw DatabaseError(.invalidArgument, "the storage takes no tables for family \"\(family.name)\"")
  }
}

/// A commit that is applied but perhaps not yet as durable as was requested.
public protocol StorageTicket: Sendable {
  /// Its position in the order of all commits.
  var version: CommitVersion { get }
  /// Whether `wait` would return at once.
  var isDurable: Bool { get }
  /// Waits until the commit is as durable as was requested. Throws `.outcomeUnknown`.
  func wait() throws
  /// Waits like `wait()`, but suspends the task, even if it is cancelled.
  func waitSuspended() async throws
}

/// The position of a commit in the order of all commits: opaque, and ordered.
public struct CommitVersion: Hashable, Comparable, Sendable, CustomStringConvertible {
  /// The number that the storage assigned.
  public let number: UInt64

  /// Creates a version. Only implementations of a backend need it.
  public init(_ number: UInt64) { self.number = number }

  /// A version before every commit.
  public static let zero = CommitVersion(0)

  /// Returns whether the left commit came first.
  public static func < (left: CommitVersion, right: CommitVersion) -> Bool { left.number < right.number }

  /// The number.
  public var description: String { "\(number)" }
}

/// The failures that a commit survives once it is acknowledged. The engine's `.none` is not offered, because objects
/// have to be kept.
public enum StorageDurability: Hashable, Sendable {
  /// The end of the process, but not a loss of power.
  case process
  /// A loss of power.
  case power
}

/// The maximum sizes of keys, values and batches, and the maximum age of snapshots.
public struct StorageLimits: Hashable, Sendable {
  /// The maximum size of a key in bytes.
  public var keySize: Int
  /// The maximum size of a value in bytes.
  public var valueSize: Int
  /// The maximum size of a batch in bytes.
  public var batchSize: Int
  /// The age in nanoseconds after which reads through a snapshot throw `.snapshotTooOld`, or nil for no limit.
  public var snapshotAgeNanoseconds: UInt64?

  /// Creates limits.
  public init(keySize: Int, valueSize: Int, batchSize: Int, snapshotAgeNanoseconds: UInt64? = nil) {
    self.keySize = keySize
    self.valueSize = valueSize
    self.batchSize = batchSize
    self.snapshotAgeNanoseconds = snapshotAgeNanoseconds
  }
}

/// A part of the key space with its own options: a column family of the engine, or a key prefix.
public struct StorageFamily: Hashable, Sendable {
  /// The name of the family.
  public let name: String
  /// The number by which the backend identifies the family. A number is never used again.
  public let number: UInt32

  /// Creates a family. Only implementations of a backend need it.
  public init(name: String, number: UInt32) {
    self.name = name
    self.number = number
  }
}

/// The storage options of a family.
public struct StorageFamilyOptions: Hashable, Sendable {
  /// The compression of values, or nil for the storage's default.
  public var compression: CompressionKind?
  /// The rule by which values that are counters of 64 bits take a number in `StorageBatch.add`, or nil if the values
  /// are not counters.
  public var counter: CounterRule?
  /// Whether the family is emptied whenever the database is opened. The family itself remains.
  public var isVolatile: Bool
  /// The approximate number of bytes of changes that are collected in memory before they are written to a table, or nil
  /// for the storage's default.
  public var memtableSize: Int?

  /// Creates options, each of which has a default.
  public init(
    compression: CompressionKind? = nil, counter: CounterRule? = nil, isVolatile: Bool = false,
    memtableSize: Int? = nil
  ) {
    self.compression = compression
    self.counter = counter
    self.isVolatile = isVolatile
    self.memtableSize = memtableSize
  }

  /// Options without compression, for families that are soon dropped.
  static let uncompressed = StorageFamilyOptions(compression: CompressionKind.none)
}

/// The keys from `lower` (included) to `upper` (excluded), or to the end if `upper` is nil.
public struct StorageRange: Hashable, Sendable {
  /// The first key of the range.
  public var lower: [UInt8]
  /// The first key after the range, or nil if the range extends to the end.
  public var upper: [UInt8]?

  /// Creates a range, which is empty if `upper` is not after `lower`.
  public init(lower: [UInt8] = [], upper: [UInt8]? = nil) {
    self.lower = lower
    self.upper = upper
  }

  /// Creates the range of all keys that begin with `prefix`.
  public init(prefix: [UInt8]) {
    lower = prefix
    var upper = prefix
    while upper.last == 0xFF { upper.removeLast() }
    if upper.isEmpty {
      self.upper = nil
    } else {
      upper[upper.count - 1] += 1
      self.upper = upper
    }
  }

  /// Whether the range can contain no key.
  public var isEmpty: Bool { upper.map { !lower.lexicographicallyPrecedes($0) } ?? false }
}

/// The keys and ranges that must not have changed since a snapshot for a commit to succeed.
public struct StorageCheck: Sendable {
  /// The snapshot at which the keys and ranges were read.
  public var snapshot: any StorageSnapshot
  /// Keys that were read.
  public var keys: [(family: StorageFamily, key: [UInt8])]
  /// Ranges that were read.
  public var ranges: [(family: StorageFamily, range: StorageRange)]

  /// Creates a check without keys and ranges.
  public init(_ snapshot: any StorageSnapshot) {
    self.snapshot = snapshot
    keys = []
    ranges = []
  }
}
