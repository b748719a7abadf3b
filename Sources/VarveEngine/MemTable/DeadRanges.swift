internal import FutexLocks
internal import Synchronization

/// Ranges of a family in which readers found no live key, kept in memory so that later readers skip them.
///
/// A reader that has stepped over many dead keys has proved that none of them lives at its sequence number. What it
/// proved holds for every reader at that number, and for newer ones as long as nothing is written into the range.
///
/// # How later writes are noticed
/// A range is added before the reader checks what was written since its sequence number, and from then on the memtable
/// passes each write to this object (`MemTable.watchWrites`). All threads pass a memory barrier between the two. So a
/// write that the memtable did not pass on is one that the check finds. Until the check has ended, and if it finds
/// something, only readers at the very sequence number use the range.
///
/// A delete leaves the range as it is. Another write divides it at its key.
///
/// # Bounds
/// At most `countMaximum` ranges, with bounds of at most `boundsSizeMaximum` bytes. The one whose last use is longest
/// ago is replaced.
///
/// # Concurrency
/// Safe from any thread. Readers without dead keys never come here; the others look at one word while there are no
/// ranges.
final class DeadRanges: Sendable {
  static let countMaximum = 8
  /// The maximum size of both bounds of a range.
  static let boundsSizeMaximum = 2_048
  /// The number of dead keys from which a range is worth remembering.
  static let runMinimum = 64

  private struct Known: Sendable {
    var lower: [UInt8]
    var upper: [UInt8]
    /// About how many dead keys the range had.
    let keyCount: Int
    /// The range is dead for readers from this sequence on, below `end`.
    let from: UInt64
    var end: UInt64
    /// Whether writes into the range are noticed.
    var isWatched: Bool
    let number: UInt64
    var lastUse: UInt64

    func contains(_ key: ByteView) -> Bool {
      lower.withByteView { $0 <= key } && upper.withByteView { key < $0 }
    }

    var memorySize: Int { 160 + lower.count + upper.count }
  }

  private struct State: Sendable {
    var ranges: [Known] = []
    /// The number of the last range or use.
    var clock: UInt64 = 0
  }

  private let state = FutexLock(State())
  private let charge: MemoryCharge
  /// The number of ranges, and of those whose writes are noticed.
  private let count = Atomic<Int>(0)
  private let watchedCount = Atomic<Int>(0)
  /// The number of dead keys that readers stepped over one by one.
  private let passedWord = Atomic<Int>(0)

  init(account: MemoryAccount? = nil) { charge = MemoryCharge(0, to: account) }

  // MARK: - For readers

  @inline(__always)
  var isEmpty: Bool { count.load(ordering: .relaxed) == 0 }

  /// Whether a memtable must pass writes on.
  var isWatching: Bool { watchedCount.load(ordering: .relaxed) > 0 }

  /// The number of dead keys that readers stepped over one by one, for tests.
  var passedCount: Int { passedWord.load(ordering: .relaxed) }
  func notePassed(_ count: Int) { passedWord.wrappingAdd(count, ordering: .relaxed) }

  /// Appends the end of a range around `key` that is dead at `sequence`. Returns about how many dead keys it had, or
  /// `nil` if there is none.
  func appendEnd(around key: ByteView, at sequence: SequenceNumber, to bound: inout ByteWriter) -> Int? {
    find(key, sequence) { bound.append($0.upper) }
  }

  /// Appends the first key of a range around `key` that is dead at `sequence`. Returns about how many dead keys it had,
  /// or `nil` if there is none.
  func appendStart(around key: ByteView, at sequence: SequenceNumber, to bound: inout ByteWriter) -> Int? {
    find(key, sequence) { bound.append($0.lower) }
  }

  private func find(_ key: ByteView, _ sequence: SequenceNumber, _ body: (Known) -> Void) -> Int? {
    state.withLock { state in
      for index in state.ranges.indices {
        let known = state.ranges[index]
        guard known.from <= sequence.value, sequence.value < known.end, known.contains(key) else { continue }
        state.clock += 1
        state.ranges[index].lastUse = state.clock
        body(known)
        return known.keyCount
      }
      return nil
    }
  }

  // MARK: - What was proved

