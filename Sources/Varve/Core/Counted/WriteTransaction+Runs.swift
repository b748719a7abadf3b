extension WriteTransaction {
  // MARK: - Changes

  /// Adds to the count of the entries at a key. The entry itself is written by the caller.
  ///
  /// `open` is the extension, and `slot` the index of its part.
  @inline(__always)
  func count(_ number: Int, at key: RawSpan, _ open: OpenExtension, _ slot: Int, in family: StorageFamily) throws {
    let index = try countedWrites.index(of: family) ?? beginCounting(open.registered, slot, in: family)
    let count = countedWrites.add(number, at: key, index)
    if count < 0 { try recount(at: key.copied, index) }
  }

  @inline(never)
  private func beginCounting(_ registered: RegisteredExtension, _ slot: Int, in family: StorageFamily) throws -> Int {
    guard let companion = registered.traits.companions[slot] else {
      throw DatabaseError(.invalidArgument, "part \"\(registered.traits.parts[slot].name)\" is not counted")
    }
    let tree = try runTree(of: family, registered.families[companion])
    return countedWrites.append(
      CountedWrites.Change(family: family, runs: { try registered.makeFamily(companion) }, tree: tree))
  }

  /// Counts a run again whose count was less than the entries that were removed from it: the counts on disk were wrong.
  private func recount(at key: [UInt8], _ index: Int) throws {
    let family = countedWrites.changes[index].family
    let run = countedWrites.changes[index].tree.run(of: key)
    DatabaseLog.miscountedRun(path: database.path, family: family.name)
    // The entry at the key is removed only after this call.
    let count = try visitedCount(of: run.range, in: family)
    let isThere = try pending.withValue(of: key, in: family) { _ in true } ?? false
    _ = unsafe countedWrites.add(count - (isThere ? 1 : 0) - run.count, at: key.span.bytes, index)
  }

  /// Adjusts the counts for a range whose entries are removed after this call. At most two runs are counted.
  func countRemoval(
    of range: StorageRange, _ open: OpenExtension, _ slot: Int, in family: StorageFamily
  ) throws {
    if range.isEmpty { return }
    let index = try countedWrites.index(of: family) ?? beginCounting(open.registered, slot, in: family)
    let tree = countedWrites.changes[index].tree
    let first = tree.run(of: range.lower)
    // The run in which the range ends keeps its end, which joins the first run.
    let last = range.upper.map { tree.run(of: $0) }
    var count = try visitedCount(of: StorageRange(lower: first.lower, upper: range.lower), in: family)
    if let last, let upper = range.upper {
      count += try visitedCount(of: StorageRange(lower: upper, upper: last.upper), in: family)
    }
    let end = last.flatMap(\.upper)
    countedWrites.with(index) { change in
      if last?.lower != first.lower {
        change.removedRanges.append(StorageRange(lower: first.lower + [0], upper: end))
      }
      change.tree.replace(from: first.lower, to: end, by: [RunTree.Piece(separator: first.lower, count: count)])
      change.hasLargeRuns = change.hasLargeRuns || count > RunFormat.readSize
    }
  }

  /// Empties parts of an extension, by their indexes, at the request of the database itself.
  func empty(_ slots: [Int], of registered: RegisteredExtension) throws {
    let families = registered.families
    for slot in slots {
      guard let family = families[slot] else { continue }
      try pending.deleteRange(StorageRange(), in: family)
      guard let companion = registered.traits.companions[slot] else { continue }
      let change = CountedWrites.Change(
        family: family, runs: { try registered.makeFamily(companion) }, tree: RunTree())
      if let index = countedWrites.index(of: family) {
        countedWrites.with(index) { $0 = change }
      } else {
        _ = countedWrites.append(change)
      }
    }
  }

  /// Divides the runs that have become so large in this transaction that reading in them would take long.
  func divideLargeRuns(of family: StorageFamily) throws {
    guard let index = countedWrites.index(of: family), countedWrites.changes[index].hasLargeRuns else { return }
    try countedWrites.with(index) { change in
      var large: [[UInt8]] = []
      change.tree.forEachMarked { if $0.count > RunFormat.readSize { large.append($0.separator) } }
      for separator in large { try divide(change.tree.run(of: separator), &change) }
      change.hasLargeRuns = false
    }
  }

  /// Counts the entries of a part again, and writes its runs. Complexity: O(n) of the entries.
  func recount(_ slot: Int, of registered: RegisteredExtension) throws {
    guard let companion = registered.traits.companions[slot], let family = registered.families[slot] else { return }
    let runs = try registered.makeFamily(companion)
    var maker = RunMaker()
    let body: (RawSpan, RawSpan) -> Bool = { key, _ in
      maker.add(key)
      return true
    }
    try pending.visitRows(of: StorageRange(), in: family, body)
    try pending.deleteRange(StorageRange(), in: runs)
    for piece in maker.pieces where maker.count > 0 {
      try pending.put(RunFormat.key(piece.separator), RunFormat.value(piece.count), in: runs)
    }
    let tree = RunTree(maker.pieces)
    if let index = countedWrites.index(of: family) { countedWrites.with(index) { $0.tree = tree } }
    onApplied { [database] version in database.noteRuns(tree, of: family, at: version) }
  }

  // MARK: - The commit

  /// Splits and joins the runs that have changed, and writes their counts. Called when the transaction's closure and
  /// its extensions have made all changes.
  func flushRuns() throws {
    if countedWrites.isEmpty { return }
    for index in countedWrites.changes.indices {
      try countedWrites.with(index) { change in
        try settle(&change)
        if change.isWritten { return }
        try write(change, to: try change.runs())
        change.tree.clearMarks()
        change.removed = []
        change.removedRanges = []
      }
      let (family, tree) = (countedWrites.changes[index].family, countedWrites.changes[index].tree)
      onApplied { [database] version in database.noteRuns(tree, of: family, at: version) }
    }
  }

  private func write(_ change: CountedWrites.Change, to runs: StorageFamily) throws {
    func append(_ operation: StorageBatch.Operation, _ key: [UInt8], _ value: [UInt8]) throws {
      try unsafe pending.append(operation, key.span.bytes, value.span.bytes, in: runs)
    }
    for range in change.removedRanges {
      let range = RunFormat.range(range)
      try append(.deleteRange, range.lower, range.upper ?? [])
    }
    for separator in change.removed where change.tree.run(of: separator).lower != separator {
      try append(.delete, RunFormat.key(separator), [])
    }
    let isEmpty = change.tree.total == 0
    try change.tree.forEachMarked { piece in
      let isRemoved = isEmpty || (piece.count == 0 && piece.separator.isEmpty)
      let key = RunFormat.key(piece.separator)
      try isRemoved ? append(.delete, key, []) : append(.put, key, RunFormat.value(piece.count))
    }
  }

  /// Splits runs that are too large, and joins those that are too small.
  private func settle(_ change: inout CountedWrites.Change) throws {
    var marked: [[UInt8]] = []
    change.tree.forEachMarked { piece in
      if !RunFormat.sizes.contains(piece.count) { marked.append(piece.separator) }
    }
    for separator in marked {
      let run = change.tree.run(of: separator)
      // It may have been joined with the one before it.
      guard run.lower == separator else { continue }
      if run.count > RunFormat.sizes.upperBound {
        try divide(run, &change)
      } else if run.count < RunFormat.sizes.lowerBound {
        try join(run, &change)
      }
    }
  }

  private func join(_ run: RunTree.Run, _ change: inout CountedWrites.Change) throws {
    let next = run.upper.map { change.tree.run(of: $0) }
    let last = change.tree.run(before: run.lower)
    let limit = RunFormat.sizes.upperBound
    if let next, run.count + next.count <= limit || last == nil {
      unite(run, next, &change)
    } else if let last {
      unite(last, run, &change)
    }
    let united = change.tree.run(of: run.lower)
    if united.count > limit { try divide(united, &change) }
  }

  private func unite(_ first: RunTree.Run, _ second: RunTree.Run, _ change: inout CountedWrites.Change) {
    change.removed.append(second.lower)
    change.tree.replace(
      from: first.lower, to: second.upper,
      by: [RunTree.Piece(separator: first.lower, count: first.count + second.count)])
  }

  /// Divides a run into pieces of about the same size.
  private func divide(_ run: RunTree.Run, _ change: inout CountedWrites.Change) throws {
    let count = (run.count + RunFormat.madeSize - 1) / RunFormat.madeSize
    var maker = RunMaker(from: run.lower, size: (run.count + count - 1) / count)
    let body: (RawSpan, RawSpan) -> Bool = { key, _ in
      maker.add(key)
      return true
    }
    try pending.visitRows(of: run.range, in: change.family, body)
    if maker.count != run.count { DatabaseLog.miscountedRun(path: database.path, family: change.family.name) }
    change.tree.replace(from: run.lower, to: run.upper, by: maker.pieces)
  }
}

extension DatabaseCore {
  /// Records the tree of a counted part that an applied commit has changed.
  fileprivate func noteRuns(_ tree: RunTree, of family: StorageFamily, at version: CommitVersion) {
    runTrees.note(tree, of: family, at: version, visible: publication.visibleVersion ?? version)
  }
}
