internal import Synchronization

/// A memtable that takes no more writes, on its way to a table.
struct FrozenMemTable: Sendable {
  let table: MemTable
  /// The oldest segment of the log that holds an entry of it; `noSegment` in a volatile family.
  var firstSegment: FileNumber
  /// The position in the log after the copy that was logged again; zero if none was.
  let copyPosition: LogPosition
  /// Whether it holds entries that are not in the log.
  let hasUnlogged: Bool
}

extension FileNumber {
  fileprivate static let noSegment = FileNumber(0)
}

/// The engine's side of a column family: its memtables, its version, and the view of both for readers.
///
/// # Concurrency
/// - `active`, `activeSegment`, `copyPosition` and `hasUnlogged` belong to the commit leader.
/// - `parts` is changed by the leader (freeze) and by background jobs (install), under its mutex. Each
///   change publishes a new `ReadView`; the old one goes to the epochs.
/// - `view` is loaded by readers inside an epoch, or retained under the mutex by `retainView`.
final class FamilyState: @unchecked Sendable {
  // Sendable: see Concurrency above.
  let id: FamilyID
  let name: String
  let options: FamilyOptions
  /// Whether nothing of it is logged. Then `activeSegment` stays nil: the log has nothing to wait for.
  let isVolatile: Bool
  /// How merge operands are folded; nil: the family has no operator, or one that nobody knows.
  let merge: MergeFunction?
  private let epochs: ReadEpochs
  /// The engine that the family belongs to has this registry.
  let registry: FamilyRegistry
  private let dropped = Atomic<Bool>(false)
  private let viewBits: Atomic<UInt>
  /// Changed under the lock of `parts`.
  private let viewCount = Atomic<UInt64>(0)
  private let charge: MemoryCharge
  private let parts: Mutex<Parts>

  /// Where the leader inserts.
  private(set) var active: MemTable
  /// The same without counting a reference. It lives until the leader freezes it, and longer.
  @inline(__always)
  var borrowedActive: Unmanaged<MemTable> { unsafe .passUnretained(active) }
  /// The log segment that was current when the active memtable got its first entry.
  private(set) var activeSegment: FileNumber?
  /// The position in the log after the copy of the active memtable that was logged again; zero if none was.
  private(set) var copyPosition = LogPosition.zero
  var hasUnlogged = false

  private struct Parts: Sendable {
    var memTable: MemTable
    /// Oldest first.
    var frozen: [FrozenMemTable] = []
    var version: Version
    /// The leader's `activeSegment`, for those who ask from outside.
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
    self.options = options
    isVolatile = options.isVolatile
    self.merge = merge
    self.epochs = epochs
    self.registry = registry
    charge = MemoryCharge(FamilyState.memorySize + 2 * name.utf8.count, to: account)
    active = memTable
    let view = ReadView(memTable: memTable, frozen: [], version: version, merge: merge)
    viewBits = unsafe Atomic(UInt(bitPattern: Unmanaged.passUnretained(view).toOpaque()))
    parts = Mutex(Parts(memTable: memTable, version: version, view: view))
  }

  /// About what a family without entries takes of memory: this object, its view, its places in the
  /// registry and in the MANIFEST's state.
  static let memorySize = 1_280

  var isDropped: Bool { dropped.load(ordering: .acquiring) }
  func markDropped() { dropped.store(true, ordering: .releasing) }

  /// The view as bits, to compare: a read that loads the same bits before and after the visible
  /// sequence has a matching pair.
  @inline(__always)
  var viewIdentity: UInt { viewBits.load(ordering: .sequentiallyConsistent) }

  /// The view of these bits. Only inside an epoch that was entered before they were loaded.
  @inline(__always)
  func view(_ identity: UInt) -> Unmanaged<ReadView> {
    unsafe Unmanaged.fromOpaque(UnsafeRawPointer(bitPattern: identity).unsafelyUnwrapped)
  }

  /// The view with a counted reference: for jobs.
  func retainView() -> ReadView { parts.withLock { $0.view } }

  /// The same, for cursors, and its number.
  func retainNumberedView() -> (ReadView, UInt64) { parts.withLock { ($0.view, viewNumber) } }

  /// How many views there have been.
  var viewNumber: UInt64 { viewCount.load(ordering: .relaxed) }

  /// The frozen memtables, oldest first.
  var frozen: [FrozenMemTable] { parts.withLock { $0.frozen } }
  var version: Version { parts.withLock { $0.version } }

  /// The sequence of the newest entry in memtables; zero if there is none. The leader's.
  var newestSequence: SequenceNumber {
    active.isEmpty ? frozen.last?.table.largestSequence ?? .zero : active.largestSequence
  }

