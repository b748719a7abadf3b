/// The keys that a reader at one sequence number sees in a merge: each user key once, with its newest visible value.
///
/// An entry above the sequence number is invisible, unless it is the reader's own (`SequenceNumber.uncommitted`). An
/// entry older than a range tombstone over its key is dead. Of the rest, the newest entry of a key decides: a put
/// shows the key, a tombstone hides it, and merge operands are folded over the older entries.
///
/// # Position of the merge
/// The entries of a key are ordered newest first, so the two directions differ:
///
///     k5#9 put  k5#7 put  k5#3 put  k8#4 delete  k8#2 put  k9#6 put       reader at 8
///               ╰ forward: on it             (k8 is hidden)
///     ╰ backward: before all of k5, which is kept in buffers
///
/// - `.onEntry`: the merge is at the entry shown. Key and value are its views.
/// - `.beforeKey`: the merge, scanning backward, has passed every entry of the key shown. The key is in `key`, the
///   value in `value`: the newest version comes last, so each visible version overwrites the candidate. The buffers
///   are reused.
/// - `.onMerged`: the merge is after the folded operands. The key is in `key`, the result in `merged`.
/// - `.onSoughtEntry`: a backward scan whose value was too large, or whose versions were too many to step over one by
///   one, moved the merge to the entry by a forward seek. Key and value are views.
///
/// # Bounds
/// The lower bound is included, the upper one excluded. Forward steps check only the upper bound and backward steps
/// only the lower one, because seeks start within both.
///
/// # Costs
/// At most `versionStepsMaximum` irrelevant versions of a key are stepped over one by one; a seek skips the rest.
/// Runs of point tombstones cost a step for each entry. A range under a range tombstone is skipped by one seek in
/// each source, if no later write lies in it. A step allocates nothing once the buffers have the size of the largest
/// key and value.
///
/// `DeadRunMeter` measures what a move passes without finding a live key, which proves that at the reader's sequence
/// number no key is there.
///
/// # Concurrency
/// One iterator belongs to one thread at a time.
struct VisibleIterator<Child: InternalIterator & ~Copyable>: ~Copyable {
  var source: MergingIterator<Child>
  let sequence: SequenceNumber
  private var hasLower: Bool
  private var hasUpper: Bool
  private var lower: ByteWriter
  private var upper: ByteWriter
  /// The key that the last step processed, or the key shown (`.beforeKey`).
  var key = KeyBuffer()
  private var candidate = ByteWriter(capacity: 0)
  /// The bound of the known dead range that is being passed.
  var bound = ByteWriter(capacity: 0)
  var coverage: RangeCoverage
  private var hasCoverage: Bool
  /// The number of children that iterate over memory, if any of them has range tombstones; otherwise 0.
  private var memoryChildCount: Int
  private let merge: MergeFunction?
  /// The newest uncommitted write of the reader, in a child of its own, or zero if there is none.
  private(set) var own: SequenceNumber
  /// The reader's own writes that were undone.
  private var undone: UndoneNumbers
  private var operands = OperandStack()
  private var merged = MergeValue()
  private var location = Location.nowhere
  /// The known ranges without live keys, or `nil` if dead runs are not measured either.
  let deadRanges: DeadRanges?
  let deadRunMinimum: Int
  var deadRuns: DeadRunMeter?

  private enum Location {
    /// `onFailure` stands for a key, in `key`, whose operands could not be folded.
    case nowhere, onFailure, onEntry, beforeKey, onSoughtEntry, onMerged
  }

  /// The number of versions of a key that are stepped over one by one (see "Costs").
  private static var versionStepsMaximum: Int { 8 }
  /// The mask that makes a scan look for dead blocks, and whether its task was cancelled, at every 32nd dead key of a
  /// run.
  static var deadBlockMask: Int { 31 }
  /// Values up to this size are copied while scanning backward; for larger ones a seek costs less.
  private static var candidateSizeMaximum: Int { 16_384 }

