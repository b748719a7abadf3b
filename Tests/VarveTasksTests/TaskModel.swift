import VarveTasks

/// A model of tasks as a dictionary, and of a scheduler by definition: whenever a task of a queue may run, it runs,
/// until none may.
struct TaskModel {
  struct Task: Hashable {
    let number: Int
    /// The number that the task's handler receives, which differs after the task was replaced.
    var text: Int
    /// The queue, and the limit key after a "#".
    let queue: String
    var priority: Int
    var sequence: Int
    var state: TaskState
    var attempt = 0
    var failures = 0
    var crashes = 0
    var snoozes = 0
    /// The time at which the task is due, in milliseconds.
    var due = 0
    var maxAttempts: Int
    /// The time limit of an attempt, in milliseconds, or 0 for a task without a limit.
    var timeout = 0
    /// The time at which the handler of the attempt began, or `nil` if it has not begun.
    var began: Int?
    /// Whether the task is cancelled when its handler returns.
    var isCancelling = false
    /// Whether the task is the head of a serial queue, which it has kept.
    var isFront = false
    var isKept = false
    /// Whether the task is kept only for `retention`.
    var isPruned = false
    /// Whether a cancelled task is kept because others stay blocked by it.
    var isNeeded = false
    /// The tasks that this one waits for.
    var parents: Set<Int> = []
    var rule = ParentFailure.stayBlocked
    var key: String?
  }

  /// The way in which a task ends in an attempt: the same in the model and in the handler.
  enum End: Int, CaseIterable { case done, fail, again, park, snooze, discard, complete }

  static func end(_ number: Int, failures: Int, snoozes: Int) -> End {
    if failures + snoozes >= 4 { return .done }
    let mixed = (number &* 31 &+ failures &* 17 &+ snoozes &* 7) % 12
    return mixed < 5 ? .done : End.allCases[mixed - 5]
  }

  static let delay = 10_000
  /// The time for which some tasks are kept after their end, in milliseconds.
  static let retention = 20_000_000
  /// The time for which handlers of the queue `leased` hold their leases, in milliseconds.
  static let lease = 20_000
  static let leased = "p-2"
  /// The number of deaths of the process that make a task dead.
  static let maxCrashes = 3

  private(set) var tasks: [Int: Task] = [:]
  var paused: Set<String> = []
  private(set) var now = 0
  /// The last task that was committed.
  var committed = 0
  /// The numbers of the tasks that ran, by queue.
  private(set) var log: [String: [Int]] = [:]
  private(set) var runs = 0
  /// The numbers that handlers have received which completed their tasks in transactions.
  private(set) var effects: Set<Int> = []
  /// How often each transition was made, by its number.
  private(set) var transitions: [Int: Int] = [:]
  private mutating func note(_ transition: Int) { transitions[transition, default: 0] += 1 }

  /// The name of the queue. The functions below return whether its tasks run one after the other, and whether a dead
  /// one blocks it.
  static func base(_ queue: String) -> String { String(queue.split(separator: "#")[0]) }
  static func isSerial(_ queue: String) -> Bool { queue.hasPrefix("s") }
  static func blocksOnDead(_ queue: String) -> Bool { queue.hasPrefix("s-block") }

  mutating func add(_ task: Task) {
    tasks[task.number] = task
    switch task.state {
    case .scheduled: note(2)
    case .parked: note(3)
    case .blocked: note(4)
    default: note(1)
    }
  }

  /// The tasks that run, because their handlers wait.
  var running: [Int] { tasks.values.filter { $0.state == .running }.map(\.number).sorted() }

  /// Cancels a task. One that its own transaction cancels is removed.
  mutating func cancel(_ number: Int) -> Int {
    guard let task = tasks[number], task.state.isWaiting else { return 0 }
    note(18)
    if number > committed, !blocks(number) {
      tasks[number] = nil
      settle(number, .cancelled)
    } else {
      end(task, .cancelled)
    }
    forgetUnneeded()
    return 1
  }

