internal import Synchronization

/// The write path: make room, stamp, append to the log, insert into memtables, publish, sync, acknowledge.
///
/// ```
/// commit ─▶ lead (CommitQueue) ─▶ room in memtables ─▶ stamp ─▶ room in log ─▶ log ─▶ memtables ─▶ publish
///        ─▶ resign, which commits for waiting writers ─▶ sync, if asked ─▶ acknowledge
/// ```
///
/// # Invariants
/// 1. Everything that can fail happens before the append to the log; after that the commit succeeds.
/// 2. Entries are in the log before they are in a memtable, and in all memtables before they are
///    visible. A commit is visible before it is durable.
/// 3. All entries of a frozen memtable are visible.
///
/// # Volatile families
/// Their entries are not logged. Within a batch they get the lower sequences, so that the logged part is one record
/// whose entries have consecutive sequences, the last of which is the commit's; within each family the order is that of
/// the batch. A commit of volatile entries only is not logged at all, and leaves a gap in the sequences.
///
/// # Concurrency
/// `nextSequence`, `scratch`, `touched`, `logCycle` and `lastLogged` are accessed only by functions that take a
/// `CommitLead`.
final class CommitPipeline: @unchecked Sendable {
  // Sendable: see Concurrency above.
  let queue = CommitQueue()
  let log: LogWriter
  let memory: MemTableManager
  let families: FamilyRegistry
  /// Publishes commits to other processes.
  let announcer: CommitAnnouncer
  private let logBytesWord: Atomic<Int>
  /// Makes an edit of the MANIFEST durable.
  let commitEdit: @Sendable (VersionEdit) throws(EngineError) -> Void
  private let visibleWord: Atomic<UInt64>
  /// Makes sure that a failed edit does not count after a crash either.
  let settleEdits: @Sendable () throws(EngineError) -> Void
  private let refusalWord = Mutex<Refusal?>(nil)
  /// Tells the leader to check the state before it commits: the log is broken, or writes are refused.
  private let isImpaired = Atomic<Bool>(false)
  let copiedWord = Atomic<UInt64>(0)
  private let releaseRequest = Callback()
  private let pendingWork = Mutex<PendingWork?>(nil)
  let spaceWork = Mutex<SpaceQuery?>(nil)
  let reserveUse = Mutex<ReserveUse?>(nil)
  /// A Boolean value that indicates whether there was no space for the log's next segment.
  let isShortOfSpace = Atomic<Bool>(false)
  let didRefuse = Callback()

  // The following state belongs to the leader.
  private var nextSequence: UInt64
  private var scratch = ByteWriter(capacity: 4096)
  /// The pause before a retry while the leader continues the log in a new segment, which takes milliseconds.
  static let restartRetryNanoseconds: UInt64 = 2_000_000
  /// The capacity up to which `scratch` is kept, so that one large batch does not keep its memory.
  private static let keptScratchSize = 1 << 20
  private var touched = TouchedFamilies()
  var logCycle = LogCycle()
  private var lastLogged: SequenceNumber

  init(
    log: LogWriter, memory: MemTableManager, families: FamilyRegistry, lastSequence: SequenceNumber,
    logBytesMaximum: Int, announcer: CommitAnnouncer,
    commitEdit: @escaping @Sendable (VersionEdit) throws(EngineError) -> Void,
    settleEdits: @escaping @Sendable () throws(EngineError) -> Void
  ) {
    self.settleEdits = settleEdits
    self.log = log
    self.announcer = announcer
    log.onSwitch = { announcer.didSwitch(to: $0) }
    self.commitEdit = commitEdit
    logBytesWord = Atomic(logBytesMaximum)
    self.memory = memory
    self.families = families
    visibleWord = Atomic(lastSequence.value)
    nextSequence = lastSequence.value + 1
    lastLogged = lastSequence
    log.heldBytesMaximum = logBytesMaximum
  }

  /// The size in bytes of the log beyond which its oldest segments are freed.
  var logBytesMaximum: Int {
    get { logBytesWord.load(ordering: .relaxed) }
    set {
      logBytesWord.store(newValue, ordering: .relaxed)
      log.heldBytesMaximum = newValue
    }
  }

  /// The last commit that reads see. In a follower that is changing its views, the getter waits until the change is
  /// done.
  @inline(__always)
  var visible: SequenceNumber {
    let value = visibleWord.load(ordering: .sequentiallyConsistent)
    return value == Self.changingViews ? waitForViews() : SequenceNumber(value)
  }

