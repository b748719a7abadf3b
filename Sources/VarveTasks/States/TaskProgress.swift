/// How far a task has come: its state, and what is counted of it. A value; every change of a task is a `TaskEvent` that is
/// applied to it, here and nowhere else.
public struct TaskProgress: Hashable, Sendable {
  /// Its state.
  public internal(set) var state: TaskState
  /// How many attempts were begun, fewer those that do not count.
  public internal(set) var attempt: UInt32 = 0
  /// How many attempts have failed.
  public internal(set) var failures: UInt32 = 0
  /// How often the process has died while it ran.
  public internal(set) var crashes: UInt32 = 0
  /// How often it was put off.
  public internal(set) var snoozes: UInt32 = 0
  /// Differs after every claim and every change that is forced on it. Who settles an attempt names the epoch of its claim: so an
  /// attempt that was given up changes nothing any more.
  public internal(set) var epoch: UInt32 = 0
  /// Whether it is to be cancelled when its handler returns.
  public internal(set) var isCancelling = false

  /// One that begins in a state.
  init(_ state: TaskState) { self.state = state }
}

/// What happens to a task, after it was enqueued. The numbers are those of the transitions in the tests.
enum TaskChange: Hashable, Sendable {
  /// 5: its time has come.
  case due
  /// 6: the last task that it depends on is done; it may have to wait for a time.
  case parentsDone(isDue: Bool)
  /// 7: a task that it depends on is dead or was cancelled.
  case parentFailed(ParentRule)
  /// 8: a worker takes it.
  case claim
  /// 9 and 10: its handler has succeeded.
  case succeed(epoch: UInt32)
  /// 11 and 15: its handler has failed. It waits, or it is dead where no attempt is left.
  case fail(epoch: UInt32, next: Next)
  /// 12: its handler wants another attempt at once.
  case retryNow(epoch: UInt32)
  /// 13: its handler parks it.
  case park(epoch: UInt32)
  /// 14: its handler puts it off: the attempt does not count.
  case snooze(epoch: UInt32)
  /// 16: its time is over.
  case timeOut(epoch: UInt32, next: Next)
  /// 17: it is cancelled while it runs.
  case requestCancel
  /// 17: its handler has returned without success after that.
  case cancelRun(epoch: UInt32)
  /// 18: it is cancelled while it waits.
  case cancel
  /// 19: the scheduler stops, and the handler has not finished: the attempt does not count.
  case interrupt(epoch: UInt32)
  /// 20: it was running when the process died. At `limit` crashes it is dead; 0: without a limit.
  case orphan(limit: UInt32)
  /// 21: the lease of its handler is over.
  case expireLease(epoch: UInt32, next: Next)
  /// 22: a person or a signal wants it run.
  case wake
  /// 23: a person wants it run although it has ended.
  case revive

  /// What comes after a failure.
  enum Next: Hashable, Sendable { case wait, die }
  /// What a task does when one that it depends on fails.
  enum ParentRule: Hashable, Sendable { case stayBlocked, cancel, runAnyway }
}

/// Why a change is not possible.
enum TaskRefusal: Error, Hashable, Sendable {
  /// The task is in another state.
  case state(TaskState)
  /// The attempt is not the one that runs.
  case epoch(UInt32)
}

extension TaskProgress {
  /// Whether a change does anything to it.
  func allows(_ change: TaskChange) -> Bool {
    var copy = self
    return (try? copy.apply(change)) != nil
  }

  /// Applies a change. Throws where the task is in another state, or another attempt runs: then nothing has changed.
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

  /// What ends an attempt.
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
      // A late return of this attempt finds another epoch.
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

  /// The one fence: an attempt changes a task only while it runs, in this attempt.
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
