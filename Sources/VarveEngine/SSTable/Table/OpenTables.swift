internal import FutexLocks
internal import Synchronization

/// The tables of an engine that are open: bounded in number, because each holds a descriptor, and in
/// bytes of what each keeps in memory. A table that is touched opens; where that is one too many,
/// another is closed.
///
/// # Which one goes
/// The slots stand in a ring under a clock's hand. A slot that was read since the hand came by last is
/// passed once; the first that was not is closed. The read that opens a table does not count: one that
/// no one reads again goes before the others. A read marks its slot by at most one store, which most of
/// the time is not needed.
///
/// # When it goes
/// A read of a user counts no reference and takes no lock: it loads the slot's word inside a read
/// epoch. So closing takes the reader out of its slot at once, and `retire` releases it when every read
/// that may have loaded it has ended. Cursors and compactions hold their reader counted; it closes with
/// the last of them. The bounds are on the slots: readers that are still used count beside them.
///
/// # Invariants
/// 1. A slot is in the ring exactly while it has a reader; `ringIndex` is its position.
/// 2. `bytes` is the sum of `footprint` over the ring.
///
/// # Concurrency
/// Safe from any thread. One lock guards the ring and all changes of the slots in it; opening, closing
/// and releasing happen outside of it.
final class OpenTables: Sendable {
  fileprivate struct State {
    var slots: [TableReaderSlot] = []
    var hand = 0
    var bytes = 0
    var countMaximum: Int
    var bytesMaximum: Int
    var openedCount: UInt64 = 0
  }

  /// Engines take at least so many: one table a level, for each of a few threads.
  static let countMinimum = 16

  private let state: FutexLock<State>
  private let retire: @Sendable (TableReader) -> Void

  /// `retire` is given the readers that no read may get any more: it releases them when the reads that
  /// have them have ended.
  init(countMaximum: Int, bytesMaximum: Int, retire: @escaping @Sendable (TableReader) -> Void) {
    state = FutexLock(State(countMaximum: countMaximum, bytesMaximum: bytesMaximum))
    self.retire = retire
  }

  /// Tables that are open for reads to come.
  var count: Int { state.withLock { $0.slots.count } }
  /// Tables that were opened since the engine was; those opened again included.
  var openedCount: UInt64 { state.withLock { $0.openedCount } }
  var countMaximum: Int { state.withLock { $0.countMaximum } }

  /// Puts a reader into a slot, and closes others where that is too much. Returns the slot's reader: a
  /// faster thread's, where there was one.
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

  /// Forgets a slot whose table no one names any more.
  func remove(_ slot: TableReaderSlot) {
    // Released after the lock: closing a file is a system call.
    let reader = state.withLock { $0.take(slot) }
    withExtendedLifetime(reader) {}
  }

  /// Changes the bounds; what is too much is closed at once.
  func setBounds(countMaximum: Int, bytesMaximum: Int) {
    let closed = state.withLock { state in
      state.countMaximum = countMaximum
      state.bytesMaximum = bytesMaximum
      return state.takeExcess(sparing: nil)
    }
    for reader in closed { retire(reader) }
  }

  /// Closes half of the tables that no cursor or compaction holds: the process has no descriptor left.
  func shed() {
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
  /// Takes the reader out of a slot, and the slot out of the ring; nil if it has none.
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

  /// Takes out what is above the bounds, but not `spared`.
  fileprivate mutating func takeExcess(sparing spared: TableReaderSlot?) -> [TableReader] {
    var closed: [TableReader] = []
    while slots.count > countMaximum || bytes > bytesMaximum {
      guard let victim = nextVictim(sparing: spared), let reader = take(victim) else { break }
      closed.append(reader)
    }
    return closed
  }

  /// Each slot is passed at most once for having been read, so the hand stops in its second round.
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
