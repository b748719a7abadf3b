internal import Synchronization

/// The write-ahead log while the engine is open: the segment being appended to, the one being prepared, and older ones
/// with entries not yet in tables.
///
/// # Positions
/// A `LogPosition` is a number that only grows (`LogSegment.logBase` plus an offset). `sync` takes one; the log is
/// durable up to `durablePosition`.
///
/// # Invariants
/// 1. Segments are chained: each header names its predecessor and where that one ended.
/// 2. A segment is synced only after all before it are: the durable part is a prefix of the log.
/// 3. Segment numbers grow along the chain and are never reused.
/// 4. A segment is reused only after the VersionEdit that frees it is durable (ensured by `release`'s caller).
/// 5. After a failed sync the segment is dead past its durable part, and so are the segments after it: no sync is
///    retried. `beginRestart` continues in a new segment.
///
/// # Concurrency
/// Functions that take a `CommitLead`, and the state that only they read, belong to the commit leader. `sync` may be
/// called by any thread: one syncs for all waiting threads, and none while the log is broken. `state` guards the lists;
/// no input or output happens under it.
final class LogWriter: @unchecked Sendable {
  // Sendable: `currentSegment` belongs to the commit leader, all else is immutable, atomic or in `state`.
  let environment: EngineEnvironment
  let executor: any BackgroundExecutor
  let directory: String
  let databaseID: UInt64
  let options: Options
  let allocateNumber: @Sendable () -> FileNumber
  let metrics: EngineMetrics
  let state: Mutex<State>
  /// The value of `current`, which belongs to the leader.
  private var currentSegment: LogSegment

  let durable = Atomic<UInt64>(0)
  let durableSequenceWord: Atomic<UInt64>
  /// The sync epoch in the upper bits, and in the lowest whether a sync is running. Waiting threads sleep on it.
  let syncWord = Futex()
  let waitingSyncs = Atomic<Int>(0)
  let syncCounter = Atomic<UInt64>(0)
  /// A Boolean value that indicates whether a sync failed and the log has not continued in a new segment since.
  let broken = Atomic<Bool>(false)
  /// A counter that is odd while a restart changes the set of segments: from `beginRestart` to `endRestart`, or until
  /// `beginRestart` fails.
  let generationWord = Atomic<UInt64>(0)

  struct Options: Sendable {
    var initialSegmentSize = Limits.logSegmentSizeMinimum
    var maximumSegmentSize = Limits.logSegmentSizeDefaultMaximum
    /// Pooled files are kept up to this many bytes.
    var poolBytes = 2 * Limits.logSegmentSizeDefaultMaximum
    var usesMapping = true
    /// A segment that filled in less time than this gets a successor of twice its size.
    var growthNanoseconds: UInt64 = 5_000_000_000
    /// The largest payload of a record of entries that are logged again; larger amounts are split.
    var entriesSizeMaximum = Limits.batchSizeMaximum

    /// The options for `Engine.derivedOptions`.
    var derived: [DerivedOption] {
      [
        .init(
          .log, "initialSegmentSize", initialSegmentSize,
          "the first segment; a segment that fills fast doubles the next"),
        .init(.log, "maximumSegmentSize", maximumSegmentSize, "logSegmentSize, as it was at open"),
        .init(.log, "growthNanoseconds", growthNanoseconds, "a segment that fills sooner doubles the next one"),
        .init(.log, "poolBytes", poolBytes, "two segments wait to be used again"),
        .init(.log, "entriesSizeMaximum", entriesSizeMaximum, "a batch's bound; what is logged again is cut there"),
      ]
    }
  }

  /// A segment with entries that may not be in tables yet.
  struct LiveSegment: Sendable {
    let number: FileNumber
    let lifeID: UInt64
    let capacity: Int
    /// The file, or `nil` for a segment that recovery replayed, which is durable already.
    let file: (any File)?
    let logBase: LogPosition
    /// The end of the segment's records, or `nil` while it is the current one.
    var end: Int?
    var isDurable: Bool
  }

  struct State: Sendable {
    var live: [LiveSegment] = []
    /// Segments are kept from each of these numbers on (`pin`).
    var pins: [FileNumber] = []
    /// The first segment that this engine needs. The ones before it are live only because of pins and readers.
    var needed = FileNumber(0)
    var current: LogSegment
    /// The end of the durable part of the log.
    var durableEnd: LogSegmentHeader.Predecessor
    /// The error because of which the log is broken.
    var syncError: EngineError?
    var prepared: PreparedSegment?
    var isPreparing = false
    var pool: SegmentPool
    var targetCapacity: Int
    var currentSince: UInt64
    var syncsAtSwitch: UInt64 = 0
    var isClosing = false
    /// In an engine that only reads: the extent of the log that another engine writes, used instead of these segments.
    var followed: LogExtent?
  }

