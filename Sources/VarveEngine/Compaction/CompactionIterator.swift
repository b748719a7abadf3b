/// Selects the entries of a merge that a flush or compaction writes: each entry that some reader could need, and no
/// other.
///
/// Input: every entry of the job's inputs, in internal-key order. For any key the inputs have a contiguous part of its
/// history: no entry between two of them is elsewhere, everything newer is above the outputs, and everything older is
/// in tables that `deeper` knows. Readers are at the snapshots s0 < ... < sn of `SnapshotIntervals`, or, later, at sn
/// or above; a reader at s sees of each key the newest entry at or below s. "The interval" of an entry is that of its
/// sequence.
///
/// # Rules
/// 1. **Shadowed.** An entry is dropped if a newer entry of its key in its interval was kept or hides it. Proof: a
///    reader that sees the older one is at the interval's upper end or above, so it sees the newer one too, which comes
///    first. In the unsettled interval, above sn, this rule drops nothing: a snapshot may still be taken between the
///    two. A single delete is dropped this way only below a delete: below a put it still has to cancel its own put,
///    which would otherwise reappear when the newer put is single-deleted in turn.
/// 2. **Tombstone over nothing.** A delete is dropped if no table below may contain its key and no older entry of the
///    key stays. Proof: a reader that would find it finds nothing instead, and both mean "no value". In the oldest
///    interval rule 1 drops the older entries, so no search is needed. In a newer one the delete is deferred until the
///    next older entry that isn't shadowed is known.
/// 3. **Tombstone over tombstone.** If rule 2 defers a delete and the next older entry is a delete, the newer one is
///    dropped. Proof: a reader that would find it finds the older one, with the same answer. If that is dropped as
///    well, it is by rule 2.
/// 4. **Single delete.** The contract is that exactly one put lies below. A single delete and the next older entry, a
///    put of the same interval, are both dropped. Proof: every reader that sees the put sees the single delete (rule
///    1), and below the put there is nothing, or only what an earlier single delete already hides. Not in the unsettled
///    interval. If the next older entry is a delete or single delete of the same interval, the newer one is dropped:
///    the older one hides the same entries. Operands of the same interval between it and the put are dropped, as by a
///    delete. If no older entry is left and no table below may contain the key, it is
///    dropped as in rule 2. Otherwise it stays, and so does its put in an older interval, which a snapshot sees.
/// 5. **Zero sequence.** With `zeroesSequences`, a put in the oldest interval gets sequence 0. Requires that no table
///    below contains any key of the job. Proof: every reader, now and later, is at s0 or above and sees the entry
///    before and after; no older entry of its key is left (rules 1, 2 and 4 in the oldest interval), and newer ones
///    have sequences above 0, so the order stays. The sequence column of such a block takes no bytes.
/// 6. **Whole blocks.** A plain block (`BlockSource`) whose keys all lie before those of every other input may be
///    copied as it is. Proof: the iterator is at its first entry, so that one stays; each of the others is the only
///    entry of its key, and a put, so that none of the rules 1 to 4 applies. Rule 5 saves space but is optional.
/// 7. **Range tombstones.** An entry that a newer range tombstone of its interval covers is dropped before all other
///    rules apply (`CompactionTombstones`).
/// 8. **Merge operands.** Adjacent operands of one interval become one entry with the sequence of the newest: a put, if
///    their base is known (the next older entry is of the interval, or there is none and no table below may contain the
///    key); otherwise one operand, if the operator combines; otherwise they stay. Proof: every reader that sees one of
///    them sees them all. Not in the unsettled interval. Operands never shadow: older entries are the base that they
///    are folded over.
/// 9. **Unknown kinds** of later versions are an error: an entry whose meaning is unknown is neither dropped, nor kept
///    while a neighbor is dropped.
///
/// # Position
/// The iterator is at the merge's entry; or at a deferred tombstone, at an entry made of operands (`.onMade`), or at
/// one of several operands that stay (`.onOperand`). In the last three cases the merge is past that entry, and `key` is
/// its key.
///
/// # Concurrency
/// Used by one job.
struct CompactionIterator<Child: BlockSource & ~Copyable>: ~Copyable {
  private var source: MergingIterator<Child>
  let snapshots: SnapshotIntervals
  private var deeper: DeeperKeys
  private let zeroesSequences: Bool
  private let hasUpper: Bool
  private var upper = ByteWriter(capacity: 16)

