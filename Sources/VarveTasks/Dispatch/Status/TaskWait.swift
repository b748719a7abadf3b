public import Foundation
internal import FutexLocks

/// A reason why a task does not run now: see `TaskInfo.waitsFor`.
public enum TaskWait: Hashable, Sendable {
  /// The task waits for a time: its own (`TaskOptions.start`), that of its next attempt, or that of a snooze.
  case time(Date)
  /// The task is parked until one of these signals is sent, or `retryNow` is called.
  case signals([WakeSignal])
  /// The task is blocked until these tasks have ended, at most the first 100 of them. One of them may be a task with
  /// its unique key.
  case tasks([TaskID])
  /// Its queue is paused, until `resume` is called.
  case pausedQueue
  /// The database is a copy, and starts no task until `releaseTasks` is called.
  case copy
  /// Its queue is serial, and this task, in this state, comes before it.
  case head(TaskID, TaskState)
  /// No handler is registered for its kind in its queue.
  case handler
  /// Its queue runs as many tasks as its rules allow (`QueueRules.concurrency`).
  case concurrency
  /// As many tasks of its limit key run as the rules of its queue allow (`QueueRules.perKey`).
  case limitKey
  /// No token is left for its queue or its limit key (`QueueRules.rate`, `ratePerKey`).
  case rate
  /// All workers of the scheduler have attempts.
  case workers
  /// Tasks of its queue and limit key come before it.
  case turn
  /// A task that a process has died with runs alone or waits to, or the task itself is one and waits for the others.
  case suspect
  /// A transaction is changing the task.
  case transaction
  /// The disk is full.
  case diskSpace
  /// What notes its last attempt can't be read, so that the task does not run until the next start.
  case nextStart
}

extension TaskWait: CustomStringConvertible {
  /// What the task waits for, as the end of a sentence that begins with "waits for".
  public var description: String {
    switch self {
    case .time(let date): date.ISO8601Format()
    case .signals(let signals):
      signals.isEmpty
        ? "a call of retryNow" : "the signal " + signals.map { "\"\($0)\"" }.joined(separator: " or ")
    case .tasks(let ids): (ids.count == 1 ? "task " : "tasks ") + ids.map { "\($0)" }.joined(separator: ", ")
    case .pausedQueue: "its queue to be resumed, which is paused"
    case .copy: "the tasks of this copy to be released"
    case .head(let id, let state): "task \(id), which comes before it in a serial queue and is \(state)"
    case .handler: "a handler for its kind in its queue"
    case .concurrency: "another task of its queue to end, which runs as many as its rules allow"
    case .limitKey: "another task of its limit key to end"
    case .rate: "a token of the rate of its queue or its limit key"
    case .workers: "a worker"
    case .turn: "its turn after other tasks"
    case .suspect: "a task that a process has died with, and that runs alone"
    case .transaction: "a transaction that is changing it"
    case .diskSpace: "space on the disk"
    case .nextStart: "the next start, because its last attempt can't be read"
    }
  }
}

extension TaskWait: Encodable {
  private enum CodingKeys: String, CodingKey { case reason, date, signals, tasks, state }

  /// The name of the case.
  private var reason: String {
    switch self {
    case .time: "time"
    case .signals: "signals"
    case .tasks: "tasks"
    case .pausedQueue: "pausedQueue"
    case .copy: "copy"
    case .head: "head"
    case .handler: "handler"
    case .concurrency: "concurrency"
    case .limitKey: "limitKey"
    case .rate: "rate"
    case .workers: "workers"
    case .turn: "turn"
    case .suspect: "suspect"
    case .transaction: "transaction"
    case .diskSpace: "diskSpace"
    case .nextStart: "nextStart"
    }
  }

  /// Encodes the name of the case as `reason`, and its values as `date`, `signals`, `tasks` and `state`. A head is the
  /// only one of `tasks`, and its state is a name.
  public func encode(to encoder: any Encoder) throws {
    var container = encoder.container(keyedBy: CodingKeys.self)
    try container.encode(reason, forKey: .reason)
    switch self {
    case .time(let date): try container.encode(date, forKey: .date)
    case .signals(let signals): try container.encode(signals.map(\.text), forKey: .signals)
    case .tasks(let ids): try container.encode(ids, forKey: .tasks)
    case .head(let id, let state):
      try container.encode([id], forKey: .tasks)
      try container.encode("\(state)", forKey: .state)
    default: break
    }
  }
}

extension TaskDispatcher {
  /// Returns what a queued task waits for that only the scheduler of this process knows: nothing if none runs.
  ///
  /// `head` is the first task of its subqueue.
  func waits(of record: TaskRecord, after head: (id: TaskID, state: TaskState)?) -> [TaskWait] {
    state.withLock { state in
      guard let host = state.host, let name = state.texts[record.position.queue] else { return [] }
      var waits: [TaskWait] = []
      func add(_ wait: TaskWait, if isSo: Bool) { if isSo { waits.append(wait) } }
      let id = record.id
      add(.diskSpace, if: state.isDiskFull)
      add(.transaction, if: state.held[id] != nil)
      add(.nextStart, if: state.holds.leftOut[id] != nil)
      add(.handler, if: state.running.handlers.find(record.kind, name) == nil)
      add(
        .suspect,
        if: state.holds.suspect.map { $0.id != id } ?? false
          || (state.held[id] == nil && state.holds.overtaken[id] != nil))
      let rules = host.rules(name)
      if let queue = state.subqueues.queues[record.position.queue] {
        add(.concurrency, if: queue.runningCount >= rules.runningMaximum)
      }
      let subqueue = state.subqueues[record.position.subqueue]
      if rules.isSerial {
        if let head, head.id != id { waits.append(.head(head.id, head.state)) }
      } else if let subqueue {
        add(
          .limitKey,
          if: subqueue.runningCount >= subqueue.runningMaximum && subqueue.runningMaximum < rules.runningMaximum)
        add(.turn, if: subqueue.first.map { $0.id != id } ?? false)
      }
      add(.rate, if: subqueue?.waitsForToken ?? false)
      add(.workers, if: state.running.busyCount >= host.workers)
      return waits
    }
  }
}