  /// A value that is not a sequence. It is stored as the visible sequence while a follower changes its views.
  private static let changingViews = UInt64.max

  @inline(never)
  private func waitForViews() -> SequenceNumber {
    while true {
      let value = visibleWord.load(ordering: .sequentiallyConsistent)
      if value != Self.changingViews { return SequenceNumber(value) }
      CurrentProcess.yieldThread()
    }
  }

  /// Prevents reads from starting while a follower's views don't belong to a single sequence.
  func holdReads() { visibleWord.store(Self.changingViews, ordering: .sequentiallyConsistent) }

  /// Lets a follower's reads see every commit up to `sequence`.
  func showCommits(through sequence: SequenceNumber) {
    visibleWord.store(sequence.value, ordering: .sequentiallyConsistent)  // partner: `visible`
  }

  /// The last commit in the log.
  func lastLogged(_ lead: borrowing CommitLead) -> SequenceNumber { lastLogged }

  // MARK: - Commits

  struct Receipt: Sendable {
    let sequence: SequenceNumber
    /// The log position after the batch, or zero if it was not logged.
    let position: LogPosition
  }

  /// Commits one entry, which must have been checked against the limits.
  @inline(__always)
  func commit(
    _ kind: EntryKind, _ family: FamilyState, _ key: ByteView, _ value: ByteView, isLogged: Bool,
    waitsForSync: Bool = false
  ) throws(EngineError) -> Receipt {
    guard let lead = queue.tryLead() else {
      return try commitContended(kind, family, key, value, isLogged: isLogged, waitsForSync: waitsForSync)
    }
    defer { if !queue.resignIfAlone(lead) { resign(lead) } }
    return try commitLeading(kind, family, key, value, isLogged: isLogged, waitsForSync: waitsForSync, lead)
  }

  /// Commits one entry as the leader.
  @inline(__always)
  private func commitLeading(
    _ kind: EntryKind, _ family: FamilyState, _ key: ByteView, _ value: ByteView, isLogged: Bool, waitsForSync: Bool,
    _ lead: borrowing CommitLead
  ) throws(EngineError) -> Receipt {
    if isImpaired.load(ordering: .acquiring) {
      try repair(lead)
      try checkAcceptance(putBytes: kind != .put && kind != .merge ? 0 : nil)
    }
    if family.isDropped { throw Self.droppedError(family) }
    let hasRoom = unsafe family.borrowedActive(lead).withGuaranteed {
      $0.hasRoom(keySize: key.count, valueSize: value.count)
    }
    let need = MemTableRequirement(byteCount: key.count + value.count)
    if !hasRoom {
      do throws(EngineError) { try makeRoom(in: family, for: need, lead) } catch {
        guard usesReserve(after: error, frees: kind != .put && kind != .merge) else { throw error }
        try makeRoom(in: family, for: need, lead)
      }
    }
    let sequence = SequenceNumber(nextSequence)
    var position = LogPosition.zero
    let isLogged = isLogged && !family.isVolatile
    if isLogged {
      let isLarge = value.count > Limits.largeSize
      scratch.removeAll()
      if isLarge {
        BatchFormat.appendHead(kind, family.id, key, valueSize: value.count, to: &scratch)
      } else {
        try scratch.reserveOrThrow(BatchFormat.entrySize(kind, family.id, keySize: key.count, valueSize: value.count))
        BatchFormat.append(kind, family.id, key, value, to: &scratch)
      }
      let payloadSize = isLarge ? scratch.count + value.count : scratch.count
      if !log.current(lead).hasRoom(payloadSize: payloadSize) {
        try makeRoomInLog(payloadSize, lead, frees: kind != .put && kind != .merge, alsoIn: family, for: need)
      }
      position =
        isLarge
        ? try log.append(sequence: sequence, head: scratch.view, body: value, lead)
        : try log.append(sequence: sequence, payload: scratch.view, lead)
      if family.activeSegment(lead) == nil { family.beginActive(segment: log.current(lead).number, lead) }
    } else if !family.isVolatile {
      memory.noteUnlogged(family, segment: log.current(lead).number, lead)
    }
    _ = unsafe family.borrowedActive(lead).withGuaranteed { $0.insert(key, Trailer(sequence, kind), value) }
    if scratch.capacity > Self.keptScratchSize { scratch = ByteWriter(capacity: 4096) }
    nextSequence &+= 1
    publish(sequence, position, isLogged: isLogged, waitsForSync: waitsForSync, lead)
    if log.takeSwitch(lead) { enforceLogBound(lead) }
    return Receipt(sequence: sequence, position: position)
  }

