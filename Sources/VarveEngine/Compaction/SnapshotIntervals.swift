/// The sequences at which readers read, as the intervals between them.
///
///     sequence   0        s0         s1         s2
///     ───────────┼─────────┼──────────┼──────────┼───────────▶
///     interval        0         1          2       unsettled
///
/// Interval i has the sequences above s(i-1) up to and including s(i). `s` are the live snapshots and the visible
/// sequence when the job started, so a later snapshot is at the last of them or above. For entries above the last one,
/// it is still unknown between which of them a snapshot will fall.
struct SnapshotIntervals: Sendable {
  private let sequences: [UInt64]
  private let oldest: UInt64
  private let newest: UInt64

  /// `sequences` ascend, and the last one is the visible sequence when the job started.
  init(_ sequences: [SequenceNumber]) {
    // A job without a sequence would drop entries that readers see.
    guard let first = sequences.first, let last = sequences.last else {
      fatalError("pass at least the visible sequence")
    }
    precondition(zip(sequences, sequences.dropFirst()).allSatisfy { $0 < $1 }, "pass snapshots in order, each once")
    self.sequences = sequences.map(\.value)
    oldest = first.value
    newest = last.value
  }

  /// The interval above every snapshot.
  @inline(__always)
  var unsettled: Int { sequences.count }

  @inline(__always)
  func interval(of sequence: SequenceNumber) -> Int {
    if sequence.value <= oldest { return 0 }
    if sequence.value > newest { return sequences.count }
    return search(sequence.value)
  }

  /// Returns the lowest sequence of a reader at which everything up to `sequence` is visible to all readers, if no
  /// reader is older.
  func end(ofIntervalOf sequence: SequenceNumber) -> SequenceNumber {
    let interval = interval(of: sequence)
    return interval == unsettled ? sequence : SequenceNumber(sequences[interval])
  }

  /// The index of the first snapshot that sees `value`.
  @inline(never)
  private func search(_ value: UInt64) -> Int {
    var low = 0
    var high = sequences.count
    while low < high {
      let middle = (low + high) / 2
      if sequences[middle] < value { low = middle + 1 } else { high = middle }
    }
    return low
  }
}
