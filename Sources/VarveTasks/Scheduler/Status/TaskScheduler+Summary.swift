internal import Foundation
internal import Synchronization
internal import Varve

extension TaskScheduler {
  /// Returns what the queues and kinds do now, for a status page.
  ///
  /// ```swift
  /// let encoder = JSONEncoder()
  /// encoder.dateEncodingStrategy = .iso8601
  /// let page = try encoder.encode(scheduler.summary())
  /// ```
  /// The numbers of tasks are exact, also right after a restart, because the database stores them. Those of the last
  /// minute are counted in this process: `TaskSummary.measured` says for how long. They are of attempts, so a task that
  /// is cancelled while it waits is in none of them.
  ///
  /// Throws the errors of a read of the database. Safe from any thread.
  ///
  /// Complexity: seven lookups for each queue, one for each running task, and the cost of `queueHeads()`. The cost does
  /// not depend on the number of tasks that wait.
  public func summary() throws -> TaskSummary {
    let (now, continuous) = (clock.wallNow, clock.continuousNow)
    let heads = Dictionary(try queueHeads().map { ($0.queue, $0) }) { first, _ in first }
    let blocked = Dictionary(grouping: blockedQueues, by: \.queue)
    let (rates, time) = rates.counts(continuous)
    let running = dispatcher.runningKinds
    return try database.read { tx in
      let schedules = try tx.taskSchedules().map { TaskSummary.Schedule($0, now) }
      let (slotsByQueue, slotsByKind) = (schedules.nextSlots(by: \.queue), schedules.nextSlots(by: \.kind))
      let (byQueue, byKind) = (rates.sums(by: \.queue), rates.sums(by: \.kind))
      let queues = try tx.taskQueues().map { name in
        let (isPaused, isDraining) = try tx.taskQueueState(name)
        func count(_ state: TaskState) throws -> Int { try tx.taskCount(in: name, state) }
        let counts = byQueue[name] ?? TaskRates.Counts()
        return TaskSummary.Queue(
          name: name.text, isPaused: isPaused, isDraining: isDraining, blockedBy: blocked[name]?.map(\.task) ?? [],
          running: try count(.running), ready: try count(.ready), scheduled: try count(.scheduled),
          retryWait: try count(.retryWait), blocked: try count(.blocked), parked: try count(.parked),
          dead: try count(.dead), settled: counts.settled, failed: counts.failed,
          oldest: heads[name].map { $0.age.secondCount }, oldestTask: heads[name]?.task,
          nextSlot: slotsByQueue[name.text])
      }
      let unhandled = Set(unhandledKinds)
      let names = Set(running.keys).union(rates.keys.map(\.kind)).union(schedules.map(\.kind)).union(unhandled)
        .union(state.withLock { $0.handlers.kinds })
      let kinds = names.sorted().map { name in
        let counts = byKind[name] ?? TaskRates.Counts()
        return TaskSummary.Kind(
          name: name, isUnhandled: unhandled.contains(name), running: running[name] ?? 0, settled: counts.settled,
          failed: counts.failed, nextSlot: slotsByKind[name])
      }
      return TaskSummary(
        date: now, isRunning: state.withLock { $0.isRunning }, isHeld: try tx.areTasksHeld,
        isDiskFull: dispatcher.isDiskFull, workers: configuration.workerCount,
        running: running.values.reduce(0, +), measured: min(60, time.secondCount), queues: queues, kinds: kinds,
        schedules: schedules)
    }
  }

  /// Counts ends of attempts that are committed, for the numbers of the last minute.
  func noteRates(_ plans: Plans, _ written: [Bool]) {
    var ends: [(key: TaskRates.Key, counts: TaskRates.Counts)] = []
    for ((run, plan), isWritten) in zip(plans, written) where isWritten {
      let counts = TaskRates.Counts(settled: plan.state.isSettled ? 1 : 0, failed: plan.isFailure ? 1 : 0)
      // Most commits end attempts of one kind in one queue.
      if let last = ends.last, last.key.kind == run.record.kind, last.key.queue == run.queue {
        ends[ends.count - 1].counts = last.counts + counts
      } else {
        ends.append((TaskRates.Key(queue: run.queue, kind: run.record.kind), counts))
      }
    }
    rates.note(ends, at: clock.continuousNow)
  }
}

extension [TaskRates.Key: TaskRates.Counts] {
  /// Returns the sums of the counts with the same queue, or of the same kind.
  fileprivate func sums<Name: Hashable>(by name: KeyPath<TaskRates.Key, Name>) -> [Name: TaskRates.Counts] {
    reduce(into: [:]) { $0[$1.key[keyPath: name]] = ($0[$1.key[keyPath: name]] ?? TaskRates.Counts()) + $1.value }
  }
}

extension [TaskSummary.Schedule] {
  /// Returns the earliest of the next slots of the schedules with the same queue, or of the same kind.
  fileprivate func nextSlots(by name: KeyPath<TaskSummary.Schedule, String>) -> [String: Date] {
    reduce(into: [:]) { slots, schedule in
      guard let next = schedule.nextSlot else { return }
      let key = schedule[keyPath: name]
      slots[key] = slots[key].map { Swift.min($0, next) } ?? next
    }
  }
}

extension TaskSummary.Schedule {
  init(_ info: TaskScheduleInfo, _ now: Date) {
    name = info.name
    kind = info.kind
    queue = info.queue.text
    isDeclared = info.isDeclared
    lastSlot = info.lastSlot
    // Times that have passed are made up for as the rules of the schedule say.
    nextSlot = info.isDeclared ? (try? info.next(1, after: max(info.lastSlot, now)))?.first : nil
  }
}

extension TaskPlan {
  /// Whether the attempt has failed: another one follows, or the task is parked or dead.
  fileprivate var isFailure: Bool {
    switch state {
    case .retryWait, .parked, .dead: true
    case .ready: !isInterrupted
    default: false
    }
  }
}
