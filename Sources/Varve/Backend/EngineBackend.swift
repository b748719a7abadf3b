internal import FutexLocks
internal import Synchronization
public import VarveEngine

/// The engine as a storage backend: on a disk, in memory, read-only, or following another process.
///
/// A family of the interface is a column family, and its number is that column family's id. Volatile families are those
/// of the engine: they are not logged, so a commit that writes to them alone waits for no sync.
///
/// Safe from any thread.
public final class EngineBackend: StorageBackend {
  /// The engine. A program that writes to the families of the object database through it bypasses
  /// every extension.
  public let engine: Engine
  private let follower: Follower?
  /// Whether the database is in memory.
  public let isInMemory: Bool
  /// Whether the engine was opened read-only or follows another process.
  public let isReadOnly: Bool
  /// The file system in which checkpoints are made, or nil for that of the engine.
  private let checkpointSystem: (any FileSystem)?
  private let table: FutexLock<FamilyTable>
  private let isClosed = Atomic<Bool>(false)
  /// Held while a caller begins to wait for commits, and while the storage is marked as closed.
  private let waiting = Mutex(())
  /// The last commit that has to survive a loss of power. No later commit is acknowledged before this one is durable.
  private let lastPower = Atomic<UInt64>(0)

  /// Creates a backend over an open engine, which `close` closes.
  public convenience init(_ engine: Engine, isInMemory: Bool = false) throws {
    try self.init(engine, isInMemory: isInMemory, checkpointSystem: nil)
  }

  /// Creates a backend with another file system for checkpoints. A checkpoint in memory would not outlive the process.
  init(_ engine: Engine, isInMemory: Bool, checkpointSystem: (any FileSystem)?) throws {
    self.engine = engine
    follower = nil
    self.isInMemory = isInMemory
    // Stored because each write reads it, and reading one of the engine's options from this module copies all of them.
    isReadOnly = engine.options.readOnly
    self.checkpointSystem = checkpointSystem
    table = FutexLock(FamilyTable(engine.families))
  }

  /// Creates a backend over a follower, which `close` closes.
  public init(_ follower: Follower) {
    engine = follower.engine
    self.follower = follower
    isInMemory = false
    isReadOnly = true
    checkpointSystem = nil
    table = FutexLock(FamilyTable(follower.engine.families))
  }

  /// The limits of the engine's format.
  public var limits: StorageLimits {
    StorageLimits(
      keySize: Limits.keySizeMaximum, valueSize: Limits.valueSizeMaximum, batchSize: Limits.batchSizeMaximum)
  }

  /// Whether flushes or compactions cannot keep up, so that the engine slows writers down.
  public var mayDelayCommits: Bool { engine.mayDelayWrites }

  /// Whether the disk is full, and the engine refuses all commits but those that free space.
  public var acceptsOnlyDeletes: Bool {
    !isClosed.load(ordering: .sequentiallyConsistent) && engine.acceptedWrites == .deletesOnly
  }

  /// Runs `body` so that reads which would need a file throw. Reads that memtables and the block cache answer succeed.
  /// Returns false for a follower, which looks for new commits in files first.
  public func withoutWaiting(_ body: () throws -> Void) throws -> Bool {
    try follower == nil && engine.withoutFileReads(body) != nil
  }

  /// Throws `.closed` after `close`. The engine itself treats use after its end as a programming error and stops the
  /// process.
  private func requireOpen() throws {
    if isClosed.load(ordering: .sequentiallyConsistent) { throw DatabaseError(.closed, "the storage was closed") }
  }

  // MARK: - Families

  /// Returns all families except the engine's own `default`.
  public func families() throws -> [StorageFamily] {
    try requireOpen()
    refreshFollowed()
    return table.withLock { $0.all }.filter { $0.id != .default }.map {
      StorageFamily(name: $0.name, number: $0.id.value)
    }
  }

  /// Creates a family, which is durable when the call returns.
  public func createFamily(_ name: String, options: StorageFamilyOptions) throws -> StorageFamily {
    try requireOpen()
    return try mapped {
      let family = try engine.createFamily(name, options: Self.engineOptions(options))
      table.withLock { $0 = FamilyTable(engine.families) }
      return StorageFamily(name: family.name, number: family.id.value)
    }
  }

  /// Changes the options of a family durably, unless it already has them.
  public func setOptions(_ options: StorageFamilyOptions, of family: StorageFamily) throws {
    try requireOpen()
    try mapped { try engine.setOptions(Self.engineOptions(options), of: try columnFamily(family.number)) }
  }

