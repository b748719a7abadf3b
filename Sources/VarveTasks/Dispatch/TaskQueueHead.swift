internal import FutexLocks

/// The first task of a queue: the one that begins next when the queue's rules, a worker and a handler allow it.
public struct TaskQueueHead: Hashable, Sendable {
  /// The name of the queue.
  public let queue: QueueName
  /// The first queued task. If the queue has limit keys, each of them has a subqueue of its own, and this is the task
  /// that was enqueued earliest among the first tasks of all subqueues.
  public let task: TaskID
  /// The state of the task: `ready`, or for a serial queue also `retryWait`, `parked` or `dead`.
  public let state: TaskState
  /// The time since the task was enqueued, by the time of day of the scheduler's clock.
  public let age: Duration
}

/// The first task of a subqueue, as far as it is known.
struct SubqueueHead: Sendable {
  let queue: QueueName
  let subqueue: SubqueueID
  /// The first task, or `nil` if it is not in memory.
  let entry: QueuedTask?
  /// The key from which on the first task must be read, if `entry` is `nil`.
  let from: [UInt8]
}

extension TaskDispatcher {
  /// The first tasks of all subqueues that have tasks.
  var subqueueHeads: [SubqueueHead] {
    state.withLock { state in
      state.subqueues.values.compactMap { subqueue in
        // A task without a handler is skipped, and waits on disk.
        let unread = subqueue.skipped ?? subqueue.end
        if let first = subqueue.first, subqueue.skipped.map({ QueuedTask.precedes(first.key, $0) }) ?? true {
          return SubqueueHead(queue: subqueue.name, subqueue: subqueue.id, entry: first, from: [])
        }
        return unread.map { SubqueueHead(queue: subqueue.name, subqueue: subqueue.id, entry: nil, from: $0) }
      }
    }
  }
}
