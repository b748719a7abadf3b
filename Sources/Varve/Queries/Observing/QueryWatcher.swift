internal import FutexLocks
internal import Synchronization

/// Finds the rows of commits that concern a query: those that are in its result, as its observer knows it, or fulfil the
/// condition.
final class QueryWatcher<Format: StoreFormat>: RowWatcher {
  private let access: RowAccess<Format>
  private let condition: Condition<Format.Instance>?
  private let picture = FutexLock(Picture())

  struct Picture {
    /// The keys of the rows in the result, without the collection's prefix.
    var keys = ByteTable<Bool>()
    /// While the result is read, it is not known, and every row counts.
    var isKnown = false
  }

  init(_ query: StoreQuery<Format>) {
    access = query.store.access
    condition = query.condition
  }

  /// The result is about to be read.
  func begin() { picture.withLock { $0.isKnown = false } }

  /// The result was read, and changed to what `body` makes of it.
  func end<Result>(_ body: (inout ByteTable<Bool>) throws -> Result) rethrows -> Result {
    try picture.withLock { picture in
      picture.isKnown = true
      return try body(&picture.keys)
    }
  }

  func mayConcern(_ changes: ChangeSet) -> Bool { changes.hasChange(in: access.name) }

  func concerned(_ rows: ChangedRows) throws -> [[UInt8]] {
    // The rows that are in the result; nil: any may be.
    let inResult: [Int]? = picture.withLock { picture in
      if !picture.isKnown { return nil }
      return picture.keys.count == 0 ? [] : rows.keys.indices.filter { picture.keys[rows.keys[$0]] == true }
    }
    guard let inResult else { return rows.keys }
    if inResult.count == rows.keys.count { return rows.keys }
    let instances = try rows.instances(ObjectIdentifier(Format.self)) { row in
      try access.instance(row, rows.transaction)
    }
    var concerned: [[UInt8]] = []
    var rest = inResult[...]
    for (index, key) in rows.keys.enumerated() {
      if rest.first == index {
        rest.removeFirst()
        concerned.append(key)
      } else if let instance = instances[index], try condition?.holds(for: instance) ?? true {
        concerned.append(key)
      }
    }
    return concerned
  }
}