  /// Creates an iterator that is not positioned. `coverage` has the range tombstones of the children, by their index.
  /// With `deadRanges`, the iterator skips them, and records dead runs from `deadRunMinimum` on.
  init(
    _ source: consuming MergingIterator<Child>, at sequence: SequenceNumber, _ bounds: CursorBounds = .all,
    coverage: consuming RangeCoverage = RangeCoverage(at: .zero), merge: MergeFunction? = nil,
    own: SequenceNumber = .zero, undone: UndoneNumbers = .none, deadRanges: DeadRanges? = nil,
    deadRunMinimum: Int = DeadRanges.runMinimum
  ) {
    let count = source.memoryChildCount
    memoryChildCount = coverage.isEmpty(before: count) ? 0 : count
    self.source = source
    self.sequence = sequence
    self.merge = merge
    self.own = own
    self.undone = undone
    self.deadRanges = deadRanges
    self.deadRunMinimum = deadRunMinimum
    hasCoverage = !coverage.isEmpty
    self.coverage = coverage
    hasLower = bounds.lower != nil
    hasUpper = bounds.upper != nil
    lower = ByteWriter(capacity: 0)
    upper = ByteWriter(capacity: 0)
    if let bytes = bounds.lower { lower.append(bytes) }
    if let bytes = bounds.upper { upper.append(bytes) }
  }

  // MARK: - Bounds

  var bounds: CursorBounds {
    CursorBounds(lower: hasLower ? lower.view.bytes : nil, upper: hasUpper ? upper.view.bytes : nil)
  }

  /// Changes the bounds. The iterator is not valid until its next seek.
  mutating func setBounds(_ newLower: ByteView, _ newUpper: ByteView?) {
    location = .nowhere
    hasLower = true
    hasUpper = newUpper != nil
    lower.removeAll()
    upper.removeAll()
    lower.append(newLower)
    if let newUpper { upper.append(newUpper) }
  }

  // MARK: - The entry

  // A comparison of raw values calls a private function, so programs could not inline the properties of a cursor.
  @inline(__always)
  var isValid: Bool {
    switch location {
    case .nowhere, .onFailure: false
    case .onEntry, .beforeKey, .onSoughtEntry, .onMerged: true
    }
  }

  /// The key whose operands the last move could not fold: the next step continues from there. Valid until then.
  var failedKey: ByteView? { location == .onFailure ? key.view : nil }

  /// The current key, valid until the iterator moves.
  @inline(__always)
  var userKey: ByteView {
    assert(isValid, "an entry is read only while the iterator is valid")
    return location == .onEntry || location == .onSoughtEntry ? source.userKey : key.view
  }

  /// The current value, valid until the iterator moves.
  @inline(__always)
  var value: ByteView {
    assert(isValid, "an entry is read only while the iterator is valid")
    switch location {
    case .onEntry, .onSoughtEntry: return source.value
    case .onMerged: return merged.view
    case .beforeKey, .nowhere, .onFailure: return candidate.view
    }
  }

  /// Whether a move has met a dead key.
  @inline(__always)
  var hasMetDeadKeys: Bool { deadRuns != nil }

  /// Returns the longest run of dead keys that moves have passed since the last call, or nil if none was long enough.
  func takeLongestDeadRun() -> DeadRunMeter.Run? { deadRuns?.takeLongest() }

  /// Releases the iterator and keeps its entry (see `EntryHold`). `giveUp` does so for the child that shows the
  /// entry.
  mutating func giveUpEntry(to hold: EntryHold, _ giveUp: (inout Child) -> Void) {
    guard isValid || location == .onFailure else { return }
    if location == .onEntry || location == .onSoughtEntry { source.withWinner(giveUp) }
    var oldKey = KeyBuffer()
    var oldCandidate = ByteWriter(capacity: 0)
    var oldMerged = MergeValue()
    swap(&oldKey, &key)
    swap(&oldCandidate, &candidate)
    swap(&oldMerged, &merged)
    hold.keep(key: oldKey, value: oldCandidate, merged: oldMerged)
    location = .nowhere
  }

  // MARK: - Seeks

  /// Moves to the first key.
  mutating func seekToFirst() throws(EngineError) {
    location = .nowhere
    if hasLower {
      if try seekPassingCovered(lower.view) { return }
      try source.seek(first(of: lower.view))
    } else {
      if try seekToFirstPassingCovered() { return }
      try source.seekToFirst()
    }
    try findForward(hidingKey: false)
  }

  /// Moves to the last key.
  mutating func seekToLast() throws(EngineError) {
    location = .nowhere
    if hasUpper { try source.seekBefore(Self.beforeAll(of: upper.view)) } else { try source.seekToLast() }
    try findBackward()
  }

  /// Moves to the first key at or after `target`.
  mutating func seek(_ target: ByteView) throws(EngineError) {
    if isBelowLower(target) { return try seekToFirst() }
    location = .nowhere
    // The target may be a view of this very iterator.
    key.assign(target)
    if try seekPassingCovered(key.view) { return }
    try source.seek(first(of: key.view))
    try findForward(hidingKey: false)
  }

  // MARK: - What memtables have deleted

