internal import Synchronization

/// Gives out memtables, and freezes full ones so that the commit leader always has room.
///
/// # Bounds
/// At most `frozenBytesMaximum` wait to be flushed, over all families: beyond it the leader waits, and
/// every writer with it. That is the one full stop of the write path; the write controller is there so
/// that it is not met.
///
/// # Concurrency
/// `makeRoom`, `freeze` and `noteUnlogged` belong to the commit leader; the rest is safe from any
/// thread.
final class MemTableKeeper: Sendable {
  private let memtableSize: Int
  private let frozenBytesMaximum: Int
  /// The memory of retired memtables, whose pages are there already.
  private let pool: ArenaPool
  private let executor: any BackgroundExecutor
  private let frozenBytes = Atomic<Int>(0)
  private let requestFlush = Mutex<(@Sendable (FamilyState) -> Void)?>(nil)
  private let flushError = Mutex<EngineError?>(nil)
  /// Held while memtables are frozen, so that a flush sees all of a group or none.
  private let freezing = Mutex(())

  init(memtableSize: Int, frozenBytesMaximum: Int, executor: any BackgroundExecutor) {
    self.memtableSize = memtableSize
    self.frozenBytesMaximum = frozenBytesMaximum
    self.executor = executor
    pool = ArenaPool(limit: 4 * memtableSize)
  }

  /// Whom to tell of a frozen memtable.
  func onFreeze(_ request: @escaping @Sendable (FamilyState) -> Void) {
    requestFlush.withLock { $0 = request }
  }

  func makeMemTable() -> MemTable { MemTable(capacity: memtableSize, pool: pool) }

  /// A memtable in which `bytes` are no more than a quarter.
  private func makeMemTable(for bytes: Int) -> MemTable {
    bytes > memtableSize / 4 ? MemTable(capacity: 4 * bytes + memtableSize) : makeMemTable()
  }

  /// Freezes the family's memtable and gives it one in which `bytes` fit. False, and nothing done, where it
  /// has to wait for flushes and `isInterrupted` is true.
  ///
  /// Batches that would take more than a quarter of a memtable get one of their size, so that a large
  /// batch neither fails nor bursts the bounds of the others.
  func makeRoom(
    in family: FamilyState, bytes: Int, unless isInterrupted: @Sendable () -> Bool
  ) throws(EngineError) -> Bool {
    let isLarge = bytes > memtableSize / 4
    if family.active.entryCount == 0 && !isLarge {
      fatalError("an empty memtable of \(memtableSize) bytes has no room for \(bytes): report this as a bug")
    }
    guard try waitForFlushes(unless: isInterrupted) else { return false }
    freeze(family, next: makeMemTable(for: bytes))
    return true
  }

  /// Freezes the family's memtable where it holds anything.
  ///
  /// Where that holds unlogged batches, the memtables of all families that do are frozen with it, at one
  /// instant for flushes: the other half of a batch may be there.
  func freeze(_ family: FamilyState, next: MemTable? = nil) {
    freezing.withLock { _ in
      let sharesBatches = family.hasUnlogged
      freezeAlone(family, next: next)
      guard sharesBatches else { return }
      for other in family.registry.all where other.state.hasUnlogged { freezeAlone(other.state, next: nil) }
    }
    requestFlush.withLock { $0 }?(family)
  }

  /// Runs `body` while no memtable is frozen.
  func betweenFreezes<R>(_ body: () -> R) -> R { freezing.withLock { _ in body() } }

  private func freezeAlone(_ family: FamilyState, next: MemTable?) {
    let old = family.active
    guard old.entryCount > 0 else {
      if let next { family.freeze(next: next) }
      return
    }
    frozenBytes.add(old.usedBytes, ordering: .relaxed)
    family.freeze(next: next ?? makeMemTable())
  }

  /// As `makeRoom`, while the log is replayed: nothing flushes yet, and the log's bound bounds this.
  func freezeReplayed(_ family: FamilyState, bytes: Int) {
    frozenBytes.add(family.active.usedBytes, ordering: .relaxed)
    family.freeze(next: makeMemTable(for: bytes))
  }

  /// Has the memory of the family's memtable populated behind the writer's back, once it fills.
  ///
  /// MEASURED
  func populateIfFilling(_ family: FamilyState) {
    let table = family.active
    guard let used = table.takePopulation() else { return }
    executor.submit("memtable.populate", priority: .high) { table.populate(upTo: used) }
  }

  /// Puts all replayed entries of a family into one memtable with room for `bytes` more: where an older
  /// entry comes after newer ones that are frozen.
  func mergeReplayed(_ family: FamilyState, bytes: Int) {
    let frozen = family.frozen.map(\.table)
    let tables = frozen + [family.active]
    let merged = MemTable(capacity: memtableSize + 4 * bytes + 2 * tables.reduce(0) { $0 + $1.usedBytes })
    for table in tables {
      var iterator = table.makeIterator()
      iterator.seekToFirst()
      while iterator.isValid {
        merged.insert(iterator.userKey, iterator.trailer, iterator.value)
        iterator.next()
      }
    }
    frozenBytes.subtract(frozen.reduce(0) { $0 + $1.usedBytes }, ordering: .relaxed)
    family.mergeReplayed(into: merged)
  }

  /// Notes that entries come that are not in the log.
  func noteUnlogged(_ family: FamilyState, segment: FileNumber) {
    if family.activeSegment == nil { family.beginActive(segment: segment) }
    family.hasUnlogged = true
  }

  /// Gives back the room of memtables that were flushed or dropped.
  func didFlush(_ tables: [FrozenMemTable]) {
    frozenBytes.subtract(tables.reduce(0) { $0 + $1.table.usedBytes }, ordering: .relaxed)
    flushError.withLock { $0 = nil }
    executor.wakeWaiters()
  }

  /// Lets waiting writers fail with this instead of waiting for a flush that can't happen now.
  func didFail(_ error: EngineError) {
    flushError.withLock { $0 = error }
    executor.wakeWaiters()
  }

  var frozenSize: Int { frozenBytes.load(ordering: .relaxed) }

  /// False where `isInterrupted` ended it.
  private func waitForFlushes(unless isInterrupted: @Sendable () -> Bool) throws(EngineError) -> Bool {
    if frozenSize <= frozenBytesMaximum { return true }
    executor.wait(until: { [self] in
      frozenSize <= frozenBytesMaximum || flushError.withLock { $0 != nil } || isInterrupted()
    })
    if frozenSize <= frozenBytesMaximum { return true }
    if isInterrupted() { return false }
    if let error = flushError.withLock({ $0 }) {
      throw EngineError(error.code, "memtables are full and can't be flushed", cause: error, file: error.file)
    }
    return false
  }
}
