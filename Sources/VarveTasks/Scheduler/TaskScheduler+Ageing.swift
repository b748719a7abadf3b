internal import Synchronization
internal import Varve

/// Where the search for tasks that have waited long enough to move up continues in a queue.
///
/// A queue may have very many tasks, so a turn of the loop looks at a limited number of them.
struct AgeingSearch: Sendable {
  /// The key from which on tasks are looked at.
  var from: [UInt8]
  /// The subqueue and the priority of the tasks that were looked at last, and the number of those that move up.
  var subqueue: SubqueueID?
  var priority: UInt8 = 0
  var count = 0
}

/// Tasks that move up by one priority after a time.
extension TaskScheduler {
  /// The maximum number of tasks of each subqueue and priority that move up at once, the first ones.
  private static let agedMaximum = 512
  /// The maximum number of rows that a turn looks at.
  static let agedRowMaximum = 2 * TurnWork.share

  /// What a turn has found: the tasks that move up, with the keys of their rows, and for each queue that has more tasks
  /// where the search continues.
  struct Aged: Sendable {
    var found: [(id: TaskID, key: [UInt8])] = []
    var rest: [UInt32: AgeingSearch] = [:]
    fileprivate var rowCount = 0
  }

  /// Returns the tasks of some queues that have waited long enough to move up.
  ///
  /// They are searched for outside of the commit, which reads each of them again.
  func findAged(_ queues: [UInt32], _ now: Int64, _ database: Database, atMost maximum: Int) -> Aged {
    var aged = Aged()
    for queue in queues {
      guard let wait = rules(numbered: queue)?.ageingTime else { continue }
      let search = state.withLock { $0.ageingSearches[queue] } ?? AgeingSearch(from: TaskKeys.subqueues(queue))
      do {
        try database.read { tx in
          try Self.find(
            queue, search, now - wait.milliseconds, try tx.tasks.parts.live, &aged,
            atMost: min(maximum, Self.agedRowMaximum))
        }
      } catch {
        if TaskDamage.isLasting(error) {
          SchedulerLog.unreadable(logger, "the ageing of queue \(dispatcher.name(queue)?.text ?? "\(queue)")", error)
        } else {
          SchedulerLog.failed(logger, error)
        }
      }
    }
    if aged.rowCount > 0 { dispatcher.noteTurn(rows: aged.rowCount) }
    return aged
  }

  private static func find(
    _ queue: UInt32, _ begin: AgeingSearch, _ oldest: Int64, _ live: Part, _ aged: inout Aged, atMost maximum: Int
  ) throws {
    var search = begin
    var range = StorageRange(prefix: TaskKeys.subqueues(queue))
    range.lower = search.from
    while true {
      var cursor = try live.cursor(range)
      var isPassed = false
      while !isPassed {
        guard let (key, value) = try cursor.next() else { return }
        search.from = key
        if aged.rowCount >= maximum {
          aged.rest[queue] = search
          return
        }
        aged.rowCount += 1
        let record = try TaskRecord(value, stamp: QueuedTask.stamp(of: key))
        let (subqueue, priority) = (record.position.subqueue, record.position.priority)
        if subqueue != search.subqueue || priority != search.priority {
          (search.subqueue, search.priority, search.count) = (subqueue, priority, 0)
        }
        if priority == 0 || record.position.isFront || record.enqueued > oldest { continue }
        if search.count < agedMaximum {
          search.count += 1
          aged.found.append((record.id, key))
          continue
        }
        // The other tasks of this priority are passed in one step.
        guard let next = StorageRange(prefix: subqueue.begin + [1, priority]).upper else { return }
        range.lower = next
        isPassed = true
      }
    }
  }

  /// Moves a task up by one priority, if it is still at the key.
  static func age(_ id: TaskID, _ key: [UInt8], _ changes: SchedulerChanges, _ dispatcher: TaskDispatcher) throws {
    if !dispatcher.mayChange(id) || dispatcher.run(id) != nil { return }
    guard let value = try changes.parts.live.get(key) else { return }
    let old = try TaskRecord(value, stamp: QueuedTask.stamp(of: key))
    var new = old
    new.position.priority -= 1
    try changes.rewrite(old, &new)
  }

  /// Sets the timers after which the waiting tasks of queues move up again. For the queues in `rest`, the search
  /// continues at once.
  func endAgeing(_ queues: [UInt32], _ rest: [UInt32: AgeingSearch] = [:]) {
    if queues.isEmpty { return }
    state.withLock { state in
      for queue in queues { state.ageingSearches[queue] = rest[queue] }
    }
    for queue in queues {
      guard let wait = rules(numbered: queue)?.ageingTime else { continue }
      dispatcher.insert(
        Timers.Entry(
          deadline: clock.continuousNow + (rest[queue] == nil ? wait : .zero), wall: nil, suspending: nil,
          action: .ageing(queue)))
    }
  }

  private func rules(numbered queue: UInt32) -> QueueRules? { dispatcher.name(queue).map { rules(of: $0) } }
}
