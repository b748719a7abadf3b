extension ReadTransaction {
  /// Returns the tree of the runs of a counted part, as the transaction sees them.
  ///
  /// `runs` is the family of the counts, or `nil` if there is none. Complexity: O(1) if the tree is known for the
  /// snapshot, otherwise O(n) of the runs, once for each snapshot.
  final func runTree(of family: StorageFamily, _ runs: StorageFamily?) throws -> RunTree {
    if let written = (self as? WriteTransaction)?.countedWrites.tree(of: family) { return written }
    if let known = runTrees.first(where: { $0.family == family.number }) { return known.tree }
    let tree = try snapshotTree(of: family, runs)
    runTrees.append((family.number, tree))
    return tree
  }

  /// Returns the tree as of the transaction's snapshot.
  final func snapshotTree(of family: StorageFamily, _ runs: StorageFamily?) throws -> RunTree {
    let cache = database.runTrees
    if let held = heldTrees?.tree(of: family, at: version) { return held }
    if let known = cache.tree(of: family, at: version) {
      heldTrees?.add(known, of: family, at: version)
      return known
    }
    let tree = try Self.tree(of: family, runs, at: snapshot)
    cache.add(tree, of: family, at: version)
    heldTrees?.add(tree, of: family, at: version)
    return tree
  }

  /// Reads the runs of a part at a snapshot. If there are none, the entries are counted.
  ///
  /// Throws `.corruption` if a run is damaged.
  static func tree(
    of family: StorageFamily, _ runs: StorageFamily?, at snapshot: any StorageSnapshot
  ) throws -> RunTree {
    var pieces: [RunTree.Piece] = []
    if let runs {
      var cursor = FamilyCursor(StorageRange(), in: runs, of: snapshot, isReverse: false)
      while true {
        let next: RunTree.Piece?? = try cursor.withNext { key, value in RunFormat.piece(key, value) }
        guard let piece = next else { break }
        guard let piece else {
          throw DatabaseError(
            .corruption,
            "family \"\(runs.name)\" has a count of entries that is damaged; a repair counts the entries again")
        }
        pieces.append(piece)
      }
    }
    if !pieces.isEmpty { return RunTree(pieces) }
    // The snapshot may be older than the counts. If not, the next commit that changes the part writes all of them.
    var maker = RunMaker()
    try snapshot.visitRows(of: StorageRange(), in: family) { key, _ in
      maker.add(key)
      return true
    }
    return RunTree(maker.pieces, isMarked: maker.count > 0)
  }

  /// Returns the number of entries of a range, by visiting them.
  final func visitedCount(of range: StorageRange, in family: StorageFamily) throws -> Int {
    if range.isEmpty { return 0 }
    guard let writing else { return try snapshot.visitRow(at: .max, of: range, in: family) { _, _ in } }
    var count = 0
    try writing.visitRows(of: range, in: family) { _, _ in
      count += 1
      return true
    }
    return count
  }

  /// Returns the entry at an offset of a range, by visiting the entries before it.
  final func visitedEntry(
    at offset: Int, of range: StorageRange, in family: StorageFamily
  ) throws -> (key: [UInt8], value: [UInt8])? {
    if range.isEmpty { return nil }
    var found: (key: [UInt8], value: [UInt8])?
    guard let writing else {
      try snapshot.visitRow(at: offset, of: range, in: family) { found = ($0.copied, $1.copied) }
      return found
    }
    var rest = offset
    try writing.visitRows(of: range, in: family) { key, value in
      if rest == 0 { found = (key.copied, value.copied) }
      rest -= 1
      return found == nil
    }
    return found
  }

  /// Returns the number of entries before a key.
  final func rank(of key: [UInt8], in family: StorageFamily, _ tree: RunTree) throws -> Int {
    if key.isEmpty { return 0 }
    let run = tree.run(of: key)
    if run.count == 0 { return run.before }
    return run.before + (try visitedCount(of: StorageRange(lower: run.lower, upper: key), in: family))
  }

  /// Returns the number of entries before the end of a range.
  final func rank(ofEnd upper: [UInt8]?, in family: StorageFamily, _ tree: RunTree) throws -> Int {
    try upper.map { try rank(of: $0, in: family, tree) } ?? tree.total
  }
}
