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
    /// A task that depends on a running one has waited for long.
    case child(TaskID, epoch: UInt32)
    /// The time is over for which no task begins because one that may have caused the death of a process is next.
    case suspect
  }

  struct Entry: Sendable {
    /// The time on the continuous clock at which the timer fires.
    var deadline: Duration
    /// The time of day at which the timer is due, in milliseconds since 1970, or `nil` if only `deadline` counts.
    var wall: Int64?
    /// The deadline on the clock that does not advance while the machine sleeps, or `nil` if it does not count.
    var suspending: Duration?
    let action: Action
    /// The number of the timer, which `KeyedTimers` assigns.
    var number: UInt64 = 0
  }

  /// A line, a schedule or a queue that has a timer.
  private enum Owner: Hashable {
    case line(LineID)
    case tokens(LineID)
    case schedule(String)
    case ageing(UInt32)
  }

  /// The timers of tasks that wait for a time, by the keys of the tasks' rows.
  private var tasks = KeyedTimers<[UInt8]> { action in
    guard case .task(_, let key) = action else { return nil }
    return key
  }
  /// The timers of attempts. Those of attempts that have ended are obsolete.
  private var attempts = TimerHeap()
  private var others = KeyedTimers<Owner> { action in
    switch action {
    case .line(let id, _): .line(id)
    case .tokens(let id): .tokens(id)
    case .schedule(let name): .schedule(name)
    case .ageing(let queue): .ageing(queue)
    case .task, .timeout, .lease, .abandon, .cancelOver, .child, .suspect: nil
    }
  }
  /// The key from which on rows on disk are not in memory, or `nil` if all are. No timer of a later row is in memory.
  private(set) var end: [UInt8]? = TaskKeys.timer(.min)

  /// The number of tasks whose timers are read from disk at once, and to which the tasks in memory are reduced if there
  /// are twice as many.
  static let taskMaximum = 4_096

  init() {}

  var isEmpty: Bool { count == 0 }
  /// The number of timers in memory, including obsolete ones.
  var count: Int { tasks.heapCount + attempts.count + others.heapCount }
  /// The number of timers for dates.
  var wallCount: Int { tasks.wallCount + others.wallCount }
  /// The number of tasks that have a timer.
  var taskCount: Int { tasks.count }

  var first: Entry? { Self.earlier(Self.earlier(tasks.first, attempts.first), others.first) }

  private static func earlier(_ left: Entry?, _ right: Entry?) -> Entry? {
    guard let left else { return right }
    guard let right else { return left }
    return right.deadline < left.deadline ? right : left
  }

  /// Inserts a timer. Except for those of attempts, it replaces the timer of the same row, line, schedule or queue.
  mutating func insert(_ entry: Entry) {
    switch entry.action {
    case .task: tasks.insert(entry)
    case .timeout, .lease, .abandon, .cancelOver, .child, .suspect: attempts.insert(entry)
    case .line, .tokens, .schedule, .ageing: others.insert(entry)
    }
  }

  mutating func popFirst() -> Entry? {
    guard let first else { return nil }
    switch first.action {
    case .task: return tasks.popFirst()
    case .timeout, .lease, .abandon, .cancelOver, .child, .suspect: return attempts.popFirst()
    case .line, .tokens, .schedule, .ageing: return others.popFirst()
    }
  }

  /// Removes the timer of a row, if the row has one.
  mutating func removeTask(_ key: [UInt8]) { tasks.remove(key) }

  /// Removes the timers of attempts that have ended, as far as they are first, and all of them if there are more than
  /// `maximum` timers of attempts.
  mutating func dropAttempts(beyond maximum: Int, _ hasEnded: (Action) -> Bool) {
    if attempts.count > maximum { attempts.removeAll { hasEnded($0.action) } }
    while let first = attempts.first, hasEnded(first.action) { attempts.popFirst() }
  }

  // MARK: - Rows that are only on disk

  /// Notes that all rows before a key are in memory, which were read from disk, and no other one, or all if the key is
  /// `nil`.
  mutating func endLoading(at key: [UInt8]?) { end = key }

  /// Forgets the timers of rows from a key on, which are on disk.
  mutating func cut(from key: [UInt8]) {
    if let end, !LineEntry.precedes(key, end) { return }
    end = key
    tasks.removeAll { !LineEntry.precedes($0, key) }
  }

  /// Keeps the timers of the first `taskMaximum` rows if there are more than twice as many. The others are read from
  /// disk later.
  mutating func trim() {
    if tasks.count <= 2 * Self.taskMaximum { return }
    let keys = tasks.keys.sorted { LineEntry.precedes($0, $1) }
    cut(from: keys[Self.taskMaximum])
  }

  /// Forgets the timers of all rows, which are read from disk again.
  mutating func forgetTasks() { cut(from: TaskKeys.timer(.min)) }

  // MARK: -

  /// Sets the deadlines of dates again, because the wall clock was set. `deadline` returns that of a date.
  mutating func resetDates(_ deadline: (Int64) -> Duration) {
    tasks.resetDates(deadline)
    others.resetDates(deadline)
  }

  mutating func removeAll() {
    tasks.removeAll()
    attempts = TimerHeap()
    others.removeAll()
    end = TaskKeys.timer(.min)
  }
}

/// What the wall clock showed before it was set, since a scheduler runs tasks.
///
/// The row of a task has the date at which the task is due. If the task waits for a delay and the clock was set after
/// the row was written, the date comes before the delay is over, or after it. The date on which the row was written is
/// that date minus the delay. From it follows what the two clocks showed then, and so how much of the delay is left.
struct WallSpans: Sendable {
  private struct Span: Sendable {
    /// The times of day that the clock showed, in milliseconds since 1970.
    let times: ClosedRange<Int64>
    /// Wall time minus continuous time, in milliseconds.
    let offset: Int64
  }

  /// The spans of time that have ended because the clock was set, the oldest first.
  private var ended: [Span] = []
  /// The time of day at which the current span began, and its offset.
  private var begin: Int64
  private var offset: Int64

  /// The maximum number of spans that are remembered.
  private static let maximum = 16

  init(from begin: Int64, offset: Int64) {
    self.begin = begin
    self.offset = offset
  }

  /// Notes that the wall clock was set, at a time of the continuous clock at the latest. `offset` is the offset before,
  /// and `next` the one from now on.
  mutating func end(_ offset: Int64, next: Int64, at continuous: Int64) {
    let last = continuous + offset
    if begin <= last { ended.append(Span(times: begin...last, offset: offset)) }
    if ended.count > Self.maximum { ended.removeFirst() }
    begin = continuous + next
    self.offset = next
  }

  /// Returns the milliseconds of a delay that are left at a time of the continuous clock, for a row that is due at a
  /// date. Returns `nil` if it is not known what is left, or if the date shows it.
  func left(of delay: Int64, due: Int64, at continuous: Int64) -> Int64? {
    let written = due - delay
    if ended.isEmpty || (written >= begin && written <= continuous + offset) { return nil }
    // If the clock showed the date twice, the task must not be late.
    let past = ended.lazy.filter { $0.times.contains(written) }.map(\.offset).max()
    return past.map { max(0, min(delay, due - $0 - continuous)) }
  }
}
