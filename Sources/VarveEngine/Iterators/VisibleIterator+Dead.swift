/// Passing what is dead: entries under range tombstones, deleted keys, and ranges that other readers found dead.
extension VisibleIterator where Child: ~Copyable {
  /// Continues after a delete, or after the known dead range or the dead blocks around it.
  @inline(__always)
  mutating func passDeleted(
    _ userKey: ByteView, _ trailer: Trailer, _ dead: inout Int, _ deadEnd: inout DeadRunMeter.End,
    _ scan: inout DeadScan
  ) throws(EngineError) {
    key.assign(userKey)
    if trailer.sequence >= .uncommitted {
      // What the reader deleted itself is dead for it alone.
      dead = 0
      return try source.next()
    }
    if dead == 0 { beginDeadRun(userKey) }
    dead &+= 1
    deadEnd = .key
    if scan.shouldLook(dead), try passDeadRange(&dead, &deadEnd) { return }
    // Within a run, the scan occasionally checks whether whole blocks are dead.
    if dead & Self.deadBlockMask == 0 {
      try TaskCancellation.check()
      let passed = try source.passDeadBlocks()
      if passed > 0 {
        dead &+= passed
        deadEnd = .blocks
        return
      }
    }
    try source.next()
  }

  /// Continues from an entry that a range tombstone hides, to the end of the range if the source has no newer entry
  /// in it.
  ///
  /// Returns true if it moved by only one entry, whose key is hidden.
  @inline(never)
  mutating func passCovered(
    _ userKey: ByteView, _ dead: inout Int, _ deadEnd: inout DeadRunMeter.End
  ) throws(EngineError) -> Bool {
    try TaskCancellation.check()
    if dead == 0 { beginDeadRun(userKey) }
    if let end = coverage.end(forChild: source.winnerIndex) {
      dead &+= deadRuns?.hop(to: end, isAfterHop: dead > 0 && deadEnd == .hop) ?? 0
      deadEnd = .hop
      // What the reader deleted itself is dead for it alone.
      if coverage.isOwn { dead = 0 }
      try source.skipWinner(to: Self.beforeAll(of: end))
      return false
    }
    key.assign(userKey)
    dead = coverage.isOwn ? 0 : dead &+ 1
    deadEnd = .key
    try source.next()
    return true
  }

  /// Begins a dead run with this key, if dead runs are measured.
  @inline(never)
  mutating func beginDeadRun(_ key: ByteView) {
    if deadRanges == nil { return }
    meter.begin(key)
  }

  /// Continues from a dead entry to the end of the known dead range around it, or to the reader's own next write.
  ///
  /// Returns false, and does nothing, if no such range is known.
  @inline(never)
  mutating func passDeadRange(
    _ dead: inout Int, _ deadEnd: inout DeadRunMeter.End
  ) throws(EngineError) -> Bool {
    guard let deadRanges, !deadRanges.isEmpty else { return false }
    bound.removeAll()
    guard let keyCount = deadRanges.appendEnd(around: source.userKey, at: sequence, to: &bound) else { return false }
    if own != .zero, let next = source.currentKey(of: 0), next < bound.view {
      bound.removeAll()
      bound.append(next)
    }
    guard source.userKey < bound.view else { return false }
    dead &+= meter.hop(to: bound.view, isAfterHop: deadEnd == .hop)
    meter.passKnown(keyCount)
    deadEnd = .hop
    try source.skip(to: Self.beforeAll(of: bound.view))
    return true
  }

  /// Moves the merge from before the dead key `key` back to the start of the known dead range around it, or to the
  /// reader's own last write in it. Does nothing if no such range is known.
  @inline(never)
  mutating func passDeadRangeBackward(_ dead: inout Int) throws(EngineError) {
    guard let deadRanges, !deadRanges.isEmpty, source.isValid else { return }
    bound.removeAll()
    guard let keyCount = deadRanges.appendStart(around: key.view, at: sequence, to: &bound) else { return }
    if own != .zero, let previous = source.currentKey(of: 0), bound.view <= previous {
      bound.removeAll()
      bound.append(previous)
      bound.append(repeating: 0, count: 1)
    }
    guard bound.view <= source.userKey else { return }
    meter.hopBackward(&dead, key.view, to: bound.view)
    meter.passKnown(keyCount)
    try source.seekBefore(Self.beforeAll(of: bound.view))
  }

  /// The meter of dead runs, created when it is first needed.
  var meter: DeadRunMeter {
    mutating get {
      if let deadRuns { return deadRuns }
      let made = DeadRunMeter(minimum: deadRunMinimum)
      deadRuns = made
      return made
    }
  }
}
