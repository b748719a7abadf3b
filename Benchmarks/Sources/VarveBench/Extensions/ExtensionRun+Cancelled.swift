import Foundation
import Varve

/// The row about reads that are cancelled, and calls during reads that are not.
extension ExtensionRun {
  private typealias Call = @Sendable () async throws -> Void

  /// Measures the longest time from the cancellation of a task to the end of its read, over reads of all books.
  ///
  /// The note has the longest wait of a cheap read, a concurrent write, a commit that survives a loss of power and a
  /// sync during 64 such reads that are not cancelled.
  func cancelReads() throws -> ExtensionMeasurement {
    try withDatabase(DatabaseDefinition { BooksTwo.self }) { database in
      let store = Store<BooksTwo>(in: database)
      _ = try fill(store)
      rest()
      let book = books.book(0)
      return try waiting {
        let longest = try await Self.longestEnd(store)
        let waits = try await Self.waits(database, store, book)
        let text = waits.map { name, wait in String(format: "%@ %.1f ms", name, wait) }.joined(separator: ", ")
        return ExtensionMeasurement(time: longest, note: "during 64 reads at most: " + text)
      }
    }
  }

  private static func search(_ store: Store<BooksTwo>) -> StoreQuery<BooksTwo> {
    store.query.filter { $0.title.contains("no book has this") }.scan()
  }

  private static func longestEnd(_ store: Store<BooksTwo>) async throws -> Double {
    let query = search(store)
    let reads: [Call] = [
      { _ = try await query.fetch() }, { _ = try await query.count() }, { _ = try await query.sum(of: \.year) },
      { _ = try await query.grouped(by: \.year) }, { for try await _ in query.observeCount() { return } },
      { _ = try await query.sorted(by: \.author).fetch() }, { _ = try await store.verifyIndexes() },
      { for try await _ in store.load(...) {} },
    ]
    var longest = 0.0
    for read in reads {
      let task = Task.detached { try await read() }
      try await Task.sleep(for: .milliseconds(20))
      let begin = Clock.now()
      task.cancel()
      _ = try? await task.value
      longest = max(longest, Double(Clock.now() - begin) / 1e6)
    }
    return longest
  }

  private static func waits(
    _ database: Database, _ store: Store<BooksTwo>, _ book: Book
  ) async throws -> [(String, Double)] {
    let query = search(store)
    let calls: [(String, Call)] = [
      ("read", { _ = try await store.query.filter { $0.year == 1_900 }.exists() }),
      ("concurrent write", { try await database.writeConcurrently { tx in _ = try store.persist(book, in: tx) } }),
      ("durable write", { try await store.persist(book, durability: .power) }), ("sync", { try await database.sync() }),
    ]
    let others = (0..<64).map { _ in
      Task.detached { while !Task.isCancelled { _ = try? await query.count() } }
    }
    try await Task.sleep(for: .milliseconds(200))
    var waits: [(String, Double)] = []
    for (name, call) in calls {
      var longest = 0.0
      for _ in 0..<20 {
        let begin = Clock.now()
        try await call()
        longest = max(longest, Double(Clock.now() - begin) / 1e6)
      }
      waits.append((name, longest))
    }
    for other in others { other.cancel() }
    for other in others { await other.value }
    return waits
  }
}
