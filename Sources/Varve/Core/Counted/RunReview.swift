/// A difference between the entries of a counted part and its runs.
package enum RunFault: Hashable, Sendable {
  /// A run has another number of entries than was counted.
  case count(StorageRange, counted: Int, found: Int)
  /// The count of a run can't be read.
  case damagedCount(StorageRange, found: Int)
  /// The part has entries, and no runs.
  case noRuns(found: Int)
  /// The family of the counts has a key that is not the key of a run.
  case strayKey([UInt8])
  /// A run has the right count, and more entries than were asked for. It is not wrong, but slow to read in.
  case isLarge(StorageRange, found: Int)
}

/// Compares the entries of a counted part with its runs, in one pass over both, for tools and repairs.
///
/// It trusts nothing that it reads, and needs no memory for what it has read.
package struct RunReview {
  private let entries: StorageFamily?
  private let runs: StorageFamily?
  private let snapshot: any StorageReading
  private let sizeMaximum: Int
  /// The number of runs that were read.
  package private(set) var runCount = 0
  /// The number of entries that were read.
  package private(set) var entryCount = 0

  private struct Run {
    var lower: [UInt8]
    /// The count on disk, or `nil` if it can't be read.
    var counted: Int?
    var found = 0
  }

  /// Creates a review. A family is `nil` if there is none. Runs with more than `sizeMaximum` entries are reported as
  /// large.
  package init(
    entries: StorageFamily?, runs: StorageFamily?, in snapshot: any StorageReading, sizeMaximum: Int = .max
  ) {
    self.entries = entries
    self.runs = runs
    self.snapshot = snapshot
    self.sizeMaximum = sizeMaximum
  }

  /// Compares the entries with the runs, and passes each difference to `report`, in the order of keys. `didExamine` is
  /// called for each entry.
  ///
  /// Throws `.corruption` if a block can't be read, `.storage`. Complexity: O(n) of the entries.
  package mutating func run(didExamine: () -> Void = {}, _ report: (RunFault) throws -> Void) throws {
    var stored = runs.map { FamilyCursor(StorageRange(), in: $0, of: snapshot, isReverse: false) }
    var next = try nextRun(&stored, report)
    let hasRuns = next != nil
    // The first run has no entry on disk while it is empty.
    var run = Run(lower: [], counted: 0)
    if let first = next, first.lower.isEmpty {
      run = first
      next = try nextRun(&stored, report)
    }
    var keys = entries.map { FamilyCursor(StorageRange(), in: $0, of: snapshot, isReverse: false, keysOnly: true) }
    while let key = try keys?.nextKey() {
      didExamine()
      entryCount += 1
      while let following = next, !ByteOrder.precedes(key, following.lower) {
        try end(run, at: following.lower, report)
        run = following
        next = try nextRun(&stored, report)
      }
      run.found += 1
    }
    if !hasRuns {
      if entryCount > 0 { try report(.noRuns(found: entryCount)) }
      return
    }
    while let following = next {
      try end(run, at: following.lower, report)
      run = following
      next = try nextRun(&stored, report)
    }
    try end(run, at: nil, report)
  }

  private mutating func nextRun(
    _ stored: inout FamilyCursor?, _ report: (RunFault) throws -> Void
  ) throws -> Run? {
    let range = RunFormat.range(StorageRange())
    while let (key, value) = try stored?.next() {
      let isRun = !ByteOrder.precedes(key, range.lower) && (range.upper.map { ByteOrder.precedes(key, $0) } ?? true)
      guard isRun else {
        try report(.strayKey(key))
        continue
      }
      runCount += 1
      let piece = unsafe RunFormat.piece(key.span.bytes, value.span.bytes)
      return Run(lower: Array(key.dropFirst(range.lower.count)), counted: piece?.count)
    }
    return nil
  }

  private func end(_ run: Run, at upper: [UInt8]?, _ report: (RunFault) throws -> Void) throws {
    let range = StorageRange(lower: run.lower, upper: upper)
    guard let counted = run.counted else { return try report(.damagedCount(range, found: run.found)) }
    if counted != run.found {
      try report(.count(range, counted: counted, found: run.found))
    } else if run.found > sizeMaximum {
      try report(.isLarge(range, found: run.found))
    }
  }
}
