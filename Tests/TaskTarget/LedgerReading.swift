import Foundation
import Varve
import VarveEngine
import VarveRelationships
import VarveTasks

/// Readers of a `Ledger`, which check each state that they see: read-only opens, new followers, and a follower that
/// stays, and lags at times.
final class LedgerReading {
  struct Failure: Error, CustomStringConvertible {
    let description: String
  }

  private let path: String
  private var number = 0
  private var busyCount = 0

  init(path: String) { self.path = path }

  func run(turns: Int) throws {
    let follower = try Ledger.open(path) { $0.follows = true }
    for turn in 0..<turns {
      try open("read-only open") { $0.isReadOnly = true }
      try open("new follower") { $0.follows = true }
      // The other half of the time it lags.
      if turn / 4 % 2 == 0 { try retryingBusy { try check(follower, "follower in turn \(turn)") } }
      TaskTarget.acknowledge(turn)
    }
    try retryingBusy { try check(follower, "follower at the end") }
    try follower.close()
    TaskTarget.acknowledge(busyCount)
  }

  private func open(_ reader: String, _ change: (inout DatabaseOptions) -> Void) throws {
    try retryingBusy {
      let database = try Ledger.open(path, change)
      defer { try? database.close() }
      try check(database, reader)
    }
  }

  /// Calls `body` until the writer does not free segments too often for it.
  private func retryingBusy(_ body: () throws -> Void) throws {
    while true {
      do {
        return try body()
      } catch let error as DatabaseError where (error.cause as? EngineError)?.code == .busy {
        busyCount += 1
      }
    }
  }

  /// Checks that the content is that of the last transaction, and that no earlier reader saw more.
  private func check(_ database: Database, _ reader: String) throws {
    let number = number
    self.number = try database.read { tx in
      let pages = Store<Ledger.Pages>(in: database)
      let titles = Store<Ledger.Titles>(in: database)
      let rows = try titles.query.fetch(in: tx)
      let last = rows.map(\.number).max() ?? 0
      let location = "\(reader): at transaction \(last), version \(tx.version)"
      try require(last >= number, "\(location): \(number) was seen before")
      let numbers = Ledger.numbers(after: last)
      try require(Dictionary(uniqueKeysWithValues: rows.map { ($0.id, $0.number) }) == numbers, "\(location): titles")
      var found: [Int: Int] = [:]
      var cursor = try pages.load(..., in: tx)
      while let page = try cursor.next() { found[page.id] = page.number }
      try require(found == numbers, "\(location): pages")
      try require(try pages.count(in: tx) == numbers.count, "\(location): \(try pages.count(in: tx)) pages are counted")
      try require(
        try titles.count(in: tx) == numbers.count, "\(location): \(try titles.count(in: tx)) titles are counted")
      let indexed = (
        try pages.query.filter { $0.number > 0 }.count(in: tx), try titles.query.filter { $0.number > 0 }.count(in: tx)
      )
      try require(indexed == (numbers.count, numbers.count), "\(location): the indexes have \(indexed) entries")
      let edges = try tx[Ledger.graph].edges()
      try require(edges.count == numbers.count, "\(location): \(edges.count) edges for \(numbers.count) titles")
      let tasks = try tx.tasks(.queue(Ledger.queue)).map { try Ledger.Printing(encoded: Data($0.payload)).number }
      try require(tasks == Array(stride(from: 10, through: last, by: 10)), "\(location): tasks \(tasks.suffix(9))")
      try require(try tx.taskCount(in: Ledger.queue, .ready) == tasks.count, "\(location): tasks are counted")
      try require(try lastLabel(database, upTo: tx.version) == "\(last)", "\(location): the feed")
      return last
    }
  }

  /// Returns the label of the last commit up to a version.
  private func lastLabel(_ database: Database, upTo version: CommitVersion) throws -> String? {
    // A transaction has fewer than 50 changes of storage, and few commits of the database itself follow it.
    let start = CommitVersion(version.number - min(version.number, 200))
    let events = try database.feed(after: start, limit: 200)
    let last = events.last { $0.version <= version }
    guard case .changes(let changes) = last else { return nil }
    return changes.label
  }

  private func require(_ condition: Bool, _ message: @autoclosure () throws -> String) throws {
    if !condition { throw Failure(description: try message()) }
  }
}
