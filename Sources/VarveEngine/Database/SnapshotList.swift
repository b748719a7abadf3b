internal import Synchronization

/// The sequences that live snapshots and cursors hold: what flush and compaction must keep apart.
///
/// Every cursor holds one while it lives, so this is on the path of a seek: an array that is in order by
/// itself, because the visible sequence only grows. To hold is to look at its end.
///
/// Safe from any thread.
final class SnapshotList: Sendable {
  private struct Held: Sendable {
    let sequence: SequenceNumber
    var count: Int
  }

  /// Ascending, each sequence once.
  private let held = Mutex<[Held]>([])

  /// Takes the visible sequence and holds it. Under the same lock as `sequences`, so that a job that
  /// collects them either sees this one or began before it was visible.
  func hold(_ visible: () -> SequenceNumber) -> SequenceNumber {
    held.withLock { held in
      let sequence = visible()
      if let last = held.last, last.sequence == sequence {
        held[held.count - 1].count += 1
      } else {
        assert(held.last.map { $0.sequence < sequence } ?? true, "the visible sequence went back")
        held.append(Held(sequence: sequence, count: 1))
      }
      return sequence
    }
  }

  func release(_ sequence: SequenceNumber) {
    held.withLock { held in
      var low = 0
      var high = held.count
      while low < high {
        let middle = (low + high) / 2
        if held[middle].sequence < sequence { low = middle + 1 } else { high = middle }
      }
      guard low < held.count, held[low].sequence == sequence else { return }
      held[low].count -= 1
      if held[low].count == 0 { held.remove(at: low) }
    }
  }

  /// All held sequences and the visible one, ascending, each once.
  func sequences(visible: () -> SequenceNumber) -> [SequenceNumber] {
    held.withLock { held in
      var sequences = held.map(\.sequence)
      let visible = visible()
      if sequences.last != visible { sequences.append(visible) }
      return sequences
    }
  }

  var count: Int { held.withLock { $0.reduce(0) { $0 + $1.count } } }
  var oldest: SequenceNumber? { held.withLock { $0.first?.sequence } }
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
  /// The views to read through, where later ones need not have what the snapshot sees: in a follower.
  let held: HeldViews?

  init(list: SnapshotList, holding: () -> HeldViews? = { nil }, visible: () -> SequenceNumber) {
    self.list = list
    sequence = list.hold(visible)
    // Behind the sequence: views only gain what later commits need.
    held = holding()
  }

  deinit { list.release(sequence) }
}
