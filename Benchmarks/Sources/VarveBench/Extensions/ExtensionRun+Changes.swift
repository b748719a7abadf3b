import Dispatch
import Foundation
import Synchronization
import Varve

/// The rows about changes of many rows of a typed store.
extension ExtensionRun {
  /// Measures updates of all books that change an indexed value.
  func updateAll() throws -> ExtensionMeasurement {
    try withDatabase(DatabaseDefinition { BooksTwo.self }) { database in
      let store = Store<BooksTwo>(in: database)
      _ = try fill(store)
      rest()
      var sum: UInt64 = 0
      for start in stride(from: 0, to: num, by: 1_000) {
        var made = (start..<min(start + 1_000, num)).map { books.book(UInt64($0)) }
        for index in made.indices { made[index].year += 1 }
        let begin = ThreadClock.now()
        try database.write { tx in for book in made { try store.persist(book, in: tx) } }
        sum += ThreadClock.now() - begin
      }
      return perRow(sum)
    }
  }

  /// Measures the removal of all books by a query, with two indexes.
  func removeAll() throws -> ExtensionMeasurement {
    try withDatabase(DatabaseDefinition { BooksTwo.self }) { database in
      let store = Store<BooksTwo>(in: database)
      _ = try fill(store)
      rest()
      let begin = ThreadClock.now()
      let count = try database.write { tx in try store.query.filter { $0.year >= 0 }.scan().delete(in: tx) }
      let time = ThreadClock.now() - begin
      guard count == num else { throw EngineFailure("\(count) books were removed") }
      return perRow(time)
    }
  }

  /// Measures how long an observed list of 10,000 books takes to report what has changed after 4,000 of them have
  /// moved.
  func moveRows() throws -> ExtensionMeasurement {
    let count = 10_000
    return try withDatabase(DatabaseDefinition { BooksTwo.self }) { database in
      let store = Store<BooksTwo>(in: database)
      var list = (0..<count).map { books.book(UInt64($0)) }
      for index in list.indices { list[index].year = index }
      try database.write { tx in for book in list { try store.persist(book, in: tx) } }
      for index in stride(from: 0, to: count, by: 5) {
        list[index].year = index &* 7_919 % count
        list[index + 1].year = index &* 4_099 % count
      }
      let moved = list.enumerated().filter { $0.offset % 5 < 2 }.map(\.element)
      return try waiting {
        var changes = store.query.sorted(by: \.year).limit(count).changes().makeAsyncIterator()
        _ = try await changes.next()
        try await database.write { tx in for book in moved { try store.persist(book, in: tx) } }
        let begin = Clock.now()
        guard try await changes.next()?.ids.count == count else { throw EngineFailure("the list has other books") }
        return ExtensionMeasurement(time: Double(Clock.now() - begin) / 1e6)
      }
    }
  }

  /// Runs an asynchronous measurement and waits for it.
  func waiting(_ body: @escaping @Sendable () async throws -> ExtensionMeasurement) throws -> ExtensionMeasurement {
    let done = DispatchSemaphore(value: 0)
    let result = Mutex<Result<ExtensionMeasurement, any Error>?>(nil)
    Task.detached {
      let measured: Result<ExtensionMeasurement, any Error>
      do { measured = .success(try await body()) } catch { measured = .failure(error) }
      result.withLock { $0 = measured }
      done.signal()
    }
    done.wait()
    guard let measured = result.withLock({ $0 }) else { throw EngineFailure("nothing was measured") }
    return try measured.get()
  }
}