  /// The oldest log segment with an entry of this family that is in no table; nil if there is none.
  var oldestSegment: FileNumber? {
    oldestSegment(skippingFrozen: 0)
  }

  /// The same, without the `count` oldest frozen memtables.
  func oldestSegment(skippingFrozen count: Int) -> FileNumber? {
    if isVolatile { return nil }
    return parts.withLock { parts in
      parts.frozen.dropFirst(count).reduce(parts.activeSegment) { oldest, frozen in
        min(oldest ?? frozen.firstSegment, frozen.firstSegment)
      }
    }
  }

  /// Whether a memtable holds entries that are not in the log. The leader's.
  var holdsUnlogged: Bool { hasUnlogged || frozen.contains(where: \.hasUnlogged) }

  /// Forgets all memtables of a dropped family, and returns the frozen ones. The leader's. Reads that
  /// hold a view go on.
  func discardMemTables() -> [FrozenMemTable] {
    activeSegment = nil
    return parts.withLock { parts in
      parts.activeSegment = nil
      defer { parts.frozen = [] }
      return parts.frozen
    }
  }

  /// Notes that the active memtable is about to get its first entry. The leader's.
  func beginActive(segment: FileNumber) {
    activeSegment = segment
    parts.withLock { $0.activeSegment = segment }
  }

  /// Notes that the whole active memtable was logged again. The leader's.
  func didCopy(to segment: FileNumber, _ position: LogPosition) {
    copyPosition = position
    beginActive(segment: segment)
  }

  /// Notes that what was in segments above `number` is in those from `first` on. The leader's.
  func moveLog(above number: FileNumber, to first: FileNumber) {
    if let segment = activeSegment, segment > number { activeSegment = first }
    parts.withLock { parts in
      parts.activeSegment = activeSegment
      for index in parts.frozen.indices where parts.frozen[index].firstSegment > number {
        parts.frozen[index].firstSegment = first
      }
    }
  }

  /// Puts everything that was replayed into `table`, which holds all of it. Before the engine is open.
  func mergeReplayed(into table: MemTable) {
    let first = oldestSegment
    let old = parts.withLock { parts in
      parts.frozen = []
      parts.memTable = table
      parts.activeSegment = first
      return publish(&parts)
    }
    active = table
    activeSegment = first
    epochs.retire(old)
  }

  /// Freezes the active memtable, unless it is empty, and goes on in `next`. The leader's.
  func freeze(next: MemTable) {
    let old = parts.withLock { parts in
      if let segment = isVolatile ? .noSegment : activeSegment, parts.memTable.entryCount > 0 {
        parts.frozen.append(
          FrozenMemTable(
            table: parts.memTable, firstSegment: segment, copyPosition: copyPosition, hasUnlogged: hasUnlogged))
      }
      parts.memTable = next
      parts.activeSegment = nil
      return publish(&parts)
    }
    active = next
    activeSegment = nil
    copyPosition = .zero
    hasUnlogged = false
    epochs.retire(old)
  }

  /// Lets go of all memtables and tables: the engine closes. The leader's.
  func close(_ empty: MemTable) {
    active = empty
    activeSegment = nil
    let old = parts.withLock { parts in
      parts.memTable = empty
      parts.frozen = []
      parts.version = .empty
      return publish(&parts)
    }
    epochs.retire(old)
  }

  /// Puts a new version in force, and forgets the oldest `flushed` frozen memtables, which are in it.
  func install(_ version: Version, flushed: Int = 0) {
    let old = parts.withLock { parts in
      parts.version = version
      parts.frozen.removeFirst(flushed)
      return publish(&parts)
    }
    epochs.retire(old)
  }

  /// Puts a version of another process in force, and what of the memtables is not in it. The follower's.
  func replace(_ version: Version, frozen: [FrozenMemTable], active next: MemTable) {
    let segment = next.isEmpty ? nil : activeSegment
    let old = parts.withLock { parts in
      parts.version = version
      parts.frozen = frozen
      parts.memTable = next
      parts.activeSegment = segment
      return publish(&parts)
    }
    active = next
    activeSegment = segment
    epochs.retire(old)
  }

  private func publish(_ parts: inout Parts) -> ReadView {
    let old = parts.view
    parts.view = ReadView(
      memTable: parts.memTable, frozen: parts.frozen.reversed().map(\.table), version: parts.version, merge: merge)
    viewCount.add(1, ordering: .relaxed)
    let bits = unsafe UInt(bitPattern: Unmanaged.passUnretained(parts.view).toOpaque())
    viewBits.store(bits, ordering: .sequentiallyConsistent)  // partner: `viewIdentity`, and `ReadEpochs`
    return old
  }
}
