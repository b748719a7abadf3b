internal import Synchronization

/// The source of a sequence of rows, as of the creation of the sequence: of the database, or of the surrounding
/// transaction.
///
/// # Inside `perform`
/// The transaction belongs to one call at a time, and the call that creates a sequence can't wait. The source therefore
/// enters the queue, and gets its scan at its turn, before every call that begins after it. A caller that iterates
/// waits in the same queue, and so finds the scan made.
///
/// # Invariants
/// 1. A scan, once made, is never changed: iterators copy it.
/// 2. A scan, once made, never becomes an error.
final class RowSource<Element: Sendable>: Sendable {
  private enum State {
    case ready(any RowScan<Element>, LongLivedRead, SkippedRowList?)
    case failed(any Error)
    case waiting(AsyncTransaction)
  }

  let core: DatabaseCore
  private let state: Mutex<State>

  /// Creates a source. `scan` makes the scan of what its transaction sees now.
  init(_ core: DatabaseCore, scan: @escaping @Sendable (ReadTransaction) throws -> any RowScan<Element>) {
    self.core = core
    guard ThreadFrame.transaction(of: core) == nil, let performing = AsyncTransaction.living(of: core) else {
      // A scan retains the snapshot of its transaction, not the transaction.
      state = Mutex(
        Self.begun {
          try core.read(isCancellable: true) { tx in
            (try scan(tx), core.longLivedReads.begin(tx.snapshot), tx.skippedRowListIfMade)
          }
        })
      return
    }
    state = Mutex(.waiting(performing))
    performing.whenFree { [self] result in
      let begun = Self.begun {
        let transaction = try result.get()
        return (
          try scan(transaction), core.longLivedReads.begin(transaction.snapshot), transaction.skippedRowListIfMade
        )
      }
      state.withLock { $0 = begun }
    }
  }

  private static func begun(
    _ begin: () throws -> (any RowScan<Element>, LongLivedRead, SkippedRowList?)
  ) -> State {
    do {
      let (scan, held, skipped) = try begin()
      return .ready(scan, held, skipped)
    } catch {
      return .failed(error)
    }
  }

  /// Returns the scan from its beginning.
  func scan() async throws -> any RowScan<Element> {
    if case .waiting(let performing) = state.withLock({ $0 }) { try await performing.waitForTurn() }
    switch state.withLock({ $0 }) {
    case .ready(let scan, _, _): return scan
    case .failed(let error): throw error
    case .waiting: throw ReadTransaction.endedError
    }
  }

  /// The rows that were left out until now.
  var skippedRows: SkippedRows {
    guard case .ready(_, _, let skipped?) = state.withLock({ $0 }) else { return SkippedRows() }
    return skipped.rows
  }

  /// Returns the next batch of a scan. The scan runs on a thread that may wait for a disk.
  func batch(_ scan: any RowScan<Element>, limit: Int) async throws -> RowBatch<Element> {
    // Inside `perform`, the iteration belongs to its transaction, for which `close` waits, and whose other calls may
    // write meanwhile.
    if let performing = AsyncTransaction.living(of: core) {
      return try await performing.run { _ in RowBatch(scan, limit: limit) }
    }
    if core.backend.isInMemory { return try nextBatch(scan, limit) }
    return try await core.executor.run { [self] in try nextBatch(scan, limit) }
  }

  private func nextBatch(_ scan: any RowScan<Element>, _ limit: Int) throws -> RowBatch<Element> {
    try Task.checkCancellation()
    try core.enter()
    defer { core.leave() }
    return RowBatch(scan, limit: limit)
  }
}

/// A batch of rows that were fetched at once, and the rest of the scan.
struct RowBatch<Element: Sendable>: Sendable {
  private(set) var elements: [Element] = []
  /// The error that followed the rows, if any.
  private(set) var error: (any Error)?
  /// The rest of the scan, or `nil` if there are no more rows.
  private(set) var rest: (any RowScan<Element>)?

  static var rowsMaximum: Int { 256 }
  static var sizeMaximum: Int { 64 << 10 }

  /// An empty batch at the end of the scan.
  static var end: RowBatch { RowBatch() }

  private init() {}

  init(_ scan: any RowScan<Element>, limit: Int) {
    var scan = scan
    var size = 0
    let count = min(limit, Self.rowsMaximum)
    do {
      while elements.count < count, size < Self.sizeMaximum {
        guard let (element, byteCount) = try scan.next() else { return }
        elements.append(element)
        size += byteCount
      }
      rest = scan
    } catch {
      self.error = error
    }
  }
}
