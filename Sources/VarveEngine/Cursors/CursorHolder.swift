internal import CVarve
internal import Synchronization

/// The state of a cursor that the engine may take back while the cursor is idle: its view, and with it memtables and
/// files.
///
/// A view keeps every table that it names. An old cursor, or one that its owner no longer moves, would keep files
/// forever that the database replaced long ago. So the engine asks for the view (`demand`), and either the cursor
/// releases it at the beginning of its next move, or the engine takes it (`take`). What remains is a key, a sequence
/// number, and an object that keeps the bytes of the current entry (`EntryHold`), so that spans returned earlier stay
/// valid. The next move looks the key up in the newest view at the same sequence number, which stays retained, so the
/// results are the same.
///
/// # Access to the iterator
/// The thread of a move sets `isMoving` and then reads `demand`. The engine sets `demand`, then makes every thread
/// pass a barrier, and then reads `isMoving`. So at least one of them sees the other:
///
/// - A move that sees a demand takes the lock. Once it has the lock, the engine either has finished, or will find the
///   demand withdrawn.
/// - If the engine finds that the cursor is not moving and that its demand is still set, it has exclusive access to
///   the iterator until it releases the lock: every later move waits for the lock.
///
/// The engine pays for both sides (`cvarve_barrier_threads`), and a step costs two stores and a load. If the system
/// has no such barrier, each step issues its own.
///
/// # Concurrency
/// Moves are made on the cursor's thread; `ask` and `take` are called by the engine's upkeep.
final class CursorHolder: @unchecked Sendable {
  // Sendable: the protocol above guards `iterator`, `hold` and `view`.
  let family: FamilyState
  let snapshot: EngineSnapshot
  private let tree: Tree
  /// The bounds of the iterator. After `setBounds` changed them in the iterator, this copy is out of date until the
  /// iterator is taken.
  private var bounds: CursorBounds
  /// The uncommitted writes of the cursor's owner.
  private var own: UncommittedWrites?
  /// Whether the cursor belongs to a batch and shows its uncommitted writes.
  let hasOwn: Bool
  private let list: OpenCursors
  /// The object that is notified of dead runs, or nil.
  private let deadRuns: DeadRuns?
  /// The longest run for `deadRuns`.
  private var longestRun: DeadRunMeter.Run?
  /// The index of the cursor in the list, which sets it.
  var location = 0

  /// The iterator over the view.
  var iterator: VisibleIterator<MergeSource>
  private var view: ReadView?
  private var hold: EntryHold?
  /// The number of the view among the family's views.
  private let viewNumber: Atomic<UInt64>

  private let isMoving = Atomic<Bool>(false)
  private let demandWord = Atomic<UInt8>(Demand.none.rawValue)
  private let lock = Mutex(())

  private enum Demand: UInt8 {
    case none, asked, taken
  }

  static let hasThreadBarrier = cvarve_has_thread_barrier()
  private let needsOwnBarrier: Bool

  /// Creates a cursor over the view `chosen`, or over the family's newest view if that is nil.
  ///
  /// `own` holds the uncommitted writes of the cursor's owner and is never taken back. `deadRuns` is notified of the
  /// dead runs that the cursor passed.
  init(
    _ family: FamilyState, _ snapshot: EngineSnapshot, _ tree: Tree, _ bounds: CursorBounds, _ list: OpenCursors,
    view chosen: ReadView? = nil, own: UncommittedWrites? = nil, deadRuns: DeadRuns? = nil
  ) {
    self.deadRuns = deadRuns
    self.family = family
    self.snapshot = snapshot
    self.tree = tree
    self.bounds = bounds
    self.own = own
    hasOwn = own != nil
    self.list = list
    needsOwnBarrier = !Self.hasThreadBarrier
    let (newest, number) = family.retainNumberedView()
    let view = chosen ?? newest
    self.view = view
    viewNumber = Atomic(number)
    iterator = view.iterator(
      tree, at: snapshot.sequence, bounds, own: own,
      deadRunMinimum: min(deadRuns?.runMinimum ?? .max, DeadRanges.runMinimum))
    list.add(self)
  }

  /// Closes the cursor. Only now does it notify the engine of dead runs to cover: once, of the longest one.
  func close() {
    list.remove(self)
    rememberDeadRun()
    if let deadRuns, let run = longestRun {
      deadRuns.cover(DeadRun(family: family, snapshot: snapshot, lower: run.lower, upper: run.upper))
    }
  }

