internal import Synchronization

/// The changes of commits, in commit order, each commit once: see `Database.changes`.
///
/// Each iteration begins at the position with which the sequence was made. The commits in between must be in memory or
/// in the feed; otherwise the iteration reports a gap. An iteration ends when the database is closed. It throws
/// `CancellationError` when its task is cancelled, and errors of reading the feed: another iteration may then begin
/// after the last event that was processed.
///
/// It is safe to use from any thread; an iterator belongs to one task.
public struct ChangeSequence: AsyncSequence, Sendable {
  /// The event that an iteration receives.
  public typealias Element = ChangeEvent

  private let database: DatabaseCore
  private let capacity: Int
  private let first: FirstSubscription

  init(_ database: DatabaseCore, after version: CommitVersion?, capacity: Int) {
    self.database = database
    self.capacity = capacity
    first = FirstSubscription(Result { try database.subscribe(after: version, capacity: capacity) }, version)
  }

  /// Creates an iterator.
  public func makeAsyncIterator() -> Iterator {
    Iterator(
      source: Result {
        try first.take() ?? database.subscribe(after: first.start, capacity: capacity).0
      })
  }

  /// An iterator over the events of commits.
  public struct Iterator: AsyncIteratorProtocol, HeldIterator {
    var source: Result<HeldSubscription, any Error>?

    /// Waits for the next event and returns it, or `nil` when the database has been closed.
    public mutating func next() async throws -> ChangeEvent? {
      try await advance()
    }

    func next(from held: HeldSubscription) async throws -> ChangeEvent? { try await held.next() }
  }
}

@available(*, unavailable)
extension ChangeSequence.Iterator: Sendable {}

/// The subscription with which a sequence was made, used by its first iteration so that nothing is missed between the
/// two if there is no feed. The sequence's start is kept for later iterations.
private final class FirstSubscription: Sendable {
  let start: CommitVersion?
  private let subscription: Mutex<Result<HeldSubscription, any Error>?>

  init(_ made: Result<(HeldSubscription, CommitVersion), any Error>, _ asked: CommitVersion?) {
    start = (try? made.get())?.1 ?? asked
    subscription = Mutex(made.map(\.0))
  }

  /// Returns the subscription, or `nil` if it was taken before. Throws the error with which subscribing failed.
  func take() throws -> HeldSubscription? {
    let taken = subscription.withLock { subscription in
      defer { subscription = nil }
      return subscription
    }
    return try taken?.get()
  }
}
