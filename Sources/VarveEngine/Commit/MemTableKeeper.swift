internal import Synchronization

/// Gives out memtables, lets them grow, and freezes some so that the commit leader always has room.
///
/// # Bounds
/// - A memtable grows in steps, each charged to the budget, up to `memtableSize`.
/// - The active memtables of all families together come to `activeBytesMaximum`; at a step beyond it the
///   largest of them are frozen. A family without entries has no memory at all: it inserts nowhere yet
///   (`empty`), and one with few entries has a page.
/// - At most `frozenBytesMaximum` wait to be flushed, or for readers that keep them after their flush, over all
///   families: beyond it the leader waits, and every writer with it. That is the one full stop of the write path;
///   the write controller is there so that it is not met.
/// - For readers alone a writer waits for at most `readerWaitNanoseconds`: it may be the reader itself, in the body of a
///   `withValue`. What they keep after that is tolerated: a cursor that stands still keeps a memtable as long as it lives. Writers
///   wait again when as much has come to it as may be frozen.
///
/// # Concurrency
/// What takes a `CommitLead` belongs to the commit leader; the rest is safe from any thread.
final class MemTableKeeper: Sendable {
  private let bounds: Mutex<MemoryPlan>
  /// The memory of retired memtables, whose pages are there already.
  private let pool: ArenaPool
  private let executor: any BackgroundExecutor
  private let stalls: StallMeter
  /// What is charged for frozen memtables that are in no table yet.
  private let frozenBytes = Atomic<Int>(0)
  /// The same, and those that are in tables and not gone: a read, a cursor or a job still has them.
  private let waiting: MemoryAccount
  /// What readers keep although a writer has waited for them. Changed by the leader alone.
  private let toleratedBytes = Atomic<Int>(0)
  /// What is charged for active memtables. Changed by the leader alone.
  private let activeBytes = Atomic<Int>(0)
  private let requestFlush = Callback()
  private let requestRetry = Callback()
  private let requestViews = Callback()
  private let didGrow = Callback()
  private let flushError = Mutex<EngineError?>(nil)
  /// Held while memtables are frozen, so that a flush sees all of a group or none.
  private let freezing = Mutex(())
  /// The active memtable of every family that has no entries.
  let empty: MemTable

  init(plan: MemoryPlan, account: MemoryAccount, executor: any BackgroundExecutor, stalls: StallMeter)
    throws(EngineError)
  {
    bounds = Mutex(plan)
    self.executor = executor
    self.stalls = stalls
    waiting = MemoryAccount { if $0 < 0 { executor.wakeWaiters() } }
    pool = ArenaPool(limit: plan.poolBytesMaximum, accountMaximum: plan.reusedBytesMaximum, account: account)
    // Without the pool's account: it stays without memory.
    empty = try MemTable(growingTo: 1, pool: ArenaPool(limit: 0), touchedMaximum: 0)
  }

  /// Whom to tell of a frozen memtable.
  func onFreeze(_ request: @escaping @Sendable () -> Void) { requestFlush.set(request) }

  /// Whom to tell that a writer has to wait for a flush that failed.
  func onStarvation(_ request: @escaping @Sendable () -> Void) { requestRetry.set(request) }

  /// Calls `request` when a writer has to wait for readers.
  func onReaderWait(_ request: @escaping @Sendable () -> Void) { requestViews.set(request) }

  /// Whom to tell of memory that a memtable took: at each step of its growth.
  func onGrowth(_ body: @escaping @Sendable () -> Void) { didGrow.set(body) }

  private var plan: MemoryPlan { bounds.withLock { $0 } }

  /// Changes the bounds. What is too much is frozen at the next step of a memtable.
  func setPlan(_ plan: MemoryPlan) {
    bounds.withLock { $0 = plan }
    pool.setLimit(plan.poolBytesMaximum, accountMaximum: plan.reusedBytesMaximum)
  }

  /// Gives back memory that only a burst of flushes needed.
  func trimPool() { pool.trim(to: plan.idlePoolBytes) }

  /// Lets go of all memory that is kept for new memtables.
  func close() { pool.setLimit(0) }

