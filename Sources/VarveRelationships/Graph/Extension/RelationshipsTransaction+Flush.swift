public import Varve

extension RelationshipsTransaction {
  /// Applies the rules now, to what the transaction has changed until here. Without a call they are applied at its end.
  ///
  /// Rows that rules remove are gone when it returns, and so are their edges. Throws `.danglingEdge` where an edge has to lead
  /// somewhere and does not, `.typeNotDefined` where a row is to be notified whose type the program has not defined, and what
  /// hooks and `edgeRemoved` throw; then nothing of it has happened. In a read there is nothing to apply rules to.
  ///
  /// Complexity: O(n) of the rows that go and their edges.
  public func flush() throws {
    _ = try context.transaction
    guard !isFlushing, let writer = context.writeTransaction else { return }
    if log.hasNews {
      isFlushing = true
      defer { isFlushing = false }
      guard try isComplete else { return try settleWithoutRules() }
      // Where it throws, nothing of it stays.
      try writer.savepoint {
        var run = RuleRun(self, writer)
        try run.run()
      }
    }
    // What is there now was there when rules were applied.
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

  /// While the edges of all rows are not known, rows take what they declare with them, and nothing else.
  private func settleWithoutRules() throws {
    let news = log.takeNews()
    for index in 0..<news.deaths.count where try !isThere(news.deaths[index]) {
      let end = Array(news.deaths[index])
      try declare([], from: end, isFresh: false, isNoted: false)
      try removeManual(of: end)
    }
  }
}
