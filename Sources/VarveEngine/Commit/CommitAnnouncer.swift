internal import Synchronization

/// Publishes commits to followers in other processes through the shared page, as soon as the commits reach the
/// durability their writers requested.
///
/// A commit that requires a sync is *deferred* until the sync has succeeded, and so are all later commits: followers
/// see commits in order.
///
/// Without a page, the words live in private memory, so that the commit path needs no branch.
///
/// # Safety
/// The object owns the words, or the page that they lie in.
///
/// # Concurrency
/// `isHolding` belongs to the commit leader; `announce` may be called from any thread. `announced` never decreases: the
/// leader stores a value above every published one, and other threads raise it with an atomic maximum.
@safe
final class CommitAnnouncer: @unchecked Sendable {
  // Sendable: see Concurrency above.
  private let announced: UnsafeMutablePointer<Atomic<UInt64>>
  private let waiters: UnsafeMutablePointer<Atomic<UInt32>>
  private let page: SharedPage?
  private let memory: UnsafeMutableRawPointer?
  /// The reason for which there is no page, as text for people, or `nil` if there is one.
  let reason: String?

  /// The log position after the last commit that waits for a sync.
  private let heldPosition = Atomic<UInt64>(0)
  /// The sequence of the last logged commit while any commit is deferred.
  private let pendingWord = Atomic<UInt64>(0)
  /// A Boolean value that indicates whether a commit is deferred, as far as the leader knows.
  private var isHolding = false

  /// Publishes commits through `page`, or to no process if it is `nil`.
  init(_ page: SharedPage?, reason: String? = nil) {
    self.page = page
    self.reason = reason
    if let page {
      unsafe announced = page.announcedWord
      unsafe waiters = page.waitersWord
      unsafe memory = nil
      return
    }
    let own = UnsafeMutableRawPointer.allocate(byteCount: 16, alignment: 16)
    unsafe own.initializeMemory(as: UInt64.self, repeating: 0, count: 2)
    unsafe announced = own.assumingMemoryBound(to: Atomic<UInt64>.self)
    unsafe waiters = (own + 8).assumingMemoryBound(to: Atomic<UInt32>.self)
    unsafe memory = own
  }

  deinit { unsafe memory?.deallocate() }

  // MARK: - Commits

  /// Publishes a commit that is in the log before `position`, or defers it. Call this before the commit becomes
  /// visible: the store of the visible sequence, which follows, orders this store before the load in `wakeIfAwaited`.
  @inline(__always)
  func prepare(
    _ sequence: UInt64, _ position: LogPosition, waitsForSync: Bool, _ log: LogWriter, _ lead: borrowing CommitLead
  ) {
    if waitsForSync || isHolding {
      deferAnnouncement(sequence, position, waitsForSync: waitsForSync, log, lead)
    } else {
      unsafe announced.pointee.store(sequence, ordering: .releasing)  // partner: `SharedPage.announced`
    }
  }

  /// Wakes sleeping followers, if any. Call this after the commit is visible.
  @inline(__always)
  func wakeIfAwaited() {
    // Sequentially consistent. The partner is `SharedPage.rest`, which increments the waiters first and loads
    // `announced` second.
    if unsafe waiters.pointee.load(ordering: .sequentiallyConsistent) != 0 { wake() }
  }

  @inline(never)
  private func wake() { page?.wake() }

  @inline(never)
  private func deferAnnouncement(
    _ sequence: UInt64, _ position: LogPosition, waitsForSync: Bool, _ log: LogWriter, _ lead: borrowing CommitLead
  ) {
    if waitsForSync {
      isHolding = true
      heldPosition.store(position.value, ordering: .sequentiallyConsistent)
    } else if log.durablePosition.value >= heldPosition.load(ordering: .relaxed) {
      isHolding = false
      unsafe announced.pointee.store(sequence, ordering: .releasing)
      return
    }
    // The sequence is stored after the position, so that a thread that sees this commit also sees the position whose
    // sync it waits for.
    pendingWord.store(sequence, ordering: .sequentiallyConsistent)
  }

  /// Publishes the segment in which the log continues, before any commit in it is published.
  func didSwitch(to segment: FileNumber) { page?.setSegment(segment) }

  // MARK: - Syncs

  /// The last commit that is deferred and in the log: a sync that begins now makes it durable.
  var pending: UInt64 { pendingWord.load(ordering: .sequentiallyConsistent) }

  /// Publishes deferred commits that are durable by now. `synced` is the value of `pending` before a sync that
  /// succeeded, or 0 if there was no sync.
  func announce(synced: UInt64, _ log: LogWriter) {
    let pending = pending
    let isAllDurable = log.durablePosition.value >= heldPosition.load(ordering: .sequentiallyConsistent)
    let sequence = isAllDurable ? pending : synced
    let known = unsafe announced.pointee.load(ordering: .relaxed)
    guard sequence > known else { return }
    _ = unsafe announced.pointee.max(sequence, ordering: .sequentiallyConsistent)
    wakeIfAwaited()
  }
}

extension CommitAnnouncer {
  /// Creates the announcer of an engine that opens, with a page if other processes can map one.
  static func make(
    directory: String, _ environment: EngineEnvironment, databaseID: UInt64, sequence: SequenceNumber, log: LogWriter
  ) -> CommitAnnouncer {
    let fileSystem = environment.fileSystem
    let path = directory + "/" + FileName.shared.name
    guard log.usesMapping, let session = fileSystem.machineSession() else {
      // A leftover page must not be trusted. If it can't be invalidated, it stays as it is.
      try? SharedPage.invalidate(at: path, fileSystem)
      return CommitAnnouncer(nil, reason: "files are not mapped here")
    }
    do throws(EngineError) {
      let page = try SharedPage.make(at: path, fileSystem)
      page.begin(
        lifeID: environment.random(), session: session, databaseID: databaseID, sequence: sequence,
        oldest: log.oldestNumber, segment: log.currentNumber)
      log.readers.withLock { $0 = ReaderPins(page, environment.clock) }
      return CommitAnnouncer(page)
    } catch {
      return CommitAnnouncer(nil, reason: "\(error)")
    }
  }

  /// One line for `Engine.explain()`.
  var overview: String {
    guard let reason else { return "other processes: notified of commits by \(FileName.shared.name)" }
    return "other processes: followers poll the log each millisecond (\(reason))"
  }
}
