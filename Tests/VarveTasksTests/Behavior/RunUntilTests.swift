import Foundation
import Logging
import Synchronization
import Testing
import Varve
import VarveTestSupport
import VarveTesting

@_spi(Extensions) @testable import VarveTasks

/// Tests of `run(until:)`, which runs tasks within time that the operating system grants.
struct RunUntilTests {
  /// A call of `run(until:)` with a fixture's database and clock.
  private struct Run {
    let scheduler: TaskScheduler
    private let clock: ManualSchedulerClock
    private let deadline: Duration
    private let end: Task<Void, any Error>
    private let hasReturned = Flag()
    var isRunning: Bool { !hasReturned.isSet }

    /// Begins a run, with the handler of notes that `handle` is.
    init(
      _ fixture: TaskFixture, for time: Duration, abandonAfter: Duration = .milliseconds(50),
      _ handle: @escaping @Sendable (Note, TaskContext) async throws -> TaskOutcome
    ) throws {
      var configuration = TaskScheduler.Configuration()
      configuration.workers = 4
      configuration.abandonAfter = abandonAfter
      let scheduler = try TaskScheduler(
        fixture.database, configuration: configuration, clock: fixture.clock, logger: fixture.scheduler.logger)
      let lines = fixture.lines
      try scheduler.register(Note.self) { note, context in
        lines.add(note.text)
        return try await handle(note, context)
      }
      self.scheduler = scheduler
      clock = fixture.clock
      let (deadline, hasReturned) = (fixture.clock.continuousNow + time, hasReturned)
      self.deadline = deadline
      end = Task {
        defer { hasReturned.set() }
        try await scheduler.run(until: deadline)
      }
    }

    /// Advances the clock to the deadline.
    func reachDeadline() { clock.advance(by: deadline - clock.continuousNow) }

    /// The virtual time since the deadline.
    var lateness: Duration { clock.continuousNow - deadline }

    func wait() async throws { try await end.value }
  }

  @Test func `at the deadline all handlers are cancelled, and the call returns when they do, without any other time`()
    async throws
  {
    let fixture = try TaskFixture()
    try fixture.enqueue("short")
    let ids = try (0..<4).map { try fixture.enqueue("long \($0)") }
    // These have no worker, or wait for a later time.
    let waits = try fixture.enqueue("waits")
    let later = try fixture.enqueue("later") { $0.start = .after(.seconds(100)) }
    let begun = Mutex(0)
    let run = try Run(fixture, for: .seconds(20)) { note, context in
      if note.text == "short" { return .done }
      try await context.checkpoint(1)
      begun.withLock { $0 += 1 }
      await waitForCancellation()
      // The work up to the cancellation is kept.
      try await context.checkpoint(2)
      throw CancellationError()
    }
    await fixture.poll { begun.withLock { $0 } == 4 }
    #expect(run.isRunning && run.lateness < .zero)
    run.reachDeadline()
    try await run.wait()
    #expect(run.lateness == .zero)
    #expect(fixture.lines.take().sorted() == ["long 0", "long 1", "long 2", "long 3", "short"])
    for id in ids + [waits] {
      let task = try #require(try fixture.read { tx in try tx.task(id) })
      #expect(task.progress.state == .ready && task.progress.attempt == 0 && task.progress.crashes == 0)
      #expect(task.errors == [])
    }
    #expect(try fixture.state(later) == .scheduled)
    // The next run loses nothing.
    let steps = Mutex<[String: Int]>([:])
    let next = try Run(fixture, for: .seconds(20)) { note, context in
      #expect(context.attempt == 1 && context.failures == 0)
      let step = try context.restored(Int.self) ?? 0
      steps.withLock { $0[note.text] = step }
      return .done
    }
    try await next.wait()
    #expect(steps.withLock { $0 } == ["long 0": 2, "long 1": 2, "long 2": 2, "long 3": 2, "waits": 0])
    #expect(try fixture.read { tx in try tx.tasks(.all).map(\.id) } == [later])
  }