  /// Begins a log after `predecessor`, with a segment whose header is durable.
  init(
    environment: EngineEnvironment, executor: any BackgroundExecutor, directory: String, databaseID: UInt64,
    options: Options, replayed: [LiveSegment], predecessor: LogSegmentHeader.Predecessor?,
    lastSequence: SequenceNumber, pool: SegmentPool, metrics: EngineMetrics? = nil,
    allocateNumber: @escaping @Sendable () -> FileNumber
  ) throws(EngineError) {
    self.environment = environment
    self.executor = executor
    self.directory = directory
    self.databaseID = databaseID
    self.options = options
    self.allocateNumber = allocateNumber
    let metrics = metrics ?? EngineMetrics(clock: environment.clock)
    self.metrics = metrics
    durableSequenceWord = Atomic(lastSequence.value)
    var pool = pool
    let taken = pool.take(capacity: options.initialSegmentSize)
    let prepared = try pool.prepare(
      allocateNumber(), capacity: options.initialSegmentSize, reusing: taken, populate: false)
    metrics.events.emit(prepared.event(isReused: taken != nil))
    let segment = LogSegment(number: prepared.number, lifeID: environment.random(), logBase: .zero, prepared: prepared)
    try segment.writeHeader(
      LogSegmentHeader(
        number: segment.number, lifeID: segment.lifeID, predecessor: predecessor, capacity: UInt64(segment.capacity),
        databaseID: databaseID))
    try segment.file.sync()
    segment.raiseDurable(to: LogFormat.headerBlockSize)
    currentSegment = segment
    durable.store(UInt64(LogFormat.headerBlockSize), ordering: .relaxed)
    state = Mutex(
      State(
        live: replayed, current: segment, durableEnd: segment.location(at: LogFormat.headerBlockSize), pool: pool,
        targetCapacity: options.initialSegmentSize, currentSince: environment.clock.now()))
  }

  // MARK: - Appending

  /// The segment being appended to.
  @inline(__always)
  func current(_ lead: borrowing CommitLead) -> LogSegment { currentSegment }

  /// Continues in another segment, which `state` names.
  func setCurrent(_ segment: LogSegment, _ lead: borrowing CommitLead) { currentSegment = segment }

  /// Makes sure that a record with this payload fits in the current segment, and switches segments if it does not.
  ///
  /// Throws before anything is written. A background job that leads must not wait for another one (`waits` is false):
  /// it makes a segment itself. `economy` says what is done if there is no space for the segment.
  func makeRoom(
    payloadSize: Int, waits: Bool = true, _ economy: Economy, _ lead: borrowing CommitLead
  ) throws(EngineError) {
    if !currentSegment.hasRoom(payloadSize: payloadSize) {
      try switchSegment(payloadSize: payloadSize, waits: waits, economy, lead)
    }
  }

  /// Appends a batch, or entries that are logged again, and returns the position after them. There must be room.
  @inline(__always)
  func append(
    _ kind: LogFormat.RecordKind = .batch, sequence: SequenceNumber, payload: ByteView, _ lead: borrowing CommitLead
  ) throws(EngineError) -> LogPosition {
    // No reference is counted, because only the leader, which runs here, replaces the segment.
    try unsafe Unmanaged.passUnretained(currentSegment).withGuaranteed { (segment) throws(EngineError) in
      try segment.append(kind, sequence: sequence, payload: payload)
      return segment.logBase + segment.tail
    }
  }

  /// Appends a batch whose encoding is `head` followed by `body`, which is large and not copied. There must be room.
  func append(
    sequence: SequenceNumber, head: ByteView, body: ByteView, _ lead: borrowing CommitLead
  ) throws(EngineError) -> LogPosition {
    try currentSegment.append(.batch, sequence: sequence, head: head, body: body)
    return currentSegment.logBase + currentSegment.tail
  }

  /// Appends an end record if the last sync covered everything and no end record states so yet.
  func appendEnd(nextSequence: SequenceNumber, _ lead: borrowing CommitLead) throws(EngineError) {
    let current = currentSegment
    guard current.durable == current.tail, current.tail > LogFormat.headerBlockSize, !lastIsEnd else { return }
    guard current.capacity - current.tail >= 2 * LogFormat.recordHeaderSize else { return }
    try current.append(.end, sequence: nextSequence, payload: ByteView())
    endTail = current.tail
    endSegment = current.number
  }

