internal import FutexLocks
internal import Synchronization

/// Which snapshot readers see: everything that was acknowledged, nothing that was not, in commit order.
///
/// ```
///  applied:       a commit is in the storage; the next writer builds on it
///  acknowledged:  it is as durable as was asked; readers, change sets and the feed's readers see it
/// ```
/// Between the two a commit is *in flight*. It keeps the snapshot before it, and readers get that of the oldest in
/// flight; with none in flight they get the storage's own. So a commit that never becomes durable was never
/// seen, and an idle database holds no snapshot.
///
/// # Invariants
/// 1. The commits in flight are in commit order, and the snapshot of each is that after the one before.
/// 2. Extensions receive their deltas, and observers the change sets, in commit order, before the call of their commit
///    returns; deltas before a reader sees the commit.
/// 3. After a failure nothing is acknowledged any more: what was in flight may or may not survive.
///
/// # Concurrency
/// `deliveryLock` before `state`. Under the first buffers are filled, and `didAcknowledge` of extensions runs: no other
/// call of the program's.
final class Publication: Sendable {
  /// What a commit means for what the transactions of an extension share.
  struct Sharing {
    let registered: RegisteredExtension
    let delta: (any Sendable)?
  }

  private struct InFlight {
    let number: UInt64
    let before: any StorageSnapshot
    var version = CommitVersion.zero
    /// Nil: there is nothing to report.
    var changes: PendingChangeSet?
    var sharing: [Sharing] = []
    /// What was written to parts, where there is nothing else to report.
    var parts = PartWrites.Noted.unknown
  }

  private struct State {
    var inFlight: [InFlight] = []
    var nextNumber: UInt64 = 1
    var failure: (any Error)?

    /// The commits up to a number. They are taken away, and readers see them, unless extensions have to receive what they
    /// mean before.
    mutating func acknowledged(_ number: UInt64) -> [InFlight] {
      let count = inFlight.prefix { $0.number <= number }.count
      if inFlight[..<count].contains(where: { !$0.sharing.isEmpty }) { return Array(inFlight[..<count]) }
      var done: [InFlight] = []
      if count == inFlight.count {
        swap(&done, &inFlight)
      } else {
        done = Array(inFlight[..<count])
        inFlight.removeSubrange(..<count)
      }
      return done
    }
  }

  private let backend: any StorageBackend
  private let state = FutexLock(State())
  private let deliveryLock = FutexLock(())
  private let deliver: @Sendable (CommitVersion, PendingChangeSet) -> Void
  private let deliverParts: @Sendable (CommitVersion, PartWrites.Noted) -> Void

  init(
    backend: any StorageBackend,
    deliverParts: @escaping @Sendable (CommitVersion, PartWrites.Noted) -> Void = { _, _ in },
    deliver: @escaping @Sendable (CommitVersion, PendingChangeSet) -> Void
  ) {
    self.backend = backend
    self.deliverParts = deliverParts
    self.deliver = deliver
  }

  /// What a reader sees now.
  func snapshot() throws -> any StorageSnapshot {
    try state.withLock { state in try state.inFlight.first?.before ?? backend.snapshot() }
  }

  /// The same, and what `body` finds when every change set up to that snapshot was delivered, and none after it.
  func snapshot<Result>(_ body: () -> Result) throws -> (any StorageSnapshot, Result) {
    try deliveryLock.withLock { _ in (try snapshot(), body()) }
  }

  /// A commit is about to be given to the storage. Commits are given one at a time. Returns its number and the snapshot
  /// before it, which is `known` where nothing was committed since.
  ///
  /// The snapshot is taken under the lock of the readers. The catalog commits what it defines by itself, beside the
  /// commits of this order: of a snapshot taken earlier, a reader that came between would have seen more, and the next
  /// reader less.
  func begin(
    unlessChanged known: (any StorageSnapshot)? = nil
  ) throws -> (number: UInt64, before: any StorageSnapshot) {
    try state.withLock { state in
      if let failure = state.failure { throw Self.error(failure) }
      let before = try known.map { try backend.snapshot(unlessChanged: $0) } ?? backend.snapshot()
      defer { state.nextNumber += 1 }
      state.inFlight.append(InFlight(number: state.nextNumber, before: before))
      return (state.nextNumber, before)
    }
  }

  /// The storage took it: these are its changes, and what they mean for extensions.
  func applied(
    _ number: UInt64, _ version: CommitVersion, _ changes: PendingChangeSet?, _ sharing: [Sharing],
    _ parts: PartWrites.Noted = .unknown
  ) {
    state.withLock { state in
      guard let index = state.inFlight.lastIndex(where: { $0.number == number }) else { return }
      state.inFlight[index].version = version
      state.inFlight[index].changes = changes
      state.inFlight[index].sharing = sharing
      state.inFlight[index].parts = parts
    }
  }

  /// The storage refused it: nothing happened.
  func refused(_ number: UInt64) {
    state.withLock { state in state.inFlight.removeAll { $0.number == number } }
  }

  /// It is durable, and so is everything before it.
  func acknowledge(_ number: UInt64) throws {
    try deliveryLock.withLock { _ in
      let done = try state.withLock { state in
        if let failure = state.failure { throw Self.error(failure) }
        return state.acknowledged(number)
      }
      if done.contains(where: { !$0.sharing.isEmpty }) {
        for commit in done { share(commit) }
        // From here on readers see them.
        state.withLock { state in state.inFlight.removeAll { $0.number <= number } }
      }
      for commit in done {
        if let changes = commit.changes {
          deliver(commit.version, changes)
        } else {
          deliverParts(commit.version, commit.parts)
        }
      }
    }
  }

  private func share(_ commit: InFlight) {
    for sharing in commit.sharing {
      let begin = ContinuousClock.now
      sharing.registered.shared?.acknowledge(commit.version, sharing.delta)
      let taken = ContinuousClock.now - begin
      if taken > Self.acknowledgeNoted { DatabaseLog.slowAcknowledge(name: sharing.registered.name, taken: taken) }
    }
  }

  /// An extension that takes longer than this keeps commits from being acknowledged: the log has an event.
  private static let acknowledgeNoted = Duration.milliseconds(20)

  /// Whether it is durable can't be known any more.
  func fail(_ error: any Error) -> DatabaseError {
    state.withLock { state in
      if state.failure == nil { state.failure = error }
      return Self.error(error)
    }
  }

  private static func error(_ cause: any Error) -> DatabaseError {
    DatabaseError(
      .outcomeUnknown,
      "a commit, or one that it builds on, could not be made durable; close the database and open it again",
      cause: cause)
  }
}
