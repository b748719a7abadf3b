import Foundation
import Varve
import VarveRelationships
import VarveTasks

/// A database in which the number of the last transaction determines the whole content: rows, indexes, edges, tasks and
/// the feed.
///
/// Transaction `n` writes a large and a tiny row with the same id and the number `n`. The id is one of a few that are
/// written again and again, except in each twentieth transaction, whose id is new. The tiny row has an edge to the
/// large one. Each tenth transaction enqueues a task. The label of the transaction is its number.
enum Ledger {
  struct Page: Codable, Identifiable, Sendable {
    var id: Int
    var number: Int
    var text: Data
  }

  struct Title: Codable, Identifiable, Sendable, RelationshipNode {
    var id: Int
    var number: Int

    func relationshipEdges() throws -> [RelationshipEdge] {
      [try RelationshipEdge("page", to: .row(try RowKey(id, in: Pages.collection)))]
    }
  }

  struct Pages: StoreFormat {
    typealias Instance = Page
    static let collection = "pages"
    let number = Index(\.number)
  }

  struct Titles: StoreFormat {
    typealias Instance = Title
    static let collection = "titles"
    static let storage = CollectionStorage.own()
    let number = Index(\.number)
  }

  struct Printing: TaskPayload {
    static let kind = "printing"
    var number: Int
  }

  static let queue: QueueName = "printing"
  static let graph = Relationships().named("links")

  static let options: DatabaseOptions = {
    var options = DatabaseOptions()
    // Memtables of 1 MiB, so that the log is bounded by 8 MiB.
    options.memoryBudget = 8 << 20
    return options
  }()

  static func open(_ path: String, _ change: (inout DatabaseOptions) -> Void = { _ in }) throws -> Database {
    var options = options
    change(&options)
    return try Database.open(at: path, options: options) {
      Pages.self
      Titles.self
      graph
      TaskStorage.handle
    }
  }

  /// Returns the id of the rows of a transaction.
  static func id(_ number: Int) -> Int { number % 20 == 0 ? 1_000 + number / 20 : number % 99 }

  /// Returns the numbers of rows by id after the transaction with a number.
  static func numbers(after last: Int) -> [Int: Int] {
    var numbers: [Int: Int] = [:]
    for number in stride(from: 1, through: last, by: 1) { numbers[id(number)] = number }
    return numbers
  }
}