  /// Remembers the longest dead run that the moves since the last call passed, so that later seeks skip it.
  ///
  /// Called within a move or after the last one.
  func rememberDeadRun() {
    guard let view, let run = iterator.takeLongestDeadRun() else { return }
    family.remember(run, at: snapshot.sequence, in: view, tree)
    guard let deadRuns, run.passedCount >= deadRuns.runMinimum else { return }
    if run.passedCount > longestRun?.passedCount ?? 0 { longestRun = run }
  }

  // MARK: - Moves

  /// Begins a move. Returns false if the view has to be renewed first.
  @inline(__always)
  func begin() -> Bool {
    if needsOwnBarrier {
      isMoving.store(true, ordering: .sequentiallyConsistent)
    } else {
      isMoving.store(true, ordering: .relaxed)
      cvarve_compiler_fence()  // pairs with the barrier in `OpenCursors.takeBack`
    }
    return demandWord.load(ordering: .acquiring) == Demand.none.rawValue  // pairs with the releasing store in `take`
  }

  @inline(__always)
  func end() { isMoving.store(false, ordering: .releasing) }  // pairs with the load in `take`

  /// Continues with the newest view, at `key` if it is not nil; that key must be visible. Called within a move.
  @inline(never)
  func renew(at key: ByteView?) throws(EngineError) {
    lock.withLock { _ in
      // If the view was asked for and not taken, the iterator still exists and has the bounds.
      if demandWord.load(ordering: .relaxed) == Demand.asked.rawValue { bounds = iterator.bounds }
      demandWord.store(Demand.none.rawValue, ordering: .releasing)
    }
    let (view, number) = family.retainNumberedView()
    let sought = key?.bytes
    iterator = view.iterator(tree, at: snapshot.sequence, bounds, own: own)
    self.view = view
    hold = nil
    viewNumber.store(number, ordering: .relaxed)
    guard let sought else { return }
    try sought.withByteView { (key) throws(EngineError) in
      do throws(EngineError) { try iterator.seek(key) } catch {
        // The cursor stands at a key whose operands can't be folded, and continues from there.
        guard let failed = iterator.failedKey, failed == key else { throw error }
        return
      }
      guard iterator.isValid, iterator.userKey == key else {
        throw .corruption("a cursor's key is not there any more, although its sequence is held")
      }
    }
  }

  // MARK: - A batch's own writes

  /// Throws `.cursorEnded` if the batch undid a savepoint after which the cursor was made.
  @inline(never)
  func requireBatch() throws(EngineError) {
    guard let own, own.marks.hasEnded(own.tick) else { return }
    throw EngineError(
      .cursorEnded, "the cursor was made after a savepoint that was undone since; make a new one, or refresh it")
  }

  /// Makes the cursor show other writes of the batch from the next seek on.
  func refresh(_ writes: UncommittedWrites) {
    guard let old = own, old.marks === writes.marks else {
      fatalError("the cursor was made by another batch; refresh it with that one")
    }
    own = writes
    defer { end() }
    // If the view was taken back or is asked for, the next move begins with a new iterator anyway.
    if begin() { iterator.replaceOwn(writes, hasSameTable: old.table === writes.table) }
  }

  /// Changes the bounds. They apply from the next seek on.
  func setBounds(_ lower: ByteView, _ upper: ByteView?) throws(EngineError) {
    defer { end() }
    if !begin() { try renew(at: nil) }
    iterator.setBounds(lower, upper)
  }

  // MARK: - Taking back

  /// The number of views that the family has had since this one.
  ///
  /// Nil if the view was taken, or must be kept because the family was dropped: no newer view has its contents.
  var age: UInt64? {
    guard demandWord.load(ordering: .relaxed) != Demand.taken.rawValue, !family.isDropped else { return nil }
    return family.viewNumber &- viewNumber.load(ordering: .relaxed)
  }

  /// Asks for the view back. The engine calls it before the barrier.
  func ask() {
    lock.withLock { _ in
      if demandWord.load(ordering: .relaxed) == Demand.none.rawValue {
        demandWord.store(Demand.asked.rawValue, ordering: .sequentiallyConsistent)
      }
    }
  }

  /// Takes the view of a cursor that is not being moved. The engine calls it after the barrier.
  ///
  /// Returns false if the cursor is moving, or has released the view itself.
  func take() -> Bool {
    lock.withLock { _ in
      guard demandWord.load(ordering: .relaxed) == Demand.asked.rawValue,
        !isMoving.load(ordering: .sequentiallyConsistent), !family.isDropped
      else { return false }
      let hold = EntryHold()
      bounds = iterator.bounds
      iterator.giveUpEntry(to: hold)
      iterator = VisibleIterator(MergingIterator<MergeSource>(capacity: 0), at: snapshot.sequence)
      self.hold = hold
      view = nil
      demandWord.store(Demand.taken.rawValue, ordering: .releasing)
      return true
    }
  }
}
