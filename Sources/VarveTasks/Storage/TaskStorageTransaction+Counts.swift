internal import Synchronization
@_spi(Extensions) internal import Varve

/// The numbers of tasks in each state.
///
/// A claim does not change the row of its task, so a stored number includes the tasks that run, in the states that they
/// had before. In the process that runs tasks these are known, and in others they are found by their claims.
extension TaskStorageTransaction {
  func taskCount(_ name: QueueName, _ state: TaskState) throws -> Int {
    guard let queue = try queue(name)?.number else { return 0 }
    let running = try running(in: queue)
    if state == .running { return running.values.reduce(0, +) }
    return try storedCount(queue, state) - (running[state] ?? 0)
  }

  /// Throws `TaskError.queueFull` if a queue has the maximum number of waiting tasks.
  func requireRoom(_ name: QueueName, _ queue: UInt32, _ limit: Int) throws {
    let stored = try TaskState.allCases.filter(\.isWaiting).reduce(0) { try $0 + storedCount(queue, $1) }
    if stored < limit { return }
    if try stored - running(in: queue).values.reduce(0, +) >= limit { throw TaskError.queueFull(name, limit: limit) }
  }

  private func storedCount(_ queue: UInt32, _ state: TaskState) throws -> Int {
    if context.writeTransaction != nil { try flush() }
    return Int(try parts.counts.unchecked.counter(TaskCounts.key(queue, state)))
  }

  /// Returns the numbers of tasks of a queue that run, by the states in which the stored numbers include them.
  private func running(in queue: UInt32) throws -> [TaskState: Int] {
    if let runningCounts { return runningCounts[queue] ?? [:] }
    let counts = try countRunning()
    // A write transaction may end an attempt.
    if context.writeTransaction == nil { runningCounts = counts }
    return counts[queue] ?? [:]
  }

  private func countRunning() throws -> [UInt32: [TaskState: Int]] {
    let parts = parts.unchecked
    var counts: [UInt32: [TaskState: Int]] = [:]
    for id in dispatcher.runningTasks + foreignRuns.keys {
      // The transaction may not see the task yet, or not any more.
      guard let (state, position) = try parts.position(of: id) else { continue }
      counts[position.queue, default: [:]][state, default: 0] += 1
    }
    return counts
  }
}
