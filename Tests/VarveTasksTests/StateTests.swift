import EngineTestSupport
import Testing

@_spi(Extensions) @testable import VarveTasks

/// Tests of the state machine of a task, as a value.
struct StateTests {
  /// Returns a task in a state; if it is running, in its first attempt.
  private static func task(_ state: TaskState, isCancelling: Bool = false) -> TaskProgress {
    var progress = TaskProgress(state)
    if state == .running {
      progress.attempt = 1
      progress.epoch = 1
    }
    progress.isCancelling = isCancelling
    return progress
  }

  struct Transition: Sendable, CustomTestStringConvertible {
    let number: Int
    let change: TaskChange
    let from: Set<TaskState>
    let to: TaskState
    var testDescription: String { "\(number)" }
  }

  /// The transitions of `TaskTransitions.md`. Numbers 1 to 4 begin a task, and 24 to 26 end its row, so these are
  /// not changes of this value.
  static let transitions: [Transition] = [
    Transition(number: 5, change: .due, from: [.scheduled, .retryWait], to: .ready),
    Transition(number: 6, change: .parentsDone(isDue: true), from: [.blocked], to: .ready),
    Transition(number: 6, change: .parentsDone(isDue: false), from: [.blocked], to: .scheduled),
    Transition(number: 7, change: .parentFailed(.stayBlocked), from: [.blocked], to: .blocked),
    Transition(number: 7, change: .parentFailed(.cancel), from: [.blocked], to: .cancelled),
    Transition(number: 7, change: .parentFailed(.runAnyway), from: [.blocked], to: .ready),
    Transition(number: 8, change: .claim, from: [.ready], to: .running),
    Transition(number: 9, change: .succeed(epoch: 1), from: [.running], to: .done),
    Transition(number: 11, change: .fail(epoch: 1, next: .wait), from: [.running], to: .retryWait),
    Transition(number: 12, change: .retryNow(epoch: 1), from: [.running], to: .ready),
    Transition(number: 13, change: .park(epoch: 1), from: [.running], to: .parked),
    Transition(number: 14, change: .snooze(epoch: 1), from: [.running], to: .scheduled),
    Transition(number: 15, change: .fail(epoch: 1, next: .die), from: [.running], to: .dead),
    Transition(number: 16, change: .timeOut(epoch: 1, next: .wait), from: [.running], to: .retryWait),
    Transition(number: 16, change: .timeOut(epoch: 1, next: .die), from: [.running], to: .dead),
    Transition(number: 17, change: .requestCancel, from: [.running], to: .running),
    Transition(
      number: 18, change: .cancel, from: [.blocked, .scheduled, .ready, .retryWait, .parked], to: .cancelled),
    Transition(number: 19, change: .interrupt(epoch: 1), from: [.running], to: .ready),
    Transition(number: 20, change: .orphan(limit: 3), from: [.running], to: .ready),
    Transition(number: 20, change: .orphan(limit: 1), from: [.running], to: .dead),
    Transition(number: 21, change: .expireLease(epoch: 1, next: .wait), from: [.running], to: .retryWait),
    Transition(number: 21, change: .expireLease(epoch: 1, next: .die), from: [.running], to: .dead),
    Transition(number: 22, change: .wake, from: [.parked, .retryWait, .scheduled], to: .ready),
    Transition(number: 23, change: .revive, from: [.dead, .cancelled], to: .ready),
  ]

  @Test(arguments: transitions)
  func `transition 5 to 23: a change leads from its states to the next, and is refused in all others`(
    transition: Transition
  ) throws {
    for state in TaskState.allCases {
      var progress = Self.task(state)
      let before = progress
      if transition.from.contains(state) {
        try progress.apply(transition.change)
        #expect(progress.state == transition.to, "\(transition.number) from \(state)")
      } else {
        #expect(throws: TaskRefusal.self) { try progress.apply(transition.change) }
        #expect(progress == before, "\(transition.number) from \(state)")
      }
    }
  }

  @Test func `transition 17: a task that is cancelled while it runs ends as cancelled, unless it succeeds`() throws {
    for transition in Self.transitions where transition.from == [.running] && transition.number != 17 {
      var progress = Self.task(.running, isCancelling: true)
      try progress.apply(transition.change)
      #expect(progress.state == (transition.number == 9 ? .done : .cancelled), "\(transition.number)")
      #expect(!progress.isCancelling)
    }
    var progress = Self.task(.running, isCancelling: true)
    try progress.apply(.cancelRun(epoch: 1))
    #expect(progress.state == .cancelled)
    progress = Self.task(.running)
    #expect(throws: TaskRefusal.state(.running)) { try progress.apply(.cancelRun(epoch: 1)) }
  }

  @Test func `an attempt of another epoch can't change the task`() throws {
    for transition in Self.transitions where transition.from == [.running] {
      var progress = Self.task(.running)
      progress.epoch = 2
      switch transition.change {
      case .requestCancel, .orphan: continue
      default: #expect(throws: TaskRefusal.epoch(2)) { try progress.apply(transition.change) }
      }
    }
  }

  @Test func `attempts that do not count are subtracted, and epochs never decrease`() throws {
    var random = SeededRandom(seed: 20_261_127)
    let ends: [(UInt32) -> TaskChange] = [
      { .succeed(epoch: $0) }, { .fail(epoch: $0, next: .wait) }, { .fail(epoch: $0, next: .die) },
      { .retryNow(epoch: $0) }, { .park(epoch: $0) }, { .snooze(epoch: $0) }, { .timeOut(epoch: $0, next: .wait) },
      { .interrupt(epoch: $0) }, { _ in .orphan(limit: 0) }, { .expireLease(epoch: $0, next: .wait) },
      { _ in .requestCancel },
      { _ in .due }, { _ in .wake }, { _ in .revive }, { _ in .cancel }, { _ in .claim }, { _ in .claim },
    ]
    for _ in 0..<200 {
      var progress = TaskProgress(.ready)
      var (claims, uncounted) = (UInt32(0), UInt32(0))
      for _ in 0..<200 {
        let before = progress
        let change = ends[random.below(ends.count)](random.oneIn(10) ? progress.epoch &- 1 : progress.epoch)
        guard (try? progress.apply(change)) != nil else {
          #expect(progress == before)
          continue
        }
        #expect(progress.epoch >= before.epoch)
        if case .claim = change { claims += 1 }
        if case .snooze = change { uncounted += 1 }
        if case .interrupt = change { uncounted += 1 }
        #expect(progress.attempt == claims - uncounted)
        #expect(progress.failures + progress.crashes <= claims)
        if before.state.isSettled { #expect(change == .revive) }
        if progress.state != .running { #expect(!progress.isCancelling) }
      }
    }
  }
}
