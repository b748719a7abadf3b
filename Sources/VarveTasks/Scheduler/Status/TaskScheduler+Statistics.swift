internal import Varve

extension TaskScheduler {
  /// What the scheduler has done since it was created, over all its starts.
  ///
  /// Safe from any thread. The cost of a call does not depend on the number of tasks.
  public var statistics: TaskSchedulerStatistics { recorder.statistics }

  /// Returns the first queued task of each queue, in the order of the queues' names.
  ///
  /// The age of a head shows whether tasks wait longer than they should. A running task is not queued any more, and a
  /// task that waits for a time, a signal or other tasks is not queued yet, unless it is the head of a serial queue.
  /// The result is empty if the scheduler does not run.
  ///
  /// Throws the errors of a read of the database.
  ///
  /// Complexity: one step for each subqueue of tasks, and a lookup for each subqueue whose first task is not in memory:
  /// no task of the subqueue was read since the start, because its queue is paused or no worker was free for it, or no
  /// handler is registered for the first task. Such a lookup passes the tasks of the subqueue that run.
  public func queueHeads() throws -> [TaskQueueHead] {
    let subqueues = dispatcher.subqueueHeads
    var oldest: [QueueName: QueuedTask] = [:]
    func note(_ entry: QueuedTask, _ queue: QueueName) {
      if let other = oldest[queue], other.enqueued <= entry.enqueued { return }
      oldest[queue] = entry
    }
    for subqueue in subqueues {
      if let entry = subqueue.entry { note(entry, subqueue.queue) }
    }
    let unread = subqueues.filter { $0.entry == nil }
    if !unread.isEmpty {
      try database.read { tx in
        let live = try tx.tasks.parts.live
        for subqueue in unread {
          var range = StorageRange(prefix: subqueue.subqueue.begin)
          range.lower = subqueue.from
          var cursor = try live.cursor(range)
          // The rows of running tasks may be before that of the first task that waits.
          while let (key, value) = try cursor.next() {
            guard let entry = try? QueuedTask(key: key, value: value), dispatcher.run(entry.id) == nil else { continue }
            note(entry, subqueue.queue)
            break
          }
        }
      }
    }
    let now = WallTime.milliseconds(clock.wallNow)
    return oldest.map { queue, entry in
      TaskQueueHead(
        queue: queue, task: entry.id, state: entry.state, age: .milliseconds(max(0, now - entry.enqueued)))
    }.sorted { $0.queue < $1.queue }
  }
}
