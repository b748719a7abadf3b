/// The progress of a task: its state, and the counts of its attempts.
///
/// It is a value. A transition of a task is a change that is applied to it: see `TaskChange`.
public struct TaskProgress: Hashable, Encodable, Sendable {
  /// The state of the task.
  public internal(set) var state: TaskState
  /// The number of attempts that were begun, without those that do not count.
  public internal(set) var attempt: UInt32 = 0
  /// The number of attempts that have failed.
  public internal(set) var failures: UInt32 = 0
  /// The number of times that the process has died while the task ran. Reviving the task resets it to 0.
  public internal(set) var crashes: UInt32 = 0
  /// The number of times that the task's handler has postponed it.
  public internal(set) var snoozes: UInt32 = 0
  /// A number that differs after every claim and every change that is forced on the task.
  ///
  /// The end of an attempt names the epoch of its claim, so an attempt that was given up can't change the task any
  /// more.
  public internal(set) var epoch: UInt32 = 0
  /// Whether the task must be cancelled when its handler returns.
  public internal(set) var isCancelling = false

  /// Creates the progress of a task that begins in a state.
  init(_ state: TaskState) { self.state = state }
}

/// A change of a task after it was enqueued. The numbers are those of the article on the transitions of a task;
/// comments of other files name them, too.
///
/// Only three pieces of code assign a state without a change:
/// - The dispatcher makes the head of a serial queue ready before it claims it, because the state on disk may be an
///   earlier one.
/// - A recovery makes a task ready and repeats its claim before it ends the attempt, because a claim does not change
///   the row of the task.
/// - An enqueueing that finds its unique key taken may put off the task that has the key.
enum TaskChange: Hashable, Sendable {
  /// 5: the time that the task waits for has come.
  case due
  /// 6: the last task that it depends on is done; it may still have to wait for a time.
  case parentsDone(isDue: Bool)
  /// 7: a task that it depends on is dead or was cancelled.
  case parentFailed(ParentRule)
  /// 8: a worker claims the task.
  case claim
  /// 9 and 10: the handler has succeeded.
  case succeed(epoch: UInt32)
  /// 11 and 15: the handler has failed. The task waits for its next attempt, or is dead if no attempt is left.
  case fail(epoch: UInt32, next: Next)
  /// 12: the handler requests another attempt at once.
  case retryNow(epoch: UInt32)
  /// 13: the handler parks the task.
  case park(epoch: UInt32)
  /// 14: the handler postpones the task, and the attempt does not count.
  case snooze(epoch: UInt32)
  /// 16: the time limit of the attempt has passed.
  case timeOut(epoch: UInt32, next: Next)
  /// 17: the task is cancelled while it runs.
  case requestCancel
  /// 17: the handler has returned without success after the task was cancelled.
  case cancelRun(epoch: UInt32)
  /// 18: the task is cancelled while it waits.
  case cancel
  /// 19: the scheduler stops, and the handler has not finished: the attempt does not count.
  case interrupt(epoch: UInt32)
  /// 20: the task was running when the process died. It is dead after `limit` crashes; 0 means no limit.
  case orphan(limit: UInt32)
  /// 21: the lease of the handler has expired.
  case expireLease(epoch: UInt32, next: Next)
  /// 22: a call or a signal requests that the task run.
  case wake
  /// 23: a call requests that the task run again although it has ended.
  case revive

  /// The next step after a failure.
  enum Next: Hashable, Sendable { case wait, die }
  /// The reaction of a task when one that it depends on fails.
  enum ParentRule: Hashable, Sendable { case stayBlocked, cancel, runAnyway }
}

/// The reason why a change is not possible.
enum TaskRefusal: Error, Hashable, Sendable {
  /// The task is in another state.
  case state(TaskState)
  /// The attempt is not the one that runs.
  case epoch(UInt32)
}