  mutating func wake(_ number: Int) -> Int {
    guard var task = tasks[number], [.parked, .retryWait, .scheduled].contains(task.state) else { return 0 }
    note(22)
    task.state = .ready
    task.due = 0
    tasks[number] = task
    return 1
  }

  mutating func revive(_ number: Int) -> Int {
    guard var task = tasks[number], task.state == .dead || task.state == .cancelled else { return 0 }
    note(23)
    // Only a dead head that blocks its queue is still at its head.
    if task.state == .cancelled || !Self.blocksOnDead(task.queue) { task.isFront = false }
    task.state = .ready
    task.crashes = 0
    task.isNeeded = false
    if task.maxAttempts > 0 { task.maxAttempts = max(task.maxAttempts, task.attempt + 1) }
    tasks[number] = task
    return 1
  }

  mutating func delete(_ number: Int) -> Int {
    if tasks.removeValue(forKey: number) == nil { return 0 }
    note(24)
    settle(number, .done)
    forgetUnneeded()
    return 1
  }

  /// Returns whether a task waits for one that had failed before, and is cancelled soon.
  func isToBeCancelled(_ number: Int) -> Bool {
    guard let task = tasks[number], task.state == .blocked, task.rule == .cancel else { return false }
    return task.parents.contains { tasks[$0]?.state == .dead || tasks[$0]?.state == .cancelled }
  }

  /// Returns the task that has a key and has not ended.
  func live(_ key: String) -> Int? { tasks.values.first { $0.key == key && !$0.state.isSettled }?.number }

  /// Returns whether a revival would give the same key to two tasks.
  func isTaken(_ number: Int) -> Bool {
    guard let task = tasks[number], let key = task.key, task.state == .dead || task.state == .cancelled else {
      return false
    }
    return live(key) != nil
  }

  mutating func replace(_ number: Int, _ text: Int) { tasks[number]?.text = text }

  /// Changes a task that waits. Returns false if the task runs or has ended.
  mutating func edit(_ number: Int, _ change: (inout Task) -> Void) -> Bool {
    guard var task = tasks[number], task.state.isWaiting else { return false }
    note(25)
    change(&task)
    tasks[number] = task
    return true
  }

  /// Makes a task wait for a time. One that is parked or blocked, or keeps the head of its queue, stays as it is.
  mutating func edit(_ number: Int, start delay: Int) -> Bool {
    let now = now
    return edit(number) { task in
      if task.isFront || ![.ready, .scheduled, .retryWait].contains(task.state) { return }
      task.state = delay > 0 ? .scheduled : .ready
      task.due = delay > 0 ? now + delay : 0
    }
  }

  /// Removes the tasks that are kept for `retention`, after more than that time has passed.
  mutating func prune() {
    for task in tasks.values
    where task.isPruned && !task.isNeeded && (task.state == .done || task.state == .cancelled) {
      note(26)
      tasks[task.number] = nil
    }
  }

  /// Returns whether other tasks stay blocked if a task fails: then it is kept.
  private func blocks(_ number: Int) -> Bool {
    tasks.values.contains { $0.state == .blocked && $0.parents.contains(number) && $0.rule == .stayBlocked }
  }

  /// Forgets cancelled tasks that were kept for blocked tasks, if none is left. Those that are kept anyway are from
  /// then on kept for their own time.
  private mutating func forgetUnneeded() {
    for task in tasks.values where task.isNeeded && !blocks(task.number) {
      tasks[task.number]?.isNeeded = false
      if task.isKept { continue }
      tasks[task.number] = nil
      // Tasks that were enqueued since it failed have not received its end.
      settle(task.number, task.state)
    }
  }

