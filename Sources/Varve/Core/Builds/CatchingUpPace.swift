internal import Synchronization

/// How much of what an extension missed one chunk of its catching up gives it.
///
/// A chunk holds the writer, so it is short. But where others write more between two chunks than a short one reads, short
/// chunks never come to the end of the feed. So a chunk gives at least three times as many rows as others have changed since
/// the one before: what is left shrinks by twice what others add, and a writer waits for a time in proportion to what
/// the writers did.
struct CatchingUpPace {
  /// What a chunk takes in memory is bounded, whatever others write.
  private static var rowMaximum: Int { 200_000 }

  private let core: DatabaseCore
  private var begin = ContinuousClock.now
  /// What had been added to the feed when the chunk before began, and what that has added itself.
  private var addedBefore: UInt64?
  private var ownRows: UInt64 = 0
  private var rowsDue = 0
  private var first: UInt64 = 0
  private var head: UInt64 = 0
  /// What all chunks have passed.
  private var commitsPassed: UInt64 = 0
  private var rowsPassed = 0

  init(_ core: DatabaseCore) { self.core = core }

  /// A chunk begins, with the writer held.
  mutating func begin(at position: FeedPosition, head: CommitVersion) {
    let added = core.feed.addedRowCount.load(ordering: .relaxed)
    let others = addedBefore.map { added - min($0 + ownRows, added) } ?? 0
    addedBefore = added
    rowsDue = Int(clamping: others) * 3
    first = position.version
    self.head = head.number
    begin = .now
  }

  /// Whether a chunk that has given `count` rows ends.
  func isEnough(_ count: Int) -> Bool {
    guard count > 0, count % 64 == 0 || count == ExtensionBuild.chunkRows else { return false }
    if count >= Self.rowMaximum { return true }
    if count < rowsDue { return false }
    return count >= ExtensionBuild.chunkRows || ContinuousClock.now - begin >= ExtensionBuild.chunkDuration
  }

  /// The chunk has ended, and is to be committed, with changes of rows that the extension has made.
  mutating func end(_ count: Int, changing ownRows: UInt64, at position: FeedPosition) {
    self.ownRows = ownRows
    commitsPassed += position.version - min(first, position.version)
    rowsPassed += count
  }

  /// How many rows are probably left: of those that were added since the database was opened, or where it has missed more, by
  /// how many a commit had so far. At least one: it is not ready.
  func rowsLeft(at position: FeedPosition) -> Int {
    if position.version > core.feed.openVersion.number {
      return max(1, Int(clamping: addedBefore ?? 0) - rowsPassed)
    }
    let commits = head - min(position.version, head)
    guard commitsPassed > 0 else { return max(1, Int(clamping: commits)) }
    return max(1, Int(Double(commits) * Double(rowsPassed) / Double(commitsPassed)))
  }
}
