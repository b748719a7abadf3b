/// Walks the rows of a range of one family: those of a snapshot, and over them what a transaction has
/// pending, both as they were when the cursor was made.
///
/// Rows come in pages: the first small, because many walks end soon, then up to 64 KiB each.
package struct FamilyCursor {
  private let snapshot: any StorageSnapshot
  private let family: StorageFamily
  private let isReverse: Bool
  /// The values of the snapshot are left out.
  private let keysOnly: Bool
  /// What of the range the snapshot was not asked for yet.
  private var rest: StorageRange
  private var page = StoragePage()
  private var index = 0
  private var pageSize = 4 << 10
  /// What is pending, in the direction of the walk.
  private var pending: [(key: [UInt8], entry: PendingEntry)]
  private var pendingIndex = 0
  private let cleared: KeyRanges

  static let pageSizeMaximum = 64 << 10
  static let pageRowsMaximum = 256

  package init(
    _ range: StorageRange, in family: StorageFamily, of snapshot: any StorageSnapshot, isReverse: Bool,
    keysOnly: Bool = false, pending: PendingView = PendingView()
  ) {
    self.keysOnly = keysOnly
    self.snapshot = snapshot
    self.family = family
    self.isReverse = isReverse
    rest = range
    self.pending = isReverse ? pending.entries.reversed() : pending.entries
    cleared = pending.cleared
    if range.isEmpty { page.isLast = true }
  }

  /// The next row; nil behind the last.
  package mutating func next() throws -> (key: [UInt8], value: [UInt8])? {
    while true {
      try fillPage()
      let hasBase = index < page.count
      let hasPending = pendingIndex < pending.count
      guard hasBase || hasPending else { return nil }
      let order = hasBase && hasPending ? ByteOrder.compare(page.key(index), pending[pendingIndex].key) : 0
      let isBaseFirst = hasBase && (!hasPending || (isReverse ? order > 0 : order < 0))
      if isBaseFirst {
        defer { index += 1 }
        return (page.key(index), page.value(index))
      }
      let (key, entry) = pending[pendingIndex]
      pendingIndex += 1
      // Both have the key: the pending entry decides, and the snapshot's is passed.
      let base = hasBase && order == 0 ? page.value(index) : nil
      if base != nil { index += 1 }
      if let value = Self.value(entry, over: base) { return (key, value) }
    }
  }

  /// The key of the next row; nil behind the last.
  mutating func nextKey() throws -> [UInt8]? { try next()?.key }

  /// How many rows are left.
  consuming func count() throws -> Int {
    var count = 0
    while try next() != nil { count += 1 }
    return count
  }

  private static func value(_ entry: PendingEntry, over base: [UInt8]?) -> [UInt8]? {
    switch entry {
    case .put(let value): value
    case .delete: nil
    case .add(let number):
      StorageBatch.counterBytes((base.flatMap(StorageBatch.counterNumber) ?? 0) &+ number)
    }
  }

  /// Asks the snapshot for more where its page is at its end, and passes what was cleared.
  private mutating func fillPage() throws {
    while true {
      if index == page.count {
        if page.isLast { return }
        page = try snapshot.page(
          rest, in: family, isReverse: isReverse, keysOnly: keysOnly, byteLimit: pageSize,
          rowLimit: Self.pageRowsMaximum)
        index = 0
        pageSize = min(pageSize * 4, Self.pageSizeMaximum)
        if page.count > 0 { advanceRest(behind: page.key(page.count - 1)) }
        if page.count == 0 { return }
      }
      guard !cleared.isEmpty, let gone = cleared.range(holding: page.key(index)) else { return }
      passCleared(gone)
    }
  }

  /// Leaves the rows of the page that are in a cleared range; where those are all, asks behind it.
  private mutating func passCleared(_ gone: StorageRange) {
    while index < page.count {
      let key = page.key(index)
      let isInside =
        isReverse
        ? !ByteOrder.precedes(key, gone.lower) : gone.upper.map { ByteOrder.precedes(key, $0) } ?? true
      guard isInside else { return }
      index += 1
    }
    guard !page.isLast else { return }
    if isReverse {
      if rest.upper.map({ ByteOrder.precedes(gone.lower, $0) }) ?? true { rest.upper = gone.lower }
    } else if let upper = gone.upper {
      if ByteOrder.precedes(rest.lower, upper) { rest.lower = upper }
    } else {
      page.isLast = true
    }
    if rest.isEmpty { page.isLast = true }
  }

  private mutating func advanceRest(behind key: [UInt8]) {
    if isReverse { rest.upper = key } else { rest.lower = key + [0] }
  }
}
