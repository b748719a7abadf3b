/// The immutable state that a read of one family needs: a loaded view never changes.
final class ReadView: Sendable {
  let memTable: MemTable
  /// Frozen memtables that are not in tables yet, newest first.
  let frozen: [MemTable]
  let version: Version
  /// The ranges of the family in which readers found no live key, or `nil` in a view without a family.
  let deadRanges: DeadRanges?
  /// The function that folds the family's merge operands.
  let merge: MergeFunction?
  /// A Boolean value that indicates whether tables or frozen memtables have range tombstones. The active memtable may
  /// get some at any time.
  let hasSettledTombstones: Bool

  /// The sequence below which readers see an empty family.
  ///
  /// The family was empty until tables were ingested at this sequence (`Engine.ingest`), whose entries have no
  /// sequences of their own. Conflict checks treat every key as written at this sequence. It is zero if no table was
  /// ingested since the open.
  let floor: SequenceNumber

  init(
    memTable: MemTable, frozen: [MemTable], version: Version, deadRanges: DeadRanges? = nil,
    merge: MergeFunction? = nil, floor: SequenceNumber = .zero
  ) {
    self.deadRanges = deadRanges
    self.floor = floor
    self.memTable = memTable
    self.frozen = frozen
    self.version = version
    self.merge = merge
    hasSettledTombstones = version.hasRangeTombstones || frozen.contains { !$0.rangeTombstones.isEmpty }
  }

  @inline(__always)
  var hasRangeTombstones: Bool { hasSettledTombstones || !memTable.rangeTombstones.isEmpty }
}

extension ReadView {
  /// Returns an iterator over the family's entries that a reader at a sequence sees.
  func iterator(
    _ tree: Tree, at sequence: SequenceNumber, _ bounds: CursorBounds = .all, own: UncommittedWrites? = nil,
    deadRunMinimum: Int = DeadRanges.runMinimum
  ) -> VisibleIterator<MergeSource> {
    // The sources are not collected in arrays, because a cursor is often made for one seek.
    let sublevels = version.levelZero.sublevels
    var source = MergingIterator<MergeSource>(capacity: 2 + frozen.count + sublevels.count + version.runs.count)
    var coverage = RangeCoverage(at: sequence)
    let opener = TableOpener(readers: tree, purpose: .user, visible: sequence)
    if let own {
      coverage.append(own.table, rank: 0, own: own.last)
      source.append(own.table)
    }
    if sequence >= floor {
      source.append(memTable, &coverage)
      for table in frozen { source.append(table, &coverage) }
      for sublevel in sublevels.reversed() { source.append(sublevel, opener, &coverage) }
      // The runs are iterated by index, so that an empty level costs no retain.
      for index in version.runs.indices where !version.runs[index].isEmpty {
        source.append(version.runs[index], opener, &coverage)
      }
    }
    return VisibleIterator(
      source, at: sequence, bounds, coverage: coverage, merge: merge, own: own?.last ?? .zero,
      undone: own?.undone ?? .none, deadRanges: deadRanges, deadRunMinimum: deadRunMinimum)
  }
}

extension MergingIterator where Child == MergeSource {
  fileprivate mutating func append(_ memTable: MemTable, _ coverage: inout RangeCoverage) {
    guard memTable.entryCount > 0 else { return }
    coverage.append(memTable, rank: childCount)
    append(memTable)
  }

  fileprivate mutating func append(_ run: SortedRun, _ opener: TableOpener, _ coverage: inout RangeCoverage) {
    coverage.append(run, opener, rank: childCount)
    append(run, opener)
  }
}
