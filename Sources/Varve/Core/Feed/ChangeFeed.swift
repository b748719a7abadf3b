internal import FutexLocks
internal import Synchronization

/// The durable list of what commits changed, in the family `feed`: for subscriptions that lag or resume, and for other
/// processes.
///
/// A commit adds its entry to its own batch, so the feed has it exactly if the commit happened. It costs an entry of
/// some 30 bytes and 20 a changed row, and nothing else: what has to go is known without reading (`FeedState`).
///
/// # Concurrency
/// `record` and what follows it are called by the caller that holds the writer; everything else from any thread.
final class ChangeFeed: Sendable {
  let family: StorageFamily
  /// Nil: commits are not recorded.
  private let bounds: FeedState.Bounds?
  private let clock: WallClock
  private let valueSizeMaximum: Int
  /// The last commit when the database was opened.
  let openVersion: CommitVersion
  private let state: FutexLock<FeedState>
  /// How many changes of rows were added since the database was opened.
  let addedRowCount = Atomic<UInt64>(0)

  /// Whether this database records what it commits. One that only reads can't know whether another process does.
  var isOn: Bool { bounds != nil }

  /// What a commit adds: taken back where it doesn't happen.
  struct Addition {
    fileprivate let before: FeedState
    fileprivate let size: UInt64
    fileprivate let time: Int64
    fileprivate var isCut = false
  }

  /// Opens the feed of a database. One that writes brings it into the state that its options say, with a commit where it
  /// is not in that.
  init(backend: any StorageBackend, family: StorageFamily, options: DatabaseOptions) throws {
    self.family = family
    bounds = options.feed.map { FeedState.Bounds($0) }
    clock = options.clock
    valueSizeMaximum = backend.limits.valueSize
    var state = FeedState()
    if !backend.isReadOnly { state = try Self.open(backend, family, isOn: options.feed != nil) }
    self.state = FutexLock(state)
    openVersion = try backend.snapshot().version
  }

  // MARK: - Commits

  /// The time of day.
  var now: Int64 { clock.seconds }

  /// Adds what a commit tells to its batch; nil where nothing is recorded. `didCommit` or `didNotCommit` has to
  /// follow. Throws `.valueTooLong` where label and custom object are more than the storage takes.
  func add(_ pending: PendingChangeSet, to batch: inout StorageBatch) throws -> Addition? {
    guard let bounds, !pending.isEmpty else { return nil }
    if pending.cutsFeed { return cut(pending.time, &batch) }
    let writer = FeedWriter(pending, partSize: min(ChangeLimits.partSize, valueSizeMaximum / 2))
    return try state.withLock { state in
      var next = state
      let step = next.prepare(now: pending.time, bounds)
      if let trimmed = step.trimmed { batch.deleteRange(trimmed, in: family) }
      if step.hasNewRecord { batch.put(FeedKey.record, next.record.bytes, in: family) }
      var size = 0
      try writer.forEachEntry(offset: next.open.size) { part, write in
        let entrySize = batch.putStamped(FeedKey.stamped(part: part), at: .key(0), in: family, write)
        guard entrySize <= valueSizeMaximum else {
          throw DatabaseError(
            .valueTooLong,
            "label and custom object take \(entrySize) bytes in the feed, and the storage takes \(valueSizeMaximum)")
        }
        size += FeedKey.size + entrySize
        return entrySize
      }
      defer { state = next }
      return Addition(before: state, size: UInt64(size), time: pending.time)
    }
  }

  /// What was committed up to this commit is not in the feed any more.
  private func cut(_ time: Int64, _ batch: inout StorageBatch) -> Addition {
    FeedRecord.beginAgain(isOff: false, in: family, &batch)
    return state.withLock { state in
      defer { state = FeedState() }
      return Addition(before: state, size: 0, time: time, isCut: true)
    }
  }

  /// The commit was made.
  func didCommit(_ addition: Addition?, _ version: CommitVersion, rowCount: UInt64) {
    guard let addition else { return }
    addedRowCount.wrappingAdd(rowCount, ordering: .relaxed)
    if addition.isCut { return state.withLock { $0.record.trimmedThrough = version } }
    state.withLock { $0.add(size: addition.size, version: version, now: addition.time) }
  }

  /// The commit was refused.
  func didNotCommit(_ addition: Addition?) {
    guard let addition else { return }
    state.withLock { $0 = addition.before }
  }

  /// How many bytes the feed has, its keys included.
  var size: Int { state.withLock { Int(clamping: $0.size) } }

  // MARK: - Opening

  /// What the feed holds, brought into order where it can't be gone on with.
  private static func open(
    _ backend: any StorageBackend, _ family: StorageFamily, isOn: Bool
  ) throws -> FeedState {
    let snapshot = try backend.snapshot()
    do {
      let stored = try load(snapshot, family)
      if stored.record.isOff == !isOn { return stored }
    } catch let error as DatabaseError where error.code == .corruption {
      DatabaseLog.damagedFeed(error)
    }
    // Turned on or off since, of another life of the database, or damaged: it begins again, and a caller that wants what was
    // before is notified of the gap. Objects are more than their feed: it never keeps a database from being opened.
    var fresh = FeedState()
    fresh.record.isOff = !isOn
    fresh.record.trimmedThrough = snapshot.version
    var batch = StorageBatch()
    batch.deleteRange(FeedKey.range(after: .zero), in: family)
    batch.put(FeedKey.record, fresh.record.bytes, in: family)
    _ = try backend.commit(batch, check: nil, durability: .process)
    return fresh
  }

  /// Reads the record, and the first and the last entry of the open segment. Throws where they can't be of this
  /// database.
  private static func load(_ snapshot: any StorageSnapshot, _ family: StorageFamily) throws -> FeedState {
    var state = FeedState()
    if let bytes = try snapshot.value(of: FeedKey.record, in: family) { state.record = try FeedRecord(bytes) }
    let range = FeedKey.range(after: state.record.closedThrough)
    var forward = FamilyCursor(range, in: family, of: snapshot, isReverse: false)
    var backward = FamilyCursor(range, in: family, of: snapshot, isReverse: true)
    if let first = try forward.next(), let last = try backward.next() {
      let entry = try FeedEntry(last.value)
      state.open = FeedState.Open(
        size: entry.offset + UInt64(last.key.count + last.value.count), last: try FeedKey.parse(last.key).version,
        firstTime: try FeedEntry(first.value).time, lastTime: entry.time)
    }
    // The numbers of commits begin again where a damaged database was salvaged, and entries may have come along.
    guard max(state.record.closedThrough, state.open.last) <= snapshot.version, state.open.size < 1 << 56 else {
      throw FeedEntry.damaged("it is after the last commit")
    }
    return state
  }
}
