public import Varve

/// A part of the tasks of a query, in their order: see `ReadTransaction.taskPage(_:after:limit:)`.
public struct TaskPage: Hashable, Sendable {
  /// The tasks.
  public let tasks: [TaskInfo]
  /// The position from which the next page continues, or `nil` if this is the last page.
  public let next: TaskListPosition?
}

/// A position in the tasks of a query, which another transaction may continue from. It can be stored, and sent to
/// another program.
public struct TaskListPosition: Hashable, Codable, Sendable {
  /// Whether the task has ended.
  let isEnded: Bool
  /// The key of its row.
  let key: [UInt8]

  init(isEnded: Bool, key: [UInt8]) {
    self.isEnded = isEnded
    self.key = key
  }
}

extension ReadTransaction {
  /// Returns the tasks of a query after a position, at most `limit`, and the position of the next ones.
  ///
  /// Without a position the page is the first one. The tasks come in the order of `tasks(_:limit:)`. Tasks that change
  /// their place between two pages may be in both of them, or in none.
  ///
  /// Complexity: that of the query, from the position on.
  public func taskPage(_ query: TaskQuery, after position: TaskListPosition? = nil, limit: Int) throws -> TaskPage {
    let tasks = try tasks
    var found: [TaskInfo] = []
    var (last, next): (TaskListPosition?, TaskListPosition?)
    if limit < 1 { return TaskPage(tasks: [], next: position) }
    try tasks.forEach(query, after: position) { record, position in
      if found.count == limit {
        next = last
        return false
      }
      found.append(try tasks.info(record))
      last = position
      return true
    }
    return TaskPage(tasks: found, next: next)
  }
}