  private var endTail = 0
  private var endSegment = FileNumber(0)
  private var lastIsEnd: Bool { endSegment == currentSegment.number && endTail == currentSegment.tail }

  /// The account of the log's memory.
  var account: MemoryAccount? { state.withLock { $0.pool.account } }

  /// The position after the last record.
  var appendedPosition: LogPosition { state.withLock { $0.current }.publishedInLog }

  // MARK: - Switching

  /// Seals the current segment and continues in the next one.
  @inline(never)
  private func switchSegment(
    payloadSize: Int, waits: Bool, _ economy: Economy, _ lead: borrowing CommitLead
  ) throws(EngineError) {
    try removeLeftover()
    let prepared = try takePrepared(
      capacity: Self.capacity(forPayload: payloadSize), waits: waits, economy)
    let old = currentSegment
    let next = LogSegment(
      number: prepared.number, lifeID: environment.random(), logBase: old.logBase + old.tail,
      prepared: prepared)
    // The header is written first: it names the end that `old` has once sealed, and a seal cannot be undone.
    let end = old.tail + LogFormat.recordSize(payloadSize: 0)
    do throws(EngineError) {
      try next.writeHeader(
        LogSegmentHeader(
          number: next.number, lifeID: next.lifeID, predecessor: old.location(at: end),
          capacity: UInt64(next.capacity), databaseID: databaseID))
      try old.append(.end, sequence: .zero, payload: ByteView())
    } catch {
      // The log continues in `old`, and no other segment may be created while one exists that names it.
      leftover = next.number
      prepared.file.close()
      try? removeLeftover()
      throw error
    }
    // `old` ends with the end record just written, which the base above does not count: positions only need to grow,
    // and the end record needs no sync of its own.
    let now = environment.clock.now()
    state.withLock { $0.seal(old, next: next, now: now, syncs: syncCounter.load(ordering: .relaxed), options: options) }
    currentSegment = next
    noteSwitch(lead)
    prepareNext()
  }

  /// A segment whose header may be written but which could not be removed yet. Belongs to the leader.
  private var leftover: FileNumber?

  /// Segments of failed restarts. Belongs to the leader.
  var abandoned: [FileNumber] = []

  private func removeLeftover() throws(EngineError) {
    guard let number = leftover else { return }
    let path = directory + "/" + FileName.log(number).name
    if try environment.fileSystem.attributes(path) != nil { try environment.fileSystem.remove(path) }
    leftover = nil
  }

  /// The size of a segment that fits a record with this payload and the end record after it.
  static func capacity(forPayload size: Int) -> Int {
    LogFormat.headerBlockSize + LogFormat.recordSize(payloadSize: size) + 2 * LogFormat.recordHeaderSize
  }

  /// Returns whether a segment was begun since the last call.
  @inline(__always)
  func takeSwitch(_ lead: borrowing CommitLead) -> Bool {
    guard hasSwitched else { return false }
    hasSwitched = false
    return true
  }

  private var hasSwitched = false
  /// Called with each new segment, before the first record in it. Belongs to the leader.
  var onSwitch: (@Sendable (FileNumber) -> Void)?
  /// Called when there is no space for the next segment.
  let didRunOutOfSpace = Callback()
  /// Called when a release has left segments because readers in other processes keep them.
  let didKeepForReaders = Callback()
  /// The readers in other processes that keep segments, or `nil` if there is no page that they share with this engine.
  let readers = Mutex<ReaderPins?>(nil)
  private let heldBytesWord = Atomic<Int>(.max)
  /// The maximum number of bytes that are kept for readers alone.
  var heldBytesMaximum: Int {
    get { heldBytesWord.load(ordering: .relaxed) }
    set { heldBytesWord.store(newValue, ordering: .relaxed) }
  }
  let reserveQuery = Mutex<ReserveQuery?>(nil)

  /// Records that the log continues in `current`.
  func noteSwitch(_ lead: borrowing CommitLead) {
    hasSwitched = true
    onSwitch?(currentSegment.number)
  }

