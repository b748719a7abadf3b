/// What of a merge's entries a flush or compaction writes: each entry that some reader could need, and
/// no other.
///
/// Input: every entry of the job's inputs, in internal-key order. For any key the inputs hold a
/// contiguous piece of its history: nothing between two of its entries lies elsewhere, everything newer
/// lies above the outputs, everything older is in tables that `deeper` knows. Readers are at the
/// snapshots s0 < ... < sn of `SnapshotIntervals`, or, later, at sn or above; a reader at s sees of each
/// key the newest entry at or below s. "The interval" of an entry is that of its sequence.
///
/// # Rules
/// 1. **Shadowed.** An entry goes if a newer entry of its key in its interval was kept or hides it.
///    Proof: a reader who sees the older one is at the interval's upper end or above, so it sees the
///    newer one too, which comes first. In the unsettled interval, above sn, nothing goes by this
///    rule: a snapshot may yet fall between the two.
///    A single delete goes so only below a delete: below a put it has still to meet its own put, or
///    that would show through when the newer put is single-deleted in turn.
/// 2. **Tombstone over nothing.** A delete goes if no table below may hold its key and no older entry
///    of the key stays. Proof: whoever would meet it meets nothing instead, and both mean "no value".
///    In the oldest interval the older entries go by rule 1, so none has to be looked for. In a newer
///    one the delete is held back until the next older entry that isn't shadowed is known.
/// 3. **Tombstone over tombstone.** While rule 2 holds a delete back and the next older entry is a
///    delete, the newer one goes. Proof: whoever would meet it meets the older one, with the same answer.
///    If that goes as well, it does so by rule 2.
/// 4. **Single delete.** The contract is that exactly one put lies below. A single delete and the next
///    older entry, a put of the same interval, go both. Proof: every reader who sees the put sees the
///    single delete (rule 1), and below the put there is nothing, or what an earlier single delete
///    already hides. Not in the unsettled interval. Where the next older entry is a delete or single
///    delete of the same interval, the newer one goes: the older one hides what it hid. Where no older
///    entry is left and no table below may hold the key, it goes as in rule 2. Else it stays, and so
///    does its put in an older interval, which a snapshot sees.
/// 5. **Zero sequence.** With `zeroesSequences`, a put in the oldest interval gets sequence 0. Requires
///    that no table below holds any key of the job. Proof: every reader, now and later, is at s0 or
///    above and sees the entry before and after; nothing older is left of its key (rules 1, 2 and 4
///    in the oldest interval), and what is newer has a sequence above 0, so the order stays.
///    The sequence column of such a block takes no bytes.
/// 6. **Whole blocks.** A plain block (`BlockSource`) whose keys all lie before every other input's may
///    be copied as it is. Proof: the iterator stands on its first entry, so that stays; each of the
///    others is the only entry of its key, and a put, so that none of the rules 1 to 4 applies. Rule 5
///    is a saving, not a duty.
/// 7. **Range tombstones.** An entry that a newer range tombstone of its interval covers goes before all
///    other rules are asked (`CompactionTombstones`).
/// 8. **Merge operands.** Neighbouring operands of one interval become one entry with the sequence of the
///    newest: a put, where what they are folded over is known (the next older entry is of the interval, or
///    there is none and no table below may hold the key); else one operand, where the operator combines.
///    Else they stay. Proof: every reader who sees one of them sees them all. Not in the unsettled
///    interval. Operands never shadow: what is older is what they are folded over.
/// 9. **Unknown kinds** of later versions are an error: no entry is dropped, or kept with a neighbour
///    dropped, without knowing what it means.
///
/// # Where it stands
/// On the merge's entry; on a tombstone that was held back, on an entry made of operands (`.onMade`), or on
/// one of several operands that stay (`.onOperand`): the merge is behind it then, and `key` is its key.
///
/// # Concurrency
/// One job's.
struct CompactionIterator<Child: BlockSource & ~Copyable>: ~Copyable {
  private var source: MergingIterator<Child>
  private let snapshots: SnapshotIntervals
  private var deeper: DeeperKeys
  private let zeroesSequences: Bool
  private let hasUpper: Bool
  private var upper = ByteWriter(capacity: 16)