  /// A memtable in which `bytes` are no more than a quarter.
  ///
  /// Batches that would take more than a quarter of a memtable get one of their size, so that a large
  /// batch neither fails nor bursts the bounds of the others.
  /// `freed` bytes of active memtables are about to be frozen.
  private func makeMemTable(
    for need: MemTableNeed, in family: FamilyState, freed: Int, _ plan: MemoryPlan
  ) throws(EngineError) -> MemTable {
    let bytes = need.byteCount + need.entryCount * Self.entryCharge
    let size = min(family.options.memtableSize ?? plan.memtableSize, plan.memtableSize)
    // An arena that was large for another family must not push this one over the bound.
    let room = max(plan.activeBytesMaximum - (activeBytes.load(ordering: .relaxed) - freed), 0)
    guard bytes > size / 4 else { return try MemTable(growingTo: size, pool: pool, touchedMaximum: room) }
    return try MemTable(growingTo: 4 * bytes + size, pool: pool, touchedMaximum: 0, isReusable: false)
  }

  /// Sees to it that what a batch needs fits into the family's memtable: lets it grow, or freezes it and begins
  /// another. False, and nothing done, where it has to wait for flushes and `isInterrupted` is true.
  func makeRoom(
    in family: FamilyState, for need: MemTableNeed, _ lead: borrowing CommitLead,
    unless isInterrupted: @Sendable () -> Bool
  ) throws(EngineError) -> Bool {
    let plan = plan
    var next: MemTable?
    if family.active(lead).couldHaveRoom(for: need) {
      let more = family.active(lead).chargeAfterGrowth(for: need) - family.active(lead).countedBytes
      if activeBytes.load(ordering: .relaxed) + more > plan.activeBytesMaximum {
        guard try waitForFlushes(plan, unless: isInterrupted) else { return false }
        freezeLargest(of: family.registry, for: more, plan, lead)
      }
    } else if family.active(lead) !== empty {
      guard try waitForFlushes(plan, unless: isInterrupted) else { return false }
      // First: where the system has no memory for another one, this one stays, and smaller entries still fit.
      next = try makeMemTable(for: need, in: family, freed: family.active(lead).countedBytes, plan)
      freeze(family, lead)
    }
    try grow(family, for: need, plan, lead, next: next)
    return true
  }

  /// Whether a batch's entries for a family fit into its memtable, as it is or after a step that freezes nothing.
  func hasRoomAtOnce(in family: FamilyState, for need: MemTableNeed, _ lead: borrowing CommitLead) -> Bool {
    let table = family.active(lead)
    if table.hasRoom(for: need) { return true }
    guard table !== empty, table.couldHaveRoom(for: need) else { return false }
    let more = table.chargeAfterGrowth(for: need) - table.countedBytes
    return activeBytes.load(ordering: .relaxed) + more <= plan.activeBytesMaximum
  }

  /// What an entry takes at most beside its bytes: the record's header and its share of nodes.
  private static let entryCharge = 96

  /// Lets the family's memtable take what a batch needs; a new one, or `made`, where it can't.
  private func grow(
    _ family: FamilyState, for need: MemTableNeed, _ plan: MemoryPlan, _ lead: borrowing CommitLead,
    next made: MemTable? = nil
  ) throws(EngineError) {
    if !family.active(lead).couldHaveRoom(for: need) {
      let next: MemTable
      if let made {
        next = made
      } else {
        next = try makeMemTable(for: need, in: family, freed: 0, plan)
      }
      // Frozen already, or allowed to grow in vain. Entries would be frozen without being counted.
      precondition(family.active(lead).entryCount == 0, "a memtable that has entries is replaced: report this as a bug")
      activeBytes.wrappingAdd(next.chargedBytes - family.active(lead).countedBytes, ordering: .relaxed)
      family.freeze(next: next, lead)
    }
    let more = family.active(lead).grow(for: need)
    activeBytes.wrappingAdd(more, ordering: .relaxed)
    if more >= Self.populatedStepMinimum { populate(family.active(lead)) }
    didGrow()
  }

  /// Has the system give the pages of a memtable's step while its writer goes on: taken by faults, one at a
  /// time, they were 23 % of the time of 600,000 puts into fresh memory.
  private func populate(_ table: MemTable) {
    let used = table.allowedBytes
    executor.submit("memtable.populate", priority: .immediate) { table.populate(upTo: used) }
  }

  /// Below this the faults are too few to matter.
  private static let populatedStepMinimum = 1 << 20

