public import EngineTestSupport
internal import Synchronization
public import Varve
public import protocol VarveTesting.BufferingBackend

#if canImport(Darwin)
  internal import Darwin
#elseif canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#endif

/// A second storage backend that is as different from the engine as the backend contract allows: sorted arrays, small
/// limits, slow results, and faults drawn from a seed.
///
/// ```swift
/// let storage = ToyStorage()
/// let backend = ToyBackend(storage)
/// let database = try Database.open(backend, path: "toy")
/// backend.faults.lateOneIn = 3
/// ```
///
/// # Strict checks
/// A use after `close` throws `.closed`; a family that was dropped throws `.notFound`, through older snapshots too; a
/// single delete of a key that was not put exactly once throws `.invalidArgument`; an addition to a value that does
/// not have eight bytes throws `.corruption`. The names of families have no meaning.
///
/// # Time
/// Each call advances a manual clock by `callNanoseconds`, and yields to other threads as often as the faults
/// specify. Snapshots expire by that clock. No call sleeps.
///
/// Safe from any thread.
public final class ToyBackend: BufferingBackend {
  /// The content that the backend opens.
  public let storage: ToyStorage
  /// The clock of the backend.
  public let clock: ManualClock
  /// The size limits.
  public let limits: StorageLimits
  /// Whether commits are refused, because another backend of the same storage is the writer.
  public let isReadOnly: Bool
  private let life: Int
  private let chances: Mutex<ToyChances>
  private let isClosed = Atomic<Bool>(false)

  /// The number of nanoseconds by which a call advances the clock.
  public static let callNanoseconds: UInt64 = 1_000_000

  /// Limits that are small enough for tests to reach.
  public static let smallLimits = StorageLimits(keySize: 300, valueSize: 16 << 10, batchSize: 1 << 20)

  /// Opens a storage. Volatile families are emptied, unless the backend is read-only.
  public init(
    _ storage: ToyStorage = ToyStorage(), limits: StorageLimits = ToyBackend.smallLimits, isReadOnly: Bool = false,
    faults: ToyFaults = ToyFaults(), clock: ManualClock = ManualClock()
  ) {
    self.storage = storage
    self.limits = limits
    self.isReadOnly = isReadOnly
    self.clock = clock
    chances = Mutex(ToyChances(faults))
    life = storage.state.withLock { state in
      if !isReadOnly {
        state.changeFamilies { content in
          for (number, family) in content.families where family.options.isVolatile {
            content.families[number]?.rows = ToyRows()
          }
        }
      }
      return state.life
    }
  }

  /// Always false: calls may wait, as for a remote storage.
  public var isInMemory: Bool { false }
  /// Whether the backend reports that it may delay commits. It never does; tests set the value.
  public var mayDelayCommits: Bool {
    get { saysItMayDelay.load(ordering: .relaxed) }
    set { saysItMayDelay.store(newValue, ordering: .relaxed) }
  }
  private let saysItMayDelay = Atomic<Bool>(false)

  /// Runs `body`, and draws whether its result counts as available without waiting.
  public func withoutWaiting(_ body: () throws -> Void) throws -> Bool {
    guard faults.atOnceOneIn > 0 else { return false }
    let isAtOnce = chances.withLock { $0.meets($0.faults.atOnceOneIn) }
    do { try body() } catch {
      if isAtOnce { throw error }
    }
    return isAtOnce
  }

  // MARK: - Faults

  /// The faults that occur from now on.
  public var faults: ToyFaults {
    get { chances.withLock { $0.faults } }
    set { chances.withLock { $0.faults = newValue } }
  }

  /// Makes the next commit that can meet this fault meet it. Several faults are met in their order.
  public func inject(_ fault: ToyFaults.OneCommit) { chances.withLock { $0.injected.append(fault) } }

  /// Makes the read that follows `count` others throw `.snapshotTooOld`; `nil` cancels that.
  public func failRead(after count: Int?) { chances.withLock { $0.readsUntilTooOld = count } }

  /// A call that is complete and about to return its result.
  public enum Answered: Sendable {
    /// A call of `snapshot()`.
    case snapshot
    /// A call of `commit` whose batch was applied.
    case commit
  }

  /// Sets a function that is called on the thread of the call, outside of the storage's lock, so that a test can act
  /// between two steps.
  public func onAnswer(_ body: (@Sendable (Answered) -> Void)?) {
    answered.withLock { $0 = body.map { Answer(call: $0) } }
  }
  private let answered = Mutex<Answer?>(nil)