  /// Seeks to the first key, if a range tombstone of a memtable covers the first key of all sources.
  ///
  /// Older sources move directly to the end of the tombstone, and tables that lie wholly under it are not opened.
  /// Returns false, and does nothing, if no memtable covers the key.
  private mutating func seekToFirstPassingCovered() throws(EngineError) -> Bool {
    guard memoryChildCount > 0, let lowest = try source.findLowestKey() else { return false }
    return try seekPassingCovered(lowest, target: nil)
  }

  private mutating func seekPassingCovered(_ target: ByteView) throws(EngineError) -> Bool {
    guard memoryChildCount > 0 else { return false }
    return try seekPassingCovered(target, target: first(of: target))
  }

  /// Seeks like `seekToFirstPassingCovered`, from `begin`, the first key that the sources may have from the target
  /// on.
  private mutating func seekPassingCovered(
    _ begin: ByteView, target: InternalKey?
  ) throws(EngineError) -> Bool {
    // Only tombstones of memtables are searched: searching all tables would cost more than it saves.
    guard try coverage.sequence(covering: begin, forChild: memoryChildCount - 1) != .zero,
      let end = coverage.end(forChild: memoryChildCount)
    else { return false }
    beginDeadRun(begin)
    let hop = deadRuns?.hop(to: end, isAfterHop: false) ?? 0
    let dead = coverage.isOwn ? 0 : hop
    try source.seek(target, passing: coverage.firstRankPassed, to: Self.beforeAll(of: end))
    try findForward(hidingKey: false, dead: dead)
    return true
  }

  /// Moves to the last key at or before `target`.
  mutating func seekForPrevious(_ target: ByteView) throws(EngineError) {
    if isAtUpper(target) { return try seekToLast() }
    location = .nowhere
    key.assign(target)
    try source.seekBefore(Self.afterAll(of: key.view))
    try findBackward()
  }

  // MARK: - Steps

  @inline(__always)
  mutating func next() throws(EngineError) {
    assert(location != .nowhere, "next from an entry only")
    let from = location
    location = .nowhere
    if from == .onEntry || from == .onSoughtEntry {
      key.assign(source.userKey)
      try source.next()
    } else if from == .beforeKey {
      try source.seek(Self.afterAll(of: key.view))
    }
    try findForward(hidingKey: true)
  }

  @inline(__always)
  mutating func previous() throws(EngineError) {
    assert(location != .nowhere, "previous from an entry only")
    let from = location
    location = .nowhere
    if from != .beforeKey {
      if from != .onMerged, from != .onFailure { key.assign(source.userKey) }
      try source.seekBefore(Self.beforeAll(of: key.view))
    }
    try findBackward()
  }

  // MARK: - Forward

  /// Continues to the first entry that shows a key. With `hidingKey`, the entries of `key` show none.
  ///
  /// `passed` is the count of a dead run that ended with a hop just before.
  private mutating func findForward(hidingKey: Bool, dead passed: Int = 0) throws(EngineError) {
    var hiding = hidingKey
    var steps = 0
    var dead = passed
    var deadEnd = passed > 0 ? DeadRunMeter.End.hop : .key
    var scan = DeadScan()
    defer { scan.end(deadRanges) }
    while source.isValid {
      let userKey = source.userKey
      if hiding, key.equals(userKey) {
        try stepForward(&steps, to: Self.afterAll(of: key.view))
        continue
      }
      if isAtUpper(userKey) { break }
      let trailer = source.trailer
      if trailer.sequence > sequence, !isOwn(trailer) {
        // Entries of this key that are too new are not hidden, but the limit of steps applies to them, too.
        if steps == 0 || !key.equals(userKey) {
          key.assign(userKey)
          steps = 0
          hiding = false
        }
        // Other writers have written here since, so a run that contains this entry proves nothing.
        dead = 0
        try stepForward(&steps, to: visible(after: trailer))
        continue
      }
      if hasCoverage, try coverage.sequence(covering: userKey, forChild: source.winnerIndex) > trailer.sequence {
        if scan.shouldLook(dead), try passDeadRange(&dead, &deadEnd) { continue }
        if try passCovered(userKey, &dead, &deadEnd) {
          hiding = true
          steps = 0
        }
        continue
      }
      switch trailer.kind {
      case .put:
        location = .onEntry
        if dead > 0 { deadRuns?.end(dead, last: key.view, deadEnd, next: userKey) }
        return
      case .delete, .singleDelete:
        hiding = true
        steps = 0
        try passDeleted(userKey, trailer, &dead, &deadEnd, &scan)
      case .merge:
        if dead > 0 { deadRuns?.end(dead, last: key.view, deadEnd, next: userKey) }
        key.assign(userKey)
        return try resolveOperands()
      case .rangeDelete, nil:
        throw Self.unreadable(trailer)
      }
    }
    if dead > 0 { deadRuns?.end(dead, last: key.view, deadEnd, next: source.isValid ? source.userKey : nil) }
  }

