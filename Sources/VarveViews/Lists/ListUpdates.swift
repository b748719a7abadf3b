@_spi(Extensions) internal import Varve

/// The changes of a list, as commits happen: see `ListMapping.updates()`.
///
/// It is safe to use from any thread; an iterator belongs to one task.
public struct ListUpdates<Source: ListSource>: AsyncSequence, Sendable {
  /// A step of a list.
  public struct Element: Sendable {
    /// The mapping after the step, which holds the snapshot that it shows.
    public let mapping: ListMapping<Source>
    /// What has changed.
    public let changes: ListChanges<Source.Group>
  }

  private let mapping: ListMapping<Source>

  init(_ mapping: ListMapping<Source>) { self.mapping = mapping }

  /// Creates an iterator.
  public func makeAsyncIterator() -> Iterator {
    let database = mapping.source.database
    return Iterator(
      signals: database.commitSignals.makeAsyncIterator(), connection: database.connection(cacheLimit: 0),
      mapping: mapping)
  }

  /// An iterator over the steps of a list.
  public struct Iterator: AsyncIteratorProtocol {
    fileprivate var signals: CommitSignals.Iterator
    fileprivate let connection: Connection
    fileprivate var mapping: ListMapping<Source>

    /// Waits for a commit, and returns the next step; nil when the database has been closed. Throws what reading
    /// throws: a later call reports everything since the last step.
    public mutating func next() async throws -> Element? {
      guard try await signals.next() != nil else { return nil }
      let (connection, mapping) = (connection, mapping)
      let read: @Sendable () throws -> (ListMapping<Source>, Result<ListChanges<Source.Group>, any Error>) = {
        var next = mapping
        let changes = Result { try next.advance(with: connection) }
        return (next, changes)
      }
      guard let (next, changes) = try await mapping.source.database.readWhileOpen(read) else { return nil }
      self.mapping = next
      return Element(mapping: next, changes: try changes.get())
    }
  }
}

@available(*, unavailable)
extension ListUpdates.Iterator: Sendable {}

extension ListMapping {
  /// Returns a sequence of this list's steps: one at once, and one after each commit, at whatever speed the consumer
  /// takes them; commits that happen meanwhile lead to one step.
  ///
  /// ```swift
  /// for try await step in ListMapping(source).updates() {
  ///   apply(step.changes, step.mapping)
  /// }
  /// ```
  ///
  /// A commit that does not concern the list is a step without changes, so that no copy of a mapping has to hold an old
  /// snapshot. While the source is being built, steps say so (`ListChanges.isBuilding`), and its end is a step, too.
  public func updates() -> ListUpdates<Source> { ListUpdates(self) }
}