  /// The user key whose entries the rules are being applied to. It remains when the merge has moved past the entries.
  private var key = KeyBuffer()
  private var hasKey = false
  /// The interval of the newest entry of `key` that shadows older ones, or `none`.
  private var shadow = Self.none
  private var shadowIsDelete = false
  private var location = Location.nowhere
  private(set) var trailer = Trailer(word: 0)
  /// The number of entries dropped, by any rule.
  private(set) var droppedCount: UInt64 = 0

  let tombstones: RangeTombstoneList
  private let hasTombstones: Bool
  /// The index of the first fragment that ends after `key`.
  private(set) var fragment = 0
  private(set) var isInFragment = false
  /// The trailer of the entry that `move(into:)` wrote last.
  var previous = Trailer(word: 0)
  private let function: MergeFunction?
  private var operands = OperandStack()
  /// The index in `operands` of the current one, newest first.
  private var operand = 0
  private var made = MergeValue()

  private enum Location {
    case nowhere, onEntry, onDeferredTombstone, onMade, onOperand
  }

  /// The maximum bytes of operands that are folded at once. Operands beyond it stay separate entries.
  private static var operandBytesMaximum: Int { 4 << 20 }

  private static var none: Int { -1 }

  /// Creates an iterator that `seekToFirst` or `seek` positions.
  ///
  /// `upper` is the first key that is left to other jobs.
  ///
  /// Requires: `zeroesSequences` only if `deeper` knows no table, and never for outputs on level 0, which is ordered by
  /// sequence.
  init(
    _ source: consuming MergingIterator<Child>, snapshots: SnapshotIntervals, deeper: consuming DeeperKeys,
    zeroesSequences: Bool, upper: [UInt8]? = nil, tombstones: RangeTombstoneList = .empty,
    merge function: MergeFunction? = nil
  ) {
    precondition(!zeroesSequences || deeper.isEmpty, "zero sequences only where no table lies below")
    self.source = source
    self.snapshots = snapshots
    self.deeper = deeper
    self.zeroesSequences = zeroesSequences
    self.tombstones = tombstones
    hasTombstones = !tombstones.isEmpty
    self.function = function
    hasUpper = upper != nil
    if let upper { self.upper.append(upper) }
  }

  // MARK: - The entry

  @inline(__always)
  var isValid: Bool { location != .nowhere }

  /// Valid until the iterator moves.
  @inline(__always)
  var userKey: ByteView {
    assert(isValid, "an entry is read only while the iterator is valid")
    return location == .onEntry ? source.userKey : key.view
  }

  /// Valid until the iterator moves.
  @inline(__always)
  var value: ByteView {
    assert(isValid, "an entry is read only while the iterator is valid")
    switch location {
    case .onEntry: return source.value
    case .onMade: return made.view
    case .onOperand: return operands.fromNewest(operand)
    case .onDeferredTombstone, .nowhere: return ByteView()
    }
  }

  // MARK: - Movement

  mutating func seekToFirst() throws(EngineError) {
    restart()
    try source.seekToFirst()
    try find()
  }

  /// Moves to the first key at or after `lower`, which must not be a view of this iterator.
  mutating func seek(_ lower: ByteView) throws(EngineError) {
    restart()
    try source.seek(InternalKey(lower, Trailer(word: .max)))
    try find()
  }

  @inline(__always)
  mutating func next() throws(EngineError) {
    assert(isValid, "next from an entry only")
    let from = location
    location = .nowhere
    if from == .onEntry {
      try source.next()
    } else if from == .onOperand, operand + 1 < operands.count {
      return standOnOperand(operand + 1)
    }
    try find()
  }

  private mutating func restart() {
    location = .nowhere
    hasKey = false
    fragment = 0
    deeper.rewind()
  }

  // MARK: - Whole blocks

  /// A Boolean value that indicates whether the iterator is at the first entry of a block that may be copied as it is
  /// (rule 6).
  var isAtWholeBlock: Bool {
    guard location == .onEntry, source.startsPlainBlock, source.blockEndsBeforeOthers() else { return false }
    if hasTombstones, !blockIsUncovered { return false }
    return !hasUpper || source.blockEnds(before: InternalKey(upper.view, Trailer(word: .max)))
  }