  /// Freezes the largest memtables until there is room for `bytes` and for an eighth of the bound: going
  /// through all families is worth more than one step.
  private func freezeLargest(
    of registry: FamilyRegistry, for bytes: Int, _ plan: MemoryPlan, _ lead: borrowing CommitLead
  ) {
    let goal = plan.activeBytesMaximum - plan.activeBytesMaximum / 8 - bytes
    let candidates = registry.all.map(\.state).filter { $0.active(lead).entryCount > 0 }
    for state in candidates.sorted(by: { $0.active(lead).usedBytes > $1.active(lead).usedBytes }) {
      if activeBytes.load(ordering: .relaxed) <= goal { return }
      // One that was frozen with another is empty by now.
      if state.active(lead).entryCount > 0 { freeze(state, lead) }
    }
  }

  /// Freezes the family's memtable where it holds anything.
  ///
  /// Where that holds unlogged batches, the memtables of all families that do are frozen with it, at one
  /// instant for flushes: the other half of a batch may be there.
  func freeze(_ family: FamilyState, _ lead: borrowing CommitLead) {
    guard family.active(lead).entryCount > 0 else { return }
    freezing.withLock { _ in
      let sharesBatches = family.hasUnlogged(lead)
      freezeAlone(family, lead)
      guard sharesBatches else { return }
      for other in family.registry.all where other.state.hasUnlogged(lead) { freezeAlone(other.state, lead) }
    }
    requestFlush()
  }

  /// Freezes the memtables of all families, or of all but volatile ones, at one instant for flushes.
  func freezeAll(_ registry: FamilyRegistry, includingVolatile: Bool, _ lead: borrowing CommitLead) {
    freezing.withLock { _ in
      for family in registry.all where includingVolatile || !family.state.isVolatile {
        freezeAlone(family.state, lead)
      }
    }
    requestFlush()
  }

  /// Runs `body` while no memtable is frozen.
  func betweenFreezes<R>(_ body: () -> R) -> R { freezing.withLock { _ in body() } }

  private func freezeAlone(_ family: FamilyState, _ lead: borrowing CommitLead) {
    let old = family.active(lead)
    guard old.entryCount > 0 else { return }
    // Replay may be in the middle of an edit, which continues in the next memtable. The view that is made now must see that
    // this one has range tombstones.
    old.rangeTombstones.endEdit()
    activeBytes.wrappingSubtract(old.countedBytes, ordering: .relaxed)
    frozenBytes.add(old.settleCharge(), ordering: .relaxed)
    old.countUntilGone(in: waiting)
    family.freeze(next: empty, lead)
  }

  /// As `makeRoom`, while the log is replayed. With `isBounded` what is frozen is flushed after the record; else nothing
  /// flushes, and the log's bound bounds this.
  func makeReplayRoom(
    in family: FamilyState, byteCount: Int, isBounded: Bool, _ lead: borrowing CommitLead
  ) throws(EngineError) {
    let plan = plan
    let need = MemTableNeed(byteCount: byteCount)
    if !family.active(lead).couldHaveRoom(for: need) {
      freezeAlone(family, lead)
    } else if isBounded {
      let more = family.active(lead).chargeAfterGrowth(for: need) - family.active(lead).countedBytes
      if activeBytes.load(ordering: .relaxed) + more > plan.activeBytesMaximum {
        freezeLargest(of: family.registry, for: more, plan, lead)
      }
    }
    try grow(family, for: need, plan, lead)
  }

  /// Forgets the active memtable of a dropped family.
  func didDrop(_ family: FamilyState, _ lead: borrowing CommitLead) {
    activeBytes.wrappingSubtract(family.active(lead).countedBytes, ordering: .relaxed)
  }

  /// A range tombstone, as those are that come after newer entries.
  typealias LateTombstone = (start: ByteView, end: ByteView, sequence: SequenceNumber)

