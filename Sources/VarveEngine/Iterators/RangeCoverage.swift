/// The range tombstones of all sources of a merge, as one reader sees them: whether a key's entries are
/// dead, and how far.
///
/// Keys that a scan meets lie close together, so what was found for one is kept for the range around it:
/// a key costs two comparisons, and a search in each source where the scan enters another range.
///
/// # Ranks
/// A source's rank is the index of its child in the merge: newest first. What a source says of a key is
/// newer than all that those of higher rank have of it, so a tombstone of one lets the scan pass the
/// range in all those of higher rank, and in its own where nothing was written there since (`coversAll`). And it
/// hides nothing in those of lower rank: so for an entry only the sources up to its own are asked, and of these
/// no more than up to the first that covers the key. What a table below says is often never read.
///
/// # Safety
/// Views are valid as long as the sources live; `memTables` and the lists are kept by this.
///
/// # Concurrency
/// One iterator's.
struct RangeCoverage: ~Copyable {
  private enum Source {
    case memTable(MemTable, at: SequenceNumber)
    case run(SortedRun, TableOpener)
    /// One that was asked.
    case openRun(TombstoneRun)
  }

  private struct Ranked {
    let rank: Int
    var source: Source
  }

  private let sequence: SequenceNumber
  private var sources: [Ranked] = []
  /// Where all sources say the same of all keys.
  private var segment = TombstoneSegment.uncovered
  /// What the source with the newest tombstone says by itself, which reaches further, and its rank.
  private var cover = TombstoneSegment.uncovered
  private var rank = 0
  private var hasSegment = false
  /// Up to which rank sources were asked for `segment`, where none covers it.
  private var askedRank = 0

  /// For a reader at a sequence.
  init(at sequence: SequenceNumber) { self.sequence = sequence }

  /// Whether there are no tombstones at all.
  var isEmpty: Bool { sources.isEmpty }

  /// Whether there are none of children before this one.
  func isEmpty(before child: Int) -> Bool { sources.first.map { $0.rank >= child } ?? true }

  /// Adds the tombstones of a memtable, if it has any. Those of the reader's own are seen up to `own`.
  mutating func append(_ memTable: MemTable, rank: Int, own: SequenceNumber? = nil) {
    if memTable.rangeTombstones.isEmpty { return }
    sources.append(Ranked(rank: rank, source: .memTable(memTable, at: own ?? sequence)))
  }

  /// Takes the tombstones of another memtable instead of those of the first child.
  mutating func replaceFirst(_ memTable: MemTable, own: SequenceNumber) {
    if let first = sources.first, first.rank == 0 { sources.removeFirst() }
    hasSegment = false
    if memTable.rangeTombstones.isEmpty { return }
    sources.insert(Ranked(rank: 0, source: .memTable(memTable, at: own)), at: 0)
  }

  /// Adds those of a run of tables, if it has any.
  mutating func append(_ run: SortedRun, _ opener: TableOpener, rank: Int) {
    if !run.hasRangeTombstones { return }
    sources.append(Ranked(rank: rank, source: .run(run, opener)))
  }

  /// The newest tombstone over `key` that the reader sees and that may hide an entry of a child; zero if there is none.
  @inline(__always)
  mutating func sequence(covering key: ByteView, forChild child: Int) throws(EngineError) -> SequenceNumber {
    if !hasSegment || (segment.sequence == .zero && askedRank < child) || !segment.contains(key) {
      try enter(key, child)
    }
    return segment.sequence
  }

  /// The newest tombstone over `key` that the reader sees; zero if there is none.
  mutating func sequence(covering key: ByteView) throws(EngineError) -> SequenceNumber {
    try sequence(covering: key, forChild: .max)
  }

  /// Where a child may go on from an entry that is covered: everything that it has up to there is dead.
  ///
  /// Requires: the last call of `sequence(covering:forChild:)` was for that entry's key, and covers it.
  func end(forChild child: Int) -> ByteView? {
    rank < child || (rank == child && cover.coversAll) ? cover.upper : nil
  }

  /// The first child that may go on to `end(forChild:)`. Requires: as there.
  var firstRankPassed: Int { cover.coversAll ? rank : rank + 1 }

  /// The same for a scan backward: everything from there on is dead.
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

/// The tables of a sorted run that have range tombstones; each list is read when a scan gets there.
///
/// Complexity: it takes over what the run knows, in constant time; a search costs the logarithm of the tables that have
/// range tombstones. Tables without any are not looked at.
///
/// # Concurrency
/// One iterator's.
final class TombstoneRun {
  private let chunks: [TableChunk]
  private let opener: TableOpener
  private var lists: [FileNumber: RangeTombstoneList] = [:]

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
    var segment = try list(of: table).segment(around: key, at: sequence)
    if segment.lower == nil { segment.lower = table.smallest }
    if segment.upper == nil { segment.upper = self.table(after: chunk, index)?.smallest }
    segment.coversAll = segment.sequence != .zero && table.largestSequence <= segment.sequence
    return segment
  }

  /// The first index for which `isReached` is true, which it is for all after that; the count if there is none.
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

  /// The table with range tombstones before one; nil: that is the first.
  private func table(before chunk: Int, _ index: Int) -> TableMetadata? {
    if index > 0 { return chunks[chunk].tombstoneTables[index - 1] }
    return chunk > 0 ? Self.last(chunks[chunk - 1]) : nil
  }

  /// The table with range tombstones after one; nil: that is the last.
  private func table(after chunk: Int, _ index: Int) -> TableMetadata? {
    if index + 1 < chunks[chunk].tombstoneTables.count { return chunks[chunk].tombstoneTables[index + 1] }
    return chunk + 1 < chunks.count ? chunks[chunk + 1].tombstoneTables[0] : nil
  }

  private func list(of table: TableMetadata) throws(EngineError) -> RangeTombstoneList {
    if let list = lists[table.number] { return list }
    let list = try opener.readers.reader(table).rangeTombstones()
    lists[table.number] = list
    return list
  }
}
