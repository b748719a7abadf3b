internal import Synchronization

/// The sequences that live snapshots and cursors hold: what flush and compaction must keep apart.
///
/// Safe from any thread.
final class SnapshotList: Sendable {
  private let held = Mutex<[UInt64: Int]>([:])

  /// Takes the visible sequence and holds it. Under the same lock as `sequences`, so that a job that
  /// collects them either sees this one or began before it was visible.
  func hold(_ visible: () -> SequenceNumber) -> SequenceNumber {
    held.withLock { held in
      let sequence = visible()
      held[sequence.value, default: 0] += 1
      return sequence
    }
  }

  func release(_ sequence: SequenceNumber) {
    held.withLock { held in
      guard let count = held[sequence.value] else { return }
      held[sequence.value] = count == 1 ? nil : count - 1
    }
  }

  /// All held sequences and the visible one, ascending, each once.
  func sequences(visible: () -> SequenceNumber) -> [SequenceNumber] {
    held.withLock { held in
      var values = Set(held.keys)
      values.insert(visible().value)
      return values.sorted().map { SequenceNumber($0) }
    }
  }

  var count: Int { held.withLock { $0.values.reduce(0, +) } }
  var oldest: SequenceNumber? { held.withLock { $0.keys.min().map { SequenceNumber($0) } } }
}

/// One instant of the database: reads through it see what was visible when it was made, whatever is
/// written, flushed or compacted later.
///
/// It costs a number, and keeps old versions of what changes from being dropped. It ends with the last
/// reference. Safe from any thread.
public final class EngineSnapshot: Sendable {
  /// The last commit that the snapshot sees.
  public let sequence: SequenceNumber
  private let list: SnapshotList

  init(list: SnapshotList, visible: () -> SequenceNumber) {
    self.list = list
    sequence = list.hold(visible)
  }

  deinit { list.release(sequence) }
}