  /// The user key that the walk is in.
  private var key = KeyBuffer()
  private var hasKey = false
  /// The interval of the newest entry of `key` that shadows older ones, or `none`.
  private var shadow = Self.none
  private var shadowIsDelete = false
  private var place = Place.nowhere
  private(set) var trailer = Trailer(word: 0)
  /// Entries that went, by any rule.
  private(set) var droppedCount: UInt64 = 0

  private let tombstones: RangeTombstoneList
  private let hasTombstones: Bool
  /// The first fragment that ends behind `key`, and whether it begins at or before it.
  private var fragment = 0
  private var isInFragment = false
  private let function: MergeFunction?
  private var operands = OperandStack()
  /// Which of `operands` the iterator stands on, the newest first.
  private var operand = 0
  private var made = MergeValue()

  private enum Place {
    case nowhere, onEntry, onHeldTombstone, onMade, onOperand
  }

  /// Operands up to so many bytes are folded at once; what is beyond stays an entry of its own.
  private static var operandBytesMaximum: Int { 4 << 20 }

  private static var none: Int { -1 }

  /// `upper` is the first key that the job leaves to others.
  ///
  /// Requires: `zeroesSequences` only if `deeper` knows no table, and never for outputs on level 0,
  /// which is ordered by sequence.
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
  var isValid: Bool { place != .nowhere }

  /// Valid until the iterator moves.
  @inline(__always)
  var userKey: ByteView {
    assert(isValid, "an entry is read only while the iterator is valid")
    return place == .onEntry ? source.userKey : key.view
  }

  /// Valid until the iterator moves.
  @inline(__always)
  var value: ByteView {
    assert(isValid, "an entry is read only while the iterator is valid")
    switch place {
    case .onEntry: return source.value
    case .onMade: return made.view
    case .onOperand: return operands.fromNewest(operand)
    case .onHeldTombstone, .nowhere: return ByteView()
    }
  }

  // MARK: - Moves

  mutating func seekToFirst() throws(EngineError) {
    restart()
    try source.seekToFirst()
    try find()
  }

  /// To the first key at or after `lower`, which is no view of this iterator.
  mutating func seek(_ lower: ByteView) throws(EngineError) {
    restart()
    try source.seek(InternalKey(lower, Trailer(word: .max)))
    try find()
  }

  @inline(__always)
  mutating func next() throws(EngineError) {
    assert(isValid, "next from an entry only")
    let from = place
    place = .nowhere
    if from == .onEntry {
      try source.next()
    } else if from == .onOperand, operand + 1 < operands.count {
      return standOnOperand(operand + 1)
    }
    try find()
  }

  private mutating func restart() {
    place = .nowhere
    hasKey = false
    fragment = 0
    deeper.rewind()
  }

  // MARK: - Whole blocks

  /// Whether the block at whose first entry the iterator stands may be copied as it is (rule 6).
  var isAtWholeBlock: Bool {
    guard place == .onEntry, source.startsPlainBlock, source.blockEndsBeforeOthers() else { return false }
    if hasTombstones, !blockIsUncovered { return false }
    return !hasUpper || source.blockEnds(before: InternalKey(upper.view, Trailer(word: .max)))
  }

  /// Whether the block lies in a gap between range tombstones.
  private var blockIsUncovered: Bool {
    if isInFragment { return false }
    return fragment == tombstones.count
      || source.blockEnds(before: InternalKey(tombstones.start(fragment), Trailer(word: .max)))
  }

  /// The merge's child in whose block the iterator stands.
  func withBlock<R, E: Error>(_ body: (borrowing Child) throws(E) -> R) throws(E) -> R {
    try source.withWinner(body)
  }

  /// To the first entry behind the block that was copied.
  ///
  /// Requires: `isAtWholeBlock`.
  mutating func skipBlock() throws(EngineError) {
    place = .nowhere
    hasKey = false
    try source.skipBlock()
    try find()
  }

  // MARK: - Rules

  /// Goes on to the first entry that stays.
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
        cast(interval, isDelete: false)
        trailer = zeroesSequences && interval == 0 ? Trailer(.zero, .put) : entry
        place = .onEntry
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

  /// Keys ascend, and so does the fragment.
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

