/// Some tasks.
public enum TaskQuery: Hashable, Sendable {
  /// One.
  case id(TaskID)
  /// All of a queue that have not ended.
  case queue(QueueName)
  /// Those of a queue that are parked.
  case parked(QueueName)
  /// Those of a queue that are dead.
  case dead(QueueName)
}

/// A task, as the database has it.
public struct TaskInfo: Hashable, Sendable, Identifiable {
  /// Its identity.
  public let id: TaskID
  /// Its queue.
  public let queue: QueueName
  /// Its state, and what is counted of it. A task that runs shows it where a scheduler in this process runs it; elsewhere it is
  /// still what it was before.
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

  init(_ record: TaskRecord, _ queue: QueueName) {
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
  }
}
