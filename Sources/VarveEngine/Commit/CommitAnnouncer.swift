internal import Synchronization

/// Tells followers in other processes of commits, by the shared page, as soon as they are as durable as they
/// were promised.
///
/// A commit that is to survive a loss of power is *held back* until its sync succeeded, and those behind it
/// with it: followers see commits in order.
///
/// Without a page the same is done on memory of its own, so that a commit doesn't ask.
///
/// # Safety
/// Owns the words, or the page that they lie in.
///
/// # Concurrency
/// `isHolding` belongs to the commit leader; `tell` may be called by any thread. `told` never goes
/// back: what the leader stores is above all that was told before, and others raise it by a maximum.
@safe
final class CommitAnnouncer: @unchecked Sendable {
  // Sendable: see Concurrency above.
  private let told: UnsafeMutablePointer<Atomic<UInt64>>
  private let waiters: UnsafeMutablePointer<Atomic<UInt32>>
  private let page: SharedPage?
  private let memory: UnsafeMutableRawPointer?
  /// Why there is no page; for people.
  let reason: String?

  /// The position in the log after the last commit that waits for a sync.
  private let heldPosition = Atomic<UInt64>(0)
  /// The last logged commit, while any is held back.
  private let pendingWord = Atomic<UInt64>(0)
  /// Whether a commit is held back, as far as the leader knows.
  private var isHolding = false

  /// Tells through a page, or nobody.
  init(_ page: SharedPage?, reason: String? = nil) {
    self.page = page
    self.reason = reason
    if let page {
      unsafe told = page.toldWord
      unsafe waiters = page.waitersWord
      unsafe memory = nil
      return
    }
    let own = UnsafeMutableRawPointer.allocate(byteCount: 16, alignment: 16)
    unsafe own.initializeMemory(as: UInt64.self, repeating: 0, count: 2)
    unsafe told = own.assumingMemoryBound(to: Atomic<UInt64>.self)
    unsafe waiters = (own + 8).assumingMemoryBound(to: Atomic<UInt32>.self)
    unsafe memory = own
  }

  deinit { unsafe memory?.deallocate() }

  // MARK: - Commits

  /// Tells of a commit that is in the log before `position`, or holds it back. Before it is visible: the store of
  /// the visible sequence, which follows, orders this one before the load in `wakeIfAwaited`.
  @inline(__always)
  func prepare(
    _ sequence: UInt64, _ position: LogPosition, waitsForSync: Bool, _ log: LogWriter, _ lead: borrowing CommitLead
  ) {
    if waitsForSync || isHolding {
      holdBack(sequence, position, waitsForSync: waitsForSync, log, lead)
    } else {
      unsafe told.pointee.store(sequence, ordering: .releasing)  // partner: `SharedPage.told`
    }
  }

  /// Wakes followers where any sleeps. After the commit is visible.
  @inline(__always)
  func wakeIfAwaited() {
    // Sequentially consistent, partner: `SharedPage.sleep`, which adds first and looks at `told` second.
    if unsafe waiters.pointee.load(ordering: .sequentiallyConsistent) != 0 { wake() }
  }

  @inline(never)
  private func wake() { page?.wake() }

  @inline(never)
  private func holdBack(
    _ sequence: UInt64, _ position: LogPosition, waitsForSync: Bool, _ log: LogWriter, _ lead: borrowing CommitLead
  ) {
    if waitsForSync {
      isHolding = true
      heldPosition.store(position.value, ordering: .sequentiallyConsistent)
    } else if log.durablePosition.value >= heldPosition.load(ordering: .relaxed) {
      isHolding = false
      unsafe told.pointee.store(sequence, ordering: .releasing)
      return
    }
    // After the position: a thread that sees this commit sees for which sync it waits.
    pendingWord.store(sequence, ordering: .sequentiallyConsistent)
  }

  /// Says where the log goes on, before anything there is told.
  func didSwitch(to segment: FileNumber) { page?.setSegment(segment) }

  // MARK: - Syncs

  /// The last commit that is held back and in the log: what a sync that begins now makes durable.
  var pending: UInt64 { pendingWord.load(ordering: .sequentiallyConsistent) }

  /// Tells of what was held back and is durable by now. `synced` is what `pending` was before a sync that
  /// succeeded; 0 where there was none.
  func tell(synced: UInt64, _ log: LogWriter) {
    let pending = pending
    let isAllDurable = log.durablePosition.value >= heldPosition.load(ordering: .sequentiallyConsistent)
    let sequence = isAllDurable ? pending : synced
    let known = unsafe told.pointee.load(ordering: .relaxed)
    guard sequence > known else { return }
    _ = unsafe told.pointee.max(sequence, ordering: .sequentiallyConsistent)
    wakeIfAwaited()
  }
}

extension CommitAnnouncer {
  /// The announcer of an engine that opens, with a page where other processes can map one.
  static func make(
    directory: String, _ environment: EngineEnvironment, databaseID: UInt64, sequence: SequenceNumber, log: LogWriter
  ) -> CommitAnnouncer {
    let fileSystem = environment.fileSystem
    let path = directory + "/" + FileName.shared.name
    guard log.usesMapping, let session = fileSystem.machineSession() else {
      // One that is left must not be believed; where that can't be said, its life goes on unchanged.
      try? SharedPage.invalidate(at: path, fileSystem)
      return CommitAnnouncer(nil, reason: "files are not mapped here")
    }
    do throws(EngineError) {
      let page = try SharedPage.make(at: path, fileSystem)
      page.begin(
        lifeID: environment.random(), session: session, databaseID: databaseID, sequence: sequence,
        segment: log.currentNumber)
      return CommitAnnouncer(page)
    } catch {
      return CommitAnnouncer(nil, reason: "\(error)")
    }
  }

  /// For `Engine.explain()`.
  var overview: String {
    guard let reason else { return "other processes: notified of commits by \(FileName.shared.name)" }
    return "other processes: followers poll the log each millisecond (\(reason))"
  }
}
