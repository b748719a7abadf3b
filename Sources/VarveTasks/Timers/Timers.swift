/// The timers: heaps of the next ones, and the key from which on those of further tasks are only on disk.
///
/// - The timers in memory are all those of rows before `end`, and none of a later row.
/// - While rows are read from disk, `end` is the first one of these. Tasks after it that come meanwhile are kept until
///   the read has ended, because it may not have found them.
/// - The deadline of a date is the one that follows from the offset of the wall clock at the last check.
struct Timers: ~Copyable {
  enum Action: Hashable, Sendable {
    /// A task that waits for a time is due. The values are its id and the key of its row.
    case task(TaskID, key: [UInt8])
    /// The head of a serial queue is due for its next attempt.
    case subqueue(SubqueueID, key: [UInt8])
    /// There may be a token for a subqueue.
    case tokens(SubqueueID)
    /// A schedule has reached a time.
    case schedule(String)
    /// Tasks of a queue that have waited move up.
    case ageing(UInt32)
    /// The program has had time to register its schedules.
    case unregistered
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
    /// A suspect task, which a process has died with, has waited or run alone for its maximum time. Others may begin.
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

  /// A subqueue, a schedule or a queue that has a timer.
  private enum Owner: Hashable {
    case subqueue(SubqueueID)
    case tokens(SubqueueID)
    case schedule(String)
    case ageing(UInt32)
    case unregistered
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
    case .subqueue(let id, _): .subqueue(id)
    case .tokens(let id): .tokens(id)
    case .schedule(let name): .schedule(name)
    case .ageing(let queue): .ageing(queue)
    case .unregistered: .unregistered
    case .task, .timeout, .lease, .abandon, .cancelOver, .child, .suspect: nil
    }
  }
  /// The key from which on rows on disk are not in memory, or `nil` if all are. Later rows have no timers in memory.
  private(set) var end: [UInt8]? = TaskKeys.timer(.min)
  /// Whether rows are being read from disk.
  private(set) var isLoading = false
  /// The tasks at or after `end` that were added during the current read.
  private var missed: [TimedTask] = []
  /// The first key of the tasks that were added during the current read and are only on disk, or `nil` if there are
  /// none. The read may not find them.
  private var moreMeanwhile: [UInt8]?
  /// Wall time minus continuous time, in milliseconds, at the last check.
  private var wallOffset: Int64 = 0
  /// What the wall clock showed before it was set.
  private(set) var wallSpans = WallSpans(from: 0, offset: 0)

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

  /// Inserts a timer. Except for those of attempts, it replaces the timer of the same row, subqueue, schedule or queue.
  mutating func insert(_ entry: Entry) {
    switch entry.action {
    case .task: tasks.insert(entry)
    case .timeout, .lease, .abandon, .cancelOver, .child, .suspect: attempts.insert(entry)
    case .subqueue, .tokens, .schedule, .ageing, .unregistered: others.insert(entry)
    }
  }

  mutating func popFirst() -> Entry? {
    guard let first else { return nil }
    switch first.action {
    case .task: return tasks.popFirst()
    case .timeout, .lease, .abandon, .cancelOver, .child, .suspect: return attempts.popFirst()
    case .subqueue, .tokens, .schedule, .ageing, .unregistered: return others.popFirst()
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

  // MARK: - Tasks and their rows

  /// Inserts the timer of a task, if it is before the rows that are only on disk.
  mutating func insert(_ task: TimedTask, _ clock: any SchedulerClock) {
    if let end, !QueuedTask.precedes(task.key, end) {
      if isLoading { missed.append(task) }
      return
    }
    add(task, clock)
    // While rows are read, the end is the first one of these.
    if !isLoading { trim() }
  }

  private mutating func add(_ task: TimedTask, _ clock: any SchedulerClock) {
    let deadline = task.deadline ?? clock.continuousNow + WallTime.wait(from: clock.wallNow, to: task.due)
    insert(
      Entry(
        deadline: deadline, wall: task.deadline == nil ? task.due : nil, suspending: nil,
        action: .task(task.id, key: task.key)))
  }

  /// Notes that from a key on there are rows on disk that are not in memory.
  mutating func noteMore(from key: [UInt8]) {
    // The read may not have found them.
    if isLoading, moreMeanwhile.map({ QueuedTask.precedes(key, $0) }) ?? true { moreMeanwhile = key }
    cut(from: key)
  }

  /// Whether the next rows must be read from disk.
  var needsRows: Bool { taskCount == 0 && end != nil && !isLoading }

  /// Begins to read rows. Returns the key to start from.
  mutating func beginLoading() -> [UInt8]? {
    isLoading = true
    return end
  }

  /// Adds the tasks of rows that were read. `tasks` is `nil` if reading has failed.
  ///
  /// `next` is the first key that was not read, or `nil` if all rows are in memory now. Does nothing if no rows are
  /// being read.
  mutating func endLoading(_ tasks: [TimedTask]?, next: [UInt8]?, _ clock: any SchedulerClock) {
    if !isLoading { return }
    isLoading = false
    let (missed, more) = (self.missed, moreMeanwhile)
    (self.missed, moreMeanwhile) = ([], nil)
    guard let tasks else { return }
    end = next
    for task in tasks { add(task, clock) }
    let known = Set(tasks.map(\.key))
    for task in missed where !known.contains(task.key) { insert(task, clock) }
    if let more { noteMore(from: more) }
    trim()
  }

  /// Forgets the timers of rows from a key on, which are on disk.
  private mutating func cut(from key: [UInt8]) {
    if let end, !QueuedTask.precedes(key, end) { return }
    end = key
    tasks.removeAll { !QueuedTask.precedes($0, key) }
  }

  /// Keeps the timers of the first `taskMaximum` rows if there are more than twice as many. The others are read from
  /// disk later.
  private mutating func trim() {
    if tasks.count <= 2 * Self.taskMaximum { return }
    let keys = tasks.keys.sorted { QueuedTask.precedes($0, $1) }
    cut(from: keys[Self.taskMaximum])
  }

  // MARK: - The wall clock

  /// Notes what the clocks show when a host begins to run tasks.
  mutating func beginClocks(_ clock: any SchedulerClock) {
    let wall = WallTime.passed(clock.wallNow)
    wallOffset = wall - clock.continuousNow.milliseconds
    wallSpans = WallSpans(from: wall, offset: wallOffset)
  }

  /// Sets the deadlines of dates again if the wall clock was set since the last check.
  mutating func followWall(_ clock: any SchedulerClock, _ wall: Int64, _ now: Duration) {
    let (offset, last) = (wall - now.milliseconds, wallOffset)
    wallOffset = offset
    if abs(offset - last) <= 100 { return }
    wallSpans.end(last, next: offset, at: now.milliseconds)
    let wallNow = clock.wallNow
    func deadline(_ date: Int64) -> Duration { now + max(.zero, WallTime.wait(from: wallNow, to: date)) }
    tasks.resetDates(deadline)
    others.resetDates(deadline)
    // Rows on disk may be due before those in memory.
    if end != nil, !isLoading { cut(from: TaskKeys.timer(.min)) }
  }
}
