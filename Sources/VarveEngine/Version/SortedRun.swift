/// Tables in key order that do not overlap: one level below level 0, or one sublevel of level 0.
///
/// The tables are in chunks (`TableChunk`) that versions share. A search finds the chunk by the heads of the last
/// bounds, and then the table in that chunk.
///
/// # Invariants
/// 1. `tables` ascend, and each ends before the next one begins.
/// 2. A chunk's `Location.head` is the head of its last `largest`, after the `prefixSize` bytes that the last bounds
///    of all chunks have in common.
///
/// # Concurrency
/// Immutable; safe from any thread.
final class SortedRun: Sendable {
  let tables: TableList
  /// The size of all files, in bytes.
  let totalSize: UInt64
  /// The sum of `TableMetadata.compensatedSize`.
  let compensatedSize: UInt64
  let largestSequence: SequenceNumber
  /// The chunks that have tables with range tombstones, in order.
  let tombstoneChunks: [TableChunk]
  /// The length of the common prefix of the chunks' last bounds.
  private let prefixSize: Int

  static let empty = SortedRun(chunks: [])

  /// Creates a run from tables that are in order and don't overlap.
  convenience init(_ tables: [TableMetadata]) { self.init(chunks: TableChunk.cut(tables)) }

  /// Creates a run from chunks that are in order and don't overlap.
  init(chunks: [TableChunk]) {
    var locations: [TableList.Location] = []
    locations.reserveCapacity(chunks.count)
    var prefixSize = 0
    if chunks.count > 1, let first = chunks.first?.tables.last, let last = chunks.last?.tables.last {
      prefixSize = first.largest.sharedPrefixCount(last.largest)
    }
    var count = 0
    var totalSize: UInt64 = 0
    var compensatedSize: UInt64 = 0
    var largestSequence = SequenceNumber.zero
    var tombstoneChunks: [TableChunk] = []
    for chunk in chunks {
      let last = chunk.tables[chunk.tables.count - 1]
      // A run of one chunk is searched without the head.
      locations.append(
        TableList.Location(start: count, head: chunks.count == 1 ? 0 : last.largest.head(from: prefixSize)))
      count += chunk.tables.count
      totalSize += chunk.totalSize
      compensatedSize += chunk.compensatedSize
      largestSequence = max(largestSequence, chunk.largestSequence)
      if chunk.hasRangeTombstones { tombstoneChunks.append(chunk) }
    }
    tables = TableList(chunks: chunks, locations: locations, count: count)
    self.prefixSize = prefixSize
    self.totalSize = totalSize
    self.compensatedSize = compensatedSize
    self.largestSequence = largestSequence
    self.tombstoneChunks = tombstoneChunks
  }

  var isEmpty: Bool { tables.count == 0 }
  /// Whether any table has range tombstones.
  var hasRangeTombstones: Bool { !tombstoneChunks.isEmpty }
  var count: Int { tables.count }
  var chunks: [TableChunk] { tables.chunks }

  /// Returns the index of the first chunk whose last table does not end before `userKey`, or the number of chunks if
  /// there is none. A run of one chunk is not searched: its result is 0 for every key.
  @inline(__always)
  func chunkIndex(notBefore userKey: ByteView) -> Int {
    let count = tables.chunks.count
    if count <= 1 { return 0 }
    return HeadSearch.firstIndex(
      notBefore: userKey, prefix: Self.last(tables.chunks[0]).largest, prefixSize, count: count,
      head: { tables.locations[$0].head }, endsBefore: { Self.last(tables.chunks[$0]).endsBefore(userKey) })
  }

  @inline(__always)
  private static func last(_ chunk: TableChunk) -> TableMetadata { chunk.tables[chunk.tables.count &- 1] }

  /// Returns the index of the first table that does not end before `userKey`, or `count` if there is none. It is the
  /// only one that can contain the key, and a seek to the key starts there.
  func firstIndex(notBefore userKey: ByteView) -> Int {
    let index = chunkIndex(notBefore: userKey)
    guard index < tables.chunks.count else { return tables.count }
    return tables.locations[index].start &+ tables.chunks[index].firstIndex(notBefore: userKey)
  }