  /// Puts all replayed entries of a family into one memtable with room for `byteCount` more: where an older
  /// entry comes after newer ones that are frozen, or older range deletes, `late`, after newer entries.
  func mergeReplayed(
    _ family: FamilyState, byteCount: Int, late: [LateTombstone] = [], _ lead: borrowing CommitLead
  ) throws(EngineError) {
    let frozen = family.frozen.map(\.table)
    let tables = frozen + [family.active(lead)]
    // So that what comes next finds room, whatever the range tombstones take: another memtable for an older entry would
    // be out of order.
    let bytes = tables.reduce(byteCount) { $0 + $1.usedBytes + 2 * $1.rangeTombstones.memorySize }
    let size = plan.memtableSize + 4 * (bytes + late.count * Self.lateTombstoneSize)
    let merged = try MemTable(growingTo: size, pool: pool, touchedMaximum: 0, isReusable: false)
    // Range tombstones first, in order: what is put among them then is known to be there.
    var edits = late.map { [$0] }
    for table in tables {
      // Replay may be in the middle of an edit.
      table.rangeTombstones.endEdit()
      table.rangeTombstones.forEachEdit(above: .zero) { edits.append($0) }
    }
    edits.sort { ($0.first?.sequence ?? .zero) < ($1.first?.sequence ?? .zero) }
    for edit in edits { Self.insert(edit, into: merged) }
    for table in tables { Self.copy(table, above: .zero, into: merged) }
    frozenBytes.subtract(frozen.reduce(0) { $0 + $1.chargedBytes }, ordering: .relaxed)
    activeBytes.wrappingAdd(merged.countedBytes - family.active(lead).countedBytes, ordering: .relaxed)
    family.mergeReplayed(into: merged, lead)
    let need = MemTableNeed(byteCount: byteCount)
    precondition(merged.couldHaveRoom(for: need), "merged memtables are full: report this as a bug")
    if !merged.hasRoom(for: need) { try grow(family, for: need, plan, lead) }
  }

  /// About what a late range tombstone takes, which is an edit of its own: rather more than less.
  private static let lateTombstoneSize = 4 << 10

  /// Inserts all range tombstones above `sequence` into another memtable, oldest first.
  private static func copyTombstones(_ table: MemTable, above sequence: SequenceNumber, into target: MemTable) {
    // Replay may be in the middle of an edit.
    table.rangeTombstones.endEdit()
    table.rangeTombstones.forEachEdit(above: sequence) { insert($0, into: target) }
  }

  /// Inserts the range tombstones of one commit.
  private static func insert(_ edit: [LateTombstone], into target: MemTable) {
    target.rangeTombstones.beginEdit()
    for tombstone in edit {
      target.insert(tombstone.start, Trailer(tombstone.sequence, .rangeDelete), tombstone.end)
    }
    target.rangeTombstones.endEdit()
  }

  /// Inserts all other entries above `sequence` into another memtable.
  private static func copy(_ table: MemTable, above sequence: SequenceNumber, into target: MemTable) {
    var iterator = table.makeIterator()
    iterator.seekToFirst()
    while iterator.isValid {
      if iterator.trailer.sequence > sequence {
        let entrySize = iterator.userKey.count + iterator.value.count
        let need = MemTableNeed(byteCount: entrySize)
        if !target.hasRoom(for: need) { _ = target.grow(for: need) }
        target.insert(iterator.userKey, iterator.trailer, iterator.value)
      }
      iterator.next()
    }
  }

  /// What is left of a family's memtables without the entries up to `flushed`, which another process put into
  /// tables: no entry is to be in both. The follower's, who puts it in force by `replace`.
  func entries(
    of family: FamilyState, above flushed: SequenceNumber, _ lead: borrowing CommitLead
  ) throws(EngineError) -> (frozen: [FrozenMemTable], active: MemTable) {
    var kept: [FrozenMemTable] = []
    for frozen in family.frozen {
      guard let table = try remainder(of: frozen.table, above: flushed) else { continue }
      kept.append(
        FrozenMemTable(
          table: table, firstSegment: frozen.firstSegment, copyPosition: frozen.copyPosition, hasUnlogged: false))
    }
    return (kept, try remainder(of: family.active(lead), above: flushed) ?? empty)
  }

  /// Puts memtables that `entries` returned in force, with a version, and counts them in place of the others.
  func replace(
    _ family: FamilyState, _ version: Version, _ memTables: (frozen: [FrozenMemTable], active: MemTable),
    _ lead: borrowing CommitLead
  ) {
    let old = family.frozen.map(\.table)
    for table in old where !memTables.frozen.contains(where: { $0.table === table }) {
      frozenBytes.subtract(table.chargedBytes, ordering: .relaxed)
    }
    for frozen in memTables.frozen where !old.contains(where: { $0 === frozen.table }) {
      frozenBytes.add(frozen.table.settleCharge(), ordering: .relaxed)
    }
    activeBytes.wrappingAdd(memTables.active.countedBytes - family.active(lead).countedBytes, ordering: .relaxed)
    family.replace(version, frozen: memTables.frozen, active: memTables.active, lead)
  }

