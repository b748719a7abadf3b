public import VarveEngine

/// The interface to storage: everything that the object floor asks of it.
///
/// ```
///  database ─▶ StorageBackend ─▶ the engine on a disk, the engine in memory, or another ordered store
/// ```
///
/// A backend keeps byte strings in `memcmp` order, in families, and commits batches whole or not
/// at all. Nothing above names a file, a level or a memtable, so that an ordered, transactional store on
/// other machines can replace the engine.
///
/// # Invariants
/// 1. A snapshot sees every commit up to its version, and none after it, in all families alike.
/// 2. Versions ascend in commit order, also over restarts.
/// 3. `commit` returns when the batch is *applied*: the next snapshot sees it. Its ticket says when it is
///    as durable as was asked. Tickets become durable in commit order.
/// 4. A commit that throws `.conflict` changed nothing. One that throws `.outcomeUnknown` may have.
///
/// # Concurrency
/// Safe from any thread. The calls here may block: the asynchronous forms beside them, which a store far away
/// implements itself, suspend instead.
public protocol StorageBackend: AnyObject, Sendable {
  /// How large keys, values and batches may be.
  var limits: StorageLimits { get }
  /// Whether commits are refused: a read-only database, or one that follows another process.
  var isReadOnly: Bool { get }
  /// Whether calls never wait for a disk or a network. Asynchronous doors then run where they are called.
  var isInMemory: Bool { get }
  /// Whether a commit may have to wait now, for a storage that is late with its work. An asynchronous call then
  /// commits on a thread of its own. Default: false.
  var mayDelayCommits: Bool { get }
  /// Runs `body`, in which a read of this thread that would have to wait for a disk or a network throws instead.
  /// Returns false where one did, whatever `body` made of that, and where the storage can't know, perhaps without
  /// running `body`: what it found is to be forgotten then. Throws what `body` throws. Default: false.
  func withoutWaiting(_ body: () throws -> Void) throws -> Bool

  /// About how many bytes the rows of a range take, without reading them; nil where that is not known. Default: nil.
  func approximateSize(of range: StorageRange, in family: StorageFamily) throws -> UInt64?

  /// All families, in no order.
  func families() throws -> [StorageFamily]
  /// Makes a family. Throws `.alreadyExists`.
  func createFamily(_ name: String, options: StorageFamilyOptions) throws -> StorageFamily
  /// Changes what of a family's options can be changed: the size of its memtables. Default: nothing, for storages that
  /// have none.
  func setOptions(_ options: StorageFamilyOptions, of family: StorageFamily) throws
  /// Drops a family with all it holds, at once.
  func dropFamily(_ family: StorageFamily) throws

  /// The current snapshot, to read at.
  func snapshot() throws -> any StorageSnapshot
  /// The same. Where nothing was committed since `known`, a snapshot of this storage, it may be that one.
  func snapshot(unlessChanged known: any StorageSnapshot) throws -> any StorageSnapshot
  /// The oldest commit that a snapshot reads at, now or later: the last commit where there is none. Nil where that can't
  /// be said. Default: nil.
  func oldestVersion() throws -> CommitVersion?
  /// Commits a batch. With a check, only if nothing that it names was changed since; `.conflict` otherwise.
  func commit(
    _ batch: StorageBatch, check: StorageCheck?, durability: StorageDurability
  ) throws -> any StorageTicket
  /// What a transaction writes that reads at a snapshot of this storage. Default: `BufferedWriting`, which is right, and
  /// slow for large transactions.
  func begin(at snapshot: any StorageSnapshot) throws -> any StorageWriting
  /// Commits what a transaction wrote and, after it, a batch that it never read, in one. `writing` is of `begin`; `batch` deletes no
  /// range without an end.
  func commit(
    _ writing: any StorageWriting, then batch: StorageBatch, check: StorageCheck?, durability: StorageDurability
  ) throws -> any StorageTicket

  /// Whether it takes tables: `beginIngestion`. Default: false.
  var offersIngestion: Bool { get }
  /// Begins to write tables that are put whole into a family which is empty then, beside commits. Throws `.invalidArgument`
  /// where the storage or the family takes none. Default: throws.
  func beginIngestion(into family: StorageFamily) throws -> any StorageIngestion

  /// Returns when there is a commit after `version`, and which is the last one then. For databases that other
  /// processes write: what this program commits it knows itself. Throws `CancellationError`.
  func changes(since version: CommitVersion) async throws -> CommitVersion

  /// Returns when every commit up to a version survives a loss of power, as far as it was logged at all.
  func sync(through version: CommitVersion) throws
  /// Identifies the database among its copies: `checkpoint` gives each copy another one. Default: 0.
  var incarnation: UInt64 { get }
  /// Copies the database as it is now to a path where nothing is.
  func checkpoint(to path: String, progress: (@Sendable (Double) -> Void)?) throws
  /// Ends the storage. May be called twice.
  func close() throws
}