  /// Updates the tasks that depend on a task which has ended.
  private mutating func settle(_ number: Int, _ state: TaskState) {
    for child in tasks.values.filter({ $0.parents.contains(number) }).map(\.number).sorted() {
      guard var task = tasks[child], task.state == .blocked else { continue }
      if state != .done { note(7) }
      if state != .done, task.rule == .stayBlocked { continue }
      if state != .done, task.rule == .cancel {
        task.parents = []
        if child > committed, !blocks(child) {
          // The task's own transaction cancels it: see `cancel`.
          tasks[child] = nil
          settle(child, .cancelled)
        } else {
          end(task, .cancelled)
        }
        continue
      }
      task.parents.remove(number)
      if task.parents.isEmpty {
        task.state = task.due > now ? .scheduled : .ready
        if state == .done { note(6) }
      }
      tasks[child] = task
    }
  }

  /// Handles parents that had failed before their children were enqueued.
  mutating func settleEarlier() {
    for task in tasks.values.sorted(by: { $0.number < $1.number }) where task.state == .blocked {
      for parent in task.parents.sorted() {
        guard let state = tasks[parent]?.state, state == .dead || state == .cancelled else { continue }
        settle(parent, state)
      }
    }
  }

  mutating func advance(by milliseconds: Int) {
    now += milliseconds
    // The head of a serial queue whose time has come is not changed here: it is taken in its present state.
    for (number, task) in tasks
    where !task.isFront && (task.state == .scheduled || task.state == .retryWait) && task.due <= now {
      tasks[number]?.state = .ready
      tasks[number]?.due = 0
      note(5)
    }
  }

  mutating func takeLog() -> [String: [Int]] {
    defer { log = [:] }
    return log
  }

  /// Runs every task that may run.
  mutating func run() {
    settleEarlier()
    var hasRun = true
    while hasRun {
      hasRun = false
      for queue in Set(tasks.values.map(\.queue)).sorted() where !paused.contains(Self.base(queue)) {
        while let task = next(queue) {
          run(task)
          hasRun = true
        }
      }
    }
  }

  /// Whether a task may begin.
  var hasNext: Bool {
    Set(tasks.values.map(\.queue)).contains { !paused.contains(Self.base($0)) && next($0) != nil }
  }

  /// Returns whether a task may begin now. In a standard queue this is any task that is ready.
  func mayBegin(_ number: Int) -> Bool {
    guard let task = tasks[number], !paused.contains(Self.base(task.queue)) else { return false }
    return Self.isSerial(task.queue) ? next(task.queue)?.number == number : task.state == .ready
  }

  /// Returns the ready tasks of a queue or limit key in the order in which they run.
  func order(_ queue: String) -> [Int] {
    tasks.values.filter { $0.queue == queue && $0.state == .ready }.sorted { left, right in
      (left.isFront ? 0 : 1, left.priority, left.sequence) < (right.isFront ? 0 : 1, right.priority, right.sequence)
    }.map(\.number)
  }

  private func next(_ queue: String) -> Task? {
    if Self.isSerial(queue), tasks.values.contains(where: { $0.queue == queue && $0.state == .running }) { return nil }
    func isQueued(_ task: Task) -> Bool {
      if task.state == .ready { return true }
      return task.isFront && (task.state == .parked || task.state == .retryWait || task.state == .dead)
    }
    let line = tasks.values.filter { $0.queue == queue && isQueued($0) }.min { left, right in
      (left.isFront ? 0 : 1, left.priority, left.sequence) < (right.isFront ? 0 : 1, right.priority, right.sequence)
    }
    guard let line else { return nil }
    return line.state == .ready || (line.state == .retryWait && line.due <= now) ? line : nil
  }

  private mutating func run(_ task: Task) {
    begin(task.number)
    finish(task.number)
  }

  /// Begins an attempt.
  mutating func begin(_ number: Int) {
    guard var task = tasks[number] else { return }
    runs += 1
    note(8)
    if task.state == .retryWait { note(5) }
    task.state = .running
    task.attempt += 1
    task.isFront = Self.isSerial(task.queue)
    log[task.queue, default: []].append(task.text)
    tasks[number] = task
  }

  /// Notes that the handler of an attempt has begun.
  mutating func noteHandler(_ number: Int) {
    if tasks[number]?.began == nil { tasks[number]?.began = now }
  }