  /// Gives the lead back after committing the waiting requests.
  @inline(never)
  private func resign(_ lead: borrowing CommitLead) { queue.resign(lead) { serve($0, $1) } }

  /// Makes a commit visible to reads, and notifies other processes.
  @inline(__always)
  private func publish(
    _ sequence: SequenceNumber, _ position: LogPosition, isLogged: Bool, waitsForSync: Bool,
    _ lead: borrowing CommitLead
  ) {
    if isLogged {
      lastLogged = sequence
      announcer.prepare(sequence.value, position, waitsForSync: waitsForSync, log, lead)
    }
    visibleWord.store(sequence.value, ordering: .sequentiallyConsistent)  // partner: `visible`
    if isLogged { announcer.wakeIfAwaited() }
  }

  @inline(never)
  private func commitContended(
    _ kind: EntryKind, _ family: FamilyState, _ key: ByteView, _ value: ByteView, isLogged: Bool, waitsForSync: Bool
  ) throws(EngineError) -> Receipt {
    if value.count > Limits.largeSize {
      // The writer of a large value commits it itself in any case, and so it need not be encoded for another thread.
      return try lead { (lead) throws(EngineError) in
        try commitLeading(kind, family, key, value, isLogged: isLogged, waitsForSync: waitsForSync, lead)
      }
    }
    var payload = ByteWriter(capacity: 0)
    try payload.reserveOrThrow(key.count + value.count + 32)
    BatchFormat.append(kind, family.id, key, value, to: &payload)
    return try commit(
      payload: payload.view, entryCount: 1, isLogged: isLogged, terms: CommitTerms(waitsForSync: waitsForSync))
  }

  /// Commits a batch. `payload` must stay valid during the call.
  func commit(
    payload: ByteView, entryCount: Int, isLogged: Bool, terms: CommitTerms = CommitTerms()
  ) throws(EngineError) -> Receipt {
    if let lead = queue.tryLead() {
      defer { if !queue.resignIfAlone(lead) { resign(lead) } }
      return try apply(payload, entryCount: entryCount, isLogged: isLogged, terms, lead)
    }
    let request = CommitRequest(payload: payload, entryCount: entryCount, isLogged: isLogged, terms: terms)
    if let lead = queue.enqueue(request) {
      queue.serveOwn(request, lead) { serve($0, $1) }
      resign(lead)
    }
    if let error = request.error { throw error }
    return request.receipt
  }

  /// Assigns a sequence without a batch, and makes it visible after `body` has installed the state that readers see at
  /// it.
  ///
  /// If `body` throws, the sequence stays unused.
  func commitSequence(
    _ lead: borrowing CommitLead, _ body: (SequenceNumber) throws(EngineError) -> Void
  ) throws(EngineError) -> SequenceNumber {
    try checkWritable(lead)
    let sequence = SequenceNumber(nextSequence)
    nextSequence += 1
    try body(sequence)
    publish(sequence, .zero, isLogged: false, waitsForSync: false, lead)
    return sequence
  }

  /// Runs `body` as the leader: no commit happens concurrently.
  func lead<R, E: Error>(_ body: (borrowing CommitLead) throws(E) -> R) throws(E) -> R {
    if let lead = queue.tryLead() {
      defer { resign(lead) }
      return try body(lead)
    }
    let request = CommitRequest(payload: ByteView(), entryCount: 0, isLogged: false, wantsLead: true)
    guard let lead = queue.enqueue(request) else { fatalError("a request to lead was served: report this as a bug") }
    queue.serveOwn(request, lead) { _, _ in }
    defer { resign(lead) }
    return try body(lead)
  }

  /// Runs `body` as the leader if there is none.
  ///
  /// A background job never waits for writers and commits nothing for them, because a commit may wait for that very
  /// job.
  func leadIfFree(_ body: (borrowing CommitLead) -> Void) {
    guard let lead = queue.tryLead() else { return }
    body(lead)
    queue.handBack(lead)
  }

  /// Returns whether a batch of one range delete can be committed without waiting.
  func hasRoom(
    for family: FamilyState, keySize: Int, valueSize: Int, _ payloadSize: Int, _ lead: borrowing CommitLead
  ) -> Bool {
    let need = MemTableRequirement(tombstoneCount: 1, tombstoneKeyBytes: keySize + valueSize)
    return !isImpaired.load(ordering: .acquiring) && memory.hasRoomAtOnce(in: family, for: need, lead)
      && log.current(lead).hasRoom(payloadSize: payloadSize)
  }