  /// Adds a range that is dead at `sequence`, and returns its number for `confirm`. Returns `nil` if a known one has
  /// all of it.
  ///
  /// The caller then makes the memtable pass writes on.
  func add(from lower: [UInt8], to upper: [UInt8], _ keyCount: Int, at sequence: SequenceNumber) -> UInt64? {
    guard lower.count + upper.count <= Self.boundsSizeMaximum else { return nil }
    return state.withLock { state in
      let isKnown = state.ranges.contains { known in
        known.from <= sequence.value && sequence.value < known.end && Self.contains(known, lower, upper)
      }
      if isKnown { return nil }
      let oldest = state.ranges.indices.min { state.ranges[$0].lastUse < state.ranges[$1].lastUse }
      if state.ranges.count == Self.countMaximum, let oldest { state.ranges.remove(at: oldest) }
      state.clock += 1
      state.ranges.append(
        Known(
          lower: lower, upper: upper, keyCount: keyCount, from: sequence.value, end: sequence.value + 1,
          isWatched: true, number: state.clock, lastUse: state.clock))
      didChange(state)
      return state.clock
    }
  }

  /// Ends the check of a range for writes since its sequence: newer readers use it if there were none.
  func confirm(_ number: UInt64, isUnchanged: Bool) {
    state.withLock { state in
      guard let index = state.ranges.firstIndex(where: { $0.number == number && $0.isWatched }) else { return }
      guard isUnchanged else {
        state.ranges[index].isWatched = false
        return didChange(state)
      }
      state.ranges[index].end = .max
      let confirmed = state.ranges[index]
      // Only readers between the two sequences need what lies within, and a seek more is all that they lose.
      state.ranges.removeAll {
        $0.number != number && $0.from >= confirmed.from && Self.contains(confirmed, $0.lower, $0.upper)
      }
      for index in state.ranges.indices where state.ranges[index].number != number {
        let known = state.ranges[index]
        guard known.isWatched, known.end == .max, Self.contains(confirmed, known.lower, known.upper) else { continue }
        state.ranges[index].end = confirmed.from
        state.ranges[index].isWatched = false
      }
      didChange(state)
    }
  }

  private static func contains(_ known: Known, _ lower: [UInt8], _ upper: [UInt8]) -> Bool {
    known.lower.withByteView { first in lower.withByteView { first <= $0 } }
      && upper.withByteView { end in known.upper.withByteView { end <= $0 } }
  }

  private func didChange(_ state: State) {
    count.store(state.ranges.count, ordering: .relaxed)
    watchedCount.store(state.ranges.reduce(0) { $0 + ($1.isWatched ? 1 : 0) }, ordering: .relaxed)
    charge.resize(to: state.ranges.reduce(0) { $0 + $1.memorySize })
  }

  // MARK: - What is written

  /// Notes a write of `key`, which was not a delete and is in the memtable by now.
  @inline(never)
  func noteWrite(_ key: ByteView) {
    if !isWatching { return }
    state.withLock { state in
      // Ranges that are being checked may overlap others.
      while let index = state.ranges.firstIndex(where: { $0.isWatched && $0.contains(key) }) {
        divide(index, at: key, &state)
      }
      didChange(state)
    }
  }

  private func divide(_ index: Int, at key: ByteView, _ state: inout State) {
    let known = state.ranges[index]
    guard known.end == .max else {
      // It is being checked, and stays with the readers at its sequence.
      state.ranges[index].isWatched = false
      return
    }
    let isFirst = known.lower.withByteView { $0 == key }
    var after = key.bytes
    after.append(0)
    let isLast = after == known.upper
    switch (isFirst, isLast) {
    case (true, true): state.ranges.remove(at: index)
    case (true, false): state.ranges[index].lower = after
    case (false, true): state.ranges[index].upper = key.bytes
    case (false, false):
      state.ranges[index].upper = key.bytes
      // Without room for two parts, the first one stays: what is consumed ends before the keys that are written.
      guard state.ranges.count < Self.countMaximum else { return }
      state.clock += 1
      state.ranges.append(
        Known(
          lower: after, upper: known.upper, keyCount: known.keyCount, from: known.from, end: .max, isWatched: true,
          number: state.clock, lastUse: known.lastUse))
    }
  }

  /// Forgets all ranges, because something may be in them that no memtable passed on.
  func removeAll() {
    state.withLock { state in
      state.ranges = []
      didChange(state)
    }
  }
}
