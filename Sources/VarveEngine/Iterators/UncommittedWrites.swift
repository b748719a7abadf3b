/// What the cursors of a batch must know of it after they were made: whether the savepoint after which they were made was
/// undone since.
///
/// Every cursor has the tick of its time. Setting a savepoint begins another tick where the present one has a cursor;
/// undoing the savepoint ends all ticks from there on. Ticks without cursors are used again, so that intervals of ended
/// ones stay few.
///
/// Belongs to the thread of the batch and its cursors.
final class BatchMarks {
  private var ended = UndoneNumbers.none
  private var tick: UInt64 = 0
  private var hasCursor = false

  /// The tick for a cursor. One that asks again before each of its seeks is not remembered.
  func tick(isKept: Bool) -> UInt64 {
    if isKept { hasCursor = true }
    return tick
  }

  /// The tick at which a savepoint begins.
  func beginSavepoint() -> UInt64 {
    if hasCursor { begin() }
    return tick
  }

  /// Ends the cursors that were made since a savepoint.
  func undo(from savepoint: UInt64) {
    ended.append(savepoint..<(tick + 1))
    begin()
  }

  private func begin() {
    tick += 1
    hasCursor = false
  }

  /// Whether a cursor of this tick has ended.
  @inline(__always)
  func hasEnded(_ tick: UInt64) -> Bool { !ended.isEmpty && ended.contains(.pending(tick)) }
}

/// What a batch or a transaction has written to a family and not committed, as a reader of its own sees it: a memtable
/// above all others, up to the entry that was the last when the reader was made.
struct UncommittedWrites {
  let table: MemTable
  let last: SequenceNumber
  /// Entries of the table that do not count. No range tombstone is among them.
  let undone: UndoneNumbers
  let marks: BatchMarks
  let tick: UInt64
}
