internal import FutexLocks

/// The rows that answers have left out because this build of the program can't decode them.
///
/// ```swift
/// let (books, skipped) = try await database.read { tx in (try books.query.fetch(in: tx), tx.skippedRows) }
/// if skipped.count > 0 { print("\(skipped.count) books need a newer version") }
/// ```
///
/// A value. Safe from any thread.
public struct SkippedRows: Sendable {
  /// The number of rows. A row that several answers have left out counts once.
  public internal(set) var count = 0
  /// The first of these rows, at most 100, with their errors.
  public internal(set) var first: [UndecodableRow] = []

  /// The largest number of rows that `first` has.
  static var firstMaximum: Int { 100 }
}

/// Collects the rows that answers leave out.
///
/// Safe from any thread: a scan may outlive its transaction.
final class SkippedRowList: Sendable {
  private struct State {
    var rows = SkippedRows()
    /// The hashes of the collections and keys of all rows.
    var hashes: Set<Int> = []
  }

  private let state = FutexLock(State())

  var rows: SkippedRows { state.withLock { $0.rows } }

  func note(_ row: UndecodableRow) {
    var hasher = Hasher()
    hasher.combine(row.key)
    let hash = hasher.finalize()
    state.withLock { state in
      guard state.hashes.insert(hash).inserted else { return }
      state.rows.count += 1
      if state.rows.first.count < SkippedRows.firstMaximum { state.rows.first.append(row) }
    }
  }
}