  @Test func `a handler that ignores its cancellation delays the return by abandonAfter, and its task is not lost`()
    async throws
  {
    let fixture = try TaskFixture()
    let id = try fixture.enqueue("stays")
    let (begun, mayWork, hasWorked) = (AsyncFlag(), AsyncFlag(), AsyncFlag())
    let (mayEnd, hasEnded) = (AsyncFlag(), AsyncFlag())
    let run = try Run(fixture, for: .seconds(20)) { _, context in
      begun.set()
      await mayWork.wait()
      #expect(Task.isCancelled)
      // After the deadline, and until it is abandoned, its checkpoints are kept.
      try await context.checkpoint(7)
      hasWorked.set()
      await mayEnd.wait()
      await #expect(throws: TaskError.leaseLost(context.id)) { try await context.checkpoint(8) }
      #expect(throws: TaskError.leaseLost(context.id)) { try context.heartbeat() }
      hasEnded.set()
      return .done
    }
    await begun.wait()
    // The run waits for its deadline, and for nothing else.
    await fixture.poll { fixture.clock.sleepCount == 1 }
    run.reachDeadline()
    await fixture.poll { fixture.clock.sleepCount == 2 }
    mayWork.set()
    await hasWorked.wait()
    fixture.clock.advance(by: .milliseconds(49))
    for _ in 0..<1_000 { await Task.yield() }
    #expect(run.isRunning)
    #expect(try fixture.state(id) == .running)
    fixture.clock.advance(by: .milliseconds(1))
    try await run.wait()
    #expect(run.lateness == .milliseconds(50))
    let task = try #require(try fixture.read { tx in try tx.task(id) })
    #expect(task.progress.state == .ready && task.progress.attempt == 0 && task.progress.crashes == 0)
    #expect(try fixture.read { tx in try tx.taskEvents() }.map(\.event.kind) == [.abandoned])
    // What the handler does later has no effect.
    mayEnd.set()
    await hasEnded.wait()
    for _ in 0..<100 { await Task.yield() }
    #expect(try fixture.state(id) == .ready)
    let step = Mutex<Int?>(nil)
    let next = try Run(fixture, for: .seconds(20)) { _, context in
      let last = try context.restored(Int.self)
      step.withLock { $0 = last }
      return .done
    }
    try await next.wait()
    #expect(step.withLock { $0 } == 7)
    #expect(try fixture.state(id) == nil)
    #expect(try fixture.rowCount() == 0)
  }

  @Test func `the outcomes of handlers that return at the deadline count, and one that does not return is interrupted`()
    async throws
  {
    let fixture = try TaskFixture()
    let ids = try ["done", "fails", "parks", "stays"].map { text in
      try fixture.enqueue(text) { $0.retention = .keep(.seconds(1_000)) }
    }
    let begun = Mutex(0)
    let mayEnd = AsyncFlag()
    let run = try Run(fixture, for: .seconds(20)) { note, _ in
      begun.withLock { $0 += 1 }
      if note.text == "stays" { await mayEnd.wait() } else { await waitForCancellation() }
      switch note.text {
      case "fails": throw Broken()
      case "parks": return .park()
      default: return .done
      }
    }
    await fixture.poll { begun.withLock { $0 } == 4 && fixture.clock.sleepCount == 1 }
    run.reachDeadline()
    await fixture.poll { fixture.clock.sleepCount == 2 && run.scheduler.dispatcher.workload.running == 1 }
    fixture.clock.advance(by: .milliseconds(50))
    try await run.wait()
    // An error after the cancellation counts as an interruption, and not as a failure.
    let tasks = try ids.map { id in try #require(try fixture.read { tx in try tx.task(id) }) }
    #expect(tasks.map(\.progress.state) == [.done, .ready, .parked, .ready])
    #expect(tasks.map(\.progress.attempt) == [1, 0, 1, 0] && tasks.map(\.progress.failures) == [0, 0, 1, 0])
    mayEnd.set()
  }

  @Test func `a handler that requests another attempt at the deadline is interrupted, as one that throws is`()
    async throws
  {
    let fixture = try TaskFixture()
    let ids = try ["usual", "later", "now", "throws"].map { try fixture.enqueue($0) }
    let begun = Mutex(0)
    let run = try Run(fixture, for: .seconds(20)) { note, _ in
      begun.withLock { $0 += 1 }
      await waitForCancellation()
      switch note.text {
      case "usual": return .retry()
      case "later": return .retry(after: .seconds(60))
      case "now": return .retry(after: .zero)
      default: throw Broken()
      }
    }
    await fixture.poll { begun.withLock { $0 } == 4 && fixture.clock.sleepCount == 1 }
    run.reachDeadline()
    try await run.wait()
    for id in ids {
      let task = try #require(try fixture.read { tx in try tx.task(id) })
      #expect(task.progress.state == .ready && task.progress.attempt == 0 && task.progress.failures == 0)
      #expect(task.errors == [])
    }
  }

  @Test func `a run returns before its deadline if no work is left until a later time`() async throws {
    let fixture = try TaskFixture()
    try fixture.enqueue("now")
    let later = try fixture.enqueue("later") { $0.start = .after(.seconds(5)) }
    let first = try Run(fixture, for: .seconds(20)) { _, _ in .done }
    try await first.wait()
    #expect(first.lateness == .seconds(-20))
    #expect(fixture.lines.take() == ["now"])
    #expect(try fixture.state(later) == .scheduled)
    fixture.clock.advance(by: .seconds(5))
    let second = try Run(fixture, for: .seconds(20)) { _, _ in .done }
    try await second.wait()
    #expect(fixture.lines.take() == ["later"])
    #expect(fixture.clock.continuousNow == .seconds(5))
  }
}
