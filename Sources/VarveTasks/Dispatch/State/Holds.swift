/// The tasks that may not begin although it is their turn: those that transactions are changing, those that a process
/// has died with, and those whose last attempt can't be noted.
///
/// - A task in `overtaken` has left its subqueue, and returns to it when its hold ends. A read may find its row
///   earlier, and put it into its subqueue again.
/// - No task of a serial queue is in `overtaken`: its subqueue waits for it.
/// - At most one task runs alone, the `suspect`. While it waits for the others to end, and after it has begun, no other
///   task begins, each time for at most `aloneTime`.
///
/// The number of transactions that hold a task is in the state of the dispatcher, because they may be open across
/// several starts.
struct Holds: ~Copyable {
  /// A task that a process has died with, and that runs alone for a time, or waits until the others have ended.
  struct Suspect {
    let id: TaskID
    /// The time on the continuous clock since which it waits or runs.
    let since: Duration
    let hasBegun: Bool
  }

  /// The tasks that were next in their subqueue while they were held, or while they had to wait because a process has
  /// died with them. Others overtake them.
  private(set) var overtaken: [TaskID: (subqueue: SubqueueID, entry: QueuedTask)] = [:]
  /// The tasks whose time came while they were held, with the keys of their rows.
  private var due: [TaskID: [UInt8]] = [:]
  /// The subqueues whose heads are held, and wait for them.
  private var heads: [TaskID: SubqueueID] = [:]
  /// The tasks that do not run until the next start, because what notes their last attempt can't be read or written.
  /// The value says whether the attempt was done. If it was not, no other task of a serial queue overtakes the task.
  private(set) var leftOut: [TaskID: Bool] = [:]
  /// The task that runs alone, because a process has died while it ran, or `nil` if no task does.
  var suspect: Suspect?
  /// The time on the continuous clock until which other tasks may begin before the next task of this kind.
  var othersEnd = Duration.zero
  /// The subqueues whose next task is of this kind, and waits until then.
  private(set) var postponedSubqueues: [SubqueueID] = []
  /// The tasks of this kind that others overtake until then, in the order in which they are tried again. Some may not
  /// be in `overtaken` any more.
  private(set) var postponedTasks: [TaskID] = []

  /// The maximum number of tasks that others overtake, which are kept in memory.
  static let overtakenMaximum = 4_096
  /// The time for which a task that a process has died with runs alone, for which it waits for others to end, and after
  /// it for which others may begin before the next such task.
  ///
  /// It is bounded because handlers may run for hours.
  static let aloneTime = Duration.seconds(10)

  // MARK: - Tasks that transactions hold

  /// Returns whether others may overtake the first task of a subqueue, which may not begin now because a transaction is
  /// changing it, or it was left out until the next start. Returns `nil` if it may begin.
  mutating func passes(_ entry: QueuedTask, of subqueue: Subqueue, isHeld: Bool) -> Bool? {
    // No task may overtake the head of a serial queue, unless it was done.
    let isSerial = subqueue.rules.isSerial
    if let isDone = leftOut[entry.id] { return !isSerial || isDone }
    if !isHeld { return nil }
    // A transaction may hold very many tasks: then the subqueue waits for it, too.
    let waits = isSerial || overtaken.count >= Self.overtakenMaximum
    if waits { heads[entry.id] = subqueue.id } else { overtaken[entry.id] = (subqueue.id, entry) }
    return !waits
  }

  /// Notes that the time of a task that is held has come.
  mutating func noteDue(_ id: TaskID, _ key: [UInt8]) { due[id] = key }

  /// Returns what waits for the end of a task's hold: the subqueue that it is the head of, the task that others have
  /// overtaken, and the key of its row if its time has come.
  mutating func release(
    _ id: TaskID
  ) -> (subqueue: SubqueueID?, overtaken: (subqueue: SubqueueID, entry: QueuedTask)?, due: [UInt8]?) {
    (heads.removeValue(forKey: id), overtaken.removeValue(forKey: id), due.removeValue(forKey: id))
  }

  /// Forgets that others have overtaken a task, because its row was removed.
  mutating func dropOvertaken(_ id: TaskID, _ key: [UInt8]) {
    if let entry = overtaken[id]?.entry, entry.key == key { overtaken[id] = nil }
  }

  /// Lets a task not run until the next start.
  mutating func leaveOut(_ id: TaskID, isDone: Bool) { leftOut[id] = isDone }

  // MARK: - Tasks that a process has died with

  /// Notes that a task of this kind begins, although it may have been overtaken: a read may have found its row again.
  mutating func beginSuspect(_ id: TaskID) { overtaken[id] = nil }

  /// Lets the other tasks of a subqueue overtake its first one, which is of this kind and may not begin yet. Returns
  /// false if none may overtake it: then the subqueue waits.
  mutating func postpone(_ entry: QueuedTask, of subqueue: Subqueue) -> Bool {
    if subqueue.rules.isSerial || overtaken.count >= Self.overtakenMaximum { return false }
    overtaken[entry.id] = (subqueue.id, entry)
    postponedTasks.append(entry.id)
    _ = subqueue.popFirst()
    return true
  }

  /// Lets a subqueue wait whose first task is of this kind and may not begin yet.
  mutating func postpone(_ subqueue: Subqueue) { postponedSubqueues.append(subqueue.id) }

  /// Takes the subqueues and tasks that had to wait.
  mutating func takePostponed() -> (subqueues: [SubqueueID], tasks: [(subqueue: SubqueueID, entry: QueuedTask)]) {
    defer { (postponedSubqueues, postponedTasks) = ([], []) }
    return (postponedSubqueues, postponedTasks.compactMap { overtaken.removeValue(forKey: $0) })
  }

  /// Returns whether timers are needed for tasks of this kind.
  func needsTimers(_ clock: (any SchedulerClock)?) -> Bool {
    if suspect != nil || !postponedSubqueues.isEmpty || !postponedTasks.isEmpty { return true }
    return othersEnd > .zero && clock.map { $0.continuousNow < othersEnd } ?? false
  }
}