  /// A structure, because a function in a mutex would be wrapped once more at each access.
  private struct Answer {
    let call: @Sendable (Answered) -> Void
  }

  /// Whether the read that `failRead` chose has not happened yet.
  public var isReadToFail: Bool { chances.withLock { $0.readsUntilTooOld != nil } }

  /// Begins every call: advances the clock, and throws `.closed` if the backend is closed.
  func begin() throws {
    delay()
    let isOver = isClosed.load(ordering: .acquiring) || storage.state.withLock { $0.life } != life
    if isOver { throw DatabaseError(.closed, "the toy storage was closed") }
  }

  func delay() {
    clock.advance(Self.callNanoseconds)
    let yields = chances.withLock { $0.drawYields() }
    for _ in 0..<yields { sched_yield() }
  }

  func drawsTooOld(isOld: Bool) -> Bool { chances.withLock { $0.drawTooOld(isOld: isOld) } }

  // MARK: - Families

  /// Returns all families.
  public func families() throws -> [StorageFamily] {
    try begin()
    return storage.state.withLock { state in
      state.applied.families.map { StorageFamily(name: $1.name, number: $0) }
    }
  }

  /// Creates a family, immediately and durably.
  public func createFamily(_ name: String, options: StorageFamilyOptions) throws -> StorageFamily {
    try begin()
    try requireWritable()
    return try storage.state.withLock { state in
      if state.applied.families.contains(where: { $0.value.name == name }) {
        throw DatabaseError(.alreadyExists, "there is a family \"\(name)\"")
      }
      state.lastFamily += 1
      let number = state.lastFamily
      state.changeFamilies { $0.families[number] = ToyFamily(name: name, options: options) }
      return StorageFamily(name: name, number: number)
    }
  }

  /// Drops a family, immediately and durably.
  public func dropFamily(_ family: StorageFamily) throws {
    try begin()
    try requireWritable()
    try storage.state.withLock { state in
      guard state.applied.families[family.number] != nil else { throw Self.dropped(family.number) }
      state.changeFamilies { $0.families[family.number] = nil }
    }
  }

  static func dropped(_ number: UInt32) -> DatabaseError {
    DatabaseError(.notFound, "no family has the number \(number): it was dropped")
  }

  private func requireWritable() throws {
    if isReadOnly { throw DatabaseError(.readOnly, "the toy storage was opened read-only") }
  }

  // MARK: - Reading and writing

  /// Returns a snapshot of the present state.
  public func snapshot() throws -> any StorageSnapshot {
    try begin()
    let content = storage.state.withLock { state in
      state.snapshots[state.applied.version, default: 0] += 1
      return state.applied
    }
    answered.withLock { $0 }?.call(.snapshot)
    return ToySnapshot(content, self)
  }

  /// Returns the version of the oldest live snapshot, or of the last commit if there is none.
  public func oldestVersion() throws -> CommitVersion? {
    try begin()
    return storage.state.withLock { CommitVersion($0.snapshots.keys.min() ?? $0.applied.version) }
  }

  /// Commits a batch, or meets a fault.
  public func commit(
    _ batch: StorageBatch, check: StorageCheck?, durability: StorageDurability
  ) throws -> any StorageTicket {
    try begin()
    try requireWritable()
    try checkLimits(batch)
    let fault = chances.withLock { $0.drawCommit(isChecked: check != nil) }
    let checked = try check.map { check in
      guard let snapshot = check.snapshot as? ToySnapshot, snapshot.backend.storage === storage else {
        throw DatabaseError(.invalidArgument, "the snapshot of the check is of another storage")
      }
      try snapshot.requireYoung()
      return snapshot.content.version
    }
    let (version, woken) = try storage.state.withLock { state in
      if state.failure != nil { throw DatabaseError(.storage, "a commit could not be made durable; open it again") }
      if let check, let checked { try Self.require(check, unchangedSince: checked, in: state) }
      if fault == .conflict { throw DatabaseError(.conflict, "the toy storage says so") }
      if fault == .unknown(isApplied: false) { throw Self.unknown }
      return try Self.apply(batch, fault, to: &state)
    }
    for continuation in woken { continuation.resume(returning: CommitVersion(version)) }
    if fault == .unknown(isApplied: true) { throw Self.unknown }
    answered.withLock { $0 }?.call(.commit)
    return ToyTicket(version: CommitVersion(version), backend: self)
  }

  static var unknown: DatabaseError { DatabaseError(.outcomeUnknown, "the toy storage did not answer") }

