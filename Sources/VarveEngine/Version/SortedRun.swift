/// Tables in key order that do not overlap: one level below level 0, or one sublevel of level 0.
///
/// A search compares 8-byte heads in one contiguous array and looks at whole keys only where heads
/// tie. The heads are taken behind the prefix that all upper bounds share, because keys of one
/// collection often share their first eight bytes.
///
/// # Invariants
/// 1. `tables` ascend, and each ends before the next one begins.
/// 2. `heads[i]` is the head of `tables[i].largest` behind `prefixSize` bytes, which all `largest`
///    of the run have in common. Heads never descend.
///
/// # Concurrency
/// A value; safe from any thread.
struct SortedRun: Sendable {
  let tables: [TableMetadata]
  /// Bytes of all files.
  let totalSize: UInt64
  /// Whether any table has range tombstones.
  let hasRangeTombstones: Bool
  private let heads: [UInt64]
  private let prefixSize: Int

  static let empty = SortedRun(tables: [], totalSize: 0, heads: [], prefixSize: 0)

  private init(tables: [TableMetadata], totalSize: UInt64, heads: [UInt64], prefixSize: Int) {
    self.tables = tables
    self.totalSize = totalSize
    hasRangeTombstones = tables.contains { $0.rangeTombstoneCount > 0 }
    self.heads = heads
    self.prefixSize = prefixSize
  }

  /// Takes tables that are in order and don't overlap.
  init(_ tables: [TableMetadata]) {
    guard let first = tables.first, let last = tables.last else {
      self = .empty
      return
    }
    let prefixSize = tables.count == 1 ? 0 : first.largest.sharedPrefixCount(last.largest)
    var heads: [UInt64] = []
    heads.reserveCapacity(tables.count)
    var totalSize: UInt64 = 0
    for table in tables {
      heads.append(table.largest.head(from: prefixSize))
      totalSize += table.fileSize
    }
    self.init(tables: tables, totalSize: totalSize, heads: heads, prefixSize: prefixSize)
    assert(isOrdered, "tables of a sorted run overlap or are out of order")
  }

  var isEmpty: Bool { tables.isEmpty }
  var count: Int { tables.count }

  private var isOrdered: Bool {
    zip(tables, tables.dropFirst()).allSatisfy { $0.endsBefore($1) } && zip(heads, heads.dropFirst()).allSatisfy(<=)
  }

  /// The first table that does not end before `userKey`; `count` if there is none. It is the only one
  /// that can hold the key, and where a seek to the key begins.
  func firstIndex(notBefore userKey: ByteView) -> Int {
    guard let first = tables.first else { return 0 }
    if prefixSize > 0 {
      let shared = userKey.sharedPrefixCount(first.largest)
      if shared < prefixSize {
        // The key differs from every upper bound within the prefix, or ends inside it.
        if shared == userKey.count { return 0 }
        return userKey[shared] < first.largest[shared] ? 0 : tables.count
      }
    }
    let head = userKey.head(from: prefixSize)
    var low = 0
    var high = heads.count
    while low < high {
      let middle = (low &+ high) >> 1
      if heads[middle] < head { low = middle &+ 1 } else { high = middle }
    }
    // Heads that tie are decided by whole keys; where heads ascend strictly that is one comparison.
    high = low
    while high < heads.count, heads[high] == head { high = nextTie(after: high, head) }
    while low < high {
      let middle = (low &+ high) >> 1
      if tables[middle].endsBefore(userKey) { low = middle &+ 1 } else { high = middle }
    }
    return low
  }

  /// Doubling steps over tables with the same head; the last step may be short.
  private func nextTie(after index: Int, _ head: UInt64) -> Int {
    var step = 1
    var position = index &+ 1
    while position &+ step < heads.count, heads[position &+ step] == head {
      position &+= step
      step &*= 2
    }
    return position
  }

  /// The one table that can hold `userKey`.
  @inline(__always)
  func table(covering userKey: ByteView) -> TableMetadata? {
    let index = firstIndex(notBefore: userKey)
    guard index < tables.count, tables[index].smallest.compare(userKey) <= 0 else { return nil }
    return tables[index]
  }

  /// The indices of the tables that overlap `range`.
  func overlap(_ range: UserKeyRange) -> Range<Int> {
    let start = range.lower.withByteView { firstIndex(notBefore: $0) }
    var low = start
    var high = tables.count
    while low < high {
      let middle = (low &+ high) >> 1
      if range.endsBefore(tables[middle]) { high = middle } else { low = middle &+ 1 }
    }
    return start..<low
  }

  /// Bytes of the files in `indices`.
  func size(of indices: Range<Int>) -> UInt64 {
    tables[indices].reduce(0) { $0 + $1.fileSize }
  }
}