  /// Folds the operands of `key`, at the newest of which the merge is positioned, over the older entries of the key.
  @inline(never)
  private mutating func resolveOperands() throws(EngineError) {
    let covered = hasCoverage ? try coverage.sequence(covering: key.view) : .zero
    operands.removeAll()
    var existing: ByteView?
    while source.isValid, key.equals(source.userKey) {
      let trailer = source.trailer
      if trailer.sequence > sequence, !isOwn(trailer) {
        try source.next()
        continue
      }
      if trailer.sequence < covered { break }
      if trailer.kind == .merge {
        operands.push(source.value, trailer, account: merge?.account)
        try source.next()
        if operands.byteCount > Limits.valueSizeMaximum { try combineOperands() }
        continue
      }
      guard trailer.kind != nil, trailer.kind != .rangeDelete else { throw Self.unreadable(trailer) }
      if trailer.kind == .put { existing = source.value }
      break
    }
    guard let merge, merge.merge(key.view, existing: existing, &operands, into: &merged) else { throw failure() }
    // A large value is in memory once, and not a second time in its parts.
    operands.removeAll()
    location = .onMerged
  }

  /// Combines the operands that were found so far, which together are larger than a value may be, into one.
  private mutating func combineOperands() throws(EngineError) {
    guard let merge, let trailer = operands.trailers.first, merge.combine(key.view, &operands, into: &merged) else {
      throw failure()
    }
    operands.removeAll()
    operands.push(merged.view, trailer, account: merge.account)
  }

  /// Returns the error of operands that can't be folded, and stands at their key.
  private mutating func failure() -> EngineError {
    let error = MergeFunction.failure(merge, key.view, operands)
    operands.removeAll()
    location = .onFailure
    return error
  }

  /// Takes one step, or seeks to `target` if the steps are used up.
  @inline(__always)
  private mutating func stepForward(_ steps: inout Int, to target: InternalKey) throws(EngineError) {
    if steps < Self.versionStepsMaximum {
      steps &+= 1
      try source.next()
    } else {
      steps = 0
      try source.skip(to: target)
    }
  }

  // MARK: - Backward

  /// Continues backward from the current entry to the last key that is shown.
  private mutating func findBackward() throws(EngineError) {
    var dead = 0
    var passed = 0
    var scan = DeadScan()
    defer { scan.end(deadRanges) }
    while source.isValid {
      let userKey = source.userKey
      if isBelowLower(userKey) { break }
      passed &+= 1
      if passed & Self.deadBlockMask == 0 { try TaskCancellation.check() }
      key.assign(userKey)
      if try resolveBackward(&dead) {
        if dead > 0 { deadRuns?.endBackward(dead, next: key.view, isLive: true) }
        return
      }
      guard deadRanges != nil else { continue }
      meter.passBackward(&dead, key.view)
      if scan.shouldLook(dead) { try passDeadRangeBackward(&dead) }
    }
    if dead > 0 { deadRuns?.endBackward(dead, next: hasLower ? lower.view : nil, isLive: false) }
  }

  /// Scans backward over all entries of `key`. Returns true if the key is shown; otherwise the merge is before it.
  ///
  /// `dead` counts the current dead run; -1 means that there is none and that this key must not begin one.
  private mutating func resolveBackward(_ dead: inout Int) throws(EngineError) -> Bool {
    let covered = hasCoverage ? try coverage.sequence(covering: key.view) : .zero
    var steps = 0
    var newest: EntryKind?
    var isCopied = true
    while source.isValid, key.equals(source.userKey) {
      let trailer = source.trailer
      if trailer.sequence < covered, let start = coverage.start(forChild: source.winnerIndex) {
        if covered >= .uncommitted {
          dead = -1
        } else if deadRanges != nil {
          meter.hopBackward(&dead, key.view, to: start)
        }
        try source.skipWinner(before: Self.beforeAll(of: start))
        continue
      }
      // Other writers have written here since, or the reader itself, so a run begins again before this key.
      if trailer.sequence > sequence { dead = -1 }
      if steps == Self.versionStepsMaximum { return try resolveBySeek(covered, &dead) }
      steps &+= 1
      if trailer.sequence <= sequence || isOwn(trailer), trailer.sequence >= covered {
        newest = try Self.pointKind(trailer)
        if newest == .put { isCopied = copyCandidate() }
      }
      try source.previous()
    }
    if newest == .merge || (newest == .put && !isCopied) { return try resolveBySeek(covered, &dead) }
    if newest == .put { location = .beforeKey }
    return newest == .put
  }

