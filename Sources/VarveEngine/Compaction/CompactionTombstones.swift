/// The range tombstones of a job: they determine which of its entries are dead, and which tombstones its outputs get.
///
/// # Rules
/// 1. For a range of keys and a snapshot interval, only the newest tombstone is needed. Proof: every reader that sees
///    an older one of the interval sees it, too.
/// 2. An entry is dropped if a newer tombstone of its own interval covers it. Proof: every reader that sees the entry,
///    now and later, sees the tombstone.
/// 3. A tombstone of the oldest interval is dropped if no table below overlaps it. Proof: rule 2 drops what it covers
///    in the job, since all of that is in the oldest interval; elsewhere there is nothing.
///
/// # Concurrency
/// Immutable; safe from any thread.
struct CompactionTombstones: Sendable {
  /// All tombstones of the job, for rule 2.
  let covering: RangeTombstoneList
  /// The tombstones that outputs get.
  let kept: RangeTombstoneList

  static let none = CompactionTombstones(covering: .empty, kept: .empty)

  private init(covering: RangeTombstoneList, kept: RangeTombstoneList) {
    self.covering = covering
    self.kept = kept
  }

  /// Selects the tombstones of a job from `merge`.
  ///
  /// `older` are the runs that may have older entries of the job's keys. If they are unknown (`nil`), every tombstone
  /// stays.
  init(_ merge: RangeTombstoneMerge, snapshots: SnapshotIntervals, older: [SortedRun]?) {
    covering = merge.fragments(interval: { snapshots.interval(of: $0) }, unsettled: snapshots.unsettled)
    guard let older else {
      kept = covering
      return
    }
    var builder = RangeTombstoneListBuilder()
    for index in 0..<covering.count {
      var sequences = covering.sequences(index)
      let start = covering.start(index)
      let end = covering.end(index)
      if let oldest = sequences.last, snapshots.interval(of: SequenceNumber(oldest)) == 0 {
        let range = UserKeyRange(lower: start.bytes, upper: end.bytes, upperIsExcluded: true)
        if !older.contains(where: { !$0.overlap(range).isEmpty }) { sequences = sequences.dropLast() }
      }
      if !sequences.isEmpty { builder.append(start, end, sequences) }
    }
    kept = RangeTombstoneList(builder)
  }

  /// Writes the tombstones within a table's keys, from `lower` up to but not including `upper`.
  ///
  /// A `lower` of `nil` means the first key, an `upper` of `nil` the end. A table that gets all tombstones shares the
  /// list.
  func write(from lower: [UInt8]?, to upper: [UInt8]?, into builder: TableBuilder) {
    if lower == nil, upper == nil { return builder.share(kept) }
    forEach(from: lower, to: upper) { start, end, index in
      builder.addRangeTombstone(start, end, kept.sequences(index))
    }
  }

  /// Returns whether a table of these keys gets any tombstone.
  func hasAny(from lower: [UInt8]?, to upper: [UInt8]?) -> Bool {
    var found = false
    forEach(from: lower, to: upper) { _, _, _ in found = true }
    return found
  }

  private func forEach(
    from lower: [UInt8]?, to upper: [UInt8]?, _ body: (_ start: ByteView, _ end: ByteView, _ index: Int) -> Void
  ) {
    if kept.isEmpty { return }
    (lower ?? []).withByteView { lower in
      (upper ?? []).withByteView { limit in
        for index in kept.firstIndex(endingAfter: lower)..<kept.count {
          let start = max(kept.start(index), lower)
          let end = upper == nil ? kept.end(index) : min(kept.end(index), limit)
          if start >= end { return }
          body(start, end, index)
        }
      }
    }
  }
}

extension CompactionTombstones {
  /// The range tombstones of a memtable that a reader at `snapshot` sees and one at the snapshot `before` does not.
  private struct Step {
    let memTable: MemTable
    let snapshot: SequenceNumber
    let before: SequenceNumber

    func forEachFragment(_ body: (_ start: ByteView, _ end: ByteView, SequenceNumber) -> Void) {
      memTable.rangeTombstones.forEachFragment(at: snapshot) { start, end, sequence in
        if sequence > before { body(start, end, sequence) }
      }
    }
  }

  /// Creates the tombstones of memtables: for each range the newest one for each of `snapshots`, which ascend.
  ///
  /// Complexity: O(n log n) for n tombstones; O(n), and no memory except the list's, for one memtable between two
  /// snapshots, whose fragments are in order.
  init(_ memTables: [MemTable], snapshots: [SequenceNumber]) {
    var steps: [Step] = []
    for memTable in memTables where !memTable.rangeTombstones.isEmpty {
      var before = SequenceNumber.zero
      for snapshot in snapshots + [.maximum] {
        // A step is needed only if a tombstone was added between the two snapshots.
        guard let newest = memTable.rangeTombstones.newest(at: snapshot), newest > before else { continue }
        steps.append(Step(memTable: memTable, snapshot: snapshot, before: before))
        before = snapshot
      }
    }
    if steps.isEmpty {
      self = .none
      return
    }
    guard steps.count > 1 else {
      var builder = RangeTombstoneListBuilder()
      steps[0].forEachFragment { builder.append($0, $1, CollectionOfOne($2.value)) }
      let list = RangeTombstoneList(builder)
      self.init(covering: list, kept: list)
      return
    }
    var merge = RangeTombstoneMerge()
    for step in steps { step.forEachFragment { merge.add($0, $1, $2, owner: step.memTable) } }
    self.init(merge, snapshots: SnapshotIntervals(snapshots), older: nil)
  }
}
