internal import Synchronization

/// The pace of catching up: it determines how many missed changes one chunk delivers to an extension.
///
/// A chunk holds the writer, so it should be short. But if others write more between two chunks than a short chunk
/// reads, short chunks never reach the end of the feed. A chunk therefore delivers at least three times as many rows as
/// others have changed since the previous one: the remainder shrinks by twice what others add, and a writer waits for a
/// time in proportion to what the writers did.
struct CatchingUpPace {
  /// The maximum number of rows in a chunk, which bounds its memory whatever others write.
  private static var rowMaximum: Int { 200_000 }

  private let core: DatabaseCore
  private var begin = ContinuousClock.now
  /// The number of rows that had been added to the feed when the previous chunk began, and the number that the chunk
  /// itself has added.
  private var addedBefore: UInt64?
  private var ownRows: UInt64 = 0
  private var rowsDue = 0
  private var first: UInt64 = 0
  private var head: UInt64 = 0
  /// The numbers of commits and rows that all chunks have passed.
  private var commitsPassed: UInt64 = 0
  private var rowsPassed = 0

  init(_ core: DatabaseCore) { self.core = core }

  /// Begins a chunk, with the writer held.
  mutating func begin(at position: FeedPosition, head: CommitVersion) {
    let added = core.feed.addedRowCount.load(ordering: .relaxed)
    let others = addedBefore.map { added - min($0 + ownRows, added) } ?? 0
    addedBefore = added
    rowsDue = Int(clamping: others) * 3
    first = position.version
    self.head = head.number
    begin = .now
  }

  /// Returns whether a chunk that has delivered `count` rows ends.
  func isEnough(_ count: Int) -> Bool {
    guard count > 0, count % 64 == 0 || count == ExtensionBuild.chunkRows else { return false }
    if count >= Self.rowMaximum { return true }
    if count < rowsDue { return false }
    return count >= ExtensionBuild.chunkRows || ContinuousClock.now - begin >= ExtensionBuild.chunkDuration
  }

  /// Ends a chunk that will be committed. `ownRows` is the number of rows that the extension has changed in it.
  mutating func end(_ count: Int, changing ownRows: UInt64, at position: FeedPosition) {
    self.ownRows = ownRows
    commitsPassed += position.version - min(first, position.version)
    rowsPassed += count
  }

  /// Returns an estimate of the number of rows that are left.
  ///
  /// If the position is after the opening of the database, the rows that were added since are counted; otherwise the
  /// average number of rows in a commit so far is used. It is at least one, because the extension is not ready.
  func rowsLeft(at position: FeedPosition) -> Int {
    if position.version > core.feed.openVersion.number {
      return max(1, Int(clamping: addedBefore ?? 0) - rowsPassed)
    }
    let commits = head - min(position.version, head)
    guard commitsPassed > 0 else { return max(1, Int(clamping: commits)) }
    return max(1, Int(Double(commits) * Double(rowsPassed) / Double(commitsPassed)))
  }
}