  /// Rule 7. The oldest tombstone that is newer than the entry decides: if it is of a later interval, so are
  /// all others.
  @inline(never)
  private func isCovered(_ entry: Trailer, _ interval: Int) -> Bool {
    if !isInFragment || interval == snapshots.unsettled { return false }
    guard let sequence = tombstones.sequences(fragment).last(where: { $0 > entry.sequence.value }) else { return false }
    return snapshots.interval(of: SequenceNumber(sequence)) == interval
  }

  /// Lets an entry shadow the older ones of its interval.
  @inline(__always)
  private mutating func cast(_ interval: Int, isDelete: Bool) {
    shadow = interval == snapshots.unsettled ? Self.none : interval
    shadowIsDelete = isDelete
  }

  @inline(__always)
  private mutating func drop() throws(EngineError) {
    droppedCount &+= 1
    try source.next()
  }

  private var isAtOlderEntry: Bool { source.isValid && key.equals(source.userKey) }

  /// Rules 2 and 3. False if the delete goes; the merge stands behind it then.
  private mutating func keepsDelete(_ entry: Trailer, _ interval: Int) throws(EngineError) -> Bool {
    cast(interval, isDelete: true)
    if deeper.mayHold(key.view) {
      trailer = entry
      place = .onEntry
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
      hold(entry)
      return true
    }
    return false
  }

  /// Rule 4. False if the single delete goes; the merge stands behind it, or behind its put, then.
  private mutating func keepsSingleDelete(_ entry: Trailer, _ interval: Int) throws(EngineError) -> Bool {
    if interval == snapshots.unsettled {
      cast(interval, isDelete: true)
      trailer = entry
      place = .onEntry
      return true
    }
    try drop()
    guard isAtOlderEntry else {
      if !deeper.mayHold(key.view) { return false }
      hold(entry)
      return true
    }
    let older = source.trailer
    if snapshots.interval(of: older.sequence) == interval {
      if older.kind == .put {
        try drop()
        assert(
          !isAtSecondPut(interval),
          "a single delete of key \(key.view.printable) hides two puts: use delete where a key is put again")
        return false
      }
      if older.kind == .delete || older.kind == .singleDelete { return false }
    }
    hold(entry)
    return true
  }

  /// Whether the contract of the single delete that was just dropped with its put is broken.
  private func isAtSecondPut(_ interval: Int) -> Bool {
    guard isAtOlderEntry, source.trailer.kind == .put else { return false }
    return snapshots.interval(of: source.trailer.sequence) == interval && !isCovered(source.trailer, interval)
  }

  // MARK: - Operands

  /// Rule 8. Stands on what becomes of the operand on which the merge stands, and of its neighbours.
  private mutating func keepOperands(_ entry: Trailer, _ interval: Int) throws(EngineError) {
    guard let function, interval != snapshots.unsettled else {
      trailer = entry
      place = .onEntry
      return
    }
    operands.removeAll()
    while isAtOlderEntry, source.trailer.kind == .merge, operands.byteCount < Self.operandBytesMaximum,
      snapshots.interval(of: source.trailer.sequence) == interval,
      !isCovered(source.trailer, interval)
    {
      operands.push(source.value, source.trailer)
      try source.next()
    }
    if let base = operandBase(interval), function.merge(key.view, existing: base.value, &operands, into: &made) {
      cast(interval, isDelete: false)
      let sequence = zeroesSequences && interval == 0 ? .zero : entry.sequence
      return standOnMade(Trailer(sequence, .put))
    }
    if operands.count > 1, function.combine(key.view, operands, into: &made) { return standOnMade(entry) }
    standOnOperand(0)
  }

  private mutating func standOnMade(_ trailer: Trailer) {
    droppedCount &+= UInt64(operands.count - 1)
    self.trailer = trailer
    place = .onMade
  }

  private mutating func standOnOperand(_ index: Int) {
    operand = index
    trailer = operands.trailers[index]
    place = .onOperand
  }

  /// What the operands are folded over, where that is known: a value, or none.
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

  /// Stands on a tombstone that the merge has left behind.
  private mutating func hold(_ entry: Trailer) {
    droppedCount &-= 1
    trailer = entry
    place = .onHeldTombstone
  }

  @inline(never)
  private static func unreadable(_ trailer: Trailer) -> EngineError {
    EngineError(
      .unsupportedFormat,
      "an entry at sequence \(trailer.sequence) has kind \(trailer.rawKind), which this version does not compact")
  }
}
