extension Part {
  // MARK: - Writing

  /// Adds an entry to a counted part, whose key has no value yet.
  ///
  /// Throws as `put` does, and `.invalidArgument` for a part that is not counted. Debug builds stop if the key has a
  /// value; other builds count it twice, until its run is read and counted again.
  ///
  /// Complexity: a put, and O(log n) in memory. At the commit each changed run of 32 to 128 entries takes one put.
  public func insert(_ key: RawSpan, _ value: RawSpan) throws {
    try requireCounted()
    try open.check(keySize: key.byteCount, valueSize: value.byteCount)
    guard let (family, pending) = try target() else { return }
    noteWrite(family) { key.copied }
    if let writer = open.writer, writer.spill == nil {
      if Self.looksAnyway { try requireValue(of: key.copied, family, isThere: false) }
      try writer.count(1, at: key, open, slot, in: family)
    }
    try pending.put(key, value, in: family)
  }

  /// Adds an entry to a counted part, with arrays for the key and the value.
  public func insert(_ key: [UInt8], _ value: [UInt8]) throws {
    try unsafe insert(key.span.bytes, value.span.bytes)
  }

  /// Removes an entry of a counted part, whose key has a value.
  ///
  /// Throws `.invalidArgument` for a part that is not counted. Debug builds stop if the key has no value; other builds
  /// count one entry too few, until the run is read and counted again. Complexity: as for `insert`.
  public func remove(_ key: [UInt8]) throws {
    try requireCounted()
    guard let (family, pending) = try target() else { return }
    noteWrite(family, isPut: false) { key }
    if let writer = open.writer, writer.spill == nil {
      if Self.looksAnyway { try requireValue(of: key, family, isThere: true) }
      try unsafe writer.count(-1, at: key.span.bytes, open, slot, in: family)
    }
    try pending.delete(key, in: family)
  }

  /// Stops debug builds if a key that is put has no value.
  func requireReplaced(_ key: [UInt8], _ family: StorageFamily) throws {
    if open.writer?.spill == nil { try requireValue(of: key, family, isThere: true) }
  }

  private func requireValue(of key: [UInt8], _ family: StorageFamily, isThere: Bool) throws {
    guard let writer = open.writer else { return }
    let found = try writer.pending.withValue(of: key, in: family) { _ in true } ?? false
    assert(
      found == isThere,
      "part \"\(open.registered.traits.parts[slot].name)\" of extension \"\(open.name)\" is counted, and a key is "
        + (isThere ? "removed or replaced that it does not have" : "inserted again"))
  }

  private func requireCounted() throws {
    if !isCounted { throw wrongForm("is not counted") }
  }

  // MARK: - Order statistics

  // Each of them is a read of its range, for observers and for the check at the commit.

  /// Returns the number of entries of a range that come before a key, which need not have a value.
  ///
  /// Throws `.invalidArgument` for a part that is not counted. Complexity: O(log n), and a visit of at most two runs.
  public func offset(of key: [UInt8], in range: StorageRange = StorageRange()) throws -> Int {
    try requireCounted()
    var before = range
    if before.upper.map({ ByteOrder.precedes(key, $0) }) ?? true { before.upper = key }
    return try count(before)
  }

  /// Returns the entry at an offset of a range, or `nil` if the range has no such entry. With `isReverse` the offset
  /// counts from the end of the range.
  ///
  /// Throws `.invalidArgument` for a part that is not counted. Complexity: O(log n), and a visit of at most two runs.
  public func entry(
    at offset: Int, in range: StorageRange = StorageRange(), isReverse: Bool = false
  ) throws -> (key: [UInt8], value: [UInt8])? {
    try requireCounted()
    guard let (transaction, family) = try source() else { return nil }
    return try entry(at: offset, in: range, isReverse: isReverse, transaction, family)
  }

  /// Returns a cursor over the entries of a range from an offset on, as `cursor` does. With `isReverse` the offset
  /// counts from the end of the range. It has no entries if the offset is negative, or not less than the count.
  public func cursor(
    from offset: Int, in range: StorageRange = StorageRange(), isReverse: Bool = false, keysOnly: Bool = false
  ) throws -> PartCursor {
    try requireCounted()
    if offset == 0 { return try cursor(range, isReverse: isReverse, keysOnly: keysOnly) }
    guard let (transaction, family) = try source(),
      let key = try entry(at: offset, in: range, isReverse: isReverse, transaction, family)?.key
    else { return PartCursor(nil, open) }
    let rest =
      isReverse ? StorageRange(lower: range.lower, upper: key + [0]) : StorageRange(lower: key, upper: range.upper)
    return try cursor(rest, isReverse: isReverse, keysOnly: keysOnly)
  }

  /// Returns the number of entries of a range by the tree of runs.
  func treeCount(_ range: StorageRange, _ transaction: ReadTransaction, _ family: StorageFamily) throws -> Int {
    transaction.noteRead(of: range, in: family)
    if range.isEmpty { return 0 }
    return try open.followed(transaction) {
      let tree = try tree(transaction, family)
      // Both ends are often in one run.
      if let upper = range.upper {
        let run = tree.run(of: range.lower)
        if run.upper.map({ !ByteOrder.precedes($0, upper) }) ?? true {
          return try transaction.visitedCount(of: range, in: family)
        }
      }
      let before = try transaction.rank(of: range.lower, in: family, tree)
      return max(0, try transaction.rank(ofEnd: range.upper, in: family, tree) - before)
    }
  }

  private func entry(
    at offset: Int, in range: StorageRange, isReverse: Bool, _ transaction: ReadTransaction, _ family: StorageFamily
  ) throws -> (key: [UInt8], value: [UInt8])? {
    transaction.noteRead(of: range, in: family)
    if offset < 0 || range.isEmpty { return nil }
    return try open.followed(transaction) {
      let tree = try tree(transaction, family)
      let total = tree.total
      if offset >= total { return nil }
      let place =
        isReverse
        ? try transaction.rank(ofEnd: range.upper, in: family, tree) - 1 - offset
        : try transaction.rank(of: range.lower, in: family, tree) + offset
      guard let run = tree.run(at: place) else { return nil }
      guard let entry = try transaction.visitedEntry(at: place - run.before, of: run.range, in: family) else {
        throw DatabaseError(
          .corruption,
          "part \"\(open.registered.traits.parts[slot].name)\" of extension \"\(open.name)\" has fewer entries than "
            + "were counted; a repair counts them again")
      }
      let isInside =
        !ByteOrder.precedes(entry.key, range.lower) && (range.upper.map { ByteOrder.precedes(entry.key, $0) } ?? true)
      return isInside ? entry : nil
    }
  }

  /// Returns the tree of the runs as the transaction sees them.
  private func tree(_ transaction: ReadTransaction, _ family: StorageFamily) throws -> RunTree {
    if let writer = open.writer { try writer.divideLargeRuns(of: family) }
    let runs = open.registered.traits.companions[slot].flatMap { open.family($0) }
    return try transaction.runTree(of: family, runs)
  }
}