  /// Returns the prepared segment, or makes one. Waits if preparation is running and `waits` is true.
  private func takePrepared(capacity: Int, waits: Bool, _ economy: Economy) throws(EngineError) -> PreparedSegment {
    let number = currentSegment.number
    if state.withLock({ $0.prepared != nil }) {
      return try takeReady(capacity: capacity, above: number, economy)
    }
    return try metrics.logSegment.measure { () throws(EngineError) in
      if waits, state.withLock({ $0.isPreparing }) {
        executor.wait(until: { [self] in state.withLock { !$0.isPreparing } })
      }
      return try takeReady(capacity: capacity, above: number, economy)
    }
  }

  /// Returns the prepared segment if it fits and its number is above `number`; otherwise makes another one.
  func takeReady(
    capacity: Int, above number: FileNumber, _ economy: Economy
  ) throws(EngineError) -> PreparedSegment {
    let ready = state.withLock { $0.takePrepared() }
    if let ready, ready.capacity >= capacity, ready.number > number { return ready }
    if let ready { discard(ready) }
    let capacity = (capacity + 4095) & ~4095
    while true {
      let target = state.withLock { $0.targetCapacity }
      let size = max(target, capacity)
      let canShrink = economy != .none && size > max(smallestTarget, capacity)
      do throws(EngineError) {
        return try makeSegment(
          capacity: size, forRecord: capacity > target, keepsReserve: economy != .usingReserve || canShrink)
      } catch {
        guard economy != .none, error.code == .noSpace else { throw error }
        // The files kept for reuse would have been taken if they fitted.
        guard releaseKeptFiles() || canShrink else { throw error }
        if canShrink { shrinkTarget(below: size) }
      }
    }
  }

  /// Makes a segment. If it is `forRecord`, one record takes about all of it: it is then not mapped, because the bytes
  /// are stored once, and the pages of a mapping would take as much memory as the record.
  private func makeSegment(
    capacity size: Int, forRecord: Bool, keepsReserve: Bool
  ) throws(EngineError) -> PreparedSegment {
    let taken = state.withLock { $0.pool.take(capacity: size) }
    let pool = state.withLock { $0.pool }
    do throws(EngineError) {
      if taken == nil, keepsReserve { try checkReserve(capacity: size) }
      // A file that was kept may be much larger, and gets small records as well.
      let maps = !forRecord || taken.map { $0.capacity >= 2 * size } ?? false
      let made = try pool.prepare(allocateNumber(), capacity: size, reusing: taken, populate: false, maps: maps)
      metrics.events.emit(made.event(isReused: taken != nil))
      return made
    } catch {
      adoptAgain(taken)
      throw error
    }
  }

  /// Returns an unused pooled file to the pool, if it still exists.
  private func adoptAgain(_ taken: (number: FileNumber, capacity: Int)?) {
    guard let taken else { return }
    let path = directory + "/" + FileName.pooledLog(taken.number).name
    if let found = try? environment.fileSystem.attributes(path), !found.isDirectory {
      state.withLock { $0.pool.adopt(taken.number, capacity: taken.capacity) }
    }
  }

  /// Removes a prepared segment that is too small, or older than the current one.
  private func discard(_ prepared: PreparedSegment) {
    prepared.file.close()
    // The file has no header of this life, so if it remains it is a harmless empty segment.
    try? environment.fileSystem.remove(directory + "/" + FileName.log(prepared.number).name)
  }

  /// Starts preparing the next segment in the background.
  func prepareNext() {
    let shouldSubmit = state.withLock { state in
      guard state.prepared == nil, !state.isPreparing, !state.isClosing else { return false }
      state.isPreparing = true
      return true
    }
    guard shouldSubmit else { return }
    executor.submit("log.prepare", priority: .immediate) { [self] in runPreparation() }
  }

  private func runPreparation() {
    let (pool, taken, capacity, populate) = state.withLock { state in
      let capacity = state.targetCapacity
      let populate = state.syncsAtSwitch == syncCounter.load(ordering: .relaxed)
      return (state.pool, state.pool.take(capacity: capacity), capacity, populate)
    }
    do throws(EngineError) {
      if taken == nil { try checkReserve(capacity: capacity) }
      let prepared = try pool.prepare(allocateNumber(), capacity: capacity, reusing: taken, populate: populate)
      state.withLock { $0.finishPreparation(prepared) }
      metrics.events.emit(prepared.event(isReused: taken != nil))
    } catch {
      adoptAgain(taken)
      // The leader tries again when it needs the segment, and reports the error then.
      state.withLock { $0.finishPreparation(nil) }
      if error.code == .noSpace { didRunOutOfSpace() }
    }
    executor.wakeWaiters()
  }

