/// Some tasks: those that fit all that it says.
///
/// ```swift
/// try tx.tasks(.queue("images").and(.state(.dead)))
/// try tx.cancel(.tag("campaign-7"))
/// ```
/// # Complexity
/// One of an id, or of a unique key, is found by two looks. A queue is looked through where it is named: what stands in line, is
/// parked, blocked or dead; a state narrows that. Tasks that wait for a time, or are kept after their end, are looked through for all
/// queues. A query without a queue looks through all tasks.
public struct TaskQuery: Hashable, Codable, Sendable {
  var id: TaskID?
  var queue: QueueName?
  var states: Set<TaskState>?
  var kind: String?
  var tag: String?
  var uniqueKey: [UInt8]?
  var limitKey: String?
  var group: TaskID?

  /// All tasks, also those that have ended and are kept.
  public static let all = TaskQuery()

  /// One.
  public static func id(_ id: TaskID) -> TaskQuery { of { $0.id = id } }
  /// Those of a queue.
  public static func queue(_ name: QueueName) -> TaskQuery { of { $0.queue = name } }
  /// Those in one of some states.
  public static func state(_ states: TaskState...) -> TaskQuery { of { $0.states = Set(states) } }
  /// Those in one of some states.
  public static func states(_ states: Set<TaskState>) -> TaskQuery { of { $0.states = states } }
  /// Those whose payloads have a kind.
  public static func kind(_ kind: String) -> TaskQuery { of { $0.kind = kind } }
  /// Those that have a tag.
  public static func tag(_ tag: String) -> TaskQuery { of { $0.tag = tag } }
  /// The one whose key of `TaskOptions.unique` this is, of a kind.
  public static func unique(_ kind: String, _ key: String) -> TaskQuery {
    of {
      $0.kind = kind
      $0.uniqueKey = Array(key.utf8)
    }
  }
  /// Those that have a limit key.
  public static func limitKey(_ key: String) -> TaskQuery { of { $0.limitKey = key } }
  /// Those of a group.
  public static func group(_ id: TaskID) -> TaskQuery { of { $0.group = id } }
  /// Those of a queue that are parked.
  public static func parked(_ name: QueueName) -> TaskQuery { queue(name).and(.state(.parked)) }
  /// Those of a queue that are dead.
  public static func dead(_ name: QueueName) -> TaskQuery { queue(name).and(.state(.dead)) }

  /// Those that fit both. What both say of one property has to be the same, of states what they have in common counts.
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
    return query
  }

  private static func of(_ change: (inout TaskQuery) -> Void) -> TaskQuery {
    var query = TaskQuery()
    change(&query)
    return query
  }

  /// Whether it may ask for a state.
  func wants(_ states: TaskState...) -> Bool { self.states.map { !$0.isDisjoint(with: states) } ?? true }

  /// Whether a task fits, apart from its queue.
  func fits(_ record: TaskRecord, _ state: TaskState) -> Bool {
    if let id, id != record.id { return false }
    if let states, !states.contains(state) { return false }
    if let kind, kind != record.kind { return false }
    if let tag, !record.tags.contains(tag) { return false }
    let extras = record.extras
    if let uniqueKey, uniqueKey != extras.uniqueKey { return false }
    if let limitKey, limitKey != extras.limitKey { return false }
    return group == nil || group == extras.group
  }
}
