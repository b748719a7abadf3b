/// The range tombstones of all sources of a merge, as one reader sees them: whether the entries of a key are dead,
/// and up to which key.
///
/// Successive keys of a scan lie close together, so the answer for one is kept for the range around it. A key costs
/// two comparisons, and a search in each source when the scan enters another range.
///
/// # Ranks
/// A source's rank is the index of its child in the merge, newest first. The tombstones of a source are newer than
/// all entries of sources of higher rank. So a covering tombstone lets the scan skip the range in all sources of
/// higher rank, and in its own source if no later write lies in the range (`coversAll`). It hides nothing in sources
/// of lower rank: so for an entry only the sources up to its own are searched, and of these only up to the first that
/// covers the key. The range tombstones of lower tables are often never read.
///
/// # Safety
/// Views are valid as long as the sources live. This object keeps the memtables and the lists.
///
/// # Concurrency
/// The coverage belongs to one iterator.
struct RangeCoverage: ~Copyable {
  private enum Source {
    case memTable(MemTable, at: SequenceNumber)
    case run(SortedRun, TableOpener)
    /// A run that was searched before.
    case openRun(TombstoneRun)
  }

  private struct Ranked {
    let rank: Int
    var source: Source
  }

  private let sequence: SequenceNumber
  private var sources: [Ranked] = []
  /// The range of keys for which no source changes its answer.
  private var segment = TombstoneSegment.uncovered
  /// The range of the source with the newest tombstone, which is at least as large, and the rank of that source.
  private var cover = TombstoneSegment.uncovered
  private var rank = 0
  private var hasSegment = false
  /// The rank up to which sources were searched for `segment`, if none covers it.
  private var askedRank = 0

  /// Creates the coverage for a reader at a sequence number, without sources.
  init(at sequence: SequenceNumber) { self.sequence = sequence }

  /// Whether there are no tombstones.
  var isEmpty: Bool { sources.isEmpty }

  /// Returns whether no source before this child has tombstones.
  func isEmpty(before child: Int) -> Bool { sources.first.map { $0.rank >= child } ?? true }

  /// Adds the tombstones of a memtable, if it has any. Those of the reader's own memtable are visible up to `own`.
  mutating func append(_ memTable: MemTable, rank: Int, own: SequenceNumber? = nil) {
    if memTable.rangeTombstones.isEmpty { return }
    sources.append(Ranked(rank: rank, source: .memTable(memTable, at: own ?? sequence)))
  }

  /// Replaces the tombstones of the first child by those of another memtable.
  mutating func replaceFirst(_ memTable: MemTable, own: SequenceNumber) {
    if let first = sources.first, first.rank == 0 { sources.removeFirst() }
    hasSegment = false
    if memTable.rangeTombstones.isEmpty { return }
    sources.insert(Ranked(rank: 0, source: .memTable(memTable, at: own)), at: 0)
  }

  /// Adds the tombstones of a run of tables, if it has any.
  mutating func append(_ run: SortedRun, _ opener: TableOpener, rank: Int) {
    if !run.hasRangeTombstones { return }
    sources.append(Ranked(rank: rank, source: .run(run, opener)))
  }

  /// Returns the newest tombstone over `key` that is visible to the reader and may hide an entry of a child, or zero
  /// if there is none.
  @inline(__always)
  mutating func sequence(covering key: ByteView, forChild child: Int) throws(EngineError) -> SequenceNumber {
    if !hasSegment || (segment.sequence == .zero && askedRank < child) || !segment.contains(key) {
      try enter(key, child)
    }
    return segment.sequence
  }

  /// Returns the newest tombstone over `key` that is visible to the reader, or zero if there is none.
  mutating func sequence(covering key: ByteView) throws(EngineError) -> SequenceNumber {
    try sequence(covering: key, forChild: .max)
  }

  /// Whether the tombstone over the last key is one of the reader's own writes.
  var isOwn: Bool { segment.sequence >= .uncommitted }

  /// Returns the key at which a child may continue from a covered entry: all of its entries before that key are dead.
  ///
  /// Requires that the last call of `sequence(covering:forChild:)` was for that entry's key, and that the key is
  /// covered.
  func end(forChild child: Int) -> ByteView? {
    rank < child || (rank == child && cover.coversAll) ? cover.upper : nil
  }

  /// The first child that may continue at `end(forChild:)`, with the same requirements.
  var firstRankPassed: Int { cover.coversAll ? rank : rank + 1 }

  /// Returns the key back to which a child may continue in a backward scan: all of its entries from that key on are
  /// dead.
  func start(forChild child: Int) -> ByteView? {
    rank < child || (rank == child && cover.coversAll) ? cover.lower : nil
  }

