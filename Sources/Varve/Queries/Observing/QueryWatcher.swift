internal import FutexLocks
internal import Synchronization

/// Finds the rows of commits that are relevant to a query: those that are in the result that its observer knows, or
/// that fulfil the condition.
final class QueryWatcher<Format: StoreFormat>: RowWatcher {
  private let access: RowAccess<Format>
  private let condition: Condition<Format.Instance>?
  private let picture = FutexLock(Picture())

  struct Picture {
    /// The keys of the rows in the result, without the collection's prefix.
    var keys = ByteTable<Bool>()
    /// Whether the result is known. It is not while the result is read, and every row is then relevant.
    var isKnown = false
  }

  init(_ query: StoreQuery<Format>) {
    access = query.store.access
    condition = query.condition
  }

  /// Notes that the result is about to be read.
  func begin() { picture.withLock { $0.isKnown = false } }

  /// Notes that the result was read, and updates the known keys by `body`.
  func end<Result>(_ body: (inout ByteTable<Bool>) throws -> Result) rethrows -> Result {
    try picture.withLock { picture in
      picture.isKnown = true
      return try body(&picture.keys)
    }
  }

  func mayConcern(_ changes: ChangeSet) -> Bool { changes.hasChange(in: access.name) }

  func concerned(_ rows: ChangedRows) throws -> [[UInt8]] {
    // The rows that are in the result; nil if any row may be.
    let inResult: [Int]? = picture.withLock { picture in
      if !picture.isKnown { return nil }
      return picture.keys.count == 0 ? [] : rows.keys.indices.filter { picture.keys[rows.keys[$0]] == true }
    }
    guard let inResult else { return rows.keys }
    if inResult.count == rows.keys.count { return rows.keys }
    let reading = AnswerReading(access, rows.info, rows.transaction)
    let instances = try rows.instances(ObjectIdentifier(Format.self)) { row in
      try reading.instance(row.key, row.bytes, rows.transaction.snapshot)
    }
    var concerned: [[UInt8]] = []
    var rest = inResult[...]
    for (index, key) in rows.keys.enumerated() {
      if rest.first == index {
        rest.removeFirst()
        concerned.append(key)
      } else if try isIn(instances[index]) {
        concerned.append(key)
      }
    }
    return concerned
  }

  /// Returns whether a row is in the result. One that can't be decoded may be, which the observer finds out.
  private func isIn(_ instance: Result<Format.Instance?, any Error>) throws -> Bool {
    switch instance {
    case .failure: true
    case .success(nil): false
    case .success(let instance?): try condition?.holds(for: instance) ?? true
    }
  }
}
