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

extension ReadTransaction {
  /// The rows that answers of this transaction have left out so far, because this build of the program can't decode
  /// them and their formats say `.skips`, or `.fallback` without a stand-in: `StoreFormat.undecodable`.
  public final var skippedRows: SkippedRows { skippedRowListIfMade?.rows ?? SkippedRows() }

  /// The list in which answers note the rows that they leave out.
  final var skippedRowList: SkippedRowList {
    if let list = skippedRowListIfMade { return list }
    let list = SkippedRowList()
    skippedRowListIfMade = list
    return list
  }

  /// Returns the result of `body`, and the rows that its answers have left out.
  final func collectingSkippedRows<Result>(_ body: () throws -> Result) rethrows -> (Result, SkippedRows) {
    let (outer, own) = (skippedRowListIfMade, SkippedRowList())
    skippedRowListIfMade = own
    defer { skippedRowListIfMade = outer }
    return (try body(), own.rows)
  }
}
