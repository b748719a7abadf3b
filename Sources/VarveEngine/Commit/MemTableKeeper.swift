internal import Synchronization

/// Gives out memtables, lets them grow, and freezes some so that the commit leader always has room.
///
/// # Bounds
/// - A memtable grows in steps, each charged to the budget, up to `memtableSize`.
/// - The active memtables of all families together come to `activeBytesMaximum`; at a step beyond it the
///   largest of them are frozen. A family without entries has no memory at all: it inserts nowhere yet
///   (`empty`), and one with few entries has a page.
/// - At most `frozenBytesMaximum` wait to be flushed, over all families: beyond it the leader waits, and
///   every writer with it. That is the one full stop of the write path; the write controller is there so
///   that it is not met.
///
/// # Concurrency
/// `makeRoom`, `freeze`, `noteUnlogged` and `didDrop` belong to the commit leader; the rest is safe from
/// any thread.
final class MemTableKeeper: Sendable {
  private let bounds: Mutex<MemoryPlan>
  /// The memory of retired memtables, whose pages are there already.
  private let pool: ArenaPool
  private let executor: any BackgroundExecutor
  private let stalls: StallMeter
  /// What is charged for frozen memtables.
  private let frozenBytes = Atomic<Int>(0)
  /// What is charged for active memtables. Changed by the leader alone.
  private let activeBytes = Atomic<Int>(0)
  private let requestFlush = Callback()
  private let requestRetry = Callback()
  private let didGrow = Callback()
  private let flushError = Mutex<EngineError?>(nil)
  /// Held while memtables are frozen, so that a flush sees all of a group or none.
  private let freezing = Mutex(())
  /// The active memtable of every family that has no entries.
  let empty: MemTable

  init(plan: MemoryPlan, account: MemoryAccount, executor: any BackgroundExecutor, stalls: StallMeter) {
    bounds = Mutex(plan)
    self.executor = executor
    self.stalls = stalls
    pool = ArenaPool(limit: plan.poolBytesMaximum, account: account)
    // Without the pool's account: it stays without memory.
    empty = MemTable(growingTo: 1, pool: ArenaPool(limit: 0), touchedMaximum: 0)
  }

  /// Whom to tell of a frozen memtable.
  func onFreeze(_ request: @escaping @Sendable () -> Void) { requestFlush.set(request) }

  /// Whom to tell that a writer has to wait for a flush that failed.
  func onStarvation(_ request: @escaping @Sendable () -> Void) { requestRetry.set(request) }

  /// Whom to tell of memory that a memtable took: at each step of its growth.
  func onGrowth(_ body: @escaping @Sendable () -> Void) { didGrow.set(body) }

  private var plan: MemoryPlan { bounds.withLock { $0 } }

  /// Changes the bounds. What is too much is frozen at the next step of a memtable.
  func setPlan(_ plan: MemoryPlan) {
    bounds.withLock { $0 = plan }
    pool.setLimit(plan.poolBytesMaximum)
  }

  /// Gives back memory that only a burst of flushes needed.
  func trimPool() { pool.trim(to: plan.idlePoolBytes) }

  /// Lets go of all memory that is kept for new memtables.
  func close() { pool.setLimit(0) }

  /// A memtable in which `bytes` are no more than a quarter.
  ///
  /// Batches that would take more than a quarter of a memtable get one of their size, so that a large
  /// batch neither fails nor bursts the bounds of the others.
  private func makeMemTable(for bytes: Int, _ plan: MemoryPlan) -> MemTable {
    // An arena that was large for another family must not push this one over the bound.
    let room = max(plan.activeBytesMaximum - activeBytes.load(ordering: .relaxed), 0)
    guard bytes > plan.memtableSize / 4 else {
      return MemTable(growingTo: plan.memtableSize, pool: pool, touchedMaximum: room)
    }
    return MemTable(growingTo: 4 * bytes + plan.memtableSize, pool: pool, touchedMaximum: 0, isReusable: false)
  }

  /// Sees to it that entries of these sizes in sum fit into the family's memtable: lets it grow, or
  /// freezes it and begins another. False, and nothing done, where it has to wait for flushes and
  /// `isInterrupted` is true.
  func makeRoom(
    in family: FamilyState, entryCount: Int, byteCount: Int, unless isInterrupted: @Sendable () -> Bool
  ) throws(EngineError) -> Bool {
    let plan = plan
    if family.active.couldHaveRoom(entryCount: entryCount, byteCount: byteCount) {
      let more =
        family.active.chargeAfterGrowth(entryCount: entryCount, byteCount: byteCount) - family.active.chargedBytes
      if activeBytes.load(ordering: .relaxed) + more > plan.activeBytesMaximum {
        guard try waitForFlushes(plan, unless: isInterrupted) else { return false }
        freezeLargest(of: family.registry, for: more, plan)
      }
    } else if family.active !== empty {
      guard try waitForFlushes(plan, unless: isInterrupted) else { return false }
      freeze(family)
    }
    grow(family, entryCount: entryCount, byteCount: byteCount, plan)
    return true
  }

