internal import Synchronization

/// What commits change, in commit order, each once: see `Database.changes`.
///
/// Each iteration begins where the sequence was made to begin. What is between has to be in memory or in the feed; if
/// it isn't, a gap says so. An iteration ends when the database is closed; it throws `CancellationError` when its task
/// is cancelled, and what reading the feed throws: then another one may begin after the last event that was dealt
/// with.
///
/// Safe from any thread; an iterator belongs to one task.
public struct ChangeSequence: AsyncSequence, Sendable {
  /// What is heard.
  public typealias Element = ChangeEvent

  private let database: DatabaseCore
  private let capacity: Int
  private let first: FirstSubscription

  init(_ database: DatabaseCore, after version: CommitVersion?, capacity: Int) {
    self.database = database
    self.capacity = capacity
    first = FirstSubscription(Result { try database.subscribe(after: version, capacity: capacity) }, version)
  }

  /// Begins an iteration.
  public func makeAsyncIterator() -> Iterator {
    Iterator(
      subscription: Result {
        try first.take() ?? database.subscribe(after: first.start, capacity: capacity).0
      })
  }

  /// A position among the commits.
  public struct Iterator: AsyncIteratorProtocol {
    fileprivate var subscription: Result<HeldSubscription, any Error>?

    /// The next event; nil when the database was closed.
    public mutating func next() async throws -> ChangeEvent? {
      guard let subscription else { return nil }
      do {
        if let event = try await subscription.get().next() { return event }
      } catch let error as CancellationError {
        // The position stays.
        throw error
      } catch {
        self.subscription = nil
        throw error
      }
      self.subscription = nil
      return nil
    }
  }
}

@available(*, unavailable)
extension ChangeSequence.Iterator: Sendable {}

/// The subscription that a sequence was made with: for its first iteration, so that without a feed nothing is missed
/// between the two. Where the sequence began is kept for later ones.
private final class FirstSubscription: Sendable {
  let start: CommitVersion?
  private let subscription: Mutex<Result<HeldSubscription, any Error>?>

  init(_ made: Result<(HeldSubscription, CommitVersion), any Error>, _ asked: CommitVersion?) {
    start = (try? made.get())?.1 ?? asked
    subscription = Mutex(made.map(\.0))
  }

  /// Nil where it was taken before. Throws why there is none.
  func take() throws -> HeldSubscription? {
    let taken = subscription.withLock { subscription in
      defer { subscription = nil }
      return subscription
    }
    return try taken?.get()
  }
}
