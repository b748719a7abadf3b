/// A change of a query's result since the last one that its observer received: see ``StoreQuery/changes()``.
public struct QueryChange<Format: StoreFormat>: Sendable {
  /// The version up to which all commits are covered by this change or an earlier one. Later reads are not older than
  /// it.
  public let version: CommitVersion
  /// Whether everything may have changed, so that the consumer has to read all of it: at first, after the collection
  /// was cleared, and if more rows changed than are worth listing. `ids` then has the whole result, and the lists of
  /// differences are empty.
  public let isReload: Bool
  /// The identifiers of the result in the order of the query, for a reload and for a query with a limit. Otherwise
  /// empty.
  public let ids: [Format.Identifier]
  /// The identifiers of the instances that are new in the result, in order.
  public let inserted: [Format.Identifier]
  /// The identifiers of the instances that are no longer in the result, in order.
  public let removed: [Format.Identifier]
  /// The identifiers of the instances that were and are in the result and have changed, in order.
  public let updated: [Format.Identifier]
  /// The coding keys of the stored fields that changed, for instances in `updated`.
  ///
  /// The set is empty for an instance of which only the metadata was set, or that was touched. If an instance is
  /// missing here, any of its fields may have changed. This is the case for rows that coders other than `.binary` have
  /// written, for commits of another process, for commits that began before the observation, and for what one
  /// transaction has replaced beyond 256 KiB. Fields are compared as they are stored: equal sets and dictionaries may
  /// differ in the order of their elements.
  public let changedFields: [Format.Identifier: Set<String>]
  /// The positions of the differences in the result; nil for a reload, and if the query has no limit or a limit above
  /// 10,000.
  public let positions: QueryPositions?
}

/// The positions at which instances were removed, inserted and changed in a list.
///
/// Removals come first: their offsets refer to the list before the change. The offsets of insertions and changes refer
/// to the list after it. An instance that was moved is in the removals and the insertions, and because it has changed,
/// also in the changes.
public struct QueryPositions: Hashable, Sendable {
  /// The offsets of removed instances in descending order, so that each can be removed in turn.
  public let removals: [Int]
  /// The offsets of inserted instances in ascending order, so that each can be inserted in turn.
  public let insertions: [Int]
  /// The offsets of changed instances in ascending order.
  public let changes: [Int]
}
