/// The tasks that others depend on, so that the end of any other task needs no search for children.
///
/// At the start those on disk are read, up to a maximum number. If there are more, every task that existed then may be
/// one.
struct TaskParents {
  private var known: Set<TaskID> = []
  /// The id up to which every task may be one that others depend on.
  private var unknownUpTo: UInt64 = 0
  private var largest: UInt64 = 0

  var isEmpty: Bool { known.isEmpty && unknownUpTo == 0 }

  /// The maximum number of tasks that are remembered.
  static let knownMaximum = 1 << 16

  mutating func insert(_ id: TaskID) {
    largest = max(largest, id.rawValue)
    if id.rawValue <= unknownUpTo { return }
    known.insert(id)
    if known.count > Self.knownMaximum { forget() }
  }

  /// Forgets the tasks, because there are more than can be remembered. Every task up to an id may then be one.
  mutating func forget(upTo id: UInt64 = 0) {
    unknownUpTo = max(largest, id, unknownUpTo)
    known = []
  }

  /// Returns whether others may depend on a task that has ended.
  func mayHave(_ id: TaskID) -> Bool { id.rawValue <= unknownUpTo || known.contains(id) }

  mutating func remove(_ id: TaskID) { known.remove(id) }
}