  /// Returns the only table that can contain `userKey`.
  @inline(__always)
  func table(covering userKey: ByteView) -> TableMetadata? {
    let index = chunkIndex(notBefore: userKey)
    guard index < tables.chunks.count else { return nil }
    // The version retains its chunks, so the search needs no retain.
    return unsafe Unmanaged.passUnretained(tables.chunks[index]).withGuaranteed { chunk -> TableMetadata? in
      let location = chunk.firstIndex(notBefore: userKey)
      guard location < chunk.tables.count, chunk.tables[location].smallest.compare(userKey) <= 0 else { return nil }
      return chunk.tables[location]
    }
  }

  /// Returns the indices of the tables that overlap `range`.
  func overlap(_ range: UserKeyRange) -> Range<Int> {
    let start = range.lower.withByteView { firstIndex(notBefore: $0) }
    guard let upper = range.upper else { return start..<tables.count }
    return start..<upper.withByteView { end(from: start, beginningBefore: $0, includes: !range.upperIsExcluded) }
  }

  /// Returns the indices of the tables that overlap the bounds of `table`.
  ///
  /// Complexity: two binary searches, without an allocation.
  func overlap(_ table: TableMetadata) -> Range<Int> {
    let start = firstIndex(notBefore: table.smallest)
    return start..<end(from: start, beginningBefore: table.largest, includes: !table.largestIsExcluded)
  }

  /// Returns the first index from `start` on whose table begins after `upper`, or at `upper` if that is not included.
  private func end(from start: Int, beginningBefore upper: ByteView, includes isIncluded: Bool) -> Int {
    // Tables before the first one that does not end before the bound begin before the bound, too; that one may, and the
    // next one begins after the bound.
    var index = max(firstIndex(notBefore: upper), start)
    while index < tables.count {
      let order = tables[index].smallest.compare(upper)
      guard order < 0 || (order == 0 && isIncluded) else { break }
      index += 1
    }
    return index
  }

  /// Returns the size of the files in `indices`, in bytes.
  func size(of indices: Range<Int>) -> UInt64 {
    guard !indices.isEmpty else { return 0 }
    var size: UInt64 = 0
    var chunk = tables.chunk(at: indices.lowerBound)
    while chunk < tables.chunks.count, tables.locations[chunk].start < indices.upperBound {
      let members = tables.chunks[chunk]
      let first = max(indices.lowerBound - tables.locations[chunk].start, 0)
      let end = min(indices.upperBound - tables.locations[chunk].start, members.tables.count)
      if first == 0, end == members.tables.count {
        size += members.totalSize
      } else {
        for table in members.tables[first..<end] { size += table.fileSize }
      }
      chunk += 1
    }
    return size
  }

  /// Returns the sum of the files' sizes, increased by what the tombstones free that no reader of a state before
  /// `oldest` needs.
  ///
  /// Complexity: linear in the chunks, and in the tables of those that have newer entries.
  func compensatedSize(at oldest: SequenceNumber) -> UInt64 {
    if largestSequence <= oldest { return compensatedSize }
    return tables.chunks.reduce(0) { sum, chunk in
      if chunk.largestSequence <= oldest { return sum + chunk.compensatedSize }
      return chunk.tables.reduce(sum) { $0 + $1.compensatedSize(at: oldest) }
    }
  }

  /// Returns the first result of `body` that is not nil for the tables at `indices`, in order. Chunks for which
  /// `mayHave` returns false are skipped.
  func first<R>(
    in indices: Range<Int>, ofChunks mayHave: (TableChunk) -> Bool, _ body: (_ index: Int, TableMetadata) -> R?
  ) -> R? {
    guard !indices.isEmpty else { return nil }
    var chunk = tables.chunk(at: indices.lowerBound)
    while chunk < tables.chunks.count, tables.locations[chunk].start < indices.upperBound {
      let members = tables.chunks[chunk]
      let start = tables.locations[chunk].start
      chunk += 1
      guard mayHave(members) else { continue }
      for index in max(indices.lowerBound, start)..<min(indices.upperBound, start + members.tables.count) {
        if let found = body(index, members.tables[index - start]) { return found }
      }
    }
    return nil
  }

  /// Calls `body` with the tables of the chunks for which `mayHave` returns true, in order.
  func forEachTable(ofChunks mayHave: (TableChunk) -> Bool, _ body: (TableMetadata) -> Void) {
    for chunk in tables.chunks where mayHave(chunk) { chunk.tables.forEach(body) }
  }
}