  /// Lets the family's memtable take entries of these sizes; a new one where it can't.
  private func grow(_ family: FamilyState, entryCount: Int, byteCount: Int, _ plan: MemoryPlan) {
    if !family.active.couldHaveRoom(entryCount: entryCount, byteCount: byteCount) {
      // An entry takes at most so much beside its bytes: the record's header and its share of nodes.
      let next = makeMemTable(for: byteCount + entryCount * 96, plan)
      // The old one is without entries here: frozen already, or allowed to grow in vain.
      activeBytes.wrappingAdd(next.chargedBytes - family.active.chargedBytes, ordering: .relaxed)
      family.freeze(next: next)
    }
    let more = family.active.grow(entryCount: entryCount, byteCount: byteCount)
    activeBytes.wrappingAdd(more, ordering: .relaxed)
    if more >= Self.populatedStepMinimum { populate(family.active) }
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
  private func freezeLargest(of registry: FamilyRegistry, for bytes: Int, _ plan: MemoryPlan) {
    let goal = plan.activeBytesMaximum - plan.activeBytesMaximum / 8 - bytes
    let candidates = registry.all.map(\.state).filter { $0.active.entryCount > 0 }
    for state in candidates.sorted(by: { $0.active.usedBytes > $1.active.usedBytes }) {
      if activeBytes.load(ordering: .relaxed) <= goal { return }
      // One that was frozen with another is empty by now.
      if state.active.entryCount > 0 { freeze(state) }
    }
  }

  /// Freezes the family's memtable where it holds anything.
  ///
  /// Where that holds unlogged batches, the memtables of all families that do are frozen with it, at one
  /// instant for flushes: the other half of a batch may be there.
  func freeze(_ family: FamilyState) {
    guard family.active.entryCount > 0 else { return }
    freezing.withLock { _ in
      let sharesBatches = family.hasUnlogged
      freezeAlone(family)
      guard sharesBatches else { return }
      for other in family.registry.all where other.state.hasUnlogged { freezeAlone(other.state) }
    }
    requestFlush()
  }

  /// Freezes the memtables of all families, or of all but volatile ones, at one instant for flushes.
  func freezeAll(_ registry: FamilyRegistry, includingVolatile: Bool) {
    freezing.withLock { _ in
      for family in registry.all where includingVolatile || !family.state.isVolatile { freezeAlone(family.state) }
    }
    requestFlush()
  }

  /// Runs `body` while no memtable is frozen.
  func betweenFreezes<R>(_ body: () -> R) -> R { freezing.withLock { _ in body() } }

  private func freezeAlone(_ family: FamilyState) {
    let old = family.active
    guard old.entryCount > 0 else { return }
    activeBytes.wrappingSubtract(old.chargedBytes, ordering: .relaxed)
    frozenBytes.add(old.settleCharge(), ordering: .relaxed)
    family.freeze(next: empty)
  }

  /// As `makeRoom`, while the log is replayed: nothing flushes yet, and the log's bound bounds this.
  func makeReplayRoom(in family: FamilyState, byteCount: Int) {
    if !family.active.couldHaveRoom(entryCount: 1, byteCount: byteCount) { freezeAlone(family) }
    grow(family, entryCount: 1, byteCount: byteCount, plan)
  }

  /// Forgets the active memtable of a dropped family.
  func didDrop(_ family: FamilyState) {
    activeBytes.wrappingSubtract(family.active.chargedBytes, ordering: .relaxed)
  }

  /// A range tombstone that comes after newer entries.
  typealias LateTombstone = (start: ByteView, end: ByteView, sequence: SequenceNumber)

  /// Puts all replayed entries of a family into one memtable with room for `byteCount` more: where an older
  /// entry comes after newer ones that are frozen. A late tombstone goes in before anybody reads the memtable.
  func mergeReplayed(_ family: FamilyState, byteCount: Int, late: LateTombstone? = nil) {
    let frozen = family.frozen.map(\.table)
    let tables = frozen + [family.active]
    let size = plan.memtableSize + 4 * tables.reduce(byteCount) { $0 + $1.usedBytes }
    let merged = MemTable(growingTo: size, pool: pool, touchedMaximum: 0, isReusable: false)
    // Range tombstones first, in order: what is put among them then is known to be there.
    for table in tables { Self.copyTombstones(table, above: .zero, into: merged) }
    if let late { merged.insert(late.start, Trailer(late.sequence, .rangeDelete), late.end) }
    for table in tables { Self.copy(table, above: .zero, into: merged) }
    frozenBytes.subtract(frozen.reduce(0) { $0 + $1.chargedBytes }, ordering: .relaxed)
    activeBytes.wrappingAdd(merged.chargedBytes - family.active.chargedBytes, ordering: .relaxed)
    family.mergeReplayed(into: merged)
    if !merged.hasRoom(entryCount: 1, byteCount: byteCount) { grow(family, entryCount: 1, byteCount: byteCount, plan) }
  }

  /// Inserts all range tombstones above `sequence` into another memtable, oldest first.
  private static func copyTombstones(_ table: MemTable, above sequence: SequenceNumber, into target: MemTable) {
    var tombstones: [(start: ByteView, end: ByteView, sequence: SequenceNumber)] = []
    table.rangeTombstones.forEachTombstone(above: sequence) { tombstones.append(($0, $1, $2)) }
    for tombstone in tombstones.reversed() {
      target.insert(tombstone.start, Trailer(tombstone.sequence, .rangeDelete), tombstone.end)
    }
  }

  /// Inserts all other entries above `sequence` into another memtable.
  private static func copy(_ table: MemTable, above sequence: SequenceNumber, into target: MemTable) {
    var iterator = table.makeIterator()
    iterator.seekToFirst()
    while iterator.isValid {
      if iterator.trailer.sequence > sequence {
        let entrySize = iterator.userKey.count + iterator.value.count
        if !target.hasRoom(entryCount: 1, byteCount: entrySize) {
          _ = target.grow(entryCount: 1, byteCount: entrySize)
        }
        target.insert(iterator.userKey, iterator.trailer, iterator.value)
      }
      iterator.next()
    }
  }

  /// What is left of a family's memtables without the entries up to `flushed`, which another process put into
  /// tables: no entry is to be in both. The follower's, who puts it in force.
  func entries(of family: FamilyState, above flushed: SequenceNumber) -> (frozen: [FrozenMemTable], active: MemTable) {
    var kept: [FrozenMemTable] = []
    for frozen in family.frozen {
      let table = remainder(of: frozen.table, above: flushed)
      if table !== frozen.table { frozenBytes.subtract(frozen.table.chargedBytes, ordering: .relaxed) }
      guard let table else { continue }
      if table !== frozen.table { frozenBytes.add(table.settleCharge(), ordering: .relaxed) }
      kept.append(
        FrozenMemTable(
          table: table, firstSegment: frozen.firstSegment, copyPosition: frozen.copyPosition, hasUnlogged: false))
    }
    let active = remainder(of: family.active, above: flushed) ?? empty
    activeBytes.wrappingAdd(active.chargedBytes - family.active.chargedBytes, ordering: .relaxed)
    return (kept, active)
  }

  /// The memtable itself where it has nothing up to `flushed`, nil where it has nothing else.
  private func remainder(of table: MemTable, above flushed: SequenceNumber) -> MemTable? {
    if table.isEmpty || table.smallestSequence > flushed { return table }
    guard table.largestSequence > flushed else { return nil }
    let rest = MemTable(growingTo: plan.memtableSize + 4 * table.usedBytes, pool: pool, touchedMaximum: 0)
    Self.copyTombstones(table, above: flushed, into: rest)
    Self.copy(table, above: flushed, into: rest)
    return rest
  }

  /// Notes that entries come that are not in the log.
  func noteUnlogged(_ family: FamilyState, segment: FileNumber) {
    if family.activeSegment == nil { family.beginActive(segment: segment) }
    family.hasUnlogged = true
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

  var frozenSize: Int { frozenBytes.load(ordering: .relaxed) }

  /// Whether writers wait for a flush, or will where what they write now is frozen before one ends.
  var isNearlyFull: Bool {
    let frozen = frozenSize
    return frozen > 0 && frozen + activeBytes.load(ordering: .relaxed) > plan.frozenBytesMaximum
  }

  /// False where `isInterrupted` ended it.
  private func waitForFlushes(
    _ plan: MemoryPlan, unless isInterrupted: @Sendable () -> Bool
  ) throws(EngineError) -> Bool {
    let maximum = plan.frozenBytesMaximum
    if frozenSize <= maximum { return true }
    if flushError.withLock({ $0 != nil }) { requestRetry() }
    stalls.measure {
      executor.wait(until: { [self] in
        frozenSize <= maximum || flushError.withLock { $0 != nil } || isInterrupted()
      })
    }
    if frozenSize <= maximum { return true }
    if isInterrupted() { return false }
    if let error = flushError.withLock({ $0 }) {
      throw EngineError(error.code, "memtables are full and can't be flushed", cause: error, file: error.file)
    }
    return false
  }
}