  /// Returns the compression of a family, or `nil` if it is that of the database.
  package func compression(of family: StorageFamily) throws -> CompressionKind? {
    try requireOpen()
    return try columnFamily(family.number).options.compression
  }

  /// Drops a family without reading its contents.
  public func dropFamily(_ family: StorageFamily) throws {
    try requireOpen()
    try mapped {
      try engine.dropFamily(try columnFamily(family.number))
      table.withLock { $0 = FamilyTable(engine.families) }
    }
  }

  private static func engineOptions(_ options: StorageFamilyOptions) -> FamilyOptions {
    let operatorName: String? =
      switch options.counter {
      case .sum: CounterOperator().name
      case .maximum: MaximumOperator().name
      case nil: nil
      }
    return FamilyOptions(
      compression: options.compression, mergeOperator: operatorName, isVolatile: options.isVolatile,
      memtableSize: options.memtableSize)
  }

  /// Reads the families of a follower again: they are those of its last catch-up.
  private func refreshFollowed() {
    guard follower != nil else { return }
    table.withLock { $0 = FamilyTable(engine.families) }
  }

  fileprivate func columnFamily(_ number: UInt32) throws -> ColumnFamily {
    if let family = table.withLock({ $0[number] }) { return family }
    throw DatabaseError(.notFound, "no family has the number \(number): it was dropped")
  }

  // MARK: - Reading and writing

  /// Returns the current snapshot. For a follower, this is the snapshot of the last commit of the writing process.
  public func snapshot() throws -> any StorageSnapshot {
    try requireOpen()
    return try mapped {
      if let follower {
        try follower.catchUp()
        refreshFollowed()
      }
      return EngineBackendSnapshot(engine.snapshot(), table.withLock { $0 }, self)
    }
  }

  /// Returns `known` if nothing was committed since, and a new snapshot otherwise.
  public func snapshot(unlessChanged known: any StorageSnapshot) throws -> any StorageSnapshot {
    guard follower == nil, let engineSnapshot = known as? EngineBackendSnapshot,
      engineSnapshot.snapshot.sequence == engine.visibleSequence
    else { return try snapshot() }
    return known
  }

  /// Returns the oldest sequence number that a snapshot in the engine's list reads at.
  public func oldestVersion() throws -> CommitVersion? {
    try requireOpen()
    return CommitVersion(engine.oldestReadSequence.value)
  }

  /// Commits a batch through the engine's group commit.
  public func commit(
    _ batch: StorageBatch, check: StorageCheck?, durability: StorageDurability
  ) throws -> any StorageTicket {
    try requireOpen()
    return try mapped { try submit(WriteBatch(capacity: batch.byteCount), batch, check, durability) }
  }

  /// Returns an indexed batch of the engine over a snapshot.
  public func begin(at snapshot: any StorageSnapshot) throws -> any StorageWriting {
    try requireOpen()
    guard let snapshot = snapshot as? EngineBackendSnapshot else {
      throw DatabaseError(.invalidArgument, "the snapshot of the transaction is of another storage")
    }
    return EngineWriting(snapshot, self)
  }

  /// Commits an indexed batch of the engine, followed by another batch.
  public func commit(
    _ writing: any StorageWriting, then batch: StorageBatch, check: StorageCheck?, durability: StorageDurability
  ) throws -> any StorageTicket {
    try requireOpen()
    guard let writing = writing as? EngineWriting else {
      throw DatabaseError(.invalidArgument, "the write to commit was begun in another storage")
    }
    return try mapped { try submit(try writing.packed(room: batch.byteCount), batch, check, durability) }
  }

  /// Commits `first`, followed by `batch`, as one write.
  private func submit(
    _ first: consuming WriteBatch, _ batch: StorageBatch, _ check: StorageCheck?, _ durability: StorageDurability
  ) throws -> any StorageTicket {
    let families = table.withLock { $0 }
    var packed = first
    let start = packed.byteCount
    try batch.forEach { operation, number, key, value in
      guard let family = families[number] else {
        throw DatabaseError(.notFound, "no family has the number \(number): it was dropped")
      }
      try add(operation, family, key, value, of: batch, to: &packed)
    }
    // The program's changes are in `first`. What the database adds to them must not prevent a delete on a full disk.
    if start > 0 { packed.ownByteCount = packed.byteCount - start }
    let required = Durability(durability)
    guard let check else { return ticket(try engine.submit(once: packed, durability: required), durability) }
    let guarding = try engineGuard(check, families)
    return ticket(try engine.submit(once: packed, guarding: guarding, durability: required), durability)
  }

