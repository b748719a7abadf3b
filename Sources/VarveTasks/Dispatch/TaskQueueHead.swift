/// The first task in line of a queue: the one that begins next when the queue's rules, a worker and a handler allow it.
public struct TaskQueueHead: Hashable, Sendable {
  /// The name of the queue.
  public let queue: QueueName
  /// The first task in line. If the queue has limit keys, each of them has a line of its own, and this is the task that
  /// was enqueued earliest among the first tasks of all lines.
  public let task: TaskID
  /// The state of the task: `ready`, or for a serial queue also `retryWait`, `parked` or `dead`.
  public let state: TaskState
  /// The time since the task was enqueued, by the time of day of the scheduler's clock.
  public let age: Duration
}

/// The first task of a line, as far as it is known.
struct LineHead: Sendable {
  let queue: QueueName
  let line: LineID
  /// The first task, or `nil` if it is not in memory.
  let entry: LineEntry?
  /// The key from which on the first task is to be read, if `entry` is `nil`.
  let from: [UInt8]
}

extension TaskDispatcher {
  /// The first tasks of all lines that have tasks.
  var lineHeads: [LineHead] {
    state.withLock { state in
      state.lines.values.compactMap { line in
        // A task without a handler is skipped, and waits on disk.
        let unread = line.skipped ?? line.end
        if let first = line.first, line.skipped.map({ LineEntry.precedes(first.key, $0) }) ?? true {
          return LineHead(queue: line.name, line: line.id, entry: first, from: [])
        }
        return unread.map { LineHead(queue: line.name, line: line.id, entry: nil, from: $0) }
      }
    }
  }
}