  /// Ends all attempts as the process dies: each task is ready again, unless the process has died too often.
  mutating func crash() {
    for number in running {
      guard var task = tasks[number] else { continue }
      note(20)
      task.crashes += 1
      if task.isCancelling {
        end(task, .cancelled)
      } else if task.crashes >= Self.maxCrashes {
        end(task, .dead)
      } else {
        wait(task, .ready)
      }
    }
  }

  /// Ends all attempts as a scheduler that stops: they do not count.
  mutating func interrupt() {
    for number in running {
      guard var task = tasks[number] else { continue }
      note(19)
      task.attempt -= 1
      wait(task, .ready)
    }
  }

  /// Cancels a task that runs, and whose handler returns later.
  mutating func requestCancel(_ number: Int) {
    note(17)
    tasks[number]?.isCancelling = true
  }

  /// Cancels a task that runs, and whose handler then returns: if it has succeeded, the task is done.
  mutating func cancelRunning(_ number: Int) {
    guard let task = tasks[number] else { return }
    note(17)
    end(task, Self.end(task.text, failures: task.failures, snoozes: task.snoozes) == .done ? .done : .cancelled)
  }

  /// Ends the attempts whose time limit or lease is over.
  mutating func expire() {
    for number in running {
      guard var task = tasks[number], let began = task.began else { continue }
      let isTimeout = task.timeout > 0 && now - began >= task.timeout
      if !isTimeout, Self.base(task.queue) != Self.leased || now - began < Self.lease { continue }
      note(isTimeout ? 16 : 21)
      task.failures += 1
      if task.maxAttempts > 0, task.attempt >= task.maxAttempts {
        end(task, .dead)
      } else {
        wait(task, .retryWait, for: Self.delay)
      }
    }
  }

  /// Puts a task whose attempt has ended into a state in which it waits.
  private mutating func wait(_ ended: Task, _ state: TaskState, for delay: Int = 0) {
    var task = ended
    task.state = state
    task.due = delay > 0 ? now + delay : 0
    (task.began, task.isCancelling) = (nil, false)
    tasks[task.number] = task
  }

  /// Ends all attempts as their handlers do.
  mutating func finishRunning() { for number in running { finish(number) } }

  private mutating func finish(_ number: Int) {
    guard var task = tasks[number] else { return }
    let isLast = task.maxAttempts > 0 && task.attempt >= task.maxAttempts
    let result = Self.end(task.text, failures: task.failures, snoozes: task.snoozes)
    switch result {
    case .done:
      note(9)
      end(task, .done)
    case .complete:
      note(10)
      effects.insert(task.text)
      end(task, .done)
    case .fail, .again:
      task.failures += 1
      note(isLast ? 15 : result == .again ? 12 : 11)
      if isLast { return end(task, .dead) }
      if result == .again { wait(task, .ready) } else { wait(task, .retryWait, for: Self.delay) }
    case .park:
      note(13)
      task.failures += 1
      wait(task, .parked)
    case .snooze:
      note(14)
      task.attempt -= 1
      task.snoozes += 1
      task.isFront = false
      wait(task, .scheduled, for: Self.delay)
    case .discard:
      note(15)
      task.failures += 1
      end(task, .dead)
    }
  }

  private mutating func end(_ task: Task, _ state: TaskState) {
    var task = task
    task.state = state
    task.due = 0
    (task.began, task.isCancelling) = (nil, false)
    if state == .dead {
      if !Self.blocksOnDead(task.queue) { task.isFront = false }
      tasks[task.number] = task
    } else {
      let isNeeded = state == .cancelled && blocks(task.number)
      // A task that its own transaction cancels was never committed as queued. If it is revived, it is before the
      // others.
      if task.number > committed { task.sequence -= 1_000_000_000 }
      task.isNeeded = isNeeded
      tasks[task.number] = task.isKept || isNeeded ? task : nil
    }
    settle(task.number, state)
    forgetUnneeded()
  }
}
