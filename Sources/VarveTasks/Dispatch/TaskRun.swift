internal import Synchronization

/// One attempt of a task: what its handler is given, and how far it is.
final class TaskRun: Sendable {
  /// What the disk has, before the claim.
  let stored: TaskRecord
  /// The same with this attempt: running.
  let record: TaskRecord
  let queue: QueueName
  let rules: QueueRules
  let handler: RegisteredHandler
  /// The number of the scheduler's start.
  let start: UInt32
  /// The state that is counted for it.
  var countedState: TaskState { stored.progress.state }
  var id: TaskID { record.id }
  var epoch: UInt32 { record.progress.epoch }
  var claimKey: [UInt8] { TaskKeys.claim(start, id, epoch) }

  struct State {
    /// Its handler.
    var task: Task<Void, Never>?
    /// Whether its handler has begun, or is about to.
    var isStarted = false
    /// Whether the task is to be cancelled: the flag is committed.
    var isCancelling = false
    /// Whether the scheduler stops.
    var isInterrupted = false
    /// Whether the attempt is settled, or about to be: by its outcome, its time limit, or `complete(in:)`.
    var isSettled = false
    /// Whether a transaction is settling it.
    var isCompleting = false
    /// Whether it holds a worker no more: its handler has returned, or was abandoned.
    var isReleased = false
    /// Whether its end is committed.
    var isEnded = false
    /// When its lease ends, on the suspending clock, where its handler has one.
    var leaseEnd = Duration.zero
    /// The number of its last checkpoint, and its bytes.
    var step: UInt32
    var checkpoint: [UInt8]?
    var progress: HandlerProgress?
    /// When it was written last, on the continuous clock.
    var progressWritten: Duration?
    /// What the handler keeps as its result.
    var result: [UInt8]?
  }

  let state: Mutex<State>

  init(_ stored: TaskRecord, _ record: TaskRecord, _ line: TaskLine, _ handler: RegisteredHandler, start: UInt32) {
    self.stored = stored
    self.record = record
    queue = line.name
    rules = line.rules
    self.handler = handler
    self.start = start
    state = Mutex(State(step: stored.step))
  }

  /// The lease of its handler begins again. False: it has none.
  func renewLease(_ clock: any SchedulerClock) -> Bool {
    guard let lease = handler.options.lease else { return false }
    let end = clock.suspendingNow + lease
    state.withLock { $0.leaseEnd = end }
    return true
  }

  /// What fires when its lease ends.
  func leaseTimer(_ clock: any SchedulerClock) -> TaskTimers.Entry {
    let end = state.withLock { $0.leaseEnd }
    return TaskTimers.Entry(
      deadline: clock.continuousNow + max(.zero, end - clock.suspendingNow), wall: nil, suspending: end,
      action: .lease(id, epoch: epoch))
  }

  /// Whether how far it is was written.
  var hasProgressRow: Bool { state.withLock { $0.progressWritten != nil } }

  /// Whether this call is the one that settles the attempt.
  func settle() -> Bool {
    state.withLock { state in
      if state.isSettled || state.isCompleting { return false }
      state.isSettled = true
      return true
    }
  }

  /// The task as the disk has it now, for the edit that ends the attempt.
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

/// What ends an attempt.
enum TaskEnd: Sendable {
  case outcome(TaskOutcome)
  case failure(String, HandlerOptions.Decision?)
  /// The payload can't be read.
  case unreadable(String)
  case timeout
  /// It has not renewed its lease.
  case leaseOver
  /// The handler ended because the scheduler stops.
  case interrupted
}

struct TaskSettlement: Sendable {
  let run: TaskRun
  let end: TaskEnd
}
