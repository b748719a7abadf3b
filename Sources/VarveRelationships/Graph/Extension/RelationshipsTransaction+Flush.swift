public import Varve

extension RelationshipsTransaction {
  /// Applies the rules now, to what the transaction has changed until here. Without a call they are applied at its end.
  ///
  /// Rows that rules remove are gone when it returns, and so are their edges. Throws `.danglingEdge` where an edge has to lead
  /// somewhere and does not, `.typeNotDefined` where a row is to be notified whose type the program has not defined, and what
  /// hooks and `edgeRemoved` throw; then nothing of it has happened. Does nothing in a read.
  ///
  /// Complexity: O(n) of the rows that go and their edges.
  public func flush() throws {
    guard log.hasNews, !isFlushing, let writer = context.writeTransaction else { return }
    isFlushing = true
    defer { isFlushing = false }
    guard try isComplete else { return try settleWithoutRules() }
    // Where it throws, nothing of it stays.
    try writer.savepoint {
      var run = RuleRun(self, writer)
      try run.run()
    }
  }

  /// While the edges of all rows are not known, rows take what they declare with them, and nothing else.
  private func settleWithoutRules() throws {
    let news = log.takeNews()
    for index in 0..<news.deaths.count where try !isThere(news.deaths[index]) {
      try declare([], from: Array(news.deaths[index]), isFresh: false, isNoted: false)
    }
  }
}