  /// A Boolean value that indicates whether the block is in a gap between range tombstones.
  private var blockIsUncovered: Bool {
    if isInFragment { return false }
    return fragment == tombstones.count
      || source.blockEnds(before: InternalKey(tombstones.start(fragment), Trailer(word: .max)))
  }

  /// Calls `body` with the merge's child in whose block the iterator is.
  func withBlock<R, E: Error>(_ body: (borrowing Child) throws(E) -> R) throws(E) -> R {
    try source.withWinner(body)
  }

  /// Moves to the first entry after the copied block.
  ///
  /// Requires: `isAtWholeBlock`.
  mutating func skipBlock() throws(EngineError) {
    location = .nowhere
    hasKey = false
    try source.skipBlock()
    try find()
  }

  // MARK: - Rules

  /// Advances to the first entry that stays.
  private mutating func find() throws(EngineError) {
    while source.isValid {
      let userKey = source.userKey
      if !hasKey || !key.equals(userKey) {
        if hasUpper, userKey.compare(upper.view) >= 0 { return }
        begin(userKey)
      }
      let entry = source.trailer
      let interval = snapshots.interval(of: entry.sequence)
      if isInFragment, isCovered(entry, interval) {
        try drop()
        continue
      }
      switch entry.kind {
      case .put:
        if interval == shadow { break }
        setShadow(interval, isDelete: false)
        trailer = zeroesSequences && interval == 0 ? Trailer(.zero, .put) : entry
        location = .onEntry
        return
      case .delete:
        if interval == shadow { break }
        if try keepsDelete(entry, interval) { return }
        continue
      case .singleDelete:
        if interval == shadow, shadowIsDelete { break }
        if try keepsSingleDelete(entry, interval) { return }
        continue
      case .merge:
        if interval == shadow { break }
        return try keepOperands(entry, interval)
      case .rangeDelete, nil:
        throw Self.unreadable(entry)
      }
      try drop()
    }
  }

  private mutating func begin(_ userKey: ByteView) {
    key.assign(userKey)
    hasKey = true
    shadow = Self.none
    if hasTombstones { enterFragment() }
  }

  /// Advances `fragment` to the first fragment that ends after `key`.
  ///
  /// Keys ascend, so the fragment never moves back.
  @inline(never)
  private mutating func enterFragment() {
    if fragment < tombstones.count, tombstones.end(fragment) <= key.view {
      fragment += 1
      if fragment < tombstones.count, tombstones.end(fragment) <= key.view {
        fragment = tombstones.firstIndex(endingAfter: key.view)
      }
    }
    isInFragment = fragment < tombstones.count && tombstones.start(fragment) <= key.view
  }

  /// Returns whether a range tombstone covers an entry (rule 7).
  ///
  /// The oldest tombstone that is newer than the entry decides: if it is of a later interval, so are all others.
  @inline(never)
  private func isCovered(_ entry: Trailer, _ interval: Int) -> Bool {
    if !isInFragment || interval == snapshots.unsettled { return false }
    guard let sequence = tombstones.sequences(fragment).last(where: { $0 > entry.sequence.value }) else { return false }
    return snapshots.interval(of: SequenceNumber(sequence)) == interval
  }

  /// Makes an entry shadow the older ones of its interval.
  @inline(__always)
  private mutating func setShadow(_ interval: Int, isDelete: Bool) {
    shadow = interval == snapshots.unsettled ? Self.none : interval
    shadowIsDelete = isDelete
  }

  @inline(__always)
  private mutating func drop() throws(EngineError) {
    droppedCount &+= 1
    try source.next()
  }

  private var isAtOlderEntry: Bool { source.isValid && key.equals(source.userKey) }

  /// Applies rules 2 and 3 to a delete, and returns false if it is dropped; the merge is then past it.
  private mutating func keepsDelete(_ entry: Trailer, _ interval: Int) throws(EngineError) -> Bool {
    setShadow(interval, isDelete: true)
    if deeper.mayHold(key.view) {
      trailer = entry
      location = .onEntry
      return true
    }
    try drop()
    if interval == 0 { return false }
    while isAtOlderEntry {
      let older = source.trailer
      let olderInterval = snapshots.interval(of: older.sequence)
      if isCovered(older, olderInterval) {
        try drop()
        continue
      }
      switch older.kind {
      case .put, .delete, .singleDelete, .merge:
        if olderInterval == shadow {
          try drop()
          continue
        }
        if older.kind == .delete { return false }
      case .rangeDelete, nil:
        break
      }
      standOnDeferredTombstone(entry)
      return true
    }
    return false
  }

