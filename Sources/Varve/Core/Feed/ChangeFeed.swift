internal import FutexLocks
internal import Synchronization

/// The durable list of the changes of commits, in the family `feed`, for subscriptions that lag or resume, and for
/// other processes.
///
/// A commit adds its entry to its own batch, so the feed contains the entry exactly if the commit happened. This costs
/// an entry of some 30 bytes, and 20 bytes for each changed row, and nothing else: what has to be trimmed is known
/// without reading (`FeedState`).
///
/// # Concurrency
/// `add`, and `didCommit` or `didNotCommit` after it, must be called with the writer held. Everything else is safe to
/// use from any thread.
final class ChangeFeed: Sendable {
  let family: StorageFamily
  /// The bounds of the feed, or `nil` if commits are not recorded.
  private let bounds: FeedState.Bounds?
  private let clock: WallClock
  private let valueSizeMaximum: Int
  /// The last commit when the database was opened.
  let openVersion: CommitVersion
  private let state: FutexLock<FeedState>
  /// The number of row changes that were added since the database was opened.
  let addedRowCount = Atomic<UInt64>(0)

  /// Whether this database records its commits. A database that only reads can't know whether another process does.
  var isOn: Bool { bounds != nil }

  /// The addition of a commit to the feed, which is undone if the commit does not happen.
  struct Addition {
    fileprivate let before: FeedState
    fileprivate let size: UInt64
    fileprivate let time: Int64
    fileprivate var isCut = false
  }

  /// Opens the feed of a database. If the database writes, the feed is brought into the state that the options require,
  /// by a commit if necessary.
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

  /// The current time of day, in seconds since 1970.
  var now: Int64 { clock.seconds }

  /// Adds the entry of a commit to its batch. Returns `nil` if nothing is recorded. `didCommit` or `didNotCommit` must
  /// be called afterwards. Throws `.valueTooLong` if the label and the custom object exceed what the storage takes.
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

  /// Removes all entries up to this commit from the feed.
  private func cut(_ time: Int64, _ batch: inout StorageBatch) -> Addition {
    FeedRecord.beginAgain(isOff: false, in: family, &batch)
    return state.withLock { state in
      defer { state = FeedState() }
      return Addition(before: state, size: 0, time: time, isCut: true)
    }
  }

  /// Completes the addition of a commit that was made.
  func didCommit(_ addition: Addition?, _ version: CommitVersion, rowCount: UInt64) {
    guard let addition else { return }
    addedRowCount.wrappingAdd(rowCount, ordering: .relaxed)
    if addition.isCut { return state.withLock { $0.record.trimmedThrough = version } }
    state.withLock { $0.add(size: addition.size, version: version, now: addition.time) }
  }

  /// Undoes the addition of a commit that was refused.
  func didNotCommit(_ addition: Addition?) {
    guard let addition else { return }
    state.withLock { $0 = addition.before }
  }

  /// The number of bytes of the feed, including its keys.
  var size: Int { state.withLock { Int(clamping: $0.size) } }

  // MARK: - Opening

  /// Reads the state of the feed, and restarts the feed if it can't be continued.
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
    // The feed was turned on or off since, belongs to another history of the database, or is damaged. It is restarted,
    // and a consumer that needs earlier commits receives a gap. Objects matter more than the feed, which never prevents
    // a database from being opened.
    var fresh = FeedState()
    fresh.record.isOff = !isOn
    fresh.record.trimmedThrough = snapshot.version
    var batch = StorageBatch()
    batch.deleteRange(FeedKey.range(after: .zero), in: family)
    batch.put(FeedKey.record, fresh.record.bytes, in: family)
    _ = try backend.commit(batch, check: nil, durability: .process)
    return fresh
  }

  /// Reads the record, and the first and the last entry of the open segment. Throws if they can't belong to this
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
    // The numbers of commits restart when a damaged database is salvaged, and older entries may have been copied.
    guard max(state.record.closedThrough, state.open.last) <= snapshot.version, state.open.size < 1 << 56 else {
      throw FeedEntry.damaged("it is after the last commit")
    }
    return state
  }
}
