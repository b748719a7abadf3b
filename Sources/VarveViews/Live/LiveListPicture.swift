internal import Varve

/// What a list shows at one commit, ready to be set on the main actor.
struct LiveListPicture<Source: ListSource>: Sendable {
  typealias Group = Source.Group
  typealias Row = ListRow<Source.Element>

  var sections: [ListSection<Group, Source.Element>] = []
  var count = 0
  /// The places of the loaded rows.
  var places: [Source.ID: ListIndex] = [:]
  /// The rows outside of the window that were asked for.
  var prefetched: [ListIndex: Row] = [:]
  var changes: ListChanges<Group>?
  /// Whether this is what the picture before shows, at another commit.
  var isSame = false
  var state = ListState.notLoaded
  /// For each row that was loaded before and is no longer, a loaded row that was near it.
  var departed: [Source.ID: Source.ID] = [:]
  /// The number of the condition that the rows fulfil.
  var conditionNumber: UInt64 = 0
  /// Whether there are more than 10,000 matches.
  var isCut = false
  var version: CommitVersion?

  /// Returns a loaded row, or `nil` if the row is not loaded or does not exist.
  func row(at index: ListIndex) -> Row? {
    guard sections.indices.contains(index.section) else { return nil }
    let section = sections[index.section]
    guard index.offset >= section.offset, index.offset - section.offset < section.rows.count else {
      return prefetched[index]
    }
    return section.rows[index.offset - section.offset]
  }
}