  /// The memtable itself where it has nothing up to `flushed`, nil where it has nothing else.
  private func remainder(of table: MemTable, above flushed: SequenceNumber) throws(EngineError) -> MemTable? {
    if table.isEmpty || table.smallestSequence > flushed { return table }
    guard table.largestSequence > flushed else { return nil }
    let rest = try MemTable(growingTo: plan.memtableSize + 4 * table.usedBytes, pool: pool, touchedMaximum: 0)
    Self.copyTombstones(table, above: flushed, into: rest)
    Self.copy(table, above: flushed, into: rest)
    return rest
  }

  /// Notes that entries come that are not in the log.
  func noteUnlogged(_ family: FamilyState, segment: FileNumber, _ lead: borrowing CommitLead) {
    if family.activeSegment(lead) == nil { family.beginActive(segment: segment, lead) }
    family.noteUnlogged(lead)
  }

  /// Gives back the room of memtables that were flushed or dropped.
  func didFlush(_ tables: [FrozenMemTable]) {
    frozenBytes.subtract(tables.reduce(0) { $0 + $1.table.chargedBytes }, ordering: .relaxed)
    flushError.withLock { $0 = nil }
    executor.wakeWaiters()
  }

  /// Lets waiting writers fail with this instead of waiting for a flush that can't happen now.
  func didFail(_ error: EngineError) {
    flushError.withLock { $0 = error }
    executor.wakeWaiters()
  }

  /// Lets writers wait again: what failed is tried again now.
  func clearFailure() { flushError.withLock { $0 = nil } }

  /// Bytes of frozen memtables that are in no table yet.
  var frozenSize: Int { frozenBytes.load(ordering: .relaxed) }

  /// Bytes of frozen memtables that are not gone: in no table yet, or still read.
  var waitingSize: Int { waiting.used }

  /// Bytes of memtables that are in tables and that a read, a cursor or a job still has.
  var keptSize: Int { max(waitingSize - frozenSize, 0) }

  /// Whether writers wait for a flush, or will where what they write now is frozen before one ends.
  var isNearlyFull: Bool {
    let size = waitingSize - min(toleratedBytes.load(ordering: .relaxed), keptSize)
    return size > 0 && size + activeBytes.load(ordering: .relaxed) > plan.frozenBytesMaximum
  }

  /// How long a writer waits for memtables that readers alone keep. Readers that take longer are reported, and then
  /// memory grows in this time by as much as may be frozen at most.
  private static let readerWaitNanoseconds: UInt64 = 1_000_000_000

  /// Whether a wait for readers has taken its time.
  private final class Patience: Sendable {
    let isOver = Atomic<Bool>(false)
  }

  /// False where `isInterrupted` ended it.
  private func waitForFlushes(
    _ plan: MemoryPlan, unless isInterrupted: @Sendable () -> Bool
  ) throws(EngineError) -> Bool {
    let tolerated = min(toleratedBytes.load(ordering: .relaxed), keptSize)
    toleratedBytes.store(tolerated, ordering: .relaxed)
    let maximum = plan.frozenBytesMaximum + tolerated
    if waitingSize <= maximum { return true }
    if flushError.withLock({ $0 != nil }) { requestRetry() }
    let patience = Patience()
    if frozenSize <= maximum { requestViews() }
    executor.submit("memtable.wait", after: Self.readerWaitNanoseconds) { [executor] in
      patience.isOver.store(true, ordering: .relaxed)
      executor.wakeWaiters()
    }
    let hasRoom: @Sendable () -> Bool = { [self] in
      waitingSize <= maximum || (frozenSize <= maximum && patience.isOver.load(ordering: .relaxed))
    }
    // A flush that failed ends the wait only where flushes are waited for, and not readers.
    let hasFailed: @Sendable () -> Bool = { [self] in frozenSize > maximum && flushError.withLock { $0 != nil } }
    stalls.measure { executor.wait(until: { hasRoom() || hasFailed() || isInterrupted() }) }
    if waitingSize <= maximum { return true }
    if hasRoom() {
      toleratedBytes.store(keptSize, ordering: .relaxed)
      return true
    }
    if isInterrupted() { return false }
    if frozenSize > maximum, let error = flushError.withLock({ $0 }) {
      throw EngineError(error.code, "memtables are full and can't be flushed", cause: error, file: error.file)
    }
    return false
  }
}
