public import Foundation

/// A selection of tasks: those that meet all of its conditions.
///
/// ```swift
/// try tx.tasks(.queue("images").and(.state(.dead)))
/// try tx.cancel(.tag("campaign-7"))
/// ```
///
/// # Complexity
/// A query for an id or for a unique key needs two lookups. A query for a queue iterates over the tasks of that queue
/// that are queued, parked, blocked or dead, or over fewer if it names states, but over the tasks of all queues that
/// wait for a time, or are kept for a time after their end. A query without a queue iterates over all tasks.
public struct TaskQuery: Hashable, Codable, Sendable {
  var id: TaskID?
  var queue: QueueName?
  var states: Set<TaskState>?
  var kind: String?
  var tag: String?
  var uniqueKey: [UInt8]?
  var limitKey: String?
  var group: TaskID?
  var error: String?
  var enqueuedBefore: Int64?
  var enqueuedAfter: Int64?

  /// All tasks, including those that have ended and are kept.
  public static let all = TaskQuery()

  /// Returns a query for the task with an id.
  public static func id(_ id: TaskID) -> TaskQuery { of { $0.id = id } }
  /// Returns a query for the tasks of a queue.
  public static func queue(_ name: QueueName) -> TaskQuery { of { $0.queue = name } }
  /// Returns a query for the tasks that are in one of the given states.
  public static func state(_ states: TaskState...) -> TaskQuery { of { $0.states = Set(states) } }
  /// Returns a query for the tasks that are in one of the given states.
  public static func states(_ states: Set<TaskState>) -> TaskQuery { of { $0.states = states } }
  /// Returns a query for the tasks whose payloads have a kind.
  public static func kind(_ kind: String) -> TaskQuery { of { $0.kind = kind } }
  /// Returns a query for the tasks that have a tag.
  public static func tag(_ tag: String) -> TaskQuery { of { $0.tag = tag } }
  /// Returns a query for the task of a kind that has a unique key: see `TaskOptions.unique`.
  public static func unique(_ kind: String, _ key: String) -> TaskQuery {
    of {
      $0.kind = kind
      $0.uniqueKey = Array(key.utf8)
    }
  }
  /// Returns a query for the tasks that have a limit key.
  public static func limitKey(_ key: String) -> TaskQuery { of { $0.limitKey = key } }
  /// Returns a query for the tasks one of whose kept errors contains a text, or for all that have an error.
  ///
  /// It is a condition only, which reads every task that the rest of the query selects.
  public static func error(containing text: String = "") -> TaskQuery { of { $0.error = text } }
  /// Returns a query for the tasks that were enqueued before a date: a condition, as `error(containing:)` is.
  public static func enqueued(before date: Date) -> TaskQuery {
    of { $0.enqueuedBefore = WallTime.milliseconds(date) }
  }
  /// Returns a query for the tasks that were enqueued at a date or later: a condition, as `error(containing:)` is.
  public static func enqueued(since date: Date) -> TaskQuery {
    of { $0.enqueuedAfter = WallTime.milliseconds(date) }
  }
  /// Returns a query for the tasks of a group.
  public static func group(_ id: TaskID) -> TaskQuery { of { $0.group = id } }
  /// Returns a query for the tasks of a queue that are parked.
  public static func parked(_ name: QueueName) -> TaskQuery { queue(name).and(.state(.parked)) }
  /// Returns a query for the tasks of a queue that are dead.
  public static func dead(_ name: QueueName) -> TaskQuery { queue(name).and(.state(.dead)) }

  /// Returns a query for the tasks that meet the conditions of both queries.
  ///
  /// If both name states, the states that both contain count. If they name different values of any other property, the
  /// result selects no task.
  public func and(_ other: TaskQuery) -> TaskQuery {
    var query = self
    func join<Value: Equatable>(_ path: WritableKeyPath<TaskQuery, Value?>) {
      guard let value = other[keyPath: path] else { return }
      if let own = query[keyPath: path], own != value { query.states = [] } else { query[keyPath: path] = value }
    }
    if let states = other.states { query.states = query.states?.intersection(states) ?? states }
    join(\.id)
    join(\.queue)
    join(\.kind)
    join(\.tag)
    join(\.uniqueKey)
    join(\.limitKey)
    join(\.group)
    join(\.error)
    // Of two limits of the time, the narrower one counts.
    query.enqueuedBefore = [query.enqueuedBefore, other.enqueuedBefore].compactMap { $0 }.min()
    query.enqueuedAfter = [query.enqueuedAfter, other.enqueuedAfter].compactMap { $0 }.max()
    return query
  }

  private static func of(_ change: (inout TaskQuery) -> Void) -> TaskQuery {
    var query = TaskQuery()
    change(&query)
    return query
  }

  /// Returns whether the query may select tasks in one of some states.
  func wants(_ states: TaskState...) -> Bool { self.states.map { !$0.isDisjoint(with: states) } ?? true }

  /// Returns whether a task meets all conditions except that of the queue.
  func fits(_ record: TaskRecord, _ state: TaskState) -> Bool {
    if let id, id != record.id { return false }
    if let states, !states.contains(state) { return false }
    if let kind, kind != record.kind { return false }
    if let tag, !record.tags.contains(tag) { return false }
    let extras = record.extras
    if let uniqueKey, uniqueKey != extras.uniqueKey { return false }
    if let limitKey, limitKey != extras.limitKey { return false }
    if let enqueuedBefore, record.enqueued >= enqueuedBefore { return false }
    if let enqueuedAfter, record.enqueued < enqueuedAfter { return false }
    if let error {
      if record.errors.isEmpty { return false }
      if !error.isEmpty, !record.errors.contains(where: { $0.contains(error) }) { return false }
    }
    return group == nil || group == extras.group
  }
}
