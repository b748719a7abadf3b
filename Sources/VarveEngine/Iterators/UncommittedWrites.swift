/// Determines whether a savepoint was undone after which a cursor of a batch was made.
///
/// Every cursor has the tick at which it was made. Setting a savepoint begins a new tick if the current one has a
/// cursor. Undoing the savepoint ends all ticks from there on. Ticks without cursors are reused, so that intervals of
/// ended ones stay few.
///
/// The object belongs to the thread of the batch and its cursors.
final class BatchMarks {
  private var ended = UndoneNumbers.none
  private var tick: UInt64 = 0
  private var hasCursor = false

  /// Returns the tick for a cursor. A cursor that asks again before each of its seeks is not recorded.
  func tick(isKept: Bool) -> UInt64 {
    if isKept { hasCursor = true }
    return tick
  }

  /// Returns the tick at which a savepoint begins.
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

  /// Returns whether the cursors of this tick have ended.
  @inline(__always)
  func hasEnded(_ tick: UInt64) -> Bool { !ended.isEmpty && ended.contains(.pending(tick)) }
}

/// The uncommitted writes of a batch or a transaction to a family, as its own reader sees them: a memtable above all
/// others, up to the entry that was the last when the reader was made.
struct UncommittedWrites {
  let table: MemTable
  let last: SequenceNumber
  /// The entries of the table that were undone. No range tombstone is among them.
  let undone: UndoneNumbers
  let marks: BatchMarks
  let tick: UInt64
}
