public import Varve

/// The changes of a list from one picture to the next.
///
/// Apply them in this order, as the batch updates of user interfaces do: remove the rows in `deletions` and the places
/// `from` of `moves`, and the sections in `sectionDeletions`, by their places in the old picture; then insert the
/// sections in `sectionInsertions`, and the rows in `insertions` and the places `to` of `moves`, by their places in the
/// new picture. The rows of a section that is deleted or inserted are not listed: they leave and come with it.
///
/// Draw the rows in `updates` after that, at their new places. The old place of an update may be the new place of a
/// move, so a user interface that takes a reload for a deletion and an insertion refuses both in one batch.
public struct ListChanges<Group: Hashable & Sendable>: Sendable {
  /// A row that has moved.
  public struct Move: Hashable, Sendable {
    /// The place in the old picture.
    public let from: ListIndex
    /// The place in the new picture.
    public let to: ListIndex
    /// What has changed of the element.
    public let flags: ListFlags
  }

  /// A row that has changed, or whose neighbor has, and kept its place among the others.
  public struct Update: Hashable, Sendable {
    /// The place in the old picture.
    public let old: ListIndex
    /// The place in the new picture.
    public let new: ListIndex
    /// What has changed of the element.
    public let flags: ListFlags
  }

  /// A section that has come.
  public struct Section: Hashable, Sendable {
    /// The number of the section in the new picture.
    public let index: Int
    /// The group, or `nil` for the section of all groups.
    public let group: Group?
  }

  /// The version of the old picture, or `nil` if there was none.
  public let from: CommitVersion?
  /// The version of the new picture.
  public let to: CommitVersion
  /// Whether everything may have changed, so that the list has to be shown again. All else is then empty.
  public internal(set) var isReload = false
  /// Whether the source is being built. The picture then stays the old one.
  public internal(set) var isBuilding = false
  /// The numbers of the sections that have gone, in the old picture, in descending order.
  public internal(set) var sectionDeletions: [Int] = []
  /// The sections that have come, in ascending order.
  public internal(set) var sectionInsertions: [Section] = []
  /// The places of the rows that have gone, in the old picture, in descending order.
  public internal(set) var deletions: [ListIndex] = []
  /// The places of the rows that have come, in the new picture, in ascending order.
  public internal(set) var insertions: [ListIndex] = []
  /// The rows that have moved, in ascending order of their new places.
  public internal(set) var moves: [Move] = []
  /// The rows that have been updated, in ascending order of their new places.
  public internal(set) var updates: [Update] = []

  init(from: CommitVersion?, to: CommitVersion) {
    self.from = from
    self.to = to
  }

  /// Whether the picture is the same as before.
  public var isEmpty: Bool {
    !isReload && sectionDeletions.isEmpty && sectionInsertions.isEmpty && deletions.isEmpty && insertions.isEmpty
      && moves.isEmpty && updates.isEmpty
  }

  mutating func sort() {
    sectionDeletions.sort(by: >)
    sectionInsertions.sort { $0.index < $1.index }
    deletions.sort(by: >)
    insertions.sort()
    moves.sort { $0.to < $1.to }
    updates.sort { $0.new < $1.new }
  }

  static func reload(from: CommitVersion?, to: CommitVersion) -> ListChanges {
    var changes = ListChanges(from: from, to: to)
    changes.isReload = true
    return changes
  }
}
