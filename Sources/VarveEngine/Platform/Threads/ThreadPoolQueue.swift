/// The waiting jobs of a `ThreadPool`, as a value: a queue for each priority and a heap of delayed jobs.
///
/// # Invariants
/// 1. Jobs of one priority leave in the order in which they came. A delayed job comes, with normal priority, when it
///    is due.
/// 2. `delayed` is a binary heap, earliest deadline first, equal deadlines in order of submission.
struct ThreadPoolQueue {
  struct Job {
    let name: String
    let priority: BackgroundPriority
    let body: @Sendable () -> Void
  }

  private struct DelayedJob {
    let deadline: UInt64
    let order: UInt64
    let job: Job
    func isBefore(_ other: DelayedJob) -> Bool {
      deadline != other.deadline ? deadline < other.deadline : order < other.order
    }
  }

  /// A first-in, first-out queue in one array. The front advances, and the array is compacted when it is half empty.
  private struct Line {
    private var jobs: [Job?] = []
    private var front = 0
    var isEmpty: Bool { front == jobs.count }
    mutating func append(_ job: Job) { jobs.append(job) }
    mutating func takeFirst() -> Job? {
      guard front < jobs.count else { return nil }
      let job = jobs[front]
      jobs[front] = nil
      front += 1
      if front * 2 >= jobs.count {
        jobs.removeFirst(front)
        front = 0
      }
      return job
    }
  }

  private var lines = [Line](repeating: Line(), count: BackgroundPriority.allCases.count)
  private var delayed: [DelayedJob] = []
  private var orderNext: UInt64 = 0

  /// The deadline of the next delayed job, or nil if there is none.
  var nextDeadline: UInt64? { delayed.first?.deadline }
  /// Returns whether a job of one of these priorities waits.
  func has(_ priorities: ClosedRange<BackgroundPriority>) -> Bool {
    (priorities.lowerBound.rawValue...priorities.upperBound.rawValue).contains { !lines[$0].isEmpty }
  }

  mutating func append(_ job: Job) { lines[job.priority.rawValue].append(job) }

  /// Takes the first job of the highest priority among `priorities`.
  mutating func takeFirst(_ priorities: ClosedRange<BackgroundPriority>) -> Job? {
    var priority = priorities.upperBound.rawValue
    while priority >= priorities.lowerBound.rawValue {
      if let job = lines[priority].takeFirst() { return job }
      priority -= 1
    }
    return nil
  }

  /// Adds a delayed job. Returns whether it is now the first to become due.
  mutating func append(_ job: Job, deadline: UInt64) -> Bool {
    delayed.append(DelayedJob(deadline: deadline, order: orderNext, job: job))
    orderNext += 1
    var child = delayed.count - 1
    while child > 0 {
      let parent = (child - 1) / 2
      guard delayed[child].isBefore(delayed[parent]) else { return false }
      delayed.swapAt(child, parent)
      child = parent
    }
    return true
  }

  /// Moves the jobs that are due to the queues.
  mutating func collectDue(_ now: UInt64) {
    while let first = delayed.first, first.deadline <= now {
      append(first.job)
      let last = delayed.removeLast()
      if !delayed.isEmpty {
        delayed[0] = last
        sink()
      }
    }
  }

  private mutating func sink() {
    var parent = 0
    while true {
      var child = parent * 2 + 1
      guard child < delayed.count else { return }
      if child + 1 < delayed.count, delayed[child + 1].isBefore(delayed[child]) { child += 1 }
      guard delayed[child].isBefore(delayed[parent]) else { return }
      delayed.swapAt(child, parent)
      parent = child
    }
  }

  /// Removes all jobs and returns them, so that they are freed outside the lock.
  mutating func removeAll() -> ThreadPoolQueue {
    let old = self
    self = ThreadPoolQueue()
    return old
  }
}
