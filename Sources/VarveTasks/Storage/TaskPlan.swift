/// The effect of the end of an attempt on its task.
///
/// It is a value that is computed from the task on disk, the end of the attempt, and the rules of the queue.
struct TaskPlan {
  /// The writes that end the attempt.
  let edit: TaskEdit
  /// The task if it waits for another attempt or blocks its queue, or `nil` if it has ended.
  let next: TaskRecord?
  /// The state of the task from now on.
  let state: TaskState
  /// A cancelled task, which is kept until the last task is gone that it keeps blocked.
  private var cancelled: (stored: TaskRecord, record: TaskRecord)?
  /// The text of the error, or `nil` if there is none.
  private(set) var error: String?
  private(set) var isTimeout = false
  private(set) var isInterrupted = false

  /// Creates the plan for the end of an attempt. `chance` is a number from 0 to 1. Throws if the attempt is not the one
  /// that runs.
  init(_ settlement: Settlement, _ rules: QueueRules, now: Int64, chance: Double) throws(TaskRefusal) {
    let run = settlement.run
    if case .outcome(.done) = settlement.end, run.record.retention == .deleteOnSuccess {
      // Nearly every task ends in this way.
      var progress = run.record.progress
      try progress.apply(.succeed(epoch: run.epoch))
      (edit, next, state) = (TaskEdit.finish(run), nil, progress.state)
      return
    }
    let (stored, running) = run.settled
    var record = running
    isTimeout = settlement.isTimeout
    if case .interrupted = settlement.end { isInterrupted = true }
    let verdict = Verdict(settlement.end, record, run.handler.options, chance: chance)
    record.delay = 0
    record.signals = []
    // A cancelled task has no further attempt, but a success of its handler counts.
    let change = record.progress.isCancelling && verdict.state != .done ? .cancelRun(epoch: run.epoch) : verdict.change
    try record.progress.apply(change)
    if let text = verdict.error { record.note(text) }
    error = verdict.error
    state = record.progress.state
    let isKept = state == .done || state == .cancelled ? record.retention != .deleteOnSuccess : true
    if state.isSettled, !(state == .dead && rules.blocksOnDead) {
      var edit = TaskEdit.end(
        stored, counted: run.countedState, as: record, at: isKept ? .kept(now) : nil, claim: run.claimKey)
      if state == .cancelled { cancelled = (stored, record) }
      edit.removeNotes(of: run)
      (self.edit, next) = (edit, nil)
      return
    }
    record.move(to: state, verdict, rules, now: now)
    var edit = TaskEdit.move(stored, counted: run.countedState, to: &record, claim: run.claimKey)
    edit.removeNotes(of: run)
    (self.edit, next) = (edit, record)
  }

  /// Returns the edit for a task that others may depend on. It keeps a cancelled task that keeps others blocked.
  func edit(_ run: TaskRun, _ parts: TaskParts) throws -> TaskEdit {
    guard let (stored, record) = cancelled, try TaskChildren.blocks(run.id, parts) else { return edit }
    var edit = TaskEdit.end(stored, counted: run.countedState, as: record, at: .needed, claim: run.claimKey)
    edit.removeNotes(of: run)
    return edit
  }

  /// A change of a task, with its delay, signals and error.
  struct Verdict {
    var change: TaskChange
    /// The state that the change leads to, unless the task is being cancelled.
    var state: TaskState
    var delay: Duration = .zero
    var signals: Set<WakeSignal> = []
    var error: String?

    init(_ end: AttemptEnd, _ record: TaskRecord, _ options: HandlerOptions, chance: Double) {
      let epoch = record.progress.epoch
      let isLast = record.maxAttempts > 0 && record.progress.attempt >= record.maxAttempts
      (change, state) = (.fail(epoch: epoch, next: .die), .dead)
      /// Notes a failure. Another attempt follows after the delay, or none if there is no delay or no attempt is left.
      func fail(_ delay: Duration?, _ text: String?) {
        error = text
        guard let delay, !isLast else { return }
        (change, state, self.delay) = (.fail(epoch: epoch, next: .wait), .retryWait, delay)
      }
      let usual = (record.retry ?? options.retry).delay(failures: record.progress.failures + 1, chance: chance)
      switch end {
      case .outcome(.done): (change, state) = (.succeed(epoch: epoch), .done)
      case .outcome(.retry(let delay)) where delay.map({ $0 <= .zero }) == true && !isLast:
        (change, state) = (.retryNow(epoch: epoch), .ready)
      case .outcome(.retry(let delay)):
        fail(delay ?? usual, isLast ? "its \(record.maxAttempts) attempts are used up" : nil)
      case .outcome(.park(let signals)), .failure(_, .park(let signals)):
        (change, state, self.signals) = (.park(epoch: epoch), .parked, signals)
        if case .failure(let text, _) = end { error = text }
      case .outcome(.snooze(let delay)): (change, state, self.delay) = (.snooze(epoch: epoch), .scheduled, delay)
      case .outcome(.discard(let reason)): error = reason
      case .failure(let text, .discard(let reason)): error = "\(reason): \(text)"
      case .failure(let text, .retry(let delay)): fail(delay, text)
      case .failure(let text, nil): fail(usual, text)
      case .unreadable(let text):
        (change, state) = (.park(epoch: epoch), .parked)
        error = text
      case .timeout:
        fail(usual, "the time limit of \(record.timeout) ms was over")
        change = .timeOut(epoch: epoch, next: state == .dead ? .die : .wait)
      case .leaseOver:
        fail(usual, "its handler sent no heartbeat for \(options.lease.map { "\($0)" } ?? "its lease")")
        change = .expireLease(epoch: epoch, next: state == .dead ? .die : .wait)
      case .interrupted: (change, state) = (.interrupt(epoch: epoch), .ready)
      }
    }
  }
}

extension TaskRecord {
  /// Adds the text of an error, which is shortened. Only the last errors are kept.
  mutating func note(_ text: String) {
    var text = text
    while text.utf8.count > TaskLimits.errorSize {
      text.removeLast(max(1, (text.utf8.count - TaskLimits.errorSize) / 4))
    }
    errors.append(text)
    if errors.count > TaskLimits.errorCount { errors.removeFirst(errors.count - TaskLimits.errorCount) }
  }

  /// Sets the position of the task in a state in which it waits.
  mutating func move(to state: TaskState, _ verdict: TaskPlan.Verdict, _ rules: QueueRules, now: Int64) {
    position.due = 0
    // The head of a serial queue keeps its position, unless its handler postpones it.
    position.isFront = rules.isSerial && state != .scheduled
    position.kind = .queued
    switch state {
    case .scheduled, .retryWait:
      delay = max(1, verdict.delay.milliseconds)
      position.due = min(now + delay, WallTime.latest)
      if !position.isFront { position.kind = .timed }
    case .parked:
      signals = verdict.signals.map(\.text).sorted()
      if !position.isFront { position.kind = .parked }
    default: break
    }
  }
}
