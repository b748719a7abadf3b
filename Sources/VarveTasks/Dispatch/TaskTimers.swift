/// The timers: heaps of the next ones, and the key from which on those of further tasks are only on disk.
struct TaskTimers: ~Copyable {
  enum Action: Hashable, Sendable {
    /// A task that waits for a time is due. The values are its id and the key of its row.
    case task(TaskID, key: [UInt8])
    /// The head of a serial queue is due for its next attempt.
    case line(LineID, key: [UInt8])
    /// There may be a token for a line.
    case tokens(LineID)
    /// A schedule has reached a time.
    case schedule(String)
    /// Tasks of a queue that have waited move up.
    case ageing(UInt32)
    /// The time limit of a handler has expired.
    case timeout(TaskID, epoch: UInt32)
    /// The lease of a handler has expired, unless it was renewed.
    case lease(TaskID, epoch: UInt32)
    /// A handler that was cancelled has not returned, and is abandoned.
    case abandon(TaskID, epoch: UInt32)
    /// The time is over in which the handler of a cancelled task had to return.
    case cancelOver(TaskID, epoch: UInt32)
  }

  struct Entry: Sendable {
    /// The time on the continuous clock at which the timer fires.
    var deadline: Duration
    /// The time of day at which the timer is due, in milliseconds since 1970, or `nil` if only `deadline` counts.
    var wall: Int64?
    /// The deadline on the clock that does not advance while the machine sleeps, or `nil` if it does not count.
    var suspending: Duration?
    let action: Action
    /// The number of a task's timer, which `TaskTimers` assigns.
    var number: UInt64 = 0
  }

  /// The timer of a task that counts. Another timer of the same row is obsolete.
  private struct Current {
    let number: UInt64
    let isDate: Bool
  }

  /// The timers of tasks that wait for a time. Timers that are not in `current` are obsolete, because the task has been
  /// moved or has ended; the first one is never obsolete.
  private var tasks = TimerHeap()
  /// The timers of tasks that count, by the keys of the tasks' rows.
  private var current: [[UInt8]: Current] = [:]
  private var taskDateCount = 0
  private var lastNumber: UInt64 = 0
  /// The timers of attempts. Those of attempts that have ended are obsolete.
  private var attempts = TimerHeap()
  private var others = TimerHeap()
  /// The key from which on rows on disk are not in memory, or `nil` if all are.
  var end: [UInt8]? = TaskKeys.timer(.min)

  /// The number of tasks whose timers are read from disk at once, and to which the tasks in memory are reduced if there
  /// are twice as many.
  static let taskMaximum = 4_096

  init() {}

  var isEmpty: Bool { count == 0 }
  /// The number of timers in memory, including obsolete ones.
  var count: Int { tasks.count + attempts.count + others.count }
  /// The number of timers for dates.
  var wallCount: Int { taskDateCount + others.wallCount }
  /// The number of tasks that have a timer.
  var taskCount: Int { current.count }

  var first: Entry? { Self.earlier(Self.earlier(tasks.first, attempts.first), others.first) }

  private static func earlier(_ left: Entry?, _ right: Entry?) -> Entry? {
    guard let left else { return right }
    guard let right else { return left }
    return right.deadline < left.deadline ? right : left
  }

  /// Inserts a timer. That of a task replaces the timer of the same row.
  mutating func insert(_ entry: Entry) {
    switch entry.action {
    case .task(_, let key):
      forget(key)
      lastNumber += 1
      var entry = entry
      entry.number = lastNumber
      current[key] = Current(number: lastNumber, isDate: entry.wall != nil)
      if entry.wall != nil { taskDateCount += 1 }
      tasks.insert(entry)
      dropObsoleteTasks()
    case .timeout, .lease, .abandon, .cancelOver: attempts.insert(entry)
    case .line, .tokens, .schedule, .ageing: others.insert(entry)
    }
  }

  mutating func popFirst() -> Entry? {
    guard let first else { return nil }
    switch first.action {
    case .task(_, let key): removeTask(key)
    case .timeout, .lease, .abandon, .cancelOver: attempts.popFirst()
    case .line, .tokens, .schedule, .ageing: others.popFirst()
    }
    return first
  }

  // MARK: - Timers that need not fire

  /// Removes the timer of a row, if the row has one.
  mutating func removeTask(_ key: [UInt8]) {
    forget(key)
    dropObsoleteTasks()
  }

  private mutating func forget(_ key: [UInt8]) {
    guard let timer = current.removeValue(forKey: key) else { return }
    if timer.isDate { taskDateCount -= 1 }
  }

  private static func isObsolete(_ entry: Entry, _ current: [[UInt8]: Current]) -> Bool {
    guard case .task(_, let key) = entry.action else { return false }
    return current[key]?.number != entry.number
  }

  /// Removes the obsolete timers of tasks that are first, and all of them if they are the majority.
  private mutating func dropObsoleteTasks() {
    let current = current
    if tasks.count > 2 * current.count + 64 { tasks.removeAll { Self.isObsolete($0, current) } }
    while let first = tasks.first, Self.isObsolete(first, current) { tasks.popFirst() }
  }

  /// Removes the timers of attempts that have ended, as far as they are first, and all of them if there are more than
  /// `maximum` timers of attempts.
  mutating func dropAttempts(beyond maximum: Int, _ hasEnded: (Action) -> Bool) {
    if attempts.count > maximum { attempts.removeAll { hasEnded($0.action) } }
    while let first = attempts.first, hasEnded(first.action) { attempts.popFirst() }
  }

  /// Keeps the timers of the first `taskMaximum` rows if there are more than twice as many. The others are read from
  /// disk later.
  mutating func trim() {
    if current.count <= 2 * Self.taskMaximum { return }
    let keys = current.keys.sorted { LineEntry.precedes($0, $1) }
    end = keys[Self.taskMaximum]
    for key in keys[Self.taskMaximum...] { forget(key) }
    let current = current
    tasks.removeAll { Self.isObsolete($0, current) }
  }

  // MARK: -

  /// Subtracts `shift`, by which the wall clock was set forward, from the deadlines of dates.
  mutating func moveWall(by shift: Duration) {
    tasks.moveWall(by: shift)
    others.moveWall(by: shift)
    dropObsoleteTasks()
  }

  mutating func removeAll() {
    tasks = TimerHeap()
    current = [:]
    taskDateCount = 0
    attempts = TimerHeap()
    others = TimerHeap()
    end = TaskKeys.timer(.min)
  }
}
