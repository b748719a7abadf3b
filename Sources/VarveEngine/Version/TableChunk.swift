internal import Synchronization

/// A part of a sorted run: up to `countMaximum` adjacent tables, and the sums over them.
///
/// Versions share chunks. An edit rebuilds the chunks that it changes, and the next version takes over all others, so
/// the cost of an edit does not grow with the tables of the level.
///
/// # Invariants
/// 1. There is at least one table; `tables` ascend, and each ends before the next one begins.
/// 2. `heads[i]` is the head of `tables[i].largest` after the `prefixSize` bytes that all `largest` of the chunk have
///    in common. Heads never descend.
///
/// # Concurrency
/// Immutable; safe from any thread.
final class TableChunk: Sendable {
  /// The id of the chunk, unique within the process and never reused.
  let id: UInt64
  let tables: [TableMetadata]
  let heads: [UInt64]
  let prefixSize: Int
  /// The size of all files, in bytes.
  let totalSize: UInt64
  /// The sum of `TableMetadata.compensatedSize`.
  let compensatedSize: UInt64
  let largestSequence: SequenceNumber
  /// The tables that have range tombstones, in order.
  let tombstoneTables: [TableMetadata]
  /// The largest `tombstoneShare` of a table.
  let tombstoneShare: Double
  /// The largest `hiddenShare` of a table.
  let hiddenShare: Double
  /// The largest `shadowShare` of a table.
  let shadowShare: Double

  private static let lastID = Atomic<UInt64>(0)

  /// The maximum number of tables of one chunk. An edit rebuilds one chunk and copies the array of all chunks: with
  /// 100,000 tables both are some hundreds of pointers.
  static let countMaximum = 256
  /// The number of tables below which a chunk that an edit changed is merged with its neighbor.
  static let countMinimum = 64

  /// Creates a chunk from tables that are in order and don't overlap.
  init(_ tables: [TableMetadata]) {
    precondition(!tables.isEmpty, "a chunk has a table at least")
    let first = tables[0]
    let prefixSize = tables.count == 1 ? 0 : first.largest.sharedPrefixCount(tables[tables.count - 1].largest)
    var heads: [UInt64] = []
    heads.reserveCapacity(tables.count)
    var totalSize: UInt64 = 0
    var compensatedSize: UInt64 = 0
    var largestSequence = SequenceNumber.zero
    var tombstoneTables: [TableMetadata] = []
    var tombstoneShare = 0.0
    var hiddenShare = 0.0
    var shadowShare = 0.0
    for table in tables {
      heads.append(table.largest.head(from: prefixSize))
      totalSize += table.fileSize
      compensatedSize += table.compensatedSize
      largestSequence = max(largestSequence, table.largestSequence)
      if table.rangeTombstoneCount > 0 { tombstoneTables.append(table) }
      tombstoneShare = max(tombstoneShare, table.tombstoneShare)
      hiddenShare = max(hiddenShare, table.hiddenShare)
      shadowShare = max(shadowShare, table.shadowShare)
    }
    id = Self.lastID.wrappingAdd(1, ordering: .relaxed).newValue
    self.tables = tables
    self.heads = heads
    self.prefixSize = prefixSize
    self.totalSize = totalSize
    self.compensatedSize = compensatedSize
    self.largestSequence = largestSequence
    self.tombstoneTables = tombstoneTables
    self.tombstoneShare = tombstoneShare
    self.hiddenShare = hiddenShare
    self.shadowShare = shadowShare
    assert(isOrdered, "tables of a sorted run overlap or are out of order")
  }

  /// Returns chunks of about equal size of tables that are in order.
  static func cut(_ tables: [TableMetadata]) -> [TableChunk] {
    guard !tables.isEmpty else { return [] }
    let count = (tables.count + countMaximum - 1) / countMaximum
    if count == 1 { return [TableChunk(tables)] }
    return (0..<count).map { piece in
      TableChunk(Array(tables[(tables.count * piece / count)..<(tables.count * (piece + 1) / count)]))
    }
  }

  /// Whether any table is mostly tombstones.
  var hasMostlyTombstones: Bool { tombstoneShare >= 0.5 }

  /// Whether any table has range tombstones.
  var hasRangeTombstones: Bool { !tombstoneTables.isEmpty }

  private var isOrdered: Bool {
    zip(tables, tables.dropFirst()).allSatisfy { $0.endsBefore($1) } && zip(heads, heads.dropFirst()).allSatisfy(<=)
  }

