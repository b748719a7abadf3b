internal import FutexLocks
internal import Synchronization

/// A memtable that takes no more writes and waits to be written to a table.
struct FrozenMemTable: Sendable {
  let table: MemTable
  /// The oldest log segment that contains one of its entries, or `noSegment` in a volatile family.
  var firstSegment: FileNumber
  /// The log position after the copy that was logged again, or zero if there is none.
  let copyPosition: LogPosition
  /// A Boolean value that indicates whether it has entries that are not in the log.
  let hasUnlogged: Bool
}

extension FileNumber {
  fileprivate static let noSegment = FileNumber(0)
}

/// The engine's internal state of a column family: its memtables, its version, and the view of both for readers.
///
/// # Concurrency
/// - Methods that take a `CommitLead`, and the state that only they access, belong to the commit leader.
/// - `parts` is changed by the leader (freeze) and by background jobs (install), under its mutex. Each change publishes
///   a new `ReadView` and retires the old one to the epochs.
/// - `view` is loaded by readers inside an epoch, or retained under the mutex by `retainView`.
final class FamilyState: @unchecked Sendable {
  // Sendable: see Concurrency above.
  let id: FamilyID
  let name: String
  private let optionsWord: FutexLock<FamilyOptions>
  /// The options, which are changed while `BackgroundWork.familyChanges` is held, and read by any thread.
  var options: FamilyOptions {
    get { optionsWord.withLock { $0 } }
    set { optionsWord.withLock { $0 = newValue } }
  }
  /// A Boolean value that indicates whether the entries are not logged. Then `activeSegment` stays `nil`, and the log
  /// need not wait for this family.
  let isVolatile: Bool
  /// The size of the tree of the last indexed batch that was committed, which is the initial capacity of the next one.
  var batchBytes: Int {
    get { batchBytesWord.load(ordering: .relaxed) }
    set { batchBytesWord.store(newValue, ordering: .relaxed) }
  }
  /// The function that folds merge operands, or `nil` if the family has no operator, or an unknown one.
  let merge: MergeFunction?
  /// The ranges in which readers found no live key.
  let deadRanges: DeadRanges
  private let epochs: ReadEpochs
  /// The registry of the engine that the family belongs to.
  let registry: FamilyRegistry
  private let dropped = Atomic<Bool>(false)
  private let viewBits: Atomic<UInt>
  /// The number of views published so far. Changed under the lock of `parts`.
  private let viewCount = Atomic<UInt64>(0)
  private let coveredRuns = Atomic<UInt64>(0)
  private let batchBytesWord = Atomic<Int>(0)
  private let charge: MemoryCharge
  private let parts: FutexLock<Parts>

  // The following state belongs to the leader.
  private var activeTable: MemTable
  private var activeTableSegment: FileNumber?
  private var activeCopyPosition = LogPosition.zero
  private var activeHasUnlogged = false

  /// The memtable into which entries are inserted.
  @inline(__always)
  func active(_ lead: borrowing CommitLead) -> MemTable { activeTable }
  /// The active memtable without a retain. It lives at least until the leader freezes it.
  @inline(__always)
  func borrowedActive(_ lead: borrowing CommitLead) -> Unmanaged<MemTable> { unsafe .passUnretained(activeTable) }
  /// The log segment that was current when the active memtable got its first entry.
  @inline(__always)
  func activeSegment(_ lead: borrowing CommitLead) -> FileNumber? { activeTableSegment }
  /// The log position after the copy of the active memtable that was logged again, or zero if there is none.
  func copyPosition(_ lead: borrowing CommitLead) -> LogPosition { activeCopyPosition }
  /// Returns whether the active memtable has entries that are not in the log.
  func hasUnlogged(_ lead: borrowing CommitLead) -> Bool { activeHasUnlogged }
  /// Notes that the active memtable gets entries that are not in the log.
  func noteUnlogged(_ lead: borrowing CommitLead) { activeHasUnlogged = true }

  private struct Parts: Sendable {
    var memTable: MemTable
    /// The frozen memtables, oldest first.
    var frozen: [FrozenMemTable] = []
    var version: Version
    /// The sequence below which readers see the family as empty: tables were ingested into the empty family at this
    /// sequence.
    var floor = SequenceNumber.zero
    /// A copy of `activeTableSegment` for other threads.
    var activeSegment: FileNumber?
    var view: ReadView
  }