  // MARK: - Old segments

  /// The segments with live content, the current one included, and their size in bytes.
  var extent: LogExtent {
    state.withLock { state in
      state.followed
        ?? LogExtent(
          segmentCount: state.live.count + 1, bytes: state.live.reduce(state.current.capacity) { $0 + $1.capacity })
    }
  }
  /// The size in bytes of all segments that this engine needs, the current one included.
  var neededBytes: Int {
    state.withLock { state in
      state.live.reduce(state.current.capacity) { $0 + ($1.number < state.needed ? 0 : $1.capacity) }
    }
  }
  /// Records the extent of the log that another engine writes.
  func noteFollowed(_ extent: LogExtent) { state.withLock { $0.followed = extent } }
  /// A Boolean value that indicates whether records are stored through a mapping.
  var usesMapping: Bool { options.usesMapping }
  /// The segments that are kept, oldest first, and the current end of the records of each.
  var segmentEnds: [(number: FileNumber, end: Int)] {
    state.withLock { state in
      state.live.map { ($0.number, $0.end ?? LogFormat.headerBlockSize) }
        + [(state.current.number, state.current.published)]
    }
  }
  /// The number of the oldest segment that this engine needs.
  var oldestNumber: FileNumber {
    state.withLock { state in state.live.first { $0.number >= state.needed }?.number ?? state.current.number }
  }
  var currentNumber: FileNumber { state.withLock { $0.current.number } }

  /// Releases every segment before `number`, apart from those that pins and readers keep. The edit that frees them must
  /// be durable.
  func release(before number: FileNumber) {
    let bound = boundOfRelease(before: number)
    let freed = state.withLock { $0.removeLive(before: bound) }
    for segment in freed {
      segment.file?.close()
      var (pool, keep) = state.withLock { state in
        (
          state.pool,
          // Only files that this engine made are kept: a replayed segment may have holes, for example after a copy.
          segment.file != nil && state.pool.waitingBytes + segment.capacity <= options.poolBytes
            && segment.capacity >= state.targetCapacity && !state.isClosing
        )
      }
      let count = pool.waiting.count
      do throws(EngineError) {
        try pool.recycle(segment.number, capacity: segment.capacity, keep: keep)
      } catch {
        // No segment names the file any more. If it cannot be removed either, it is an orphan, which the next open
        // removes.
        try? environment.fileSystem.remove(directory + "/" + FileName.log(segment.number).name)
      }
      let isKept = pool.waiting.count > count
      if isKept { state.withLock { $0.pool.adopt(segment.number, capacity: segment.capacity) } }
      metrics.events.emit(.logSegmentRecycled(number: segment.number.value, isKept: isKept))
    }
    // Without a prepared segment there was no space for one.
    if !freed.isEmpty { prepareNext() }
  }

  // MARK: - Closing

  /// Removes the segments before `number` of a log that was closed.
  ///
  /// The edit that frees them must be durable. A segment that cannot be removed is an orphan, which the next open
  /// removes.
  func removeClosed(before number: FileNumber) {
    for segment in state.withLock({ $0.removeLive(before: number) }) {
      try? environment.fileSystem.remove(directory + "/" + FileName.log(segment.number).name)
    }
  }

  /// Syncs the log, writes an end record with that durable mark, and syncs again. Nothing may be appended later.
  func close(nextSequence: SequenceNumber, _ lead: borrowing CommitLead) throws(EngineError) {
    state.withLock { $0.isClosing = true }
    executor.wait(until: { [self] in state.withLock { !$0.isPreparing } })
    let last = SequenceNumber(nextSequence.value - 1)
    try sync(through: appendedPosition, visible: { last })
    try appendEnd(nextSequence: nextSequence, lead)
    try sync(through: appendedPosition, visible: { last })
    if let prepared = state.withLock({ $0.takePrepared() }) { discard(prepared) }
    var pool = state.withLock { state in
      let pool = state.pool
      state.pool = SegmentPool(directory: pool.directory, fileSystem: pool.fileSystem, usesMapping: pool.usesMapping)
      return pool
    }
    try pool.drain()
    for segment in state.withLock({ $0.live }) { segment.file?.close() }
    // The space past the records is useless: a closed database is small.
    try currentSegment.file.truncate(to: UInt64(currentSegment.tail))
    currentSegment.file.close()
  }
}

/// The live part of a log.
struct LogExtent: Sendable {
  var segmentCount: Int
  var bytes: Int
}