  private func ticket(_ ticket: CommitTicket, _ durability: StorageDurability) -> any StorageTicket {
    // Unlogged changes do not survive a loss of power, so no commit has to wait for them.
    if durability == .power, ticket.isLogged {
      lastPower.max(ticket.sequence.value, ordering: .sequentiallyConsistent)
    }
    return EngineTicket(ticket, self, waitsFor: lastPower.load(ordering: .sequentiallyConsistent))
  }

  /// Returns whether all commits up to `sequence` survive a loss of power.
  fileprivate func isDurable(_ sequence: UInt64) -> Bool {
    isClosed.load(ordering: .sequentiallyConsistent) || engine.durableSequence.value >= sequence
  }

  private func add(
    _ operation: StorageBatch.Operation, _ family: ColumnFamily, _ key: RawSpan, _ value: RawSpan,
    of whole: StorageBatch, to batch: inout WriteBatch
  ) throws {
    switch operation {
    case .put: try batch.put(key, value, in: family)
    case .delete: try batch.delete(key, in: family)
    case .singleDelete: try batch.singleDelete(key, in: family)
    case .deleteRange: try batch.deleteRange(from: key, to: value, in: family)
    case .add: try batch.merge(key, value, in: family)
    case .deleteToEnd: try deleteToEnd(family, from: key.copied, of: whole, to: &batch)
    case .putStamped:
      let position = StorageBatch.stampPosition(value)
      let value = value.extracting(StorageBatch.stampSize..<value.byteCount)
      try batch.putStamped(key, value, at: position.ofEngine, in: family)
    }
  }

  /// Deletes from a key to the end of a family. The engine's range deletes need an upper bound, so the range ends after
  /// the last key that exists or that the batch itself puts.
  private func deleteToEnd(
    _ family: ColumnFamily, from lower: [UInt8], of whole: StorageBatch, to batch: inout WriteBatch
  ) throws {
    var cursor = try engine.cursor(in: family)
    try cursor.seekToLast()
    var last = cursor.isValid ? cursor.keyBytes : nil
    whole.forEach { operation, number, key, value in
      guard number == family.id.value else { return }
      var key = key.copied
      // The eight bytes of the version are not known yet.
      if operation == .putStamped, case .key(let offset) = StorageBatch.stampPosition(value), offset <= key.count - 8 {
        key.replaceSubrange(offset..<(offset + 8), with: StampPosition.pending)
      }
      if last.map({ ByteOrder.precedes($0, key) }) ?? true { last = key }
    }
    guard let last, !ByteOrder.precedes(last, lower) else { return }
    guard last.count == limits.keySize else { return try batch.deleteRange(from: lower, to: last + [0], in: family) }
    // A key of the maximum size is deleted by itself, because an upper bound after it would be too long.
    try batch.deleteRange(from: lower, to: last, in: family)
    try batch.delete(last, in: family)
  }

  private func engineGuard(_ check: StorageCheck, _ families: FamilyTable) throws -> CommitGuard {
    guard let snapshot = check.snapshot as? EngineBackendSnapshot else {
      throw DatabaseError(.invalidArgument, "the snapshot of the check is of another storage")
    }
    func find(_ family: StorageFamily) throws -> ColumnFamily {
      if let found = families[family.number] { return found }
      throw DatabaseError(.conflict, "family \"\(family.name)\", of which something was read, was dropped")
    }
    let guarding = CommitGuard(snapshot.snapshot)
    for (family, key) in check.keys { guarding.note(key, in: try find(family)) }
    for (family, range) in check.ranges where !range.isEmpty {
      guarding.note(from: range.lower, to: range.upper, in: try find(family))
    }
    return guarding
  }

  /// Whether ingestion is offered: only by a writable database.
  public var offersIngestion: Bool { !isReadOnly }

  /// Begins an ingestion that writes tables of the engine, as compactions write them.
  public func beginIngestion(into family: StorageFamily) throws -> any StorageIngestion {
    try requireOpen()
    return try EngineIngestion(engine, try columnFamily(family.number))
  }

  // MARK: - Others

  /// Waits until the writer that this backend follows has committed after `version`.
  public func changes(since version: CommitVersion) async throws -> CommitVersion {
    if let (commits, known) = try beginWaiting() {
      if known > version { return known }
      do {
        for try await sequence in commits where sequence.value > version.number {
          return CommitVersion(sequence.value)
        }
      } catch let error as EngineError {
        throw DatabaseError(error)
      }
    }
    // There are no further commits: no other process writes, or the follower was closed.
    throw CancellationError()
  }

