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
    var concerned: [[UInt8]] = []
    var others: [Int] = []
    picture.withLock { picture in
      for (index, key) in rows.keys.enumerated() {
        if !picture.isKnown || picture.keys[key] == true { concerned.append(key) } else { others.append(index) }
      }
    }
    if others.isEmpty { return concerned }
    let instances = try rows.instances(ObjectIdentifier(Format.self)) { row in
      try access.instance(row, rows.transaction)
    }
    for index in others {
      if let instance = instances[index], try condition?.holds(for: instance) ?? true {
        concerned.append(rows.keys[index])
      }
    }
    return concerned
  }
}