  init(
    id: FamilyID, name: String, options: FamilyOptions, merge: MergeFunction?, memTable: MemTable, version: Version,
    epochs: ReadEpochs,
    registry: FamilyRegistry, account: MemoryAccount?
  ) {
    self.id = id
    self.name = name
    optionsWord = FutexLock(options)
    isVolatile = options.isVolatile
    self.merge = merge
    self.epochs = epochs
    self.registry = registry
    charge = MemoryCharge(Self.memorySize(name, version), to: account)
    deadRanges = DeadRanges(account: account)
    activeTable = memTable
    let view = ReadView(memTable: memTable, frozen: [], version: version, deadRanges: deadRanges, merge: merge)
    viewBits = unsafe Atomic(UInt(bitPattern: Unmanaged.passUnretained(view).toOpaque()))
    parts = FutexLock(Parts(memTable: memTable, version: version, view: view))
  }

  /// The approximate memory of a family without entries: this object, its view, its entries in the registry and in the
  /// MANIFEST's state.
  private static let memorySize = 1_440

  private static func memorySize(_ name: String, _ version: Version) -> Int {
    memorySize + 2 * name.utf8.count + version.memorySize
  }

  var isDropped: Bool { dropped.load(ordering: .acquiring) }
  func markDropped() { dropped.store(true, ordering: .releasing) }

  /// The bits of the view's reference, for comparison.
  ///
  /// A read that loads equal bits before and after the visible sequence has a consistent pair.
  @inline(__always)
  var viewIdentity: UInt { viewBits.load(ordering: .sequentiallyConsistent) }

  /// Returns the view with these bits. Call it only inside an epoch that was entered before they were loaded.
  @inline(__always)
  func view(_ identity: UInt) -> Unmanaged<ReadView> {
    unsafe Unmanaged.fromOpaque(UnsafeRawPointer(bitPattern: identity).unsafelyUnwrapped)
  }

  /// Returns the view, retained. For jobs.
  func retainView() -> ReadView { parts.withLock { $0.view } }

  /// Returns the view, retained, and its number. For cursors.
  func retainNumberedView() -> (ReadView, UInt64) { parts.withLock { ($0.view, viewNumber) } }

  /// The number of views published so far.
  var viewNumber: UInt64 { viewCount.load(ordering: .relaxed) }

  /// The frozen memtables, oldest first.
  var frozen: [FrozenMemTable] { parts.withLock { $0.frozen } }
  var version: Version { parts.withLock { $0.version } }

  /// The number of range tombstones that the engine wrote over runs of dead keys of this family.
  var coveredRunCount: UInt64 { coveredRuns.load(ordering: .relaxed) }
  func addCoveredRun() { coveredRuns.add(1, ordering: .relaxed) }

  /// Returns the sequence of the newest entry in memtables, or zero if there is none.
  func newestSequence(_ lead: borrowing CommitLead) -> SequenceNumber {
    activeTable.isEmpty ? frozen.last?.table.largestSequence ?? .zero : activeTable.largestSequence
  }

  /// The oldest log segment with an entry of this family that is not in a table, or `nil` if there is none.
  var oldestSegment: FileNumber? {
    oldestSegment(skippingFrozen: 0)
  }

  /// Returns `oldestSegment` as it would be without the `count` oldest frozen memtables.
  func oldestSegment(skippingFrozen count: Int) -> FileNumber? {
    if isVolatile { return nil }
    return parts.withLock { parts in
      parts.frozen.dropFirst(count).reduce(parts.activeSegment) { oldest, frozen in
        min(oldest ?? frozen.firstSegment, frozen.firstSegment)
      }
    }
  }

  /// Returns whether a memtable has entries that are not in the log.
  func holdsUnlogged(_ lead: borrowing CommitLead) -> Bool {
    activeHasUnlogged || frozen.contains(where: \.hasUnlogged)
  }

  /// Discards all memtables of a dropped family, and returns the frozen ones. Reads that retain a view continue.
  func discardMemTables(_ lead: borrowing CommitLead) -> [FrozenMemTable] {
    activeTableSegment = nil
    return parts.withLock { parts in
      parts.activeSegment = nil
      defer { parts.frozen = [] }
      return parts.frozen
    }
  }

  /// Notes that the active memtable is about to get its first entry.
  func beginActive(segment: FileNumber, _ lead: borrowing CommitLead) {
    activeTableSegment = segment
    parts.withLock { $0.activeSegment = segment }
  }

  /// Notes that the active memtable was logged again, completely.
  func didCopy(to segment: FileNumber, _ position: LogPosition, _ lead: borrowing CommitLead) {
    activeCopyPosition = position
    beginActive(segment: segment, lead)
  }