  /// Commits a batch of one entry, for which there must be room.
  func commitLeading(_ payload: ByteView, _ terms: CommitTerms, _ lead: borrowing CommitLead) throws(EngineError) {
    _ = try apply(payload, entryCount: 1, isLogged: true, terms, lead)
  }

  private func serve(_ request: CommitRequest, _ lead: borrowing CommitLead) {
    guard !request.wantsLead else { return }
    do throws(EngineError) {
      request.receipt = try apply(
        request.payload, entryCount: request.entryCount, isLogged: request.isLogged, request.terms, lead)
    } catch {
      request.error = error
    }
  }

  /// Commits one batch: checks it, logs it, inserts it and publishes it.
  private func apply(
    _ payload: ByteView, entryCount: Int, isLogged: Bool, _ terms: CommitTerms, _ lead: borrowing CommitLead
  ) throws(EngineError) -> Receipt {
    if isImpaired.load(ordering: .acquiring) {
      try repair(lead)
      try checkAcceptance(putBytes: Self.putBytes(onFullDisk: payload, ownByteCount: terms.ownByteCount))
    }
    try resolveFamilies(payload, lead)
    // No other commit runs from here on: this thread leads until the batch is visible.
    if let condition = terms.condition { try condition.check(lead) }
    if let prepared = terms.prepared { touched.take(prepared) }
    do throws(EngineError) { try makeRoomInMemTables(lead) } catch {
      // What waits to be flushed may fit into the space of the reserve.
      guard usesReserve(after: error, frees: Self.frees(payload, terms)) else {
        throw error
      }
      try makeRoomInMemTables(lead)
    }
    // An empty batch takes a sequence, too, so that its commit has a position in the order.
    let count = UInt64(max(entryCount, 1))
    let last = SequenceNumber(nextSequence + count - 1)
    var position = LogPosition.zero
    payload.stamp(last, at: terms.stamps)
    let volatileCount = touched.volatileEntryCount
    let isLogged = isLogged && (volatileCount == 0 || volatileCount < entryCount)
    if isLogged {
      let logged = volatileCount == 0 ? payload : try loggedPart(of: payload, lead)
      let charge = scratch.capacity > Self.keptScratchSize ? MemoryCharge(scratch.capacity, to: log.account) : nil
      defer {
        charge?.resize(to: 0)
        if scratch.capacity > Self.keptScratchSize { scratch = ByteWriter(capacity: 4096) }
      }
      while !log.current(lead).hasRoom(payloadSize: logged.count) {
        try makeRoomInLog(
          logged.count, lead, frees: Self.frees(payload, terms))
        try makeRoomInMemTables(lead)
      }
      position = try log.append(
        sequence: SequenceNumber(nextSequence + UInt64(volatileCount)), payload: logged, lead)
      let segment = log.current(lead).number
      for index in touched.parts.indices {
        let family = touched.parts[index].family
        if family.activeSegment(lead) == nil && !family.isVolatile { family.beginActive(segment: segment, lead) }
      }
    } else {
      for part in touched.parts where !part.family.isVolatile {
        memory.noteUnlogged(part.family, segment: log.current(lead).number, lead)
      }
    }
    if terms.isRedundant {
      try insertRedundant(payload, first: nextSequence, volatileCount: volatileCount, lead)
    } else if touched.hasEdits {
      try insertEdits(payload, first: nextSequence, volatileCount: volatileCount, lead)
    } else if volatileCount == 0 {
      try insert(payload, first: nextSequence, lead)
    } else {
      try insertMixed(payload, first: nextSequence, volatileCount: volatileCount, lead)
    }
    nextSequence += count
    publish(last, position, isLogged: isLogged, waitsForSync: terms.waitsForSync, lead)
    if log.takeSwitch(lead) { enforceLogBound(lead) }
    return Receipt(sequence: last, position: position)
  }

  /// Makes room in the memtables of all families that the batch touches.
  @inline(__always)
  private func makeRoomInMemTables(_ lead: borrowing CommitLead) throws(EngineError) {
    // Making room for one family may freeze the memtable of another, so all are checked again.
    while let part = touched.partWithoutRoom(lead) {
      try makeRoom(in: part.family, for: part.need, lead)
    }
  }

