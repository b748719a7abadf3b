/// The tasks that others depend on, so that the end of any other task needs no search for children, and those of them
/// that have ended, whose children are to receive this.
///
/// At the start those on disk are read, up to a maximum number. If there are more, every task that existed then may be
/// one.
///
/// - A task that others depend on is never missing: `mayHave` may only return true for too many tasks.
/// - A task that has ended is in `pending`, in `heldPending` or in the work of a turn until its last child has received
///   this.
struct Parents: ~Copyable {
  private var known: Set<TaskID> = []
  /// The id up to which every task may be one that others depend on.
  private var unknownUpTo: UInt64 = 0
  private var largest: UInt64 = 0
  /// The tasks that have ended, and whose children are to receive this.
  private(set) var pending: [TaskID] = []
  /// The tasks that have ended, and some of whose children can't receive this while transactions are open.
  private(set) var heldPending: [TaskID] = []

  /// Whether no task has children.
  var isEmpty: Bool { known.isEmpty && unknownUpTo == 0 }

  /// The maximum number of tasks that are remembered.
  static let knownMaximum = 1 << 16

  mutating func insert(_ id: TaskID) {
    largest = max(largest, id.rawValue)
    if id.rawValue <= unknownUpTo { return }
    known.insert(id)
    if known.count > Self.knownMaximum { forget() }
  }

  /// Adds the tasks that others depend on, as read from disk, and those that have ended.
  ///
  /// `isAll` says whether `parents` has all tasks that others depend on. Otherwise each task up to `last` may be one.
  mutating func load(_ parents: [TaskID], isAll: Bool, upTo last: UInt64, pending ended: [TaskID]) {
    if !isAll { forget(upTo: last) }
    for id in parents { insert(id) }
    // Commits that were acknowledged since the disk was read have added their tasks.
    let known = Set(pending)
    pending += ended.filter { !known.contains($0) }
  }

  /// Forgets the tasks, because there are more than can be remembered. Every task up to an id may then be one.
  private mutating func forget(upTo id: UInt64 = 0) {
    unknownUpTo = max(largest, id, unknownUpTo)
    known = []
  }

  /// Returns whether others may depend on a task that has ended.
  func mayHave(_ id: TaskID) -> Bool { id.rawValue <= unknownUpTo || known.contains(id) }

  mutating func remove(_ id: TaskID) { known.remove(id) }

  // MARK: - Tasks that have ended

  /// Adds tasks that have ended, whose children are to receive this.
  mutating func end(_ ids: [TaskID]) { pending += ids }

  /// Takes the first tasks that have ended.
  mutating func takePending(_ count: Int) -> [TaskID] {
    defer { pending.removeFirst(count) }
    return Array(pending.prefix(count))
  }

  /// Takes back tasks whose children could not be changed. They are the first again.
  mutating func putBack(_ ids: [TaskID]) { pending = ids + pending }

  /// Adds tasks that have ended, and some of whose children transactions are changing.
  mutating func hold(_ ids: [TaskID]) { heldPending += ids }

  /// Lets the children receive the end of tasks that had to wait for transactions. Returns whether there are such
  /// tasks.
  mutating func releasePending() -> Bool {
    if heldPending.isEmpty { return false }
    pending += heldPending
    heldPending = []
    return true
  }
}
