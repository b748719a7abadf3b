/// A sequence with an element at once, and one after each acknowledged commit, whatever it changes; commits that happen
/// while the consumer is busy lead to one element. It ends when the database is closed.
@_spi(Extensions) public struct CommitSignals: AsyncSequence, Sendable {
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

extension Database {
  /// Returns a sequence with an element after each commit.
  @_spi(Extensions) public var commitSignals: CommitSignals { CommitSignals(core) }

  /// Runs `body`, which reads, on a thread of the database. Returns `nil` if the database is closed; `close` waits for
  /// `body`.
  @_spi(Extensions) public func readWhileOpen<Result: Sendable>(
    _ body: @Sendable () throws -> Result
  ) async throws -> Result? {
    try await core.executor.run { [core] in try core.changes.whileOpen(body) }
  }
}

/// A watcher that is woken by every commit.
private final class CommitWatcher: RowWatcher {
  var isWokenByAll: Bool { true }
  func mayConcern(_ changes: ChangeSet) -> Bool { true }
  func mayConcern(_ parts: PartWrites.Noted) -> Bool { true }
  func concerned(_ rows: ChangedRows) -> [[UInt8]] { rows.keys }
}
