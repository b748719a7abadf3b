internal import CVarve
internal import Synchronization

/// What a cursor scans on, which the engine may take back from an idle one: its view, and with it memtables
/// and files.
///
/// A view keeps every table that it names. A cursor that is old, or that no one moves any more, would keep
/// files for ever that the database has long replaced. So the engine asks for the view (`demand`), and either
/// the cursor gives it up itself at the begin of its next move, or the engine takes it (`take`). What is left
/// is a key and a sequence, and what keeps the bytes of the current entry (`EntryHold`): spans that were handed
/// out stay valid. The next move looks the key up in the newest view, at the same sequence, which stays held:
/// so the answers are the same.
///
/// # Who may touch the iterator
/// The thread of a move sets `isMoving` and then looks at `demand`; the engine sets `demand`, then has every
/// thread pass a barrier, and then looks at `isMoving`. So one of them sees the other:
///
/// - A move that sees a demand takes the lock: when it has it, the engine is done, or finds the demand gone.
/// - An engine that finds no one moving, and its demand still there, has the iterator until it gives the lock
///   back: every later move waits there.
///
/// The engine pays for both sides (`cvarve_barrier_threads`): a step costs two stores and a load. Where the
/// system has no such barrier, each step has its own.
///
/// # Concurrency
/// Moves belong to the cursor's thread, `ask` and `take` to the engine's upkeep.
final class CursorHolder: @unchecked Sendable {
  // Sendable: `iterator`, `hold` and `view` go by the protocol above.
  let family: FamilyState
  let snapshot: EngineSnapshot
  private let tree: Tree
  /// Of the iterator; where `setBounds` changed them there, this is out of date until the iterator is taken.
  private var bounds: CursorBounds
  /// What the cursor's owner has written and not committed.
  private var own: UncommittedWrites?
  /// Whether the cursor is one of a batch.
  let hasOwn: Bool
  private let list: OpenCursors
  /// Who is notified of dead runs; nil: no one.
  private let deadRuns: DeadRuns?
  /// The position in the list, and its.
  var location = 0

  /// Scanned by the cursor.
  var iterator: VisibleIterator<MergeSource>
  private var view: ReadView?
  private var hold: EntryHold?
  /// Which of the family's views it is.
  private let viewNumber: Atomic<UInt64>

  private let isMoving = Atomic<Bool>(false)
  private let demandWord = Atomic<UInt8>(Demand.none.rawValue)
  private let lock = Mutex(())

  private enum Demand: UInt8 {
    case none, asked, taken
  }

  static let hasThreadBarrier = cvarve_has_thread_barrier()
  private let needsOwnBarrier: Bool

  /// `view` is the one to begin with, where it must be that. `own` is what the cursor's owner has written and
  /// not committed; it is never taken back. `deadRuns` is notified of those that the cursor passed.
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
      tree, at: snapshot.sequence, bounds, own: own, deadRunMinimum: deadRuns?.runMinimum ?? .max)
    list.add(self)
  }

  /// The cursor goes. Only now is the engine notified of what it passed: once, and of the longest run.
  func close() {
    list.remove(self)
    if let deadRuns, let run = iterator.longestDeadRun {
      deadRuns.cover(DeadRun(family: family, snapshot: snapshot, lower: run.lower, upper: run.upper))
    }
  }

  // MARK: - Moves

  /// Begins a move. False where the view has to be renewed first.
  @inline(__always)
  func begin() -> Bool {
    if needsOwnBarrier {
      isMoving.store(true, ordering: .sequentiallyConsistent)
    } else {
      isMoving.store(true, ordering: .relaxed)
      cvarve_compiler_fence()  // partner: the barrier in `OpenCursors.takeBack`
    }
    return demandWord.load(ordering: .acquiring) == Demand.none.rawValue  // with the releasing store in `take`
  }

  @inline(__always)
  func end() { isMoving.store(false, ordering: .releasing) }  // partner: `take`

  /// Continues with the newest view, at `key` where there is one, which must be visible. Within a move.
  @inline(never)
  func renew(at key: ByteView?) throws(EngineError) {
    lock.withLock { _ in
      // A view that was asked for and not taken is still here, and with it the bounds.
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
      try iterator.seek(key)
      guard iterator.isValid, iterator.userKey == key else {
        throw .corruption("a cursor's key is not there any more, although its sequence is held")
      }
    }
  }

  // MARK: - A batch's own writes

  /// Throws `.cursorEnded` where the batch undid a savepoint after which the cursor was made.
  @inline(never)
  func requireBatch() throws(EngineError) {
    guard let own, own.marks.hasEnded(own.tick) else { return }
    throw EngineError(
      .cursorEnded, "the cursor was made after a savepoint that was undone since; make a new one, or refresh it")
  }

  /// Shows other writes of the batch from the next seek on.
  func refresh(_ writes: UncommittedWrites) {
    guard let old = own, old.marks === writes.marks else {
      fatalError("the cursor was made by another batch; refresh it with that one")
    }
    own = writes
    defer { end() }
    // Where the view was taken back, or is asked for, the next move begins with a new iterator anyway.
    if begin() { iterator.replaceOwn(writes, hasSameTable: old.table === writes.table) }
  }

  /// Changes the bounds, from the next seek on.
  func setBounds(_ lower: ByteView, _ upper: ByteView?) throws(EngineError) {
    defer { end() }
    if !begin() { try renew(at: nil) }
    iterator.setBounds(lower, upper)
  }

  // MARK: - Taking back

  /// How many views the family has had since this one. Nil where it was taken, or must stay: of a dropped
  /// family no newer one has anything.
  var age: UInt64? {
    guard demandWord.load(ordering: .relaxed) != Demand.taken.rawValue, !family.isDropped else { return nil }
    return family.viewNumber &- viewNumber.load(ordering: .relaxed)
  }

  /// Asks for the view back. The engine's, before the barrier.
  func ask() {
    lock.withLock { _ in
      if demandWord.load(ordering: .relaxed) == Demand.none.rawValue {
        demandWord.store(Demand.asked.rawValue, ordering: .sequentiallyConsistent)
      }
    }
  }

  /// Takes the view of a cursor that is not being moved. The engine's, after the barrier. False where the
  /// cursor moves, or has done it itself.
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