  /// Makes room in the log, and in the memtable of `family` if that was frozen to free a part of the log.
  @inline(never)
  private func makeRoomInLog(
    _ payloadSize: Int, _ lead: borrowing CommitLead, frees: Bool, alsoIn family: FamilyState,
    for need: MemTableRequirement
  ) throws(EngineError) {
    // Making room in a memtable may restart the log in a segment that is too small.
    while !log.current(lead).hasRoom(payloadSize: payloadSize) {
      try makeRoomInLog(payloadSize, lead, frees: frees)
      if !family.active(lead).hasRoom(for: need) { try makeRoom(in: family, for: need, lead) }
    }
  }

  /// Makes room in a family's memtable.
  ///
  /// Continues in a new log segment if the flush that must come first waits for one.
  @inline(never)
  private func makeRoom(
    in family: FamilyState, for need: MemTableRequirement, _ lead: borrowing CommitLead
  ) throws(EngineError) {
    while try !memory.makeRoom(in: family, for: need, lead, unless: { [self] in needsRestart }) {
      restartIfBroken(lead)
      if isImpaired.load(ordering: .acquiring) { try repair(lead, isWithinCommit: true) }
    }
  }

  /// Sets the callback for log segments that may have become reusable without a flush.
  func onRelease(_ request: @escaping @Sendable () -> Void) { releaseRequest.set(request) }

  func requestRelease() { releaseRequest() }

  /// Sets the callback for refused commits.
  func onRefusal(_ request: @escaping @Sendable () -> Void) { didRefuse.set(request) }

  /// Sets the work that the leader does between two commits when requested.
  func betweenCommits(_ work: @escaping @Sendable (borrowing CommitLead) -> Void) {
    pendingWork.withLock { $0 = PendingWork(call: work) }
  }

  func doPendingWork(_ lead: borrowing CommitLead) { pendingWork.withLock { $0 }?.call(lead) }

  /// A structure that holds the function, for the reason given at `Callback`.
  private struct PendingWork {
    let call: @Sendable (borrowing CommitLead) -> Void
  }

  /// Finds every family that a batch names, before any part of the batch is written.
  private func resolveFamilies(_ payload: ByteView, _ lead: borrowing CommitLead) throws(EngineError) {
    touched.removeAll()
    var reader = BatchReader(payload)
    while let entry = try reader.next() {
      let location = try resolve(entry.family)
      let family = touched.parts[location].family
      if entry.kind == .merge, family.merge == nil { throw Self.operatorError(family) }
      if entry.kind == .rangeDelete {
        touched.countTombstone(at: location, bytes: entry.key.count + entry.value.count)
      } else {
        touched.count(at: location, bytes: entry.key.count &+ entry.value.count)
      }
    }
  }

  @inline(__always)
  private func resolve(_ id: FamilyID) throws(EngineError) -> Int {
    if let location = touched.location(of: id) { return location }
    guard let family = families.find(id) else {
      throw EngineError(.familyDropped, "the batch names column family \(id): it was dropped, or is of another engine")
    }
    if family.isDropped { throw Self.droppedError(family) }
    return touched.add(family)
  }

  /// Inserts a batch with several range deletes for one family.
  ///
  /// It is like `insert` and `insertMixed`, but readers see all range deletes at once, and prepared tombstones are
  /// adopted.
  @inline(never)
  private func insertEdits(
    _ payload: ByteView, first: UInt64, volatileCount: Int, _ lead: borrowing CommitLead
  ) throws(EngineError) {
    for part in touched.parts where part.need.tombstoneCount > 0 {
      if part.adopts(lead), let prepared = part.need.prepared {
        part.family.active(lead).adopt(prepared, first: SequenceNumber(first))
      } else {
        part.family.active(lead).rangeTombstones.beginEdit()
      }
    }
    if volatileCount == 0 {
      try insert(payload, first: first, lead)
    } else {
      try insertMixed(payload, first: first, volatileCount: volatileCount, lead)
    }
    for part in touched.parts where part.need.tombstoneCount > 0 {
      part.family.active(lead).rangeTombstones.endEdit()
    }
  }

  /// Inserts one range tombstone over dead keys.
  ///
  /// It is like `insert` and `insertMixed`, but the tombstone is marked redundant before a reader can find it: the
  /// conflict check of a transaction would otherwise take it for a change.
  @inline(never)
  private func insertRedundant(
    _ payload: ByteView, first: UInt64, volatileCount: Int, _ lead: borrowing CommitLead
  ) throws(EngineError) {
    let memTable = touched.parts[0].family.active(lead)
    memTable.rangeTombstones.beginRedundant()
    defer { memTable.rangeTombstones.endRedundant() }
    if volatileCount == 0 {
      try insert(payload, first: first, lead)
    } else {
      try insertMixed(payload, first: first, volatileCount: volatileCount, lead)
    }
  }

