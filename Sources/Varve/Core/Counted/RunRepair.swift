/// Counts the entries of counted parts again, in a database that is not open.
///
/// Only runs that are wrong are written. No entry is.
package struct RunRepair {
  private let backend: any StorageBackend

  package init(_ backend: any StorageBackend) { self.backend = backend }

  /// Counts the entries of a part again whose runs differ from them, in one commit, which survives a power loss when
  /// this returns. Returns the number of differences.
  ///
  /// `entries` is `nil` if the part has no family, and `name` is that of the family of the counts, which is made if
  /// there is none. Throws `.corruption` if a block can't be read, `.storage`. Complexity: O(n) of the entries.
  @discardableResult
  package func recount(_ entries: StorageFamily?, countsIn name: String) throws -> Int {
    let snapshot = try backend.snapshot()
    var runs = try backend.families().first { $0.name == name }
    var review = RunReview(entries: entries, runs: runs, in: snapshot, sizeMaximum: RunFormat.sizes.upperBound)
    var batch = StorageBatch()
    var count = 0
    try review.run { fault in
      let family = try runs ?? backend.createFamily(name, options: StorageFamilyOptions())
      runs = family
      switch fault {
      case .strayKey(let key): batch.delete(key, in: family)
      case .count(let range, _, _), .damagedCount(let range, _), .isLarge(let range, _):
        try put(range, of: entries, in: snapshot, &batch, family)
      case .noRuns: try put(StorageRange(), of: entries, in: snapshot, &batch, family)
      }
      if case .isLarge = fault { return }
      count += 1
    }
    if !batch.isEmpty { try backend.commit(batch, check: nil, durability: .power).wait() }
    return count
  }

  /// Puts the runs of the entries of a range, which begins where a run begins and ends where one ends.
  private func put(
    _ range: StorageRange, of entries: StorageFamily?, in snapshot: any StorageReading, _ batch: inout StorageBatch,
    _ runs: StorageFamily
  ) throws {
    var maker = RunMaker(from: range.lower)
    if let entries {
      try snapshot.visitRows(of: range, in: entries) { key, _ in
        maker.add(key)
        return true
      }
    }
    for piece in maker.pieces {
      let key = RunFormat.key(piece.separator)
      // The keys of a run without entries belong to the run before it.
      if piece.count > 0 { batch.put(key, RunFormat.value(piece.count), in: runs) } else { batch.delete(key, in: runs) }
    }
  }
}

/// Keeps the counts of a counted part right while a tool writes entries without a transaction.
///
/// ```swift
/// var counts = try RunUpdate(entries, countsIn: name, backend)
/// batch.put(key, value, in: entries)
/// counts.add(1, at: key)
/// counts.write(to: &batch)
/// ```
package struct RunUpdate {
  private var tree: RunTree
  private let runs: StorageFamily

  /// Counts the entries again if the counts are wrong, and reads them.
  ///
  /// Throws `.corruption` if a block can't be read, `.storage`. Complexity: O(n) of the entries.
  package init(_ entries: StorageFamily?, countsIn name: String, _ backend: any StorageBackend) throws {
    try RunRepair(backend).recount(entries, countsIn: name)
    let runs =
      try backend.families().first { $0.name == name } ?? backend.createFamily(name, options: StorageFamilyOptions())
    self.runs = runs
    tree = try entries.map { try ReadTransaction.tree(of: $0, runs, at: backend.snapshot()) } ?? RunTree()
  }

  /// Notes that an entry is added or removed that did not exist, or existed, before.
  package mutating func add(_ number: Int, at key: [UInt8]) { unsafe tree.add(number, at: key.span.bytes) }

  /// Writes the counts that have changed. They belong into the same commit as the entries.
  package mutating func write(to batch: inout StorageBatch) {
    tree.forEachMarked { piece in
      let key = RunFormat.key(piece.separator)
      // Without a count below zero, which no change of a right count gives.
      let count = max(0, piece.count)
      if count == 0, piece.separator.isEmpty {
        batch.delete(key, in: runs)
      } else {
        batch.put(key, RunFormat.value(count), in: runs)
      }
    }
    tree.clearMarks()
  }
}
