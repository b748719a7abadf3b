public import Foundation

/// A task, as the database has it.
public struct TaskInfo: Hashable, Sendable, Identifiable {
  /// Its identity.
  public let id: TaskID
  /// Its queue.
  public let queue: QueueName
  /// Its state, and what is counted of it. Where no scheduler runs in this process a task is `running` that another one runs, or ran
  /// when it died.
  public let progress: TaskProgress
  /// The name of its payload's type.
  public let kind: String
  /// The version of its payload.
  public let version: UInt16
  /// Its payload.
  public let payload: [UInt8]
  /// Its priority.
  public let priority: UInt8
  /// When it was enqueued, in milliseconds since 1970.
  public let enqueued: Int64
  /// When it is due, in milliseconds since 1970; nil where it waits for no time.
  public let due: Int64?
  /// Its tags.
  public let tags: [String]
  /// The texts of its last errors, the oldest first.
  public let errors: [String]
  /// The signals that it waits for.
  public let signals: [WakeSignal]
  /// Its limit key.
  public let limitKey: String?
  /// The group that it belongs to.
  public let group: TaskID?
  /// What its handler kept as its result: `TaskContext.result(_:)`.
  public let result: [UInt8]?
  /// The slot of a schedule that it is for; nil: it is for none.
  public let slot: TaskSlot?
  /// How far its handler says it is, where it runs; in another process as of the last second.
  public let handlerProgress: HandlerProgress?

  init(_ record: TaskRecord, _ queue: QueueName, _ handlerProgress: HandlerProgress?) {
    self.handlerProgress = handlerProgress
    id = record.id
    self.queue = queue
    progress = record.progress
    kind = record.kind
    version = record.version
    payload = record.payload
    priority = record.position.priority
    enqueued = record.enqueued
    due = record.progress.state == .scheduled || record.progress.state == .retryWait ? record.position.due : nil
    tags = record.tags
    errors = record.errors
    signals = record.signals.map { WakeSignal($0) }
    let extras = record.extras
    limitKey = extras.limitKey
    group = extras.group
    result = extras.result
    slot = TaskSlot(extras)
  }

  /// Its result as a value. Throws what decoding throws.
  public func result<Value: Decodable>(as type: Value.Type) throws -> Value? {
    try result.map { try JSONDecoder().decode(type, from: Data($0)) }
  }
}

/// One time at which a schedule enqueues a task.
public struct TaskSlot: Hashable, Sendable {
  /// The name of the schedule.
  public let schedule: String
  /// The time.
  public let date: Date
  /// Whether the task was enqueued late, because nothing ran at the time.
  public let isLate: Bool

  init?(_ extras: TaskExtras) {
    guard let schedule = extras.schedule else { return nil }
    self.init(schedule, extras.slot, isLate: extras.isLate)
  }

  init(_ schedule: String, _ slot: Int64, isLate: Bool) {
    self.schedule = schedule
    date = WallTime.date(slot)
    self.isLate = isLate
  }
}

/// How far a group of tasks is.
public struct TaskGroupInfo: Hashable, Sendable {
  /// The task that runs when all of it have ended.
  public let id: TaskID
  /// How many tasks it has, or had.
  public let total: Int
  /// How many are done.
  public let done: Int
  /// How many are dead.
  public let dead: Int
  /// How many were cancelled, or deleted before they ended.
  public let cancelled: Int
  /// How many have not ended.
  public var pending: Int { total - done - dead - cancelled }
}
