/// The tables of levels below 0 in the order in which compactions try them, cached by chunk.
///
/// Tables are ordered by the bytes of the next level that they overlap per byte of compensated size, fewest first. The
/// order of a chunk is valid as long as the level has the chunk and the next level has the same chunks below it.
/// Versions share what does not change, so a pick searches the overlap only of tables in chunks that changed.
///
/// # Complexity
/// A pick of a level with n tables compares the ids of n/256 chunks and of those below them, and then does two searches
/// for each table of the changed chunks. A compaction changes one or two.
///
/// # Invariants
/// 1. No table and no chunk is retained: only ids and indices are remembered.
/// 2. The order is that of a sort of all tables of the level by (ratio, index).
struct LevelSeeds: Sendable {
  /// The order of one chunk.
  fileprivate final class ChunkOrder: Sendable {
    /// The ids of the chunks of the next level that overlap the chunk's bounds.
    let below: [UInt64]
    /// Indices in the chunk, in the order of trial.
    let indices: [Int]
    /// Bytes overlapped per byte of compensated size, in the order of `indices`.
    let ratios: [Double]
    /// The tables, in ascending order, that may be compacted for their tombstones.
    let tombstones: [Tombstones]

    init(_ chunk: TableChunk, over next: SortedRun, below: [UInt64]) {
      let overlaps = chunk.tables.map { next.size(of: next.overlap($0)) }
      let ratios = zip(overlaps, chunk.tables).map { Double($0) / Double(max($1.compensatedSize, 1)) }
      indices = ratios.indices.sorted { ratios[$0] != ratios[$1] ? ratios[$0] < ratios[$1] : $0 < $1 }
      self.ratios = indices.map { ratios[$0] }
      tombstones = chunk.tables.indices.compactMap { index in
        let worth = chunk.tables[index].tombstoneWorth(overlap: overlaps[index])
        return worth > 0 ? Tombstones(index: index, worth: worth) : nil
      }
      self.below = below
    }
  }

  /// A table of a chunk, by its index, and its `tombstoneWorth`.
  fileprivate struct Tombstones: Sendable {
    let index: Int
    let worth: Double
  }

  /// The orders by level and chunk id.
  private var known: [Int: [UInt64: ChunkOrder]] = [:]
  /// The number of tables whose overlap was searched, which is the cost of the picks.
  private(set) var examinedCount = 0

  init() {}

  var isEmpty: Bool { known.isEmpty }

  /// Updates the orders of a level to a version, and returns them in the order of the level's chunks.
  private mutating func orders(_ level: Int, of version: Version) -> [ChunkOrder] {
    let run = version.run(level)
    let next = version.run(level + 1)
    let before = known.removeValue(forKey: level) ?? [:]
    if run.isEmpty { return [] }
    var kept: [UInt64: ChunkOrder] = [:]
    let orders = run.chunks.map { chunk -> ChunkOrder in
      let below = next.chunkIDs(meeting: chunk)
      if let order = before[chunk.id], order.below == below {
        kept[chunk.id] = order
        return order
      }
      let order = ChunkOrder(chunk, over: next, below: below)
      examinedCount += chunk.tables.count
      kept[chunk.id] = order
      return order
    }
    known[level] = kept
    return orders
  }

  /// Returns the first result of `body` that is not `nil` for an index of a table of `level`, in the order of the
  /// ratios.
  ///
  /// Each attempt considers the first untried table of every chunk. Attempts fail only for tables that conflict with a
  /// running compaction or a damaged table, so they are few; or, on a full disk, because there is no space.
  mutating func first<R>(level: Int, of version: Version, _ body: (Int) -> R?) -> R? {
    let orders = orders(level, of: version)
    let starts = version.run(level).tables.locations.map(\.start)
    var tried = [Int](repeating: 0, count: orders.count)
    while true {
      var best: Int?
      for (index, order) in orders.enumerated() where tried[index] < order.indices.count {
        if let best, orders[best].ratios[tried[best]] <= order.ratios[tried[index]] { continue }
        best = index
      }
      guard let best else { return nil }
      if let found = body(starts[best] + orders[best].indices[tried[best]]) { return found }
      tried[best] += 1
    }
  }

  /// Returns the first result of `body` that is not `nil` for a table of `level` whose `tombstoneWorth` is at least
  /// `share`. `body` receives the indices, in key order.
  mutating func firstTombstones<R>(level: Int, of version: Version, share: Double, _ body: (Int) -> R?) -> R? {
    guard version.run(level).chunks.contains(where: { $0.hasMostlyTombstones || $0.shadowShare >= share }) else {
      return nil
    }
    let orders = orders(level, of: version)
    for (start, order) in zip(version.run(level).tables.locations.map(\.start), orders) {
      for table in order.tombstones where table.worth >= share {
        if let found = body(start + table.index) { return found }
      }
    }
    return nil
  }
}

extension TableMetadata {
  /// Returns the bytes that the table's tombstones hide for each byte of the table and of the `overlap` with which it
  /// is compacted.
  ///
  /// Infinite for a table that is mostly tombstones, which cost reads whatever they hide, unless it overlaps more than
  /// ten times its size: tombstones scattered over everything don't justify rewriting everything.
  func tombstoneWorth(overlap: UInt64) -> Double {
    if isMostlyTombstones, overlap <= fileSize * 10 { return .infinity }
    return shadowedSize.map { Double($0) / Double(max(fileSize + overlap, 1)) } ?? 0
  }
}

extension SortedRun {
  /// The ids of the chunks whose tables overlap `chunk`; a neighbor of them may be included.
  fileprivate func chunkIDs(meeting chunk: TableChunk) -> [UInt64] {
    guard !isEmpty else { return [] }
    let first = chunkIndex(notBefore: chunk.tables[0].smallest)
    let last = min(chunkIndex(notBefore: chunk.tables[chunk.tables.count - 1].largest), chunks.count - 1)
    return first <= last ? chunks[first...last].map(\.id) : []
  }
}
