import Dispatch
import Foundation
import Synchronization
import Varve

/// The rows about the cost of observers.
extension ExtensionRun {
  /// Measures the committing thread for a commit of one book that affects none of 1,000 observed queries.
  ///
  /// The note has the time until one further observer receives the commit.
  func observe() throws -> ExtensionMeasurement {
    try withDatabase(DatabaseDefinition { BooksTwo.self }) { database in
      let store = Store<BooksTwo>(in: database)
      _ = try fill(store)
      let done = DispatchSemaphore(value: 0)
      let delays = Mutex<[Double]>([])
      let commits = 200
      let begun = Mutex<UInt64>(0)
      let task = Task {
        var others: [QueryObservation<BooksTwo>.Iterator] = []
        for number in 0..<1_000 {
          var iterator = store.query.filter { $0.year == 3_000 + number }.changes().makeAsyncIterator()
          _ = try await iterator.next()
          others.append(iterator)
        }
        var mine = store.query.filter { $0.year == 2_999 }.changes().makeAsyncIterator()
        _ = try await mine.next()
        for _ in 0..<commits {
          done.signal()
          _ = try await mine.next()
          let now = Clock.now()
          delays.withLock { $0.append(Double(now - begun.withLock { $0 }) / 1e3) }
        }
        done.signal()
        withExtendedLifetime(others) {}
      }
      var time: UInt64 = 0
      for number in 0..<commits {
        done.wait()
        var book = books.book(UInt64(num + number))
        book.year = 2_999
        let begin = ThreadClock.now()
        begun.withLock { $0 = Clock.now() }
        try database.write { tx in _ = try store.persist(book, in: tx) }
        time += ThreadClock.now() - begin
      }
      done.wait()
      task.cancel()
      let sorted = delays.withLock { $0.sorted() }
      return ExtensionMeasurement(
        time: Double(time) / Double(commits) / 1e3,
        note: String(
          format: "%.0f µs until the observer concerned has it, the longest %.0f", sorted[commits / 2],
          sorted[commits - 1]))
    }
  }

  /// Measures the CPU time of the process that 1,000 observers of queries or of counts, none of which is affected, add
  /// to a commit of one row.
  func commitBesideObservers(_ row: ExtensionCase) throws -> ExtensionMeasurement {
    try withDatabase(DatabaseDefinition { BooksTwo.self }) { database in
      let store = Store<BooksTwo>(in: database)
      _ = try fill(store)
      let commits = 2_000
      let plain = try commit(commits, to: store)
      let (begun, mayEnd) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
      let task = Task {
        var queries: [QueryObservation<BooksTwo>.Iterator] = []
        var counts: [ReadObservation<Int>.Iterator] = []
        for number in 0..<1_000 {
          let query = store.query.filter { $0.year == 3_000 + number }
          if row == .untouchedqueries {
            var iterator = query.changes().makeAsyncIterator()
            _ = try await iterator.next()
            queries.append(iterator)
          } else {
            var iterator = query.observeCount().makeAsyncIterator()
            _ = try await iterator.next()
            counts.append(iterator)
          }
        }
        begun.signal()
        await withCheckedContinuation { continuation in
          DispatchQueue.global().async {
            mayEnd.wait()
            continuation.resume()
          }
        }
        withExtendedLifetime((queries, counts)) {}
      }
      begun.wait()
      let observed = try commit(commits, to: store)
      mayEnd.signal()
      task.cancel()
      let thread = (Double(observed.thread) - Double(plain.thread)) / Double(commits) / 1e3
      return ExtensionMeasurement(
        time: (Double(observed.process) - Double(plain.process)) / Double(commits) / 1e3,
        note: String(format: "%.2f µs of it on the thread that commits", thread))
    }
  }

  /// Changes rows, one per commit, and calls `didCommit` after each.
  ///
  /// Returns the CPU time of this thread and, until the process is at rest, of the process.
  private func commit(
    _ count: Int, to store: Store<BooksTwo>, didCommit: () -> Void = {}
  ) throws -> (thread: UInt64, process: UInt64) {
    rest()
    let (thread, process) = (ThreadClock.now(), ProcessUsage.now().cpuNanoseconds)
    for number in 0..<count {
      var book = books.book(UInt64(number * 7 % num))
      book.year = 1_000 + number % 500
      try store.database.write { tx in _ = try store.persist(book, in: tx) }
      didCommit()
    }
    let sum = ThreadClock.now() - thread
    rest()
    return (sum, ProcessUsage.now().cpuNanoseconds - process)
  }

  /// Measures the CPU time of the process that one observer of all rows adds to a change of one row. It receives each
  /// change before the next one is made.
  func changeWhatIsObserved() throws -> ExtensionMeasurement {
    try withDatabase(DatabaseDefinition { BooksTwo.self }) { database in
      let store = Store<BooksTwo>(in: database)
      _ = try fill(store)
      let commits = 2_000
      let plain = try commit(commits, to: store)
      let received = DispatchSemaphore(value: 0)
      let num = num
      let task = Task {
        var changes = store.query.changes().makeAsyncIterator()
        guard let first = try await changes.next(), first.ids.count == num else { throw EngineFailure("not all rows") }
        received.signal()
        while let change = try await changes.next() {
          if change.updated.count == 1 { received.signal() }
        }
      }
      received.wait()
      let observed = try commit(commits, to: store) { received.wait() }
      task.cancel()
      return ExtensionMeasurement(
        time: (Double(observed.process) - Double(plain.process)) / Double(commits) / 1e3)
    }
  }
}
