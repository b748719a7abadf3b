internal import Synchronization

/// The claims that were made before a worker was free for their tasks, so that these begin without a commit.
///
/// - A claim belongs to one row of its task: no other row begins by it. When that row is removed, the claim is dropped.
/// - A claim on disk that was dropped is in `strays`, or in the work of a turn, until a commit deletes it.
/// - An attempt that has begun by such a claim is in `unnoted`, or in the work of a turn, until a row notes that it has
///   begun, or until it ends.
struct ClaimsAhead: ~Copyable {
  struct Claim {
    let run: TaskRun
    /// Whether the commit with the claim was made.
    var isWritten = false
  }

  /// The claims of tasks that are queued. A task with such a claim begins without a commit when it is its turn.
  private(set) var claims: [TaskID: Claim] = [:]
  /// The keys of claims on disk whose tasks have changed or left their subqueues since.
  private(set) var strays: [[UInt8]] = []
  /// The attempts that have begun by claims made ahead, of which no row notes yet that they have begun. Each has the
  /// number of the turn in which it began.
  private var unnoted: [(run: TaskRun, turn: UInt64)] = []
  /// The subqueues from which tasks have begun since claims of their next tasks were made ahead.
  private var wanting: [SubqueueID] = []

  /// The maximum number of claims that are made ahead for each worker.
  static let maximum = 15
  /// The time in nanoseconds for whose attempts claims are made ahead.
  static let nanoseconds = 1e6

  var isEmpty: Bool { claims.isEmpty }
  var count: Int { claims.count }

  // MARK: - Claims

  /// Returns whether a task has a claim, which may be of an earlier row.
  func has(_ id: TaskID) -> Bool { claims[id] != nil }

  /// Returns the claim of a queued task.
  func claim(of entry: QueuedTask) -> Claim? {
    guard let claim = claims[entry.id], claim.run.stored.position.revision == entry.revision else { return nil }
    return claim
  }

  mutating func insert(_ run: TaskRun) { claims[run.id] = Claim(run: run) }

  /// Removes a claim by which its attempt begins in a turn of the loop.
  mutating func begin(_ run: TaskRun, turn: UInt64) {
    claims[run.id] = nil
    unnoted.append((run, turn))
  }

  /// Notes that claims are on disk.
  mutating func didWrite(_ runs: [TaskRun]) {
    for run in runs {
      // The task may have changed meanwhile.
      if claims[run.id]?.run === run { claims[run.id]?.isWritten = true } else { strays.append(run.claimKey) }
    }
  }

  /// Forgets a claim that could not be written.
  mutating func forget(_ run: TaskRun) { if claims[run.id]?.run === run { claims[run.id] = nil } }

  /// Drops the claim of a task, because the task's row was removed.
  mutating func drop(_ id: TaskID, _ key: [UInt8]) {
    guard let claim = claims[id], claim.run.stored.position.revision == QueuedTask.revision(of: key) else { return }
    drop(id)
  }

  /// Drops the claim of a task. One whose commit is being made is deleted after it.
  private mutating func drop(_ id: TaskID) {
    guard let claim = claims.removeValue(forKey: id) else { return }
    if claim.isWritten { strays.append(claim.run.claimKey) }
  }

  mutating func dropAll() { for id in Array(claims.keys) { drop(id) } }

  // MARK: - Claims to be deleted

  mutating func takeStrays(_ count: Int) -> [[UInt8]] {
    defer { strays.removeLast(count) }
    return Array(strays.suffix(count))
  }

  mutating func putBack(strays keys: [[UInt8]]) { strays += keys }

  // MARK: - Subqueues

  /// Notes that a task of a subqueue has begun, so that claims of its next tasks may be made.
  mutating func noteBegun(in subqueue: Subqueue) {
    if subqueue.wantsClaims { return }
    subqueue.wantsClaims = true
    wanting.append(subqueue.id)
  }

  /// Takes the subqueues from which tasks have begun.
  mutating func takeWanting() -> [SubqueueID] {
    defer { wanting = [] }
    return wanting
  }

  // MARK: - Attempts that have begun

  /// Takes the attempts of which a row is to note that they have begun: those that have begun before the last turn and
  /// still run, or all that run if the loop has nothing else to do.
  ///
  /// So the row costs nothing for handlers that are quick.
  mutating func takeUnnoted(_ work: inout TurnWork, turn now: UInt64) {
    if unnoted.isEmpty { return }
    unnoted.removeAll { run, _ in run.state.withLock { $0.isSettled } }
    let areAll = work.isEmpty
    var rest: [(run: TaskRun, turn: UInt64)] = []
    for (run, turn) in unnoted {
      guard areAll || turn + 1 < now, work.remaining > 0 else {
        rest.append((run, turn))
        continue
      }
      run.state.withLock { $0.isNoted = true }
      work.begun.append(run)
    }
    unnoted = rest
    work.hasOnlyBegun = areAll && !work.begun.isEmpty
  }

  /// Takes back an attempt of which no row notes yet that it has begun.
  mutating func putBack(begun run: TaskRun, turn: UInt64) {
    run.state.withLock { $0.isNoted = false }
    unnoted.append((run, turn))
  }
}
