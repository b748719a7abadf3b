import Foundation
import Synchronization
import Testing
import Varve
import VarveTestSupport
import VarveTesting

@_spi(Extensions) @testable import VarveTasks

/// Tests of single transitions of the state machine, which a scheduler or a transaction makes.
struct TransitionTests {
  @Test
  func `transition 3: a task that is enqueued as parked runs only after one of its signals, or a call of retryNow`()
    async throws
  {
    let fixture = try TaskFixture()
    try fixture.handle()
    try await fixture.scheduler.start()
    let signalled = try fixture.enqueue("signalled") { $0.start = .parked(wakeOn: ["network", "power"]) }
    let called = try fixture.enqueue("called") { $0.start = .parked() }
    await fixture.scheduler.waitUntilIdle()
    await fixture.scheduler.advance(fixture.clock, by: .seconds(3_600))
    #expect(fixture.lines.take() == [])
    let task = try fixture.read { tx in try tx.task(signalled) }
    #expect(task?.progress.state == .parked && task?.progress.attempt == 0)
    #expect(task?.signals == ["network", "power"])
    #expect(try fixture.count(.parked) == 2)
    #expect(try fixture.write { tx in try tx.signal("other") } == 0)
    #expect(try fixture.write { tx in try tx.signal("power") } == 1)
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take() == ["signalled"])
    #expect(try fixture.state(called) == .parked)
    #expect(try fixture.write { tx in try tx.retryNow(.id(called)) } == 1)
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take() == ["called"])
    #expect(try fixture.rowCount() == 0)
    await fixture.scheduler.stop()
  }

  @Test func `transition 5: the delays of a task and of its retries pass while the machine sleeps`() async throws {
    let fixture = try TaskFixture()
    try fixture.handle { note, context in
      if note.text == "fails", context.attempt == 1 { throw Broken() }
      return .done
    }
    try await fixture.scheduler.start()
    try fixture.enqueue("later") { $0.start = .after(.seconds(60)) }
    try fixture.enqueue("fails")
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take() == ["fails"])
    let steps: [(seconds: Int, lines: [String])] = [(9, []), (1, ["fails"]), (49, []), (1, ["later"])]
    for step in steps {
      fixture.clock.suspend(for: .seconds(step.seconds))
      await fixture.scheduler.waitUntilIdle()
      #expect(fixture.lines.take() == step.lines)
    }
    #expect(fixture.clock.suspendingNow == .zero)
    await fixture.scheduler.stop()
  }

  @Test func `transition 8: a claim counts an attempt and has a new epoch, and is on disk before the handler begins`()
    async throws
  {
    let fixture = try TaskFixture()
    let claims = Mutex<[[UInt8]]>([])
    try fixture.handle { _, context in
      let claim = context.run.claimKey
      #expect(try fixture.read { tx in try tx.tasks.parts.live.get(claim) } != nil)
      #expect(context.run.epoch == UInt32(context.attempt))
      claims.withLock { $0.append(claim) }
      if context.attempt == 1 { throw Broken() }
      return .done
    }
    try await fixture.scheduler.start()
    let id = try fixture.enqueue("runs") { $0.retention = .keep(.seconds(1_000)) }
    for attempt in 1...2 {
      await fixture.scheduler.waitUntilIdle()
      let progress = try fixture.read { tx in try tx.task(id) }?.progress
      #expect(progress?.attempt == UInt32(attempt) && progress?.epoch == UInt32(attempt))
      #expect(progress?.state == (attempt == 1 ? .retryWait : .done))
      let claim = try #require(claims.withLock { $0.last })
      #expect(claims.withLock { Set($0).count } == attempt)
      #expect(try fixture.read { tx in try tx.tasks.parts.live.get(claim) } == nil)
      await fixture.scheduler.advance(fixture.clock, by: .seconds(10))
    }
    await fixture.scheduler.stop()
  }

  @Test(arguments: [false, true])
  func `transition 12: a task that requests another attempt at once keeps its position, and its attempt counts`(
    isSerial: Bool
  ) async throws {
    let fixture = try TaskFixture(rules: .all(isSerial: isSerial))
    let (begun, mayEnd) = (AsyncFlag(), AsyncFlag())
    try fixture.handle { note, context in
      guard note.text == "again" else { return .done }
      begun.set()
      await mayEnd.wait()
      #expect(context.failures == context.attempt - 1)
      return context.attempt < 3 ? .retry(after: .zero) : .done
    }
    try await fixture.scheduler.start()
    let again = try fixture.enqueue("again")
    await begun.wait()
    let other = try fixture.enqueue("other")
    try fixture.write { tx in try tx.pause("default") }
    mayEnd.set()
    await fixture.scheduler.waitUntilIdle()
    let task = try fixture.read { tx in try tx.task(again) }
    #expect(task?.progress.state == .ready && task?.progress.attempt == 1 && task?.progress.failures == 1)
    #expect(task?.errors == [])
    #expect(try fixture.read { tx in try tx.tasks(.queue("default")).map(\.id) } == [again, other])
    try fixture.write { tx in try tx.resume("default") }
    // No time passes.
    await fixture.scheduler.waitUntilIdle()
    let lines = fixture.lines.take()
    #expect(lines.count == 4 && lines.filter { $0 == "again" }.count == 3)
    if isSerial { #expect(lines.last == "other") }
    #expect(try fixture.rowCount() == 0)
    await fixture.scheduler.stop()
  }

  @Test func `transition 24: a task that does not run can be deleted in every state, and leaves no row and no count`()
    async throws
  {
    let fixture = try TaskFixture()
    let (begun, mayEnd) = (AsyncFlag(), AsyncFlag())
    try fixture.handle { note, _ in
      switch note.text {
      case "fails": throw Broken()
      case "bad": return .discard("no")
      case "runs":
        begun.set()
        await mayEnd.wait()
      default: break
      }
      return .done
    }
    try fixture.write { tx in try tx.pause("paused") }
    try await fixture.scheduler.start()
    let failed = try fixture.enqueue("fails")
    let dead = try fixture.enqueue("bad")
    let done = try fixture.enqueue("done") { $0.retention = .keep(.seconds(1_000)) }
    await fixture.scheduler.waitUntilIdle()
    let ready = try fixture.enqueue("ready") { $0.queue = "paused" }
    let scheduled = try fixture.enqueue("scheduled") { $0.start = .after(.seconds(1_000)) }
    let cancelled = try fixture.enqueue("cancelled") {
      $0.start = .parked()
      $0.retention = .keep(.seconds(1_000))
    }
    #expect(try fixture.write { tx in try tx.cancel(.id(cancelled)) } == 1)
    let (parked, blocked) = try fixture.write { tx in
      var options = TaskOptions()
      options.start = .parked()
      let parked = try tx.enqueue(Note("parked"), options).id
      options = TaskOptions()
      options.dependsOn = [parked]
      return (parked, try tx.enqueue(Note("blocked"), options).id)
    }
    await fixture.scheduler.waitUntilIdle()
    let running = try fixture.enqueue("runs")
    await begun.wait()
    let tasks: [(id: TaskID, state: TaskState)] = [
      (failed, .retryWait), (dead, .dead), (done, .done), (ready, .ready), (scheduled, .scheduled),
      (cancelled, .cancelled), (blocked, .blocked), (parked, .parked),
    ]
    for task in tasks {
      #expect(try fixture.state(task.id) == task.state)
      #expect(try fixture.write { tx in try tx.delete(.id(task.id)) } == 1, "\(task.state)")
      #expect(try fixture.state(task.id) == nil)
      #expect(try fixture.write { tx in try tx.delete(.id(task.id)) } == 0, "\(task.state)")
    }
    #expect(throws: TaskError.taskRunning(running)) { try fixture.write { tx in try tx.delete(.id(running)) } }
    mayEnd.set()
    await fixture.scheduler.advance(fixture.clock, by: .seconds(2_000))
    #expect(fixture.lines.take() == ["fails", "bad", "done", "runs"])
    #expect(try fixture.state(running) == nil)
    #expect(try fixture.taskCount() == 0)
    #expect(try fixture.rowCount() == 0)
    for state in TaskState.allCases {
      for queue: QueueName in ["default", "paused"] {
        #expect(try fixture.count(state, in: queue) == 0, "\(state) in \(queue)")
      }
    }
    await fixture.scheduler.stop()
  }

  @Test func `transition 23: a revived task waits no more for the signal or the time that it waited for before`()
    async throws
  {
    let fixture = try TaskFixture()
    try fixture.handle()
    try fixture.write { tx in try tx.pause("paused") }
    let starts: [Start] = [.parked(wakeOn: ["go"]), .after(.seconds(50))]
    let ids = try starts.map { start in
      try fixture.enqueue("task") { options in
        options.queue = "paused"
        options.start = start
        options.retention = .keep(.seconds(1_000_000))
      }
    }
    for id in ids {
      #expect(try fixture.write { tx in try tx.cancel(.id(id)) } == 1)
      #expect(try fixture.write { tx in try tx.revive(.id(id)) } == 1)
      #expect(try fixture.read { tx in try tx.task(id)?.signals } == [])
      try fixture.write { tx in try tx.edit(id, start: .after(.seconds(100))) }
    }
    #expect(try fixture.write { tx in try tx.signal("go") } == 0)
    try await fixture.scheduler.start()
    try fixture.write { tx in try tx.resume("paused") }
    await fixture.scheduler.advance(fixture.clock, by: .seconds(99))
    #expect(fixture.lines.take() == [])
    await fixture.scheduler.advance(fixture.clock, by: .seconds(1))
    #expect(fixture.lines.take() == ["task", "task"])
    await fixture.scheduler.stop()
  }
}