  private static func apply(
    _ batch: StorageBatch, _ fault: ToyFaults.OneCommit?, to state: inout ToyStorage.State
  ) throws -> (UInt64, [ToyWatchers.Continuation]) {
    var content = state.applied
    content.version = state.lastVersion + 1
    var changes: [ToyChange] = []
    // Only the copy has changed if an operation throws.
    try batch.forEach { operation, family, key, value in
      try ToyWriter(version: content.version, family: family)
        .apply(operation, key.bytes, value.bytes, to: &content, &changes)
    }
    state.lastVersion = content.version
    var isLate = fault == .late
    if case .failing(let isDurable) = fault {
      isLate = true
      state.failing[content.version] = isDurable
    }
    state.apply(content, changes, isLate: isLate)
    return (content.version, state.watchers.take(upTo: content.version))
  }

  private static func require(
    _ check: StorageCheck, unchangedSince version: UInt64, in state: ToyStorage.State
  ) throws {
    func require(_ range: StorageRange, _ family: StorageFamily) throws {
      if state.applied.families[family.number] == nil || state.hasChanged(range, in: family.number, since: version) {
        throw DatabaseError(.conflict, "something of family \"\(family.name)\" was changed since version \(version)")
      }
    }
    for (family, key) in check.keys { try require(StorageRange(lower: key, upper: key + [0]), family) }
    for (family, range) in check.ranges { try require(range, family) }
  }

  private func checkLimits(_ batch: StorageBatch) throws {
    guard batch.byteCount <= limits.batchSize else {
      throw DatabaseError(.batchTooLarge, "the batch has \(batch.byteCount) bytes, at most \(limits.batchSize)")
    }
    try batch.forEach { _, _, key, value in
      guard key.byteCount <= limits.keySize else {
        throw DatabaseError(.keyTooLong, "a key has \(key.byteCount) bytes, at most \(limits.keySize)")
      }
      guard value.byteCount <= limits.valueSize else {
        throw DatabaseError(.valueTooLong, "a value has \(value.byteCount) bytes, at most \(limits.valueSize)")
      }
    }
  }

  // MARK: - Others

  /// Waits for a commit after a version by any backend of the storage, and returns its version.
  public func changes(since version: CommitVersion) async throws -> CommitVersion {
    try begin()
    let number = storage.state.withLock { $0.watchers.makeNumber() }
    return try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation { (continuation: ToyWatchers.Continuation) in
        let known: Result<CommitVersion, any Error>? = storage.state.withLock { state in
          let last = state.applied.version
          if last > version.number { return .success(CommitVersion(last)) }
          // The backend was closed since the beginning of the call, so no commit or `close` would resume the
          // continuation.
          if isClosed.load(ordering: .acquiring) || state.life != life { return .failure(CancellationError()) }
          return state.watchers.add(number, self, version.number, continuation) ? nil : .failure(CancellationError())
        }
        if let known { continuation.resume(with: known) }
      }
    } onCancel: {
      storage.state.withLock { $0.watchers.cancel(number) }?.resume(throwing: CancellationError())
    }
  }

  /// Makes the waiting commits up to a version durable. Throws `.outcomeUnknown` if one of them cannot be made
  /// durable.
  public func sync(through version: CommitVersion) throws {
    try begin()
    let hasFailed = storage.state.withLock { state in
      state.settle(through: version.number)
      return state.failure != nil
    }
    if hasFailed { throw Self.unknown }
  }

  /// Copies the content, which `ToyStorage.copy(at:)` returns.
  public func checkpoint(to path: String, progress: (@Sendable (Double) -> Void)?) throws {
    try begin()
    progress?(0)
    try storage.state.withLock { state in
      guard state.copies[path] == nil else { throw DatabaseError(.alreadyExists, "there is a copy at \(path)") }
      state.copies[path] = state.applied
    }
    progress?(1)
  }

  /// Makes pending commits durable if possible, and closes the backend.
  ///
  /// Callers that wait for commits receive `CancellationError`. Throws `.outcomeUnknown` if a commit could not be
  /// made durable; the backend is closed in that case too.
  public func close() throws {
    guard !isClosed.exchange(true, ordering: .acquiringAndReleasing) else { return }
    let isWriter = !isReadOnly
    let (hasFailed, ended) = storage.state.withLock { state in
      let ended = state.watchers.takeAll(of: ObjectIdentifier(self))
      guard isWriter, state.life == life else { return (false, ended) }
      state.settle(through: .max)
      defer { state.forgetUndurable() }
      return (state.failure != nil, ended)
    }
    for continuation in ended { continuation.resume(throwing: CancellationError()) }
    if hasFailed { throw Self.unknown }
  }
}
