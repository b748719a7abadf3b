/// How the result of a query differs from what its observer has seen: see ``StoreQuery/changes()``.
public struct QueryChange<Format: StoreFormat>: Sendable {
  /// Everything that was committed up to here is in it, or was in one before: what is read from now on is not older.
  public let version: CommitVersion
  /// Whether everything may be another, so that all is to be read: at first, after a clearing, and where more rows changed than
  /// are worth a list. Then `ids` has the whole result, and the lists of differences are empty.
  public let isReload: Bool
  /// Of a reload, and of a query with a limit: the identifiers of the result, in the order of the query. Else empty.
  public let ids: [Format.Identifier]
  /// The instances that came into the result, in the order of their identifiers.
  public let inserted: [Format.Identifier]
  /// The instances that were in the result and are there no more, in the order of their identifiers.
  public let removed: [Format.Identifier]
  /// The instances that were and are in the result, and have changed, in the order of their identifiers.
  public let updated: [Format.Identifier]
  /// Of instances in `updated` the coding keys of the fields that are stored otherwise than in what the observer has seen: none
  /// of one whose metadata alone was set, or that was touched. One that is missing here may have any field changed: that is not known of rows that
  /// other coders than `.binary` have written, of commits of another process, of those that began before the observation, and of
  /// what one transaction has replaced beyond 256 KiB.
  /// Fields are compared as they are stored: equal sets and dictionaries may differ in the order of their elements.
  public let changedFields: [Format.Identifier: Set<String>]
  /// Where the difference is in the result; nil of a reload, and where the query has no limit or one of more than 10,000.
  public let positions: QueryPositions?
}

/// Where in a list instances were removed, inserted and changed. Removals come first: their offsets are those of the list before;
/// offsets of insertions and changes are those of the list after. An instance that was moved is among the first two, and because it
/// has changed also among the last.
public struct QueryPositions: Hashable, Sendable {
  /// Descending, so that each can be removed in turn.
  public let removals: [Int]
  /// Ascending, so that each can be inserted in turn.
  public let insertions: [Int]
  /// Ascending.
  public let changes: [Int]
}