  /// Notes that the entries of segments above `number` were moved to segments from `first` on.
  func moveLog(above number: FileNumber, to first: FileNumber, _ lead: borrowing CommitLead) {
    if let segment = activeTableSegment, segment > number { activeTableSegment = first }
    parts.withLock { parts in
      parts.activeSegment = activeTableSegment
      for index in parts.frozen.indices where parts.frozen[index].firstSegment > number {
        parts.frozen[index].firstSegment = first
      }
    }
  }

  /// Freezes the active memtable, unless it is empty, and continues in `next`.
  func freeze(next: MemTable, _ lead: borrowing CommitLead) {
    let old = parts.withLock { parts in
      if let segment = isVolatile ? .noSegment : activeTableSegment, parts.memTable.entryCount > 0 {
        parts.frozen.append(
          FrozenMemTable(
            table: parts.memTable, firstSegment: segment, copyPosition: activeCopyPosition,
            hasUnlogged: activeHasUnlogged))
      }
      if deadRanges.isWatching { next.watchWrites() }
      parts.memTable = next
      parts.activeSegment = nil
      return publish(&parts)
    }
    activeTable = next
    activeTableSegment = nil
    activeCopyPosition = .zero
    activeHasUnlogged = false
    epochs.retire(old)
  }

  /// Releases all memtables and tables when the engine closes.
  func close(_ empty: MemTable, _ lead: borrowing CommitLead) {
    activeTable = empty
    activeTableSegment = nil
    let old = parts.withLock { parts in
      parts.memTable = empty
      parts.frozen = []
      parts.version = .empty
      return publish(&parts)
    }
    charge.resize(to: Self.memorySize(name, .empty))
    epochs.retire(old)
  }

  /// Makes the family empty for readers below a sequence, from the next view on.
  ///
  /// For conflict checks, every key then counts as written at that sequence. Call it while the family is empty.
  func beginAt(_ sequence: SequenceNumber, _ lead: borrowing CommitLead) {
    parts.withLock { $0.floor = sequence }
  }

  /// Installs a new version, and discards the oldest `flushed` frozen memtables, whose entries it contains.
  func install(_ version: Version, flushed: Int = 0) {
    let (old, weight) = parts.withLock { parts in
      parts.version = version
      var weight = ReadEpochs.Weight(memTableCount: flushed)
      for frozen in parts.frozen.prefix(flushed) { weight.bytes += frozen.table.chargedBytes }
      parts.frozen.removeFirst(flushed)
      return (publish(&parts), weight)
    }
    charge.resize(to: Self.memorySize(name, version))
    epochs.retire(old, weight: weight)
  }

  /// Installs a version of another process, together with the memtables' entries that are not in it.
  func replace(
    _ version: Version, frozen: [FrozenMemTable], active next: MemTable, _ lead: borrowing CommitLead
  ) {
    let segment = next.isEmpty ? nil : activeTableSegment
    let old = parts.withLock { parts in
      parts.version = version
      parts.frozen = frozen
      parts.memTable = next
      parts.activeSegment = segment
      defer { deadRanges.removeAll() }  // what is new in the tables was in no memtable of this process
      return publish(&parts)
    }
    charge.resize(to: Self.memorySize(name, version))
    activeTable = next
    activeTableSegment = segment
    epochs.retire(old)
  }

  /// Makes the memtable pass on the writes from now on, and adds a range that is dead at a sequence.
  ///
  /// Returns its number for `DeadRanges.confirm`, or `nil` if a known range has all of it.
  func beginDeadRange(_ run: DeadRunMeter.Run, at sequence: SequenceNumber) -> UInt64? {
    parts.withLock { parts in
      let number = deadRanges.add(from: run.lower, to: run.upper, run.passedCount, at: sequence)
      if number != nil { parts.memTable.watchWrites() }
      return number
    }
  }

  private func publish(_ parts: inout Parts) -> ReadView {
    let old = parts.view
    parts.view = ReadView(
      memTable: parts.memTable, frozen: parts.frozen.reversed().map(\.table), version: parts.version,
      deadRanges: deadRanges, merge: merge, floor: parts.floor)
    if old.floor != parts.floor { deadRanges.removeAll() }  // ingested tables were in no memtable
    viewCount.add(1, ordering: .relaxed)
    let bits = unsafe UInt(bitPattern: Unmanaged.passUnretained(parts.view).toOpaque())
    viewBits.store(bits, ordering: .sequentiallyConsistent)  // partner: `viewIdentity`, and `ReadEpochs`
    return old
  }
}