  /// Applies rule 4 to a single delete, and returns false if it is dropped; the merge is then past it, or past its put.
  private mutating func keepsSingleDelete(_ entry: Trailer, _ interval: Int) throws(EngineError) -> Bool {
    if interval == snapshots.unsettled {
      setShadow(interval, isDelete: true)
      trailer = entry
      location = .onEntry
      return true
    }
    try drop()
    while isAtOlderEntry, snapshots.interval(of: source.trailer.sequence) == interval {
      switch source.trailer.kind {
      case .put:
        try drop()
        assert(
          !isAtSecondPut(interval),
          "a single delete of key \(key.view.printable) hides two puts: use delete where a key is put again")
        return false
      case .delete, .singleDelete: return false
      case .merge: try drop()
      case .rangeDelete, nil: throw Self.unreadable(source.trailer)
      }
    }
    if !isAtOlderEntry, !deeper.mayHold(key.view) { return false }
    standOnDeferredTombstone(entry)
    return true
  }

  /// A Boolean value that indicates whether the single delete that was just dropped with its put violates its contract.
  private func isAtSecondPut(_ interval: Int) -> Bool {
    guard isAtOlderEntry, source.trailer.kind == .put else { return false }
    return snapshots.interval(of: source.trailer.sequence) == interval && !isCovered(source.trailer, interval)
  }

  // MARK: - Operands

  /// Applies rule 8: moves to the result for the operand at which the merge is, and its neighbors.
  private mutating func keepOperands(_ entry: Trailer, _ interval: Int) throws(EngineError) {
    guard let function, interval != snapshots.unsettled else {
      trailer = entry
      location = .onEntry
      return
    }
    operands.removeAll()
    while isAtOlderEntry, source.trailer.kind == .merge, operands.byteCount < Self.operandBytesMaximum,
      snapshots.interval(of: source.trailer.sequence) == interval,
      !isCovered(source.trailer, interval)
    {
      operands.push(source.value, source.trailer, account: function.account)
      try source.next()
    }
    if let base = operandBase(interval), function.merge(key.view, existing: base.value, &operands, into: &made) {
      setShadow(interval, isDelete: false)
      let sequence = zeroesSequences && interval == 0 ? .zero : entry.sequence
      return standOnMade(Trailer(sequence, .put))
    }
    if operands.count > 1, function.combine(key.view, &operands, into: &made) { return standOnMade(entry) }
    standOnOperand(0)
  }

  private mutating func standOnMade(_ trailer: Trailer) {
    droppedCount &+= UInt64(operands.count - 1)
    self.trailer = trailer
    location = .onMade
  }

  private mutating func standOnOperand(_ index: Int) {
    operand = index
    trailer = operands.trailers[index]
    location = .onOperand
  }

  /// A known base that the operands are folded over: a value, or `nil` if the key has no value below the operands.
  private struct OperandBase {
    let value: ByteView?
  }

  private mutating func operandBase(_ interval: Int) -> OperandBase? {
    guard isAtOlderEntry else { return deeper.mayHold(key.view) ? nil : OperandBase(value: nil) }
    let older = source.trailer
    guard snapshots.interval(of: older.sequence) == interval else { return nil }
    if isCovered(older, interval) { return OperandBase(value: nil) }
    switch older.kind {
    case .put: return OperandBase(value: source.value)
    case .delete, .singleDelete: return OperandBase(value: nil)
    case .merge, .rangeDelete, nil: return nil
    }
  }

  /// Stays at a tombstone that the merge has passed.
  private mutating func standOnDeferredTombstone(_ entry: Trailer) {
    droppedCount &-= 1
    trailer = entry
    location = .onDeferredTombstone
  }

  @inline(never)
  private static func unreadable(_ trailer: Trailer) -> EngineError {
    EngineError(
      .unsupportedFormat,
      "an entry at sequence \(trailer.sequence) has kind \(trailer.rawKind), which this version does not compact")
  }
}
