public import Foundation

/// A task as the database stores it.
///
/// It may be encoded, for example for a status page. Its payload and result are arrays of bytes there: see
/// `payload(as:)` and `result(as:)`.
public struct TaskInfo: Hashable, Encodable, Sendable, Identifiable {
  /// The id of the task.
  public let id: TaskID
  /// The queue of the task.
  public let queue: QueueName
  /// The state of the task, and the counts of its attempts.
  ///
  /// If no scheduler runs in this process, a task is `running` if another process runs it, or ran it when that process
  /// died.
  public let progress: TaskProgress
  /// The name of the payload's type.
  public let kind: String
  /// The version of the payload.
  public let version: UInt16
  /// The payload.
  public let payload: [UInt8]
  /// The priority of the task.
  public let priority: UInt8
  /// The time at which the task was enqueued, in milliseconds since 1970.
  public let enqueued: Int64
  /// The time at which the task is due, in milliseconds since 1970, or `nil` if the task does not wait for a time.
  public let due: Int64?
  /// The tags of the task.
  public let tags: [String]
  /// The texts of the task's last errors, the oldest first.
  public let errors: [String]
  /// The signals that the task waits for.
  public let signals: [WakeSignal]
  /// The limit key of the task, or `nil` if it has none.
  public let limitKey: String?
  /// The unique key of the task, or `nil` if it is not unique.
  public let unique: TaskUniqueKey?
  /// The tasks that the task still waits for, at most the first 100 of them.
  public let parents: [TaskID]
  /// The reasons why the task does not run, or none if it runs or has ended. All of them hold at once.
  ///
  /// A process that runs no scheduler knows only those that are stored: times, signals, tasks, paused queues, copies,
  /// and heads of serial queues that do not run. There a task without a reason waits for its turn, for a limit, for a
  /// handler or for a scheduler.
  public let waitsFor: [TaskWait]
  /// The key that orders the task among those of its queue and priority, or `nil` if it has none.
  public let sortKey: SortKey?
  /// The delays after failures, or `nil` for those of the handler.
  public let retry: Retry?
  /// The number of attempts after which a failure makes the task dead, or `nil` if there is no limit.
  public let maxAttempts: Int?
  /// The time limit of an attempt, or `nil` if there is none.
  public let timeout: Duration?
  /// Whether the task is kept after it is done.
  public let retention: Retention
  /// The headers of the task.
  public let headers: [String: String]
  /// The group that the task belongs to, or `nil` if it belongs to none.
  public let group: TaskID?
  /// The result that the task's handler has kept by `TaskContext.result(_:)`, or `nil` if there is none.
  public let result: [UInt8]?
  /// The slot of the schedule that enqueued the task, or `nil` if no schedule did.
  public let slot: TaskSlot?
  /// The progress that the task's handler has reported, or `nil` if the task does not run or its handler has reported
  /// none.
  ///
  /// Another process reads the progress from the database, where it is stored at most once a second.
  public let handlerProgress: HandlerProgress?

  init(
    _ record: TaskRecord, _ queue: QueueName, _ handlerProgress: HandlerProgress?, _ parents: [TaskID],
    waitsFor: [TaskWait]
  ) {
    self.handlerProgress = handlerProgress
    self.parents = parents
    self.waitsFor = waitsFor
    sortKey = record.position.sortKey.isEmpty ? nil : SortKey(bytes: record.position.sortKey)
    retry = record.retry
    maxAttempts = record.maxAttempts == 0 ? nil : Int(record.maxAttempts)
    timeout = record.timeout == 0 ? nil : .milliseconds(record.timeout)
    retention = record.retention
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
    unique = TaskUniqueKey(extras)
    headers = extras.headers
    group = extras.group
    result = extras.result
    slot = TaskSlot(extras)
  }

  /// Returns the payload, migrated if an older program has enqueued the task.
  ///
  /// Throws `TaskError.invalidValue` for a task of another kind, and the errors of the decoding and the migration.
  public func payload<Payload: TaskPayload>(as type: Payload.Type) throws -> Payload {
    if kind != Payload.kind {
      throw TaskError.invalidValue("task \(id) has kind \"\(kind)\", and the payload \"\(Payload.kind)\"")
    }
    return try Payload.stored(payload, version)
  }

  /// Returns the result decoded from JSON, or `nil` if there is none. Throws the errors of the decoding.
  public func result<Value: Decodable>(as type: Value.Type) throws -> Value? {
    try result.map { try JSONDecoder().decode(type, from: Data($0)) }
  }
}

/// The unique key of a task: see `TaskOptions.unique`.
public struct TaskUniqueKey: Hashable, Encodable, Sendable {
  /// The key, or `nil` if the payload is the key.
  public let key: String?
  /// The time until which the key is taken, or `nil` if it is taken until the task has ended. A key that is taken for
  /// ever has `Date.distantFuture`.
  public let until: Date?

  init?(_ extras: TaskExtras) {
    guard let bytes = extras.uniqueKey else { return nil }
    let isDerived = bytes.first.map { $0 <= Uniqueness.hashedKey } ?? false
    key = isDerived ? nil : String(decoding: bytes, as: UTF8.self)
    until = extras.uniqueUntil.map { $0 == .max ? .distantFuture : WallTime.date($0) }
  }
}

/// A time at which a schedule enqueues a task.
public struct TaskSlot: Hashable, Encodable, Sendable {
  /// The name of the schedule.
  public let schedule: String
  /// The time of the slot.
  public let date: Date
  /// Whether the task was enqueued late, because no scheduler ran at the time of the slot.
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

/// The progress of a group of tasks.
public struct TaskGroupInfo: Hashable, Encodable, Sendable {
  /// The id of the group, which is the task that runs when all tasks of the group have ended.
  public let id: TaskID
  /// The number of tasks that belong to the group, including those that have ended.
  public let total: Int
  /// The number of tasks that are done.
  public let done: Int
  /// The number of tasks that are dead.
  public let dead: Int
  /// The number of tasks that were cancelled, or were deleted before they had ended.
  public let cancelled: Int
  /// The number of tasks that have not ended.
  public var pending: Int { total - done - dead - cancelled }
}