extension StorageBackend {
  /// Nil.
  public func approximateSize(of range: StorageRange, in family: StorageFamily) throws -> UInt64? { nil }
  /// Copies are not distinguished.
  public var incarnation: UInt64 { 0 }
  /// A new snapshot.
  public func snapshot(unlessChanged known: any StorageSnapshot) throws -> any StorageSnapshot { try snapshot() }
  /// No storage is late that doesn't say so.
  public var mayDelayCommits: Bool { false }
  /// No storage can say that doesn't do so.
  public func oldestVersion() throws -> CommitVersion? { nil }
  /// No storage knows that doesn't say so.
  public func withoutWaiting(_ body: () throws -> Void) throws -> Bool { false }
  /// A storage without memtables has nothing to change.
  public func setOptions(_ options: StorageFamilyOptions, of family: StorageFamily) throws {}
  /// No storage takes tables that doesn't say so.
  public var offersIngestion: Bool { false }
  /// See `offersIngestion`.
  public func beginIngestion(into family: StorageFamily) throws -> any StorageIngestion {
    throw DatabaseError(.invalidArgument, "the storage takes no tables for family \"\(family.name)\"")
  }
  /// Holds everything in arrays, and commits a batch.
  public func begin(at snapshot: any StorageSnapshot) throws -> any StorageWriting { BufferedWriting(snapshot) }
  /// Commits the batch of a `BufferedWriting`.
  public func commit(
    _ writing: any StorageWriting, then batch: StorageBatch, check: StorageCheck?, durability: StorageDurability
  ) throws -> any StorageTicket {
    guard let writing = writing as? BufferedWriting else {
      throw DatabaseError(.invalidArgument, "what is to be committed was begun in another storage")
    }
    return try commit(writing.batch(then: batch), check: check, durability: durability)
  }
}

/// A commit that is applied, and perhaps not yet as durable as was asked.
public protocol StorageTicket: Sendable {
  /// Its position in the order of all commits.
  var version: CommitVersion { get }
  /// Whether `wait` returns at once.
  var isDurable: Bool { get }
  /// Returns when the commit is as durable as was asked. Throws `.outcomeUnknown`.
  func wait() throws
  /// The same, suspended, whatever becomes of the task.
  func waitSuspended() async throws
}

/// The position of a commit in the order of all commits: opaque, and ordered.
public struct CommitVersion: Hashable, Comparable, Sendable, CustomStringConvertible {
  /// The number that the storage gave it.
  public let number: UInt64

  /// A version, for those who write a backend.
  public init(_ number: UInt64) { self.number = number }

  /// Before every commit.
  public static let zero = CommitVersion(0)

  /// The order of commits.
  public static func < (left: CommitVersion, right: CommitVersion) -> Bool { left.number < right.number }

  /// The number.
  public var description: String { "\(number)" }
}

/// What a commit survives once it is acknowledged. `.none` of the engine is not offered: objects are kept.
public enum StorageDurability: Hashable, Sendable {
  /// The death of the process, not a loss of power.
  case process
  /// A loss of power.
  case power
}

/// How large things may be.
public struct StorageLimits: Hashable, Sendable {
  /// The bytes of a key.
  public var keySize: Int
  /// The bytes of a value.
  public var valueSize: Int
  /// The bytes of a batch.
  public var batchSize: Int
  /// How old a snapshot may grow, in nanoseconds, until reads through it throw `.snapshotTooOld`. Nil: no limit.
  public var snapshotAgeNanoseconds: UInt64?

  /// Limits.
  public init(keySize: Int, valueSize: Int, batchSize: Int, snapshotAgeNanoseconds: UInt64? = nil) {
    self.keySize = keySize
    self.valueSize = valueSize
    self.batchSize = batchSize
    self.snapshotAgeNanoseconds = snapshotAgeNanoseconds
  }
}

/// A part of the key space with options of its own: a column family of the engine, or a prefix.
public struct StorageFamily: Hashable, Sendable {
  /// Its name.
  public let name: String
  /// The number by which the backend knows it. Never given twice.
  public let number: UInt32

  /// A family, for those who write a backend.
  public init(name: String, number: UInt32) {
    self.name = name
    self.number = number
  }
}

/// How a family is kept.
public struct StorageFamilyOptions: Hashable, Sendable {
  /// How values are compressed. Nil: as the storage does by default.
  public var compression: CompressionKind?
  /// How values that are counters of 64 bits take a number, by `StorageBatch.add`; nil: they are no counters.
  public var counter: CounterRule?
  /// Emptied whenever the database is opened; the family itself stays.
  public var isVolatile: Bool
  /// About how many bytes of changes are collected in memory before they are written to a table; nil: as the storage does
  /// by default.
  public var memtableSize: Int?

  /// Options; each has a default.
  public init(
    compression: CompressionKind? = nil, counter: CounterRule? = nil, isVolatile: Bool = false,
    memtableSize: Int? = nil
  ) {
    self.compression = compression
    self.counter = counter
    self.isVolatile = isVolatile
    self.memtableSize = memtableSize
  }

  /// As it is, for what is soon dropped.
  static let uncompressed = StorageFamilyOptions(compression: CompressionKind.none)
}

/// Keys from `lower` (included) to `upper` (excluded; nil: to the end).
public struct StorageRange: Hashable, Sendable {
  /// The first key.
  public var lower: [UInt8]
  /// The first key after the range.
  public var upper: [UInt8]?

  /// A range. Empty where `upper` is not after `lower`.
  public init(lower: [UInt8] = [], upper: [UInt8]? = nil) {
    self.lower = lower
    self.upper = upper
  }

  /// All keys that begin with `prefix`.
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

  /// Whether no key can be in it.
  public var isEmpty: Bool { upper.map { !lower.lexicographicallyPrecedes($0) } ?? false }
}

/// What must not have changed since a snapshot for a commit to happen.
public struct StorageCheck: Sendable {
  /// The snapshot.
  public var snapshot: any StorageSnapshot
  /// Keys that were read.
  public var keys: [(family: StorageFamily, key: [UInt8])]
  /// Ranges that were read.
  public var ranges: [(family: StorageFamily, range: StorageRange)]

  /// A check of nothing yet.
  public init(_ snapshot: any StorageSnapshot) {
    self.snapshot = snapshot
    keys = []
    ranges = []
  }
}