  /// Returns the index of the first table that does not end before `userKey`, or the number of tables if there is
  /// none.
  @inline(__always)
  func firstIndex(notBefore userKey: ByteView) -> Int {
    HeadSearch.firstIndex(
      notBefore: userKey, prefix: tables[0].largest, prefixSize, count: heads.count, head: { heads[$0] },
      endsBefore: { tables[$0].endsBefore(userKey) })
  }
}

/// Searches bounds whose first eight bytes after a common prefix are stored separately.
///
/// It compares these heads in one contiguous array, and whole keys only if heads are equal. The prefix is left out
/// because keys of one collection often have their first eight bytes in common.
enum HeadSearch {
  /// Returns the index of the first of `count` ascending bounds that is not before `userKey`, or `count` if there is
  /// none.
  ///
  /// `prefix` has the `prefixSize` bytes that all bounds have in common.
  @inline(__always)
  static func firstIndex(
    notBefore userKey: ByteView, prefix: ByteView, _ prefixSize: Int, count: Int, head headAt: (Int) -> UInt64,
    endsBefore: (Int) -> Bool
  ) -> Int {
    if prefixSize > 0 {
      let shared = userKey.sharedPrefixCount(prefix)
      if shared < prefixSize {
        // The key differs from every bound within the prefix, or ends inside it.
        if shared == userKey.count { return 0 }
        return userKey[shared] < prefix[shared] ? 0 : count
      }
    }
    let head = userKey.head(from: prefixSize)
    var low = 0
    var high = count
    while low < high {
      let middle = (low &+ high) >> 1
      if headAt(middle) < head { low = middle &+ 1 } else { high = middle }
    }
    // Equal heads are decided by whole keys; if heads ascend strictly, that is one comparison.
    high = low
    while high < count, headAt(high) == head {
      // Doubling steps over bounds with the same head; the last step may be short.
      var step = 1
      high &+= 1
      while high &+ step < count, headAt(high &+ step) == head {
        high &+= step
        step &*= 2
      }
    }
    while low < high {
      let middle = (low &+ high) >> 1
      if endsBefore(middle) { low = middle &+ 1 } else { high = middle }
    }
    return low
  }
}

/// The tables of a sorted run as one collection.
///
/// Complexity: an index costs a binary search over the chunks; an iteration and `array(in:)` cost nothing beyond the
/// tables themselves.
struct TableList: RandomAccessCollection, Sendable {
  /// The start of a chunk, and the head of its last bound.
  struct Location: Sendable {
    /// The number of tables before the chunk.
    let start: Int
    /// The head of the chunk's last `largest`, after the prefix of the run.
    let head: UInt64
  }

  let chunks: [TableChunk]
  let locations: [Location]
  let count: Int

  var startIndex: Int { 0 }
  var endIndex: Int { count }

  /// Returns the index of the chunk that has the table at an index.
  func chunk(at index: Int) -> Int {
    precondition(index >= 0 && index < count, "a run of \(count) tables has none at \(index)")
    var low = 0
    var high = locations.count - 1
    while low < high {
      let middle = (low &+ high &+ 1) >> 1
      if locations[middle].start <= index { low = middle } else { high = middle &- 1 }
    }
    return low
  }

  subscript(index: Int) -> TableMetadata {
    let chunk = chunk(at: index)
    return chunks[chunk].tables[index - locations[chunk].start]
  }

  struct Iterator: IteratorProtocol {
    fileprivate let chunks: [TableChunk]
    fileprivate var chunk = 0
    fileprivate var index = 0

    mutating func next() -> TableMetadata? {
      guard chunk < chunks.count else { return nil }
      let table = chunks[chunk].tables[index]
      index += 1
      if index == chunks[chunk].tables.count {
        chunk += 1
        index = 0
      }
      return table
    }
  }

  func makeIterator() -> Iterator { Iterator(chunks: chunks) }

  /// Returns a copy of the tables at `indices`.
  func array(in indices: Range<Int>) -> [TableMetadata] {
    guard !indices.isEmpty else { return [] }
    var tables: [TableMetadata] = []
    tables.reserveCapacity(indices.count)
    var chunk = chunk(at: indices.lowerBound)
    while chunk < chunks.count, locations[chunk].start < indices.upperBound {
      let members = chunks[chunk].tables
      let first = Swift.max(indices.lowerBound - locations[chunk].start, 0)
      tables += members[first..<Swift.min(indices.upperBound - locations[chunk].start, members.count)]
      chunk += 1
    }
    return tables
  }

  /// A copy of all tables.
  var array: [TableMetadata] { array(in: 0..<count) }
}
