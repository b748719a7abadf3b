internal import Synchronization

/// Lets reads of a follower see one consistent state of another process's database while that process flushes and
/// compacts without knowing of the reads.
///
/// The next version may lack what a snapshot needs: the writer keeps old versions of a key for its own snapshots only.
/// So a snapshot of a follower retains the views of all families, and a cursor gets its view and its sequence
/// atomically. Views change while no read begins (`CommitPipeline.holdReads`).
///
/// Safe from any thread.
final class FollowedViews: Sendable {
  private let changing = Mutex(())
  private struct Description {
    let text: @Sendable () -> String
  }

  private let description = Mutex<Description?>(nil)

  /// Runs `body`, during which no view changes.
  func whileStill<R>(_ body: () -> R) -> R { changing.withLock { _ in body() } }

  /// The text for `Engine.explain()`.
  var overview: String {
    description.withLock { $0 }?.text()
      ?? "read-only: shows what was there when it was opened; other processes may write"
  }

  /// Sets the description of the followed database for `Engine.explain()`.
  func describe(_ body: @escaping @Sendable () -> String) { description.withLock { $0 = Description(text: body) } }
}

/// The views that a snapshot of a follower retains.
///
/// Complexity: a dictionary lookup for each read. Safe from any thread.
final class HeldViews: Sendable {
  private let views: [FamilyID: ReadView]
  private let families: [ColumnFamily]
  /// The empty view, for families created after the snapshot. A later view could not be used instead: a table's entries
  /// may have lost their sequences, or never had any (`Engine.ingest`).
  private let none: ReadView

  /// `empty` is a memtable without entries.
  init(_ families: [ColumnFamily], empty: MemTable) {
    self.families = families
    views = Dictionary(uniqueKeysWithValues: families.map { ($0.id, $0.state.retainView()) })
    none = ReadView(memTable: empty, frozen: [], version: .empty)
  }

  /// Returns whether a family existed when the snapshot was made.
  func holds(_ family: FamilyID) -> Bool { views[family] != nil }

  /// Returns whether a family of some name existed when the snapshot was made. Complexity: O(n) of the families.
  func holds(name: String) -> Bool { families.contains { $0.name == name } }

  /// The snapshot's view of a family.
  func view(of family: FamilyState) -> ReadView { views[family.id] ?? none }
}