  private func insert(_ payload: ByteView, first: UInt64, _ lead: borrowing CommitLead) throws(EngineError) {
    var reader = BatchReader(payload)
    var sequence = first
    while let entry = try reader.next() {
      touched.family(of: entry).active(lead).insert(
        entry.key, Trailer(SequenceNumber(sequence), entry.kind), entry.value)
      sequence += 1
    }
  }

  /// Returns the entries of a batch that are logged. They are valid until the next commit.
  @inline(never)
  private func loggedPart(of payload: ByteView, _ lead: borrowing CommitLead) throws(EngineError) -> ByteView {
    scratch.removeAll()
    try scratch.reserveOrThrow(payload.count)
    var reader = BatchReader(payload)
    while let entry = try reader.next() {
      if touched.family(of: entry).isVolatile { continue }
      BatchFormat.append(entry.kind, entry.family, entry.key, entry.value, to: &scratch)
    }
    return scratch.view
  }

  /// Inserts a batch with volatile entries, which get the lower sequences.
  @inline(never)
  private func insertMixed(
    _ payload: ByteView, first: UInt64, volatileCount: Int, _ lead: borrowing CommitLead
  ) throws(EngineError) {
    var reader = BatchReader(payload)
    var nextVolatile = first
    var nextLogged = first + UInt64(volatileCount)
    while let entry = try reader.next() {
      let family = touched.family(of: entry)
      let sequence = family.isVolatile ? nextVolatile : nextLogged
      family.active(lead).insert(entry.key, Trailer(SequenceNumber(sequence), entry.kind), entry.value)
      if family.isVolatile { nextVolatile += 1 } else { nextLogged += 1 }
    }
  }

  /// The approximate number of bytes committed since the engine opened: the bytes appended to the log.
  var acceptedBytes: UInt64 { log.appendedPosition.value }

  // MARK: - Failure

  /// Makes the leader check the pipeline's state before the next commit.
  func noteBroken() { isImpaired.store(true, ordering: .releasing) }  // partner: `checkWritable`

  /// Ends these checks, unless writes are refused.
  func clearBroken() {
    isImpaired.store(false, ordering: .releasing)
    if poisonError != nil || log.isBroken || acceptsOnlyDeletes { noteBroken() }
  }

  /// The reason for which commits are refused, or `nil` if they are accepted.
  var refusal: Refusal? {
    get { refusalWord.withLock { $0 } }
    set { refusalWord.withLock { $0 = newValue } }
  }

  @inline(__always)
  private func checkWritable(_ lead: borrowing CommitLead) throws(EngineError) {
    if isImpaired.load(ordering: .acquiring) { try repair(lead) }
  }

  // MARK: - End records

  /// Makes the log durable and appends the record of a clean end. No commit may follow.
  func closeLog(_ lead: borrowing CommitLead) throws(EngineError) {
    let next = SequenceNumber(nextSequence)
    defer { announcer.announce(synced: 0, log) }
    try checkWritable(lead)
    do throws(EngineError) { try log.close(nextSequence: next, lead) } catch {
      guard needsRestart else { throw error }
      noteBroken()
      try checkWritable(lead)
      try log.close(nextSequence: next, lead)
    }
  }

  /// Appends an end record if nothing was appended since the last sync and there is no leader.
  func appendEndIfIdle() throws(EngineError) {
    var failure: EngineError?
    leadIfFree { lead in
      do throws(EngineError) { try log.appendEnd(nextSequence: SequenceNumber(nextSequence), lead) } catch {
        failure = error
      }
    }
    if let failure { throw failure }
  }
}

extension ByteView {
  /// Writes a commit's sequence, big-endian, at each of `offsets`.
  ///
  /// Requires: the bytes are the commit's own copy, which no other thread reads, or there are no offsets.
  fileprivate func stamp(_ sequence: SequenceNumber, at offsets: [Int]) {
    for offset in offsets {
      precondition(offset >= 0 && offset <= count - 8, "a stamp lies inside the batch")
      unsafe UnsafeMutableRawPointer(mutating: base).storeBytes(
        of: sequence.value.bigEndian, toByteOffset: offset, as: UInt64.self)
    }
  }
}
