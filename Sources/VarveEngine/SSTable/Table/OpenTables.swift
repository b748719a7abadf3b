internal import FutexLocks
internal import Synchronization

/// The open tables of an engine.
///
/// They are bounded in number, because each holds a descriptor, and in the bytes that they keep in memory. A table
/// opens when it is first read. If that exceeds a bound, another table is closed.
///
/// # Which table is closed
/// The slots form a ring for the clock algorithm. A slot that was read since the hand last passed it is skipped once;
/// the first one that was not is closed. The read that opens a table does not count, so a table that is not read
/// again is closed before the others. A read marks its slot by at most one store, which is rarely needed.
///
/// # When a table is released
/// A user's read counts no reference and takes no lock: it loads the slot's word inside a read epoch. So closing
/// removes the reader from its slot at once, and `retire` releases it when every read that may have loaded it has
/// ended. Cursors and compactions retain their reader, which is closed with the last of them. The bounds apply to the
/// slots: readers that are still in use are not counted.
///
/// # Invariants
/// 1. A slot is in the ring exactly while it has a reader; `ringIndex` is its index.
/// 2. `bytes` is the sum of `footprint` over the ring.
///
/// # Concurrency
/// Safe from any thread. One lock guards the ring and all changes of the slots in it. Opening, closing and releasing
/// happen outside of the lock.
final class OpenTables: Sendable {
  fileprivate struct State {
    var slots: [TableReaderSlot] = []
    var hand = 0
    var bytes = 0
    var countMaximum: Int
    var bytesMaximum: Int
    var openedCount: UInt64 = 0
  }

  /// The smallest bound on the number of open tables: one table for each level, for each of a few threads.
  static let countMinimum = 16

  private let state: FutexLock<State>
  private let retire: @Sendable (TableReader) -> Void

  /// Creates an empty set. `retire` is called with readers that no new read can load; it releases each when the reads
  /// that loaded it have ended.
  init(countMaximum: Int, bytesMaximum: Int, retire: @escaping @Sendable (TableReader) -> Void) {
    state = FutexLock(State(countMaximum: countMaximum, bytesMaximum: bytesMaximum))
    self.retire = retire
  }

  /// The number of tables that are open for new reads.
  var count: Int { state.withLock { $0.slots.count } }
  /// The number of tables that were opened since the engine was, including those opened again.
  var openedCount: UInt64 { state.withLock { $0.openedCount } }
  var countMaximum: Int { state.withLock { $0.countMaximum } }

  /// Stores a reader in a slot, and closes other tables if a bound is exceeded. Returns the slot's reader, which is
  /// another one if another thread stored its reader first.
  func install(_ fresh: TableReader, in slot: TableReaderSlot) -> TableReader {
    let (reader, closed) = state.withLock { state -> (TableReader, [TableReader]) in
      if let winner = slot.storedReader { return (winner, []) }
      slot.store(fresh, ringIndex: state.slots.count)
      state.slots.append(slot)
      state.bytes += fresh.footprint
      state.openedCount += 1
      return (fresh, state.takeExcess(sparing: slot))
    }
    for reader in closed { retire(reader) }
    return reader
  }

  /// Removes a slot whose table is no longer named by any version.
  func remove(_ slot: TableReaderSlot) {
    // The reader is released after the lock, because closing a file is a system call.
    let reader = state.withLock { $0.take(slot) }
    withExtendedLifetime(reader) {}
  }

  /// Changes the bounds. The tables that exceed them are closed at once.
  func setBounds(countMaximum: Int, bytesMaximum: Int) {
    let closed = state.withLock { state in
      state.countMaximum = countMaximum
      state.bytesMaximum = bytesMaximum
      return state.takeExcess(sparing: nil)
    }
    for reader in closed { retire(reader) }
  }

  /// Closes half of the tables that no cursor or compaction holds. Called when the process has no descriptor left.
  func closeHalf() {
    let closed = state.withLock { state in
      var closed: [TableReader] = []
      for _ in 0..<(state.slots.count + 1) / 2 {
        guard let slot = state.slots.last, let reader = state.take(slot) else { break }
        closed.append(reader)
      }
      return closed
    }
    for reader in closed { retire(reader) }
  }

  /// Closes every table that no cursor or compaction holds.
  func closeAll() {
    let closed = state.withLock { state in
      var closed: [TableReader] = []
      while let slot = state.slots.last, let reader = state.take(slot) { closed.append(reader) }
      return closed
    }
    for reader in closed { retire(reader) }
  }
}

extension OpenTables.State {
  /// Removes the reader from a slot, and the slot from the ring. Returns nil if the slot has no reader.
  fileprivate mutating func take(_ slot: TableReaderSlot) -> TableReader? {
    guard let reader = slot.takeReader() else { return nil }
    bytes -= reader.footprint
    let index = slot.ringIndex
    let last = slots.removeLast()
    if last !== slot {
      slots[index] = last
      last.ringIndex = index
    }
    return reader
  }

  /// Removes the readers that exceed the bounds, but not that of `spared`.
  fileprivate mutating func takeExcess(sparing spared: TableReaderSlot?) -> [TableReader] {
    var closed: [TableReader] = []
    while slots.count > countMaximum || bytes > bytesMaximum {
      guard let victim = nextVictim(sparing: spared), let reader = take(victim) else { break }
      closed.append(reader)
    }
    return closed
  }

  /// Returns the next slot to close. Each slot is skipped at most once for having been read, so the hand stops in its
  /// second round.
  private mutating func nextVictim(sparing spared: TableReaderSlot?) -> TableReaderSlot? {
    for _ in 0..<2 * slots.count {
      if hand >= slots.count { hand = 0 }
      let slot = slots[hand]
      if slot !== spared, !slot.takeTouch() { return slot }
      hand += 1
    }
    return nil
  }
}
