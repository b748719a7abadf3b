internal import FutexLocks
internal import Synchronization

/// The publication of commits, which determines the snapshot that readers see: it contains every acknowledged commit
/// and no other, in commit order.
///
/// ```
///  applied:       a commit is in the storage; the next writer builds on it
///  acknowledged:  it is as durable as was asked; readers, change sets and the feed's readers see it
/// ```
/// Between the two states a commit is *in flight*. It retains the snapshot before it, and readers get the snapshot of
/// the oldest commit in flight; if none is in flight, they get the storage's current one. A commit that never becomes
/// durable was therefore never seen, and an idle database retains no snapshot.
///
/// # Invariants
/// 1. The commits in flight are in commit order, and the snapshot of each is the one after the previous commit.
/// 2. Extensions receive their deltas, and observers the change sets, in commit order, before the call of their commit
///    returns; extensions receive deltas before a reader sees the commit.
/// 3. After a failure no commit is acknowledged any more: the commits in flight may or may not survive.
///
/// # Concurrency
/// `deliveryLock` is acquired before `state`. While it is held, buffers are filled, and `didAcknowledge` of extensions
/// runs, but no other code of the program.
final class Publication: Sendable {
  /// The effect of a commit on the shared state of an extension.
  struct Sharing {
    let registered: RegisteredExtension
    let delta: (any Sendable)?
  }

  private struct InFlight {
    let number: UInt64
    let before: any StorageSnapshot
    /// The ticket of the storage, or `nil` until the commit has been submitted.
    var ticket: (any StorageTicket)?
    var version: CommitVersion { ticket?.version ?? .zero }
    /// The changes to report, or `nil` if there are none.
    var changes: PendingChangeSet?
    var sharing: [Sharing] = []
    /// The writes to parts, if there is nothing else to report.
    var parts = PartWrites.Noted.unknown
  }

  private struct State {
    var inFlight: [InFlight] = []
    var nextNumber: UInt64 = 1
    var failure: (any Error)?

    /// Returns the commits in flight up to a number. They are removed, so that readers see them, unless extensions have
    /// to receive their deltas first.
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

  /// Returns the snapshot that readers see now.
  func snapshot() throws -> any StorageSnapshot {
    try state.withLock { state in try state.inFlight.first?.before ?? backend.snapshot() }
  }

  /// Returns the snapshot that readers see now, and the result of `body` at a moment when all change sets up to that
  /// snapshot, and none after it, are delivered.
  func snapshot<Result>(_ body: () -> Result) throws -> (any StorageSnapshot, Result) {
    try deliveryLock.withLock { _ in (try snapshot(), body()) }
  }

  /// Begins a commit that is about to be given to the storage. Commits are given one at a time. Returns the commit's
  /// number and the snapshot before it, which is `known` if nothing was committed since.
  ///
  /// The snapshot is taken under the lock that readers use. The catalog commits new definitions separately, outside of
  /// this order: with a snapshot taken earlier, a reader in between would have seen more than the next reader.
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

  /// The version that readers see now, or `nil` if they see the storage's current one, because no commit is in flight.
  var visibleVersion: CommitVersion? { state.withLock { $0.inFlight.first?.before.version } }

  /// Whether a commit is in flight.
  var hasInFlight: Bool { state.withLock { !$0.inFlight.isEmpty } }

  /// Returns the last commit in flight that a snapshot of `version` contains, or `nil` if it contains
  /// no such commit.
  func inFlight(upTo version: CommitVersion) -> (number: UInt64, ticket: any StorageTicket)? {
    state.withLock { state in
      for commit in state.inFlight.reversed() {
        if let ticket = commit.ticket, ticket.version <= version { return (commit.number, ticket) }
      }
      return nil
    }
  }

  /// Records that the storage has accepted a commit, with its changes, and their effect on extensions.
  func applied(
    _ number: UInt64, _ ticket: any StorageTicket, _ changes: PendingChangeSet?, _ sharing: [Sharing],
    _ parts: PartWrites.Noted = .unknown
  ) {
    state.withLock { state in
      guard let index = state.inFlight.lastIndex(where: { $0.number == number }) else { return }
      state.inFlight[index].ticket = ticket
      state.inFlight[index].changes = changes
      state.inFlight[index].sharing = sharing
      state.inFlight[index].parts = parts
    }
  }

  /// Removes a commit that the storage has refused. Nothing was changed by it.
  func refused(_ number: UInt64) {
    state.withLock { state in state.inFlight.removeAll { $0.number == number } }
  }

  /// Acknowledges a commit that is durable, and with it all previous ones.
  func acknowledge(_ number: UInt64) throws {
    try deliveryLock.withLock { _ in
      let done = try state.withLock { state in
        if let failure = state.failure { throw Self.error(failure) }
        return state.acknowledged(number)
      }
      if done.contains(where: { !$0.sharing.isEmpty }) {
        for commit in done { share(commit) }
        // From here on readers see the commits.
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

  /// The time after which a message is logged for an extension, because it delays the acknowledgement of commits.
  private static let acknowledgeNoted = Duration.milliseconds(20)

  /// Records a failure after which it can't be known whether the commits in flight are durable. Returns the error to
  /// throw.
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
