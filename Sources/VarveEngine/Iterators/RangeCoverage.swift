/// The range tombstones of all sources of a merge, as one reader sees them: whether a key's entries are
/// dead, and how far.
///
/// Keys that a walk meets lie close together, so what was found for one is kept for the stretch around it:
/// a key costs two comparisons, and a search in each source where the walk enters another stretch.
///
/// # Ranks
/// A source's rank is the index of its child in the merge: newest first. What a source says of a key is
/// newer than all that those of higher rank have of it, so a tombstone of one lets the walk pass the
/// stretch in all those of higher rank, and in its own where nothing was written there since (`coversAll`). And it
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

  /// The same for a walk backward: everything from there on is dead.
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

/// The tables of a sorted run that have range tombstones; each list is read when a walk gets there.
final class TombstoneRun {
  private let tables: [TableMetadata]
  private let opener: TableOpener
  private var lists: [RangeTombstoneList?]

  init(_ run: SortedRun, _ opener: TableOpener) {
    tables = run.tables.filter { $0.rangeTombstoneCount > 0 }
    self.opener = opener
    lists = Array(repeating: nil, count: tables.count)
  }

  func segment(around key: ByteView, at sequence: SequenceNumber) throws(EngineError) -> TombstoneSegment {
    let index = firstIndex(notBefore: key)
    let before = index > 0 ? tables[index - 1].largest : nil
    guard index < tables.count else { return TombstoneSegment(sequence: .zero, lower: before, upper: nil) }
    let table = tables[index]
    guard table.smallest.compare(key) <= 0 else {
      return TombstoneSegment(sequence: .zero, lower: before, upper: table.smallest)
    }
    var segment = try list(index).segment(around: key, at: sequence)
    if segment.lower == nil { segment.lower = table.smallest }
    if segment.upper == nil, index + 1 < tables.count { segment.upper = tables[index + 1].smallest }
    segment.coversAll = segment.sequence != .zero && table.largestSequence <= segment.sequence
    return segment
  }

  private func firstIndex(notBefore key: ByteView) -> Int {
    var low = 0
    var high = tables.count
    while low < high {
      let middle = (low + high) / 2
      if tables[middle].endsBefore(key) { low = middle + 1 } else { high = middle }
    }
    return low
  }

  private func list(_ index: Int) throws(EngineError) -> RangeTombstoneList {
    if let list = lists[index] { return list }
    let list = try opener.readers.reader(tables[index]).rangeTombstones()
    lists[index] = list
    return list
  }
}