  /// Returns the stream of commits of an open follower, and the last commit that is visible now; nil if there is no
  /// open follower. The stream is created before the catch-up, because it only reports commits after its creation.
  private func beginWaiting() throws -> (AsyncThrowingStream<SequenceNumber, any Error>, CommitVersion)? {
    try waiting.withLock { _ in
      guard let follower, !isClosed.load(ordering: .sequentiallyConsistent) else { return nil }
      let commits = follower.commits()
      return (commits, CommitVersion(try mapped { try follower.catchUp() }.value))
    }
  }

  /// Returns the approximate size of the rows of a range in bytes: their compressed size in tables, and their size in
  /// memtables. No row is read.
  public func approximateSize(of range: StorageRange, in family: StorageFamily) throws -> UInt64? {
    try mapped {
      let bounds = CursorBounds(lower: range.lower, upper: range.upper)
      return try engine.approximateSize(of: bounds, in: try columnFamily(family.number)).total
    }
  }

  /// Syncs the log, unless an earlier sync already included the commit.
  public func sync(through version: CommitVersion) throws {
    if !isDurable(version.number) { try mapped { try engine.sync() } }
  }

  /// The incarnation of the engine's database.
  public var incarnation: UInt64 { engine.incarnation }

  /// Writes a checkpoint of the engine to the file system that holds its files, or to disk for a database in memory.
  public func checkpoint(to path: String, progress: (@Sendable (Double) -> Void)?) throws {
    try mapped {
      progress?(0)
      try engine.checkpoint(to: path, on: checkpointSystem)
      progress?(1)
    }
  }

  /// Closes the engine or the follower.
  public func close() throws {
    let isSecond = waiting.withLock { _ in isClosed.exchange(true, ordering: .sequentiallyConsistent) }
    guard !isSecond else { return }
    try mapped {
      if let follower { try follower.close() } else { try engine.close() }
    }
  }
}

/// The column families by their numbers. A table is never modified; a change of the families replaces it.
struct FamilyTable: Sendable {
  /// The column families, indexed by their ids. Ids ascend and are few, so a lookup is one array access.
  private let byNumber: [ColumnFamily?]
  let all: [ColumnFamily]

  init(_ families: [ColumnFamily]) {
    all = families
    var byNumber = [ColumnFamily?](repeating: nil, count: Int(families.map(\.id.value).max() ?? 0) + 1)
    for family in families { byNumber[Int(family.id.value)] = family }
    self.byNumber = byNumber
  }

  subscript(number: UInt32) -> ColumnFamily? {
    @inline(__always) get { Int(number) < byNumber.count ? byNumber[Int(number)] : nil }
  }
}

final class EngineBackendSnapshot: StorageSnapshot {
  let snapshot: EngineSnapshot
  private let families: FamilyTable
  private let backend: EngineBackend

  init(_ snapshot: EngineSnapshot, _ families: FamilyTable, _ backend: EngineBackend) {
    self.snapshot = snapshot
    self.families = families
    self.backend = backend
  }

  var version: CommitVersion { CommitVersion(snapshot.sequence.value) }

  func hasFormerFamily(named name: String, besides family: StorageFamily?) -> Bool {
    if let family, !snapshot.isOlder(than: FamilyID(family.number)) { return false }
    return snapshot.hasFamily(named: name)
  }

  /// Returns the column family of a family. A family that was created after the snapshot has no rows in it, and reading
  /// one that was dropped throws.
  func family(_ family: StorageFamily) throws -> ColumnFamily {
    if let found = families[family.number] { return found }
    return try backend.columnFamily(family.number)
  }

  func visit(_ key: [UInt8], in family: StorageFamily, _ body: (RawSpan) throws -> Void) throws {
    let family = try self.family(family)
    do {
      _ = unsafe try backend.engine.withValue(forKey: key.span.bytes, in: family, snapshot: snapshot, body)
    } catch let error as EngineError {
      throw DatabaseError(error)
    }
  }

  func value(of key: [UInt8], in family: StorageFamily) throws -> [UInt8]? {
    let family = try self.family(family)
    do throws(EngineError) {
      return try backend.engine.get(key, in: family, snapshot: snapshot)
    } catch {
      throw DatabaseError(error)
    }
  }

  func values(of keys: [[UInt8]], in family: StorageFamily) throws -> [[UInt8]?] {
    let family = try self.family(family)
    return try mapped { try backend.engine.multiGet(keys, in: family, snapshot: snapshot) }
  }