extension TaskProgress {
  /// Returns whether a change is possible in the current state.
  func allows(_ change: TaskChange) -> Bool {
    var copy = self
    return (try? copy.apply(change)) != nil
  }

  /// Applies a change. Throws, without any effect, if the task is in another state or another attempt runs.
  mutating func apply(_ change: TaskChange) throws(TaskRefusal) {
    switch change {
    case .due: try move(from: [.scheduled, .retryWait], to: .ready)
    case .parentsDone(let isDue): try move(from: [.blocked], to: isDue ? .ready : .scheduled)
    case .parentFailed(let rule): try applyParent(rule)
    case .claim:
      try move(from: [.ready], to: .running)
      attempt &+= 1
      epoch &+= 1
    case .requestCancel:
      try require([.running])
      isCancelling = true
    case .cancel: try move(from: [.blocked, .scheduled, .ready, .retryWait, .parked], to: .cancelled)
    case .orphan(let limit):
      try require([.running])
      crashes &+= 1
      if isCancelling { end(.cancelled) } else { end(limit > 0 && crashes >= limit ? .dead : .ready) }
    case .wake:
      try move(from: [.parked, .retryWait, .scheduled], to: .ready)
      epoch &+= 1
    case .revive:
      try move(from: [.dead, .cancelled], to: .ready)
      epoch &+= 1
      crashes = 0
    default: try applyEnd(change)
    }
  }

  /// Applies a change that ends an attempt.
  private mutating func applyEnd(_ change: TaskChange) throws(TaskRefusal) {
    switch change {
    case .succeed(let epoch):
      try requireAttempt(epoch)
      end(.done)
    case .fail(let epoch, let next):
      try requireAttempt(epoch)
      failures &+= 1
      end(isCancelling ? .cancelled : next == .wait ? .retryWait : .dead)
    case .timeOut(let epoch, let next), .expireLease(let epoch, let next):
      try requireAttempt(epoch)
      failures &+= 1
      // The new epoch makes a late return of this attempt fail.
      self.epoch &+= 1
      end(isCancelling ? .cancelled : next == .wait ? .retryWait : .dead)
    case .retryNow(let epoch):
      try requireAttempt(epoch)
      failures &+= 1
      end(isCancelling ? .cancelled : .ready)
    case .park(let epoch):
      try requireAttempt(epoch)
      failures &+= 1
      end(isCancelling ? .cancelled : .parked)
    case .snooze(let epoch):
      try requireAttempt(epoch)
      attempt &-= 1
      snoozes &+= 1
      end(isCancelling ? .cancelled : .scheduled)
    case .cancelRun(let epoch):
      try requireAttempt(epoch)
      guard isCancelling else { throw .state(.running) }
      end(.cancelled)
    case .interrupt(let epoch):
      try requireAttempt(epoch)
      attempt &-= 1
      end(isCancelling ? .cancelled : .ready)
    default: break
    }
  }

  private mutating func applyParent(_ rule: TaskChange.ParentRule) throws(TaskRefusal) {
    switch rule {
    case .stayBlocked: try require([.blocked])
    case .cancel: try move(from: [.blocked], to: .cancelled)
    case .runAnyway: try move(from: [.blocked], to: .ready)
    }
  }

  private func require(_ states: [TaskState]) throws(TaskRefusal) {
    if !states.contains(state) { throw .state(state) }
  }

  /// Checks that an attempt changes a task only while the task runs in this attempt. On disk, `TaskEdit.write` checks
  /// the same by the row of the attempt's claim.
  private func requireAttempt(_ epoch: UInt32) throws(TaskRefusal) {
    if state != .running { throw .state(state) }
    if epoch != self.epoch { throw .epoch(self.epoch) }
  }

  private mutating func move(from states: [TaskState], to state: TaskState) throws(TaskRefusal) {
    try require(states)
    self.state = state
  }

  private mutating func end(_ state: TaskState) {
    self.state = state
    isCancelling = false
  }
}
