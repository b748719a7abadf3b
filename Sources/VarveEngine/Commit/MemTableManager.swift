internal import Synchronization

/// Creates memtables, lets them grow, and freezes some so that the commit leader always has room.
///
/// # Bounds
/// - A memtable grows in steps, each charged to the budget, up to `memtableSize`.
/// - The active memtables of all families together take at most `activeBytesMaximum`; at a step beyond it the largest
///   of them are frozen. A family without entries has no memory: its memtable is the shared `empty`; one with few
///   entries has a page.
/// - The leader freezes memtables to make room only if at most `frozenBytesMaximum`, over all families, waits to be
///   flushed or is kept by readers after the flush. Beyond it the leader waits, and every writer with it. The bytes may
///   therefore exceed the bound by what was frozen last, usually one memtable. This is the only full stop of the write
///   path; the write controller exists to avoid it.
/// - A writer waits for readers alone for at most `readerWaitNanoseconds`, as it may be the reader itself, in the body
///   of a `withValue`. Memory that readers keep after that is tolerated: an idle cursor keeps a memtable as long as it
///   lives. Writers wait again once as much has been added to it as may be frozen.
///
/// # Concurrency
/// Methods that take a `CommitLead` belong to the commit leader; the rest is safe from any thread.
final class MemTableManager: Sendable {
  private let bounds: Mutex<MemoryPlan>
  /// Memory of retired memtables, whose pages are populated already.
  private let pool: ArenaPool
  private let executor: any BackgroundExecutor
  private let stalls: StallMeter
  /// Bytes charged for frozen memtables that are not in a table yet.
  private let frozenBytes = Atomic<Int>(0)
  /// Bytes charged for all frozen memtables that still exist, including flushed ones that a read, a cursor or a job
  /// uses.
  private let waiting: MemoryAccount
  /// Bytes that readers keep although a writer has waited for them. Changed by the leader only.
  private let toleratedBytes = Atomic<Int>(0)
  /// Bytes charged for active memtables. Changed by the leader only.
  private let activeBytes = Atomic<Int>(0)
  private let requestFlush = Callback()
  private let requestRetry = Callback()
  private let requestViews = Callback()
  private let didGrow = Callback()
  private let didDelete = Callback()
  private let flushError = Mutex<EngineError?>(nil)
  /// Held while memtables are frozen, so that a flush sees all of a group or none.
  private let freezing = Mutex(())
  /// The active memtable of every family without entries.
  let empty: MemTable

  init(plan: MemoryPlan, account: MemoryAccount, executor: any BackgroundExecutor, stalls: StallMeter)
    throws(EngineError)
  {
    bounds = Mutex(plan)
    self.executor = executor
    self.stalls = stalls
    waiting = MemoryAccount { if $0 < 0 { executor.wakeWaiters() } }
    pool = ArenaPool(limit: plan.poolBytesMaximum, accountMaximum: plan.reusedBytesMaximum, account: account)
    // The empty memtable needs no pool, because it never allocates.
    empty = try MemTable(growingTo: 1, pool: ArenaPool(limit: 0), touchedMaximum: 0)
  }

  /// Sets the callback for a frozen memtable.
  func onFreeze(_ request: @escaping @Sendable () -> Void) { requestFlush.set(request) }

  /// Sets the callback for a writer that has to wait for a flush that failed.
  func onStarvation(_ request: @escaping @Sendable () -> Void) { requestRetry.set(request) }

  /// Sets the callback for a writer that has to wait for readers.
  func onReaderWait(_ request: @escaping @Sendable () -> Void) { requestViews.set(request) }

  /// Sets the callback for the first delete in a memtable.
  func onDelete(_ body: @escaping @Sendable () -> Void) { didDelete.set(body) }

  /// Sets the callback for the growth of a memtable, called at each step.
  func onGrowth(_ body: @escaping @Sendable () -> Void) { didGrow.set(body) }

  private var plan: MemoryPlan { bounds.withLock { $0 } }

  /// Changes the bounds. Memtables beyond them are frozen at the next growth step.
  func setPlan(_ plan: MemoryPlan) {
    bounds.withLock { $0 = plan }
    pool.setLimit(plan.poolBytesMaximum, accountMaximum: plan.reusedBytesMaximum)
  }

  /// Frees pool memory that only a burst of flushes needed.
  func trimPool() { pool.trim(to: plan.idlePoolBytes) }

