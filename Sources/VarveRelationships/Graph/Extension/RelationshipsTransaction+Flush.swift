internal import Varve

extension RelationshipsTransaction {
  /// Applies the rules now, to the changes of the transaction so far. Without a call, they are applied at its end.
  ///
  /// When this returns, rows that rules remove are removed, and so are their edges. Throws `.danglingEdge` if an edge
  /// that must not dangle does, `.typeNotDefined` if a row has to be notified whose type the program has not defined,
  /// and what hooks and `edgeRemoved` throw; in these cases nothing has changed. In a read, there is nothing to apply.
  ///
  /// Complexity: O(n) in the removed rows and their edges.
  public func flush() throws {
    _ = try context.transaction
    guard !isFlushing, let writer = context.writeTransaction else { return }
    if log.hasUnprocessed {
      isFlushing = true
      defer { isFlushing = false }
      guard try isComplete else { return try settleWithoutRules() }
      // The savepoint undoes all changes if the run throws.
      try writer.savepoint {
        var run = RuleRun(self, writer)
        try run.run()
      }
    }
    // From now on, existing edges are those that existed when rules were applied.
    log.hasFlushed = true
  }

  /// Removes the edges of a row that were added by hand.
  private func removeManual(of end: [UInt8]) throws {
    let family = families.manual
    for bySource in [true, false] {
      var cursor = try (bySource ? family.from : family.to).cursor(
        StorageRange(prefix: EdgeFormat.prefix(end[...], nil)))
      while let (bytes, value) = try cursor.next() {
        let key = try EdgeKey(bytes, bySource: bySource)
        let order = try EdgeValue(value, bySource: bySource).order
        var mirrored: [UInt8] = []
        EdgeFormat.mirror(bytes, key.layout, bySource: bySource, order: order, into: &mirrored)
        try (bySource ? family.from : family.to).delete(bytes)
        try (bySource ? family.to : family.from).delete(mirrored)
      }
    }
  }

  /// Removes the edges of removed rows without rules, while the edges of all rows are not known.
  private func settleWithoutRules() throws {
    let unprocessed = log.takeUnprocessed()
    for index in 0..<unprocessed.deaths.count where try !exists(unprocessed.deaths[index]) {
      let end = Array(unprocessed.deaths[index])
      try declare([], from: end, isFresh: false, isNoted: false)
      try removeManual(of: end)
    }
  }
}
