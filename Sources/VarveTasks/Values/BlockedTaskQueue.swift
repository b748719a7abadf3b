/// A serial queue whose first task waits for a call or a signal.
public struct BlockedTaskQueue: Hashable, Sendable {
  /// The name of the queue.
  public let queue: QueueName
  /// The first task of the queue.
  public let task: TaskID
  /// The state of the first task: `dead` or `parked`.
  public let state: TaskState
}