  /// Frees all memory that is kept for new memtables.
  func close() { pool.setLimit(0) }

  /// Creates a memtable of which the batch's entries take at most a quarter.
  ///
  /// A batch that would take more than a quarter of a memtable gets one of its own size, so that a large batch neither
  /// fails nor exceeds the bounds of the others. `freed` bytes of active memtables are about to be frozen.
  private func makeMemTable(
    for need: MemTableRequirement, in family: FamilyState, freed: Int, _ plan: MemoryPlan
  ) throws(EngineError) -> MemTable {
    let bytes = need.byteCount + need.entryCount * Self.entryCharge
    let size = min(family.options.memtableSize ?? plan.memtableSize, plan.memtableSize)
    // An arena that was large for another family must not push this one over the bound.
    let room = max(plan.activeBytesMaximum - (activeBytes.load(ordering: .relaxed) - freed), 0)
    guard bytes > size / 4 else { return try MemTable(growingTo: size, pool: pool, touchedMaximum: room) }
    return try MemTable(growingTo: 4 * bytes + size, pool: pool, touchedMaximum: 0, isReusable: false)
  }

  /// Makes room for a batch's entries in the family's memtable: grows it, or freezes it and begins another.
  ///
  /// Returns false, without any effect, if it has to wait for flushes and `isInterrupted` returns true.
  func makeRoom(
    in family: FamilyState, for need: MemTableRequirement, _ lead: borrowing CommitLead,
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
      // The next memtable is made first: if its memory can't be allocated, the present one stays, and smaller entries
      // still fit.
      next = try makeMemTable(for: need, in: family, freed: family.active(lead).countedBytes, plan)
      freeze(family, lead)
    }
    try grow(family, for: need, plan, lead, next: next)
    return true
  }

  /// Returns whether a batch's entries for a family fit into its memtable now, or after a growth step that freezes
  /// nothing.
  func hasRoomAtOnce(in family: FamilyState, for need: MemTableRequirement, _ lead: borrowing CommitLead) -> Bool {
    let table = family.active(lead)
    if table.hasRoom(for: need) { return true }
    guard table !== empty, table.couldHaveRoom(for: need) else { return false }
    let more = table.chargeAfterGrowth(for: need) - table.countedBytes
    return activeBytes.load(ordering: .relaxed) + more <= plan.activeBytesMaximum
  }

  /// The maximum bytes that an entry takes in addition to its own: the record's header and its share of nodes.
  private static let entryCharge = 96

  /// Grows the family's memtable for a batch. If it can't grow enough, replaces it with `made` or a new one.
  private func grow(
    _ family: FamilyState, for need: MemTableRequirement, _ plan: MemoryPlan, _ lead: borrowing CommitLead,
    next made: MemTable? = nil
  ) throws(EngineError) {
    if !family.active(lead).couldHaveRoom(for: need) {
      let next: MemTable
      if let made {
        next = made
      } else {
        next = try makeMemTable(for: need, in: family, freed: 0, plan)
      }
      // The memtable was frozen already. Replacing one with entries would freeze them without counting them.
      precondition(family.active(lead).entryCount == 0, "a memtable that has entries is replaced: report this as a bug")
      activeBytes.wrappingAdd(next.chargedBytes - family.active(lead).countedBytes, ordering: .relaxed)
      next.deadRanges = family.deadRanges
      next.onDelete = didDelete
      family.freeze(next: next, lead)
    }
    let more = family.active(lead).grow(for: need)
    activeBytes.wrappingAdd(more, ordering: .relaxed)
    // A step for a large batch says nothing about the ratio of records to nodes, and its memory is touched at once.
    if more >= Self.populatedStepMinimum, family.active(lead).usedBytes >= more / 2 { populate(family.active(lead)) }
    didGrow()
  }

  /// Populates the pages of a memtable's growth step in the background.
  ///
  /// Page faults of the writer, one at a time, took 23 % of the time of 600,000 puts into fresh memory.
  private func populate(_ table: MemTable) {
    let used = table.allowedBytes
    executor.submit("memtable.populate", priority: .immediate) { table.populate(upTo: used) }
  }

  /// The minimum growth step that is populated; with a smaller one there are too few page faults to matter.
  private static let populatedStepMinimum = 1 << 20

  /// Freezes the largest memtables until there is room for `bytes` and for an eighth of the bound.
  ///
  /// The additional eighth is freed because an iteration over all families should pay for more than one step.
  private func freezeLargest(
    of registry: FamilyRegistry, for bytes: Int, _ plan: MemoryPlan, _ lead: borrowing CommitLead
  ) {
    let goal = plan.activeBytesMaximum - plan.activeBytesMaximum / 8 - bytes
    let candidates = registry.all.map(\.state).filter { $0.active(lead).entryCount > 0 }
    for state in candidates.sorted(by: { $0.active(lead).usedBytes > $1.active(lead).usedBytes }) {
      if activeBytes.load(ordering: .relaxed) <= goal { return }
      // A memtable that was frozen together with another is empty by now.
      if state.active(lead).entryCount > 0 { freeze(state, lead) }
    }
  }

  /// Freezes the family's memtable if it has any entries.
  ///
  /// If it contains unlogged batches, the memtables of all families that contain some are frozen with it, atomically
  /// for flushes: they may contain other parts of those batches.
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

  /// Freezes the memtables of all families, or of all but volatile ones, atomically for flushes.
  func freezeAll(_ registry: FamilyRegistry, includingVolatile: Bool, _ lead: borrowing CommitLead) {
    freezing.withLock { _ in
      for family in registry.all where includingVolatile || !family.state.isVolatile {
        freezeAlone(family.state, lead)
      }
    }
    requestFlush()
  }

  /// Runs `body`, during which no memtable is frozen.
  func betweenFreezes<R>(_ body: () -> R) -> R { freezing.withLock { _ in body() } }

  private func freezeAlone(_ family: FamilyState, _ lead: borrowing CommitLead) {
    let old = family.active(lead)
    guard old.entryCount > 0 else { return }
    // Replay may be in the middle of an edit, which continues in the next memtable. The view that is made now must see
    // that this memtable has range tombstones.
    old.rangeTombstones.endEdit()
    activeBytes.wrappingSubtract(old.countedBytes, ordering: .relaxed)
    frozenBytes.add(old.settleCharge(), ordering: .relaxed)
    old.countUntilGone(in: waiting)
    family.freeze(next: empty, lead)
  }

  /// Makes room like `makeRoom`, during log replay.
  ///
  /// If `isBounded`, frozen memtables are flushed after the record. Otherwise no memtable is flushed, and the log's
  /// bound limits the memory.
  func makeReplayRoom(
    in family: FamilyState, byteCount: Int, isBounded: Bool, _ lead: borrowing CommitLead
  ) throws(EngineError) {
    let plan = plan
    let need = MemTableRequirement(byteCount: byteCount)
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

  /// Stops counting the active memtable of a dropped family.
  func didDrop(_ family: FamilyState, _ lead: borrowing CommitLead) {
    activeBytes.wrappingSubtract(family.active(lead).countedBytes, ordering: .relaxed)
  }

  /// Freezes the memtables of all families during log replay, so that later entries are in other ones.
  func freezeReplayed(_ registry: FamilyRegistry, _ lead: borrowing CommitLead) {
    for family in registry.all { freezeAlone(family.state, lead) }
  }

  /// An entry, or a range tombstone, that is replayed after newer ones of its family.
  typealias LateEntry = (trailer: Trailer, key: ByteView, value: ByteView)

  /// Inserts entries of a family, ascending by sequence, that are older than the newest one in its memtables.
  ///
  /// Reads, and the flushed sequence, require memtables in the order of their entries. If there is only one, it takes
  /// them if it has room. Otherwise entries between those of two memtables get one of their own. Entries within the
  /// range of a memtable are rare: the log has them only if they were not logged before a restart after a failed sync.
  /// That memtable is replaced by a copy with them. Complexity: O(n log n) in the entries, apart from such copies.
  func insertLate(
    _ late: [LateEntry], into family: FamilyState, segment: FileNumber, _ lead: borrowing CommitLead
  ) throws(EngineError) {
    // A log that is short enough for one memtable gets no other one, and so no table when it is closed.
    if family.frozen.isEmpty, !late.contains(where: { $0.trailer.rawKind == EntryKind.rangeDelete.rawValue }) {
      let bytes = late.reduce(0) { $0 + $1.key.count + $1.value.count }
      let need = MemTableRequirement(entryCount: late.count, byteCount: bytes)
      if family.active(lead).couldHaveRoom(for: need) {
        if !family.active(lead).hasRoom(for: need) { try grow(family, for: need, plan, lead) }
        for entry in late { family.active(lead).insert(entry.key, entry.trailer, entry.value) }
        return
      }
    }
    var rest = late[...]
    /// Takes the first entries below a sequence.
    func take(before sequence: SequenceNumber) -> ArraySlice<LateEntry> {
      let taken = rest.prefix { $0.trailer.sequence < sequence }
      rest = rest.dropFirst(taken.count)
      return taken
    }
    var frozen: [FrozenMemTable] = []
    func freeze(_ table: MemTable, _ firstSegment: FileNumber, like old: FrozenMemTable?) {
      _ = table.settleCharge()
      table.countUntilGone(in: waiting)
      frozen.append(
        FrozenMemTable(
          table: table, firstSegment: firstSegment, copyPosition: old?.copyPosition ?? .zero,
          hasUnlogged: old?.hasUnlogged ?? false))
    }
    for old in family.frozen {
      let before = take(before: old.table.smallestSequence)
      if !before.isEmpty { freeze(try merge(nil, before), segment, like: nil) }
      let within = take(before: old.table.largestSequence)
      if within.isEmpty {
        frozen.append(old)
      } else {
        freeze(try merge(old.table, within), old.firstSegment, like: old)
      }
    }
    var active = family.active(lead)
    let before = take(before: active.smallestSequence)
    if !before.isEmpty { freeze(try merge(nil, before), segment, like: nil) }
    if !rest.isEmpty { active = try merge(active, rest) }
    replace(family, family.version, (frozen, active), lead)
  }

  /// Returns a memtable with the entries of another one and late ones, and with room for as many as usual.
  private func merge(_ table: MemTable?, _ late: ArraySlice<LateEntry>) throws(EngineError) -> MemTable {
    var bytes = table.map { $0.usedBytes + 2 * $0.rangeTombstones.memorySize } ?? 0
    var edits: [[LateTombstone]] = []
    for entry in late {
      bytes += entry.key.count + entry.value.count
      guard entry.trailer.rawKind == EntryKind.rangeDelete.rawValue else { continue }
      bytes += Self.lateTombstoneSize
      edits.append([(entry.key, entry.value, entry.trailer.sequence)])
    }
    let merged = try MemTable(
      growingTo: plan.memtableSize + 4 * bytes, pool: pool, touchedMaximum: 0, isReusable: false)
    // Range tombstones are inserted first, in order, so that entries inserted afterwards see them.
    if let table {
      // Replay may be in the middle of an edit.
      table.rangeTombstones.endEdit()
      table.rangeTombstones.forEachEdit(above: .zero) { edits.append($0) }
      edits.sort { ($0.first?.sequence ?? .zero) < ($1.first?.sequence ?? .zero) }
    }
    for edit in edits { Self.insert(edit, into: merged) }
    if let table { Self.copy(table, above: .zero, into: merged) }
    for entry in late where entry.trailer.rawKind != EntryKind.rangeDelete.rawValue {
      Self.insert(entry.key, entry.trailer, entry.value, into: merged)
    }
    return merged
  }

  private typealias LateTombstone = (start: ByteView, end: ByteView, sequence: SequenceNumber)

  /// The approximate size of a late range tombstone, which is an edit of its own. It is an overestimate.
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

  /// Inserts all entries above `sequence`, except range tombstones, into another memtable.
  private static func copy(_ table: MemTable, above sequence: SequenceNumber, into target: MemTable) {
    var iterator = table.makeIterator()
    iterator.seekToFirst()
    while iterator.isValid {
      if iterator.trailer.sequence > sequence {
        insert(iterator.userKey, iterator.trailer, iterator.value, into: target)
      }
      iterator.next()
    }
  }

  private static func insert(_ key: ByteView, _ trailer: Trailer, _ value: ByteView, into target: MemTable) {
    let need = MemTableRequirement(byteCount: key.count + value.count)
    if !target.hasRoom(for: need) { _ = target.grow(for: need) }
    target.insert(key, trailer, value)
  }

  /// Returns the family's memtables without the entries up to `flushed`, which another process wrote to tables.
  ///
  /// No entry may be in both. A follower installs the result with `replace`.
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

  /// Installs memtables returned by `entries`, together with a version, and counts them instead of the old ones.
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
    if memTables.active !== empty {
      memTables.active.deadRanges = family.deadRanges
      memTables.active.onDelete = didDelete
    }
    family.replace(version, frozen: memTables.frozen, active: memTables.active, lead)
  }

  /// Returns the memtable itself if it has no entry up to `flushed`, or `nil` if it has no other entries.
  private func remainder(of table: MemTable, above flushed: SequenceNumber) throws(EngineError) -> MemTable? {
    if table.isEmpty || table.smallestSequence > flushed { return table }
    guard table.largestSequence > flushed else { return nil }
    let rest = try MemTable(growingTo: plan.memtableSize + 4 * table.usedBytes, pool: pool, touchedMaximum: 0)
    Self.copyTombstones(table, above: flushed, into: rest)
    Self.copy(table, above: flushed, into: rest)
    return rest
  }

  /// Notes that entries follow that are not in the log.
  func noteUnlogged(_ family: FamilyState, segment: FileNumber, _ lead: borrowing CommitLead) {
    if family.activeSegment(lead) == nil { family.beginActive(segment: segment, lead) }
    family.noteUnlogged(lead)
  }

  /// Releases the memory charged for memtables that were flushed or dropped.
  func didFlush(_ tables: [FrozenMemTable]) {
    frozenBytes.subtract(tables.reduce(0) { $0 + $1.table.chargedBytes }, ordering: .relaxed)
    flushError.withLock { $0 = nil }
    executor.wakeWaiters()
  }

  /// Makes waiting writers fail with `error` instead of waiting for a flush that can't happen now.
  func didFail(_ error: EngineError) {
    flushError.withLock { $0 = error }
    executor.wakeWaiters()
  }

  /// Lets writers wait again, because the failed flush is being retried.
  func clearFailure() { flushError.withLock { $0 = nil } }

  /// Bytes of frozen memtables that are not in a table yet.
  var frozenSize: Int { frozenBytes.load(ordering: .relaxed) }

  /// Bytes of all memtables that are not in a table yet.
  var unflushedSize: Int { frozenSize + activeBytes.load(ordering: .relaxed) }

  /// Bytes of frozen memtables that still exist, because they are not in a table yet or are still read.
  var waitingSize: Int { waiting.used }

  /// Bytes of flushed memtables that a read, a cursor or a job still uses.
  var keptSize: Int { max(waitingSize - frozenSize, 0) }

  /// A Boolean value that indicates whether writers wait for a flush, or would if the active memtables were frozen
  /// before a flush ends.
  var isNearlyFull: Bool {
    let size = waitingSize - min(toleratedBytes.load(ordering: .relaxed), keptSize)
    return size > 0 && size + activeBytes.load(ordering: .relaxed) > plan.frozenBytesMaximum
  }

  /// The time for which a writer waits for memtables that only readers keep.
  ///
  /// Longer reads are reported, and memory then grows in this time by at most as much as may be frozen.
  private static let readerWaitNanoseconds: UInt64 = 1_000_000_000

  /// A flag for whether a wait for readers has timed out.
  private final class WaitTimeout: Sendable {
    let hasExpired = Atomic<Bool>(false)
  }

  /// Requests that a failed flush be retried, unless it has just been tried.
  func retryFailedFlush() {
    if flushError.withLock({ $0 != nil }) { requestRetry() }
  }

  /// Waits for work that frees space, as long as `isRunning` returns true.
  func waitForSpace(while isRunning: @Sendable () -> Bool) {
    stalls.measure { executor.wait(until: { !isRunning() }) }
  }

  /// Waits until there is room for frozen memtables. Returns false if `isInterrupted` ended the wait.
  private func waitForFlushes(
    _ plan: MemoryPlan, unless isInterrupted: @Sendable () -> Bool
  ) throws(EngineError) -> Bool {
    let tolerated = min(toleratedBytes.load(ordering: .relaxed), keptSize)
    toleratedBytes.store(tolerated, ordering: .relaxed)
    let maximum = plan.frozenBytesMaximum + tolerated
    if waitingSize <= maximum { return true }
    if flushError.withLock({ $0 != nil }) { requestRetry() }
    let timeout = WaitTimeout()
    if frozenSize <= maximum { requestViews() }
    executor.submit("memtable.wait", after: Self.readerWaitNanoseconds) { [executor] in
      timeout.hasExpired.store(true, ordering: .relaxed)
      executor.wakeWaiters()
    }
    let hasRoom: @Sendable () -> Bool = { [self] in
      waitingSize <= maximum || (frozenSize <= maximum && timeout.hasExpired.load(ordering: .relaxed))
    }
    // A failed flush ends the wait only if the writer waits for flushes, not for readers.
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
