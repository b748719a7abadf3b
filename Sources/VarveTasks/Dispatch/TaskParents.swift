/// Tasks that others depend on, so that the end of any other looks for none.
///
/// At the start those on disk are looked for, up to a number: where there are more every task that was there may be one.
struct TaskParents {
  private var known: Set<TaskID> = []
  /// Each task up to this id may be one.
  private var unknownUpTo: UInt64 = 0
  private var largest: UInt64 = 0

  var isEmpty: Bool { known.isEmpty && unknownUpTo == 0 }

  /// So many are remembered.
  static let knownMaximum = 1 << 16

  mutating func insert(_ id: TaskID) {
    largest = max(largest, id.rawValue)
    if id.rawValue <= unknownUpTo { return }
    known.insert(id)
    if known.count > Self.knownMaximum { forget() }
  }

  /// There are more than can be remembered.
  mutating func forget(upTo id: UInt64 = 0) {
    unknownUpTo = max(largest, id, unknownUpTo)
    known = []
  }

  /// A task has ended: whether others may depend on it.
  func mayHave(_ id: TaskID) -> Bool { id.rawValue <= unknownUpTo || known.contains(id) }

  mutating func remove(_ id: TaskID) { known.remove(id) }
}