  @inline(never)
  private mutating func enter(_ key: ByteView, _ child: Int) throws(EngineError) {
    hasSegment = false
    var found = TombstoneSegment.uncovered
    for index in sources.indices where sources[index].rank <= child {
      let part = try segment(of: index, around: key)
      found.narrow(to: part)
      guard part.sequence != .zero else { continue }
      found.sequence = part.sequence
      cover = part
      rank = sources[index].rank
      break
    }
    segment = found
    askedRank = child
    hasSegment = true
  }

  private mutating func segment(of index: Int, around key: ByteView) throws(EngineError) -> TombstoneSegment {
    switch sources[index].source {
    case .memTable(let table, let sequence): return table.rangeTombstones.segment(around: key, at: sequence)
    case .openRun(let run): return try run.segment(around: key, at: sequence)
    case .run(let run, let opener):
      let open = TombstoneRun(run, opener)
      sources[index].source = .openRun(open)
      return try open.segment(around: key, at: sequence)
    }
  }
}

/// The tables of a sorted run that have range tombstones. Each list, or its part around a key, is read when a scan
/// reaches it, and then kept until the scan reaches another part of that table.
///
/// Complexity: creating it takes constant time, because the run knows these tables; a search takes the logarithm of
/// their number. Tables without range tombstones are not searched.
///
/// # Concurrency
/// The run belongs to one iterator.
final class TombstoneRun {
  private let chunks: [TableChunk]
  private let opener: TableOpener
  /// The last part of each table that was read.
  private var parts: [FileNumber: TombstonePart] = [:]

  init(_ run: SortedRun, _ opener: TableOpener) {
    chunks = run.tombstoneChunks
    self.opener = opener
  }

  func segment(around key: ByteView, at sequence: SequenceNumber) throws(EngineError) -> TombstoneSegment {
    let chunk = Self.firstIndex(of: chunks.count) { !Self.last(chunks[$0]).endsBefore(key) }
    guard chunk < chunks.count else {
      return TombstoneSegment(sequence: .zero, lower: chunks.last.map { Self.last($0).largest }, upper: nil)
    }
    let tables = chunks[chunk].tombstoneTables
    let index = Self.firstIndex(of: tables.count) { !tables[$0].endsBefore(key) }
    let table = tables[index]
    guard table.smallest.compare(key) <= 0 else {
      return TombstoneSegment(sequence: .zero, lower: self.table(before: chunk, index)?.largest, upper: table.smallest)
    }
    let part = try part(of: table, around: key)
    var segment = part.list.segment(around: key, at: sequence)
    if segment.lower == nil { segment.lower = part.lower }
    if segment.upper == nil { segment.upper = part.upper }
    if segment.lower == nil { segment.lower = table.smallest }
    if segment.upper == nil { segment.upper = self.table(after: chunk, index)?.smallest }
    segment.coversAll = segment.sequence != .zero && table.largestSequence <= segment.sequence
    return segment
  }

  /// Returns the first index for which `isReached` is true, or `count` if there is none. It must be true for all
  /// indices after that one.
  @inline(__always)
  private static func firstIndex(of count: Int, where isReached: (Int) -> Bool) -> Int {
    var low = 0
    var high = count
    while low < high {
      let middle = (low + high) / 2
      if isReached(middle) { high = middle } else { low = middle + 1 }
    }
    return low
  }

  private static func last(_ chunk: TableChunk) -> TableMetadata {
    chunk.tombstoneTables[chunk.tombstoneTables.count - 1]
  }

  /// Returns the table with range tombstones before the given one, or nil if that is the first.
  private func table(before chunk: Int, _ index: Int) -> TableMetadata? {
    if index > 0 { return chunks[chunk].tombstoneTables[index - 1] }
    return chunk > 0 ? Self.last(chunks[chunk - 1]) : nil
  }

  /// Returns the table with range tombstones after the given one, or nil if that is the last.
  private func table(after chunk: Int, _ index: Int) -> TableMetadata? {
    if index + 1 < chunks[chunk].tombstoneTables.count { return chunks[chunk].tombstoneTables[index + 1] }
    return chunk + 1 < chunks.count ? chunks[chunk + 1].tombstoneTables[0] : nil
  }

  private func part(of table: TableMetadata, around key: ByteView) throws(EngineError) -> TombstonePart {
    if let part = parts[table.number], part.contains(key) { return part }
    let part = try opener.readers.reader(table).tombstones(around: key)
    parts[table.number] = part
    return part
  }
}
