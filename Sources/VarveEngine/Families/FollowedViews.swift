internal import Synchronization

/// Lets reads of a follower see one state of another process's database, while that process flushes and
/// compacts without knowing of them.
///
/// What a snapshot needs may be gone from the next version: the writer keeps old versions of a key for its own
/// snapshots alone. So a snapshot of a follower holds the views of all families, and a cursor gets its view
/// and its sequence at one instant. Views change while no read begins (`CommitPipeline.holdReads`).
///
/// Safe from any thread.
final class FollowedViews: Sendable {
  private let changing = Mutex(())
  private struct Description {
    let text: @Sendable () -> String
  }

  private let description = Mutex<Description?>(nil)

  /// Runs `body` while no view changes.
  func whileStill<R>(_ body: () -> R) -> R { changing.withLock { _ in body() } }

  /// For `Engine.explain()`.
  var overview: String {
    description.withLock { $0 }?.text()
      ?? "read-only: shows what was there when it was opened; other processes may write"
  }

  /// Has the engine explain what it follows.
  func describe(_ body: @escaping @Sendable () -> String) { description.withLock { $0 = Description(text: body) } }
}

/// The views that a snapshot of a follower holds.
///
/// Complexity: a search in a dictionary for each read. Safe from any thread.
final class HeldViews: Sendable {
  private let views: [FamilyID: ReadView]
  /// What the snapshot sees of families that came later: nothing. A later view would not do, because a table's entries
  /// may have no sequences of their own any more, or never had any (`Engine.ingest`).
  private let none: ReadView

  /// `empty` is a memtable without entries.
  init(_ families: [ColumnFamily], empty: MemTable) {
    views = Dictionary(uniqueKeysWithValues: families.map { ($0.id, $0.state.retainView()) })
    none = ReadView(memTable: empty, frozen: [], version: .empty)
  }

  /// Whether a family was there when the snapshot was made.
  func holds(_ family: FamilyID) -> Bool { views[family] != nil }

  /// What the snapshot sees of a family.
  func view(of family: FamilyState) -> ReadView { views[family.id] ?? none }
}
