internal import Synchronization
internal import Varve

/// One attempt of a task: the data for its handler, and its current state.
final class TaskRun: Sendable {
  /// The task as it was on disk before the claim.
  let stored: TaskRecord
  /// The task with this attempt, in the state `running`.
  let record: TaskRecord
  let queue: QueueName
  let rules: QueueRules
  let handler: RegisteredHandler
  /// The number of the scheduler's start that claimed the task.
  let start: UInt32
  /// Whether the claim was made ahead, before a worker was free.
  let isAhead: Bool
  /// Whether the attempt is expected to take so little time that its end is worth waiting for.
  let isShort: Bool
  /// The state in which the task is counted while it runs.
  var countedState: TaskState { stored.progress.state }
  var id: TaskID { record.id }
  var epoch: UInt32 { record.progress.epoch }
  var key: AttemptKey { AttemptKey(id: id, epoch: epoch) }
  var claimKey: [UInt8] { TaskKeys.claim(start, id, stored.position.revision) }

  struct State {
    /// The Swift task of the handler.
    var task: Task<Void, Never>?
    /// Whether a row notes that the attempt has begun, or is about to be written. Only attempts by claims that were
    /// made ahead have such rows.
    var isNoted = false
    /// Whether the task must be cancelled. The request is committed.
    var isCancelling = false
    /// Whether the scheduler stops, so that the attempt is interrupted.
    var isInterrupted = false
    /// Whether the attempt is settled, or about to be: by its outcome, its time limit, or `complete`.
    var isSettled = false
    /// Whether a transaction is settling the attempt.
    var isCompleting = false
    /// Whether `complete` has returned within a transaction of the handler that is not committed yet.
    var completesLater = false
    /// Whether the attempt was ended by `complete`.
    var isCompleted = false
    /// Whether its handler has tried in vain to end the attempt, because it was settled otherwise.
    var isRefused = false
    /// Whether the task was cancelled and its handler has not returned in time.
    var isOverdue = false
    /// Whether the attempt has released its worker, because its handler has returned or was abandoned.
    var isReleased = false
    /// Whether the end of the attempt is committed.
    var isEnded = false
    /// The time on the suspending clock at which the handler's lease ends, if it has one.
    var leaseEnd = Duration.zero
    /// The number of the last checkpoint, or 0 if there is none. `checkpoint` has its bytes, if they are in memory.
    var step: UInt32
    var checkpoint: [UInt8]?
    /// The first task that was enqueued while the attempt ran, and that depends on its task, or `nil` if none was.
    var child: TaskID?
    var progress: HandlerProgress?
    /// The number of Swift tasks of the handler that sleep by a clock which a test advances.
    var sleepCount = 0
    /// The time on the continuous clock at which the progress was last written, or `nil` if it was not.
    var progressWritten: Duration?
    /// The result that the handler keeps, or `nil` if there is none.
    var result: [UInt8]?
  }

  let state: Mutex<State>

  init(
    _ stored: TaskRecord, _ record: TaskRecord, _ subqueue: Subqueue, _ handler: RegisteredHandler, start: UInt32,
    isAhead: Bool = false, isShort: Bool = false
  ) {
    self.stored = stored
    var record = record
    // If the process dies in this attempt, the next start notes it again.
    (record.isSuspect, record.mayHaveBegun) = (false, false)
    self.record = record
    queue = subqueue.name
    rules = subqueue.rules
    self.handler = handler
    self.start = start
    self.isAhead = isAhead
    self.isShort = isShort
    state = Mutex(State(step: stored.step))
  }

  /// Renews the lease of the handler. Returns false if it has none.
  func renewLease(_ clock: any SchedulerClock) -> Bool {
    guard let lease = handler.options.lease else { return false }
    let end = clock.suspendingNow + lease.clipped
    state.withLock { $0.leaseEnd = end }
    return true
  }

  /// Returns the timer that fires when the lease ends.
  func leaseTimer(_ clock: any SchedulerClock) -> Timers.Entry {
    let end = state.withLock { $0.leaseEnd }
    return Timers.Entry(
      deadline: clock.continuousNow + max(.zero, end - clock.suspendingNow), wall: nil, suspending: end,
      action: .lease(id, epoch: epoch))
  }

  /// Settles the attempt. Returns false if it is settled already, or if a transaction is settling it.
  func settle() -> Bool {
    state.withLock { state in
      if state.isSettled || state.isCompleting { return false }
      state.isSettled = true
      return true
    }
  }

  /// Notes that the end of the attempt was refused. Returns true the first time, unless the handler has ended the
  /// attempt itself, by `complete`, or is about to.
  func noteRefusal() -> Bool {
    state.withLock { state in
      if state.isCompleted || state.isCompleting || state.isRefused { return false }
      state.isRefused = true
      return true
    }
  }

  /// The task as it is on disk now, and with this attempt, for the edit that ends the attempt.
  var settled: (stored: TaskRecord, record: TaskRecord) {
    var (stored, record) = (stored, record)
    state.withLock { state in
      stored.progress.isCancelling = state.isCancelling
      record.progress.isCancelling = state.isCancelling
      stored.step = state.step
      record.step = state.step
      if let result = state.result { record.extras.result = result }
    }
    return (stored, record)
  }
}

extension TaskRun: WorkerCall {
  var callName: String { "the handler of task \(id)" }
  var isOver: Bool { state.withLock { $0.isReleased } }
}

/// What distinguishes an attempt from all others, also of the same task.
struct AttemptKey: Hashable, Sendable {
  let id: TaskID
  let epoch: UInt32
}

/// The way in which an attempt ends.
enum AttemptEnd: Sendable {
  case outcome(TaskOutcome)
  case failure(String, HandlerOptions.Decision?)
  /// The payload can't be read.
  case unreadable(String)
  case timeout
  /// The handler has not renewed its lease in time.
  case leaseOver
  /// The handler ended because the scheduler stops.
  case interrupted

  /// What the handler has returned or thrown, or `nil` if that means that its task is done.
  var unlikeDone: String? {
    switch self {
    case .outcome(.done), .timeout, .leaseOver, .interrupted: nil
    case .outcome(let outcome): "\(outcome)"
    case .failure(let text, _), .unreadable(let text): text
    }
  }
}

struct Settlement: Sendable {
  let run: TaskRun
  let end: AttemptEnd

  /// Whether the attempt ends because its time has expired, and its handler may still run.
  var isTimeout: Bool {
    switch end {
    case .timeout, .leaseOver: true
    default: false
    }
  }
}
