/// What a transaction has changed in counted parts: their trees of runs, and the runs that must be written.
///
/// It belongs to the thread of its transaction. Savepoints copy it.
struct CountedWrites {
  /// The changes of one part.
  struct Change {
    let family: StorageFamily
    /// The family of the counts; it is made at the commit if there is none.
    let runs: () throws -> StorageFamily
    /// The tree with the changes. Changed runs are marked.
    var tree: RunTree
    /// The separators of runs that were joined with others.
    var removed: [[UInt8]] = []
    /// The ranges of separators of removed runs.
    var removedRanges: [StorageRange] = []
    /// Whether a run has become so large that it is divided before it is read.
    var hasLargeRuns = false

    /// Whether no run has to be written.
    var isWritten: Bool { removed.isEmpty && removedRanges.isEmpty && !tree.hasMarks }
  }

  private(set) var changes: ContiguousArray<Change> = []

  var isEmpty: Bool { changes.isEmpty }

  @inline(__always)
  func index(of family: StorageFamily) -> Int? {
    for index in changes.indices where changes[index].family.number == family.number { return index }
    return nil
  }

  func tree(of family: StorageFamily) -> RunTree? { index(of: family).map { changes[$0].tree } }

  mutating func append(_ change: Change) -> Int {
    changes.append(change)
    return changes.count - 1
  }

  /// Adds to the count of the run that has a key. Returns its count.
  @inline(__always)
  mutating func add(_ number: Int, at key: RawSpan, _ index: Int) -> Int {
    let count = changes[index].tree.add(number, at: key)
    if count > RunFormat.readSize { changes[index].hasLargeRuns = true }
    return count
  }

  /// Changes the change at an index.
  @inline(__always)
  mutating func with<Result>(_ index: Int, _ body: (inout Change) throws -> Result) rethrows -> Result {
    try body(&changes[index])
  }
}