  /// Copies the current value to `candidate`. Returns false if the value is large, so that it is better to seek to it
  /// once it is known to be the newest.
  private mutating func copyCandidate() -> Bool {
    let value = source.value
    guard value.count <= Self.candidateSizeMaximum else { return false }
    candidate.removeAll()
    candidate.append(value)
    return true
  }

  /// Finds the newest visible entry of `key` by a forward seek.
  private mutating func resolveBySeek(_ covered: SequenceNumber, _ dead: inout Int) throws(EngineError) -> Bool {
    try source.seek(first(of: key.view))
    while source.isValid, key.equals(source.userKey), source.trailer.sequence > sequence, !isOwn(source.trailer) {
      try source.skip(to: visible(after: source.trailer))
    }
    if source.isValid, key.equals(source.userKey), source.trailer.sequence >= covered {
      // What the reader deleted itself is dead for it alone. The steps that were saved may have passed no such entry.
      if source.trailer.sequence >= .uncommitted { dead = -1 }
      switch try Self.pointKind(source.trailer) {
      case .put:
        location = .onSoughtEntry
        return true
      case .merge:
        try resolveOperands()
        return true
      default: break
      }
    }
    try source.seekBefore(Self.beforeAll(of: key.view))
    return false
  }

  // MARK: - Rules

  /// Returns the kind of a point entry. Throws for kinds that are not allowed there.
  @inline(__always)
  private static func pointKind(_ trailer: Trailer) throws(EngineError) -> EntryKind {
    guard let kind = trailer.kind, kind != .rangeDelete else { throw unreadable(trailer) }
    return kind
  }

  @inline(never)
  private static func unreadable(_ trailer: Trailer) -> EngineError {
    EngineError(
      .unsupportedFormat,
      "an entry at sequence \(trailer.sequence) has kind \(trailer.rawKind), which this version does not read")
  }

  /// Returns the position at which the visible entries of a key begin.
  @inline(__always)
  private func first(of userKey: ByteView) -> InternalKey {
    InternalKey(userKey, Trailer(seek: own == .zero ? sequence : own))
  }

  /// Returns the position at which the visible entries of `key` continue after an invisible one.
  private func visible(after trailer: Trailer) -> InternalKey {
    if trailer.sequence < .uncommitted { return InternalKey(key.view, Trailer(seek: sequence)) }
    // An undone entry does not hide older entries.
    let older = SequenceNumber(trailer.sequence.value - 1)
    return InternalKey(key.view, Trailer(seek: trailer.sequence > own ? own : older))
  }

  /// Returns whether the entry is a write of the reader itself that was not undone when the reader was made.
  @inline(__always)
  private func isOwn(_ trailer: Trailer) -> Bool {
    trailer.sequence >= .uncommitted && trailer.sequence <= own
      && (undone.isEmpty || !undone.contains(trailer.sequence))
  }

  /// Returns a position before every entry of a key.
  @inline(__always)
  static func beforeAll(of userKey: ByteView) -> InternalKey { InternalKey(userKey, Trailer(word: .max)) }

  /// Returns a position after every entry of a key: no entry has the trailer word 0, a delete at the sequence number
  /// before all commits.
  @inline(__always)
  private static func afterAll(of userKey: ByteView) -> InternalKey { InternalKey(userKey, Trailer(word: 0)) }

  @inline(__always)
  private func isAtUpper(_ userKey: ByteView) -> Bool {
    hasUpper && userKey.compare(upper.view) >= 0
  }

  @inline(__always)
  private func isBelowLower(_ userKey: ByteView) -> Bool {
    hasLower && userKey.compare(lower.view) < 0
  }
}

extension VisibleIterator where Child == MergeSource {
  /// Replaces the uncommitted writes of the reader, which are in the first child, from the next seek on.
  mutating func replaceOwn(_ writes: UncommittedWrites, hasSameTable: Bool) {
    location = .nowhere
    if !hasSameTable { source.replaceFirst(MergeSource(writes.table.makeIterator())) }
    coverage.replaceFirst(writes.table, own: writes.last)
    hasCoverage = !coverage.isEmpty
    let count = source.memoryChildCount
    memoryChildCount = coverage.isEmpty(before: count) ? 0 : count
    own = writes.last
    undone = writes.undone
  }
}