  func visitRow(
    at offset: Int, of range: StorageRange, in family: StorageFamily,
    _ body: (_ key: RawSpan, _ value: RawSpan) throws -> Void
  ) throws -> Int {
    if range.isEmpty { return 0 }
    let family = try self.family(family)
    let bounds = CursorBounds(lower: range.lower, upper: range.upper)
    var failure: (any Error)?
    let passed: Int
    do throws(EngineError) {
      passed = try backend.engine.visitEntry(at: offset, in: family, bounds: bounds, snapshot: snapshot) { key, value in
        do { try body(key, value) } catch { failure = error }
      }
    } catch {
      throw DatabaseError(error)
    }
    if let failure { throw failure }
    return passed
  }

  func visitRows(
    of range: StorageRange, in family: StorageFamily, _ body: (_ key: RawSpan, _ value: RawSpan) throws -> Bool
  ) throws {
    if range.isEmpty { return }
    let family = try self.family(family)
    do {
      let bounds = CursorBounds(lower: range.lower, upper: range.upper)
      var cursor = try backend.engine.cursor(in: family, bounds: bounds, snapshot: snapshot)
      try cursor.seekToFirst()
      while cursor.isValid {
        guard try cursor.withEntry(body) else { return }
        try cursor.next()
      }
    } catch let error as EngineError {
      throw DatabaseError(error)
    }
  }

  func page(
    _ range: StorageRange, in family: StorageFamily, isReverse: Bool, keysOnly: Bool, byteLimit: Int, rowLimit: Int
  ) throws -> StoragePage {
    let family = try self.family(family)
    do {
      let bounds = CursorBounds(lower: range.lower, upper: range.upper)
      var cursor = try backend.engine.cursor(in: family, bounds: bounds, snapshot: snapshot)
      return try StoragePage(
        &cursor, isReverse: isReverse, keysOnly: keysOnly, byteLimit: byteLimit, rowLimit: rowLimit)
    } catch {
      throw DatabaseError(error)
    }
  }
}

private struct EngineTicket: StorageTicket {
  private let ticket: CommitTicket
  private let backend: EngineBackend
  /// The last commit, at most this one, that has to survive a loss of power before this one is acknowledged; 0 if there
  /// is none.
  private let awaited: UInt64

  init(_ ticket: CommitTicket, _ backend: EngineBackend, waitsFor awaited: UInt64) {
    self.ticket = ticket
    self.backend = backend
    self.awaited = min(awaited, ticket.sequence.value)
  }

  var version: CommitVersion { CommitVersion(ticket.sequence.value) }
  var isDurable: Bool { awaited == 0 || backend.isDurable(awaited) }

  func wait() throws {
    try mapped {
      try ticket.wait()
      if !isDurable { try backend.engine.sync() }
    }
  }

  func waitSuspended() async throws {
    if isDurable { return }
    do throws(EngineError) { try await ticket.waitForSync() } catch { throw DatabaseError(error) }
  }
}

/// Calls the engine and converts its errors to `DatabaseError`.
private func mapped<Result>(_ body: () throws -> Result) throws -> Result {
  do {
    return try body()
  } catch let error as EngineError {
    throw DatabaseError(error)
  }
}

extension StampPosition {
  var ofEngine: StampLocation {
    switch self {
    case .key(let offset): .key(offset)
    case .value(let offset): .value(offset)
    }
  }
}

extension Durability {
  fileprivate init(_ durability: StorageDurability) { self = durability == .power ? .power : .process }
}

/// Calls the engine and converts its errors to `DatabaseError`, for a body that throws nothing but engine errors.
@inline(__always)
func mapped<Result>(_ body: () throws(EngineError) -> Result) throws -> Result {
  do throws(EngineError) {
    return try body()
  } catch {
    throw DatabaseError(error)
  }
}

extension DatabaseError {
  /// Creates an error from an engine error, which becomes its cause.
  init(_ error: EngineError) {
    let code: Code =
      switch error.code {
      case .corruption: .corruption
      case .notReadableNow: .notReadableNow
      case .unsupportedFormat: .unsupportedVersion
      case .notFound: .notFound
      case .notADatabase: .notADatabase
      case .locked: .locked
      case .alreadyExists: .alreadyExists
      case .readOnly: .readOnly
      // The part was built again or dropped after the read's snapshot was taken.
      case .familyDropped: .snapshotTooOld
      case .conflict: .conflict
      case .outcomeUnknown: .outcomeUnknown
      case .invalidArgument: .invalidArgument
      case .cursorEnded: .cursorEnded
      case .limitExceeded:
        switch error.limit {
        case .key: .keyTooLong
        case .value: .valueTooLong
        case .batch: .batchTooLarge
        case nil: .storage
        }
      default: .storage
      }
    // The message has the engine's text, file and cause but not its code, so that the cause adds nothing to it.
    self.init(code, String(error.description.dropFirst("\(error.code): ".count)), cause: error)
  }
}
