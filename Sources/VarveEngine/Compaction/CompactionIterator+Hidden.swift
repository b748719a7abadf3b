/// Counts the entries that stay only because of snapshots (`HiddenEntries`).
extension CompactionIterator where Child: ~Copyable {
  /// Counts the current entry, which was just added to `builder`, if it is hidden.
  ///
  /// It is hidden by the entry before it if that is of the same key (`isNewKey` is false), or by a range tombstone.
  /// Either is of a later interval: of one interval, both stay only for another reason than snapshots.
  @inline(never)
  func countHidden(isNewKey: Bool, in builder: TableBuilder) {
    let interval = snapshots.interval(of: trailer.sequence)
    var free: SequenceNumber?
    var size = userKey.count
    if !isNewKey, separates(previous.sequence, from: interval) {
      free = snapshots.end(ofIntervalOf: previous.sequence)
      // An operand is folded with the value, whose bytes stay.
      if previous.kind != .merge { size += value.count }
    }
    if isInFragment {
      // The oldest one that counts is the first that every reader sees.
      let covering = tombstones.sequences(fragment).last {
        $0 > trailer.sequence.value && separates(SequenceNumber($0), from: interval)
      }
      if let covering {
        let end = snapshots.end(ofIntervalOf: SequenceNumber(covering))
        free = min(free ?? end, end)
        size = userKey.count + value.count
      }
    }
    if let free { builder.countHidden(size, freeAt: free) }
  }

  /// Returns whether a snapshot lies, or may still be taken, between entries of `interval` and a newer one.
  private func separates(_ newer: SequenceNumber, from interval: Int) -> Bool {
    interval == snapshots.unsettled || snapshots.interval(of: newer) != interval
  }
}
