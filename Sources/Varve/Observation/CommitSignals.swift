/// A sequence with an element at once, and one after each acknowledged commit, whatever it changes; commits that happen
/// while the consumer is busy lead to one element. It ends when the database is closed.
@_spi(Extensions)
public struct CommitSignals: AsyncSequence, Sendable {
  /// Nothing: the element only says that there was a commit.
  public typealias Element = Void

  private let database: DatabaseCore

  init(_ database: DatabaseCore) { self.database = database }

  /// Creates an iterator.
  public func makeAsyncIterator() -> Iterator {
    Iterator(
      source: Result {
        try database.observations.observe(.watched(CommitWatcher(), collection: nil), in: database)
      })
  }

  /// An iterator over commits.
  public struct Iterator: AsyncIteratorProtocol, HeldIterator {
    var source: Result<HeldObservation, any Error>?

    /// Waits for a commit. Returns `nil` when the database has been closed.
    public mutating func next() async throws -> Void? { try await advance() }

    func next(from held: HeldObservation) async throws -> Void? { try await held.observation.next().map { _ in } }
  }
}

@available(*, unavailable)
extension CommitSignals.Iterator: Sendable {}

/// A watcher that is woken by every commit.
private final class CommitWatcher: RowWatcher {
  var isWokenByAll: Bool { true }
  func mayConcern(_ changes: ChangeSet) -> Bool { true }
  func mayConcern(_ parts: PartWrites.Noted) -> Bool { true }
  func concerned(_ rows: ChangedRows) -> [[UInt8]] { rows.keys }
}
