import EngineTestSupport
import Foundation
import FutexLocks
import Testing
import Varve
import VarveTestSupport
import VarveTesting

@_spi(Extensions) @testable import VarveTasks

/// Tests of a scheduler after the death of a process, and at its own end.
struct RecoveryTests {
  /// Ends a scheduler as the death of its process does: none of its state is left in memory.
  private static func kill(_ fixture: TaskFixture) { fixture.scheduler.dispatcher.detach() }

  @Test
  func `transition 20: a task that runs during three process deaths is dead, and tasks that crashed run one at a time`()
    async throws
  {
    let first = try TaskFixture(workers: 4)
    let id = try first.enqueue("poison")
    let innocent = try first.enqueue("innocent")
    let gate = AsyncFlag()
    var fixture = first
    for round in 1...3 {
      let begun = AsyncFlag()
      try fixture.handle { note, _ in
        begun.set()
        await gate.wait()
        return .done
      }
      try await fixture.scheduler.start()
      await begun.wait()
      let running = try [id, innocent].filter { try fixture.state($0) == .running }
      // At first both tasks ran; tasks that were running when a process died run one at a time.
      #expect(running.count == (round == 1 ? 2 : 1), "round \(round)")
      Self.kill(fixture)
      fixture = try TaskFixture(first.database, workers: 4, clock: first.clock, lines: first.lines)
    }
    let crashes = try [id, innocent].map { id in
      Int(try fixture.read { tx in try tx.task(id) }?.progress.crashes ?? 0)
    }
    #expect(crashes.sorted() == [1, 2] || crashes.sorted() == [1, 3], "\(crashes)")
    gate.set()
    try fixture.handle()
    try await fixture.scheduler.start()
    await fixture.scheduler.waitUntilIdle()
    let poison = try fixture.read { tx in try tx.task(id) }
    #expect(poison?.progress.state == .dead && poison?.progress.crashes == 3)
    #expect(poison?.errors.last == "the process died 3 times while the task ran")
    #expect(try fixture.state(innocent) == nil)
    await fixture.scheduler.stop()
  }

  @Test
  func `transition 20: the attempts of crashes count, but only a failure makes a task dead whose attempts are used up`()
    async throws
  {
    let fixture = try TaskFixture()
    let id = try fixture.enqueue("crashes") { $0.maxAttempts = 2 }
    // Nothing runs between the deaths, because no handler is registered.
    for crash in UInt32(1)...2 {
      try await fixture.database.claimAndDie([id])
      try await fixture.scheduler.start()
      await fixture.scheduler.waitUntilIdle()
      await fixture.scheduler.stop()
      let task = try #require(try fixture.read { tx in try tx.task(id) })
      #expect(task.progress.state == .ready && task.progress.attempt == crash && task.progress.crashes == crash)
    }
    try fixture.handle { _, _ in throw Broken() }
    try await fixture.scheduler.start()
    await fixture.scheduler.waitUntilIdle()
    let task = try #require(try fixture.read { tx in try tx.task(id) })
    #expect(task.progress.state == .dead && task.progress.attempt == 3 && task.progress.failures == 1)
    #expect(task.progress.crashes == 2 && task.errors == ["Broken()"])
    await fixture.scheduler.stop()
  }

  @Test func `transition 20: no task begins before one that crashed and waits until the running ones have ended`()
    async throws
  {
    let first = try TaskFixture(workers: 3)
    let (begun, ended) = (AsyncFlag(), AsyncFlag())
    try first.handle { _, _ in
      begun.set()
      await ended.wait()
      return .done
    }
    try first.enqueue("suspect") { $0.queue = "a" }
    try await first.scheduler.start()
    await begun.wait()
    Self.kill(first)
    try first.write { tx in try tx.pause("a") }

    let fixture = try TaskFixture(first.database, workers: 3, clock: first.clock)
    let (isRunning, gate) = (AsyncFlag(), AsyncFlag())
    try fixture.handle { note, _ in
      if note.text == "running" {
        isRunning.set()
        await gate.wait()
      }
      return .done
    }
    try fixture.enqueue("running") { $0.queue = "b" }
    try await fixture.scheduler.start()
    await isRunning.wait()
    try fixture.write { tx in try tx.resume("a") }
    let dispatcher = fixture.scheduler.dispatcher
    await fixture.poll { dispatcher.state.withLock { !$0.loop.isPumping } }
    // Each of these commits lets the scheduler look for tasks to begin, and two workers are free.
    for number in 0..<10 {
      try fixture.enqueue("later \(number)") { $0.queue = QueueName("c-\(number)") }
      await fixture.poll { dispatcher.state.withLock { !$0.loop.isPumping } }
    }
    #expect(fixture.lines.take() == ["running"])
    gate.set()
    await fixture.scheduler.waitUntilIdle()
    let lines = fixture.lines.take()
    #expect(lines.first == "suspect")
    #expect(lines.count == 11)
    ended.set()
    await fixture.scheduler.stop()
  }

  @Test func `transition 19: stopping a scheduler interrupts its handlers, and their attempts do not count`()
    async throws
  {
    var configuration = TaskScheduler.Configuration()
    configuration.drainTimeout = .zero
    let fixture = try TaskFixture()
    let scheduler = try TaskScheduler(fixture.database, configuration: configuration, clock: fixture.clock)
    let begun = AsyncFlag()
    try scheduler.register(Note.self) { note, context in
      begun.set()
      await waitForCancellation()
      try Task.checkCancellation()
      return .done
    }
    try await scheduler.start()
    let id = try fixture.enqueue("long")
    await begun.wait()
    await scheduler.stop()
    let task = try fixture.read { tx in try tx.task(id) }
    #expect(task?.progress.state == .ready && task?.progress.attempt == 0 && task?.errors == [])
  }

  @Test func `an attempt whose claim was removed from the database can't end its task`() async throws {
    for completes in [false, true] {
      let fixture = try TaskFixture()
      let (begun, gate) = (AsyncFlag(), AsyncFlag())
      try fixture.handle { _, context in
        begun.set()
        await gate.wait()
        if !completes { return .done }
        await #expect(throws: TaskError.leaseLost(context.id)) {
          try await context.complete { tx in try tx.set(1, key: 1, in: "effects") }
        }
        throw CancellationError()
      }
      try await fixture.scheduler.start()
      let id = try fixture.enqueue("lost")
      await begun.wait()
      let claim = try #require(fixture.scheduler.dispatcher.run(id)).claimKey
      try await fixture.database.commitIndependently { parts in
        try parts.part("live", of: TaskStorage.handle).delete(claim)
      }
      gate.set()
      await fixture.scheduler.waitUntilIdle()
      #expect(try fixture.state(id) == .ready)
      #expect(try fixture.read { tx in try tx.count(in: "effects") } == 0)
      await fixture.scheduler.stop()
    }
  }

  @Test func `transition 26: a done task with a retention is removed when its time has passed`() async throws {
    let fixture = try TaskFixture()
    try fixture.handle()
    try await fixture.scheduler.start()
    let kept = try fixture.enqueue("kept") { $0.retention = .keep(.seconds(300)) }
    let longer = try fixture.enqueue("longer") { $0.retention = .keep(.seconds(10_000)) }
    await fixture.scheduler.waitUntilIdle()
    #expect(try fixture.state(kept) == .done)
    await fixture.scheduler.advance(fixture.clock, by: .seconds(299))
    try fixture.enqueue("other")
    await fixture.scheduler.waitUntilIdle()
    #expect(try fixture.state(kept) == .done)
    await fixture.scheduler.advance(fixture.clock, by: .seconds(61))
    #expect(try fixture.state(kept) == nil)
    #expect(try fixture.state(longer) == .done)
    #expect(try fixture.count(.done) == 1)
    await fixture.scheduler.stop()
  }

  @Test func `run(until:) interrupts tasks at its deadline, and they continue from their checkpoints in the next run`()
    async throws
  {
    let fixture = try TaskFixture()
    let begun = AsyncFlag()
    try fixture.handle { note, context in
      if note.text == "short" { return .done }
      begun.set()
      await waitForCancellation()
      try await context.checkpoint(7)
      throw CancellationError()
    }
    try fixture.enqueue("short")
    let id = try fixture.enqueue("long")
    async let isRun: Void = fixture.scheduler.run(until: .seconds(20))
    await begun.wait()
    fixture.clock.advance(by: .seconds(20))
    try await isRun
    #expect(fixture.lines.take() == ["short", "long"])
    #expect(try fixture.state(id) == .ready)
    // The next run continues from the checkpoint.
    let again = try TaskFixture(fixture.database, clock: fixture.clock, lines: fixture.lines)
    try again.handle { _, context in
      let step = try context.restored(Int.self)
      return step == 7 ? .done : .discard("its checkpoint is \(step ?? 0)")
    }
    try await again.scheduler.start()
    await again.scheduler.waitUntilIdle()
    #expect(try again.state(id) == nil)
    #expect(try again.rowCount() == 0)
    await again.scheduler.stop()
  }

  @Test func `the last checkpoint of a task survives failures, and is removed with the task`() async throws {
    let fixture = try TaskFixture()
    try fixture.handle { _, context in
      let done = try context.restored(Int.self) ?? 0
      #expect(done == (context.attempt - 1) * 2)
      if context.attempt == 3 { return .done }
      try await context.checkpoint(done + 1)
      try await context.checkpoint(done + 2)
      let last = try context.restored(Int.self)
      #expect(last == done + 2)
      throw Broken()
    }
    try await fixture.scheduler.start()
    try fixture.enqueue("steps")
    for _ in 0..<3 { await fixture.scheduler.advance(fixture.clock, by: .seconds(10)) }
    #expect(fixture.lines.take().count == 3)
    #expect(try fixture.rowCount() == 0)
    await fixture.scheduler.stop()
  }

  @Test func `a task whose payload can't be decoded is parked, and runs when a program can decode it`() async throws {
    struct Old: TaskPayload {
      static let kind = "note"
      static let version: UInt16 = 2
      var number: Int
    }
    let fixture = try TaskFixture()
    let id = try fixture.write { tx in try tx.enqueue(Old(number: 1)).id }
    try fixture.handle()
    try await fixture.scheduler.start()
    await fixture.scheduler.waitUntilIdle()
    let task = try fixture.read { tx in try tx.task(id) }
    #expect(task?.progress.state == .parked)
    #expect(task?.errors.first?.contains("has version 2, and the program reads version 1") == true)
    await fixture.scheduler.stop()
    let again = try TaskFixture(fixture.database, clock: fixture.clock, lines: fixture.lines)
    try again.scheduler.register(Old.self) { _, _ in .done }
    try await again.scheduler.start()
    #expect(try again.write { tx in try tx.retryNow(.parked("default")) } == 1)
    await again.scheduler.waitUntilIdle()
    #expect(try again.state(id) == nil)
    await again.scheduler.stop()
  }

  @Test func `tasks run while a transaction holds the writer`() async throws {
    let fixture = try TaskFixture(workers: 4)
    try fixture.handle()
    for number in 0..<100 { try fixture.enqueue("\(number)") }
    let open = await OpenTransaction(fixture) { tx in try tx.set(1, key: 1, in: "rows") }
    try await fixture.scheduler.start()
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take().count == 100)
    try await open.finish()
    #expect(try fixture.read { tx in try tx.count(in: "rows") } == 1)
    await fixture.scheduler.stop()
  }

  @Test func `a task that an open transaction has cancelled is not claimed, until a rollback restores it`() async throws
  {
    for isSerial in [false, true] {
      let fixture = try TaskFixture(rules: .all(isSerial: isSerial), workers: 4)
      try fixture.handle()
      let ids = try (0..<3).map { try fixture.enqueue("\($0)") }
      let open = await OpenTransaction(fixture, isUndone: true) { tx in _ = try tx.cancel(.id(ids[0])) }
      try await fixture.scheduler.start()
      await fixture.scheduler.waitUntilIdle()
      // No task passes the head of a serial queue. Without one, two workers begin at once, in either order.
      #expect(fixture.lines.take().sorted() == (isSerial ? [] : ["1", "2"]))
      try await open.finish()
      await fixture.poll { try fixture.state(ids[0]) == nil }
      await fixture.scheduler.waitUntilIdle()
      #expect(fixture.lines.take() == (isSerial ? ["0", "1", "2"] : ["0"]))
      await fixture.scheduler.stop()
    }
  }

  @Test func `a task that becomes due while an open transaction cancels it runs only after a rollback`() async throws {
    for isKept in [false, true] {
      let fixture = try TaskFixture()
      try fixture.handle()
      let id = try fixture.enqueue("later") { $0.start = .after(.seconds(5)) }
      try await fixture.scheduler.start()
      let isCommitted = Flag()
      let open = await OpenTransaction(fixture, isUndone: isKept) { tx in
        try tx.cancel(.id(id))
        tx.onCommit { isCommitted.set() }
      }
      await fixture.scheduler.advance(fixture.clock, by: .seconds(10))
      #expect(fixture.lines.take() == [])
      try await open.finish()
      await fixture.poll { try fixture.state(id) == nil }
      await fixture.scheduler.waitUntilIdle()
      #expect(isCommitted.isSet == !isKept)
      #expect(fixture.lines.take() == (isKept ? ["later"] : []))
      await fixture.scheduler.stop()
    }
  }

  @Test func `layout 10: more timers than are kept in memory fire when they are due`() async throws {
    let fixture = try TaskFixture()
    try fixture.handle()
    let count = 6_000
    try fixture.write { tx in
      for number in 0..<count {
        var options = TaskOptions()
        options.start = .after(.seconds(count - number))
        try tx.enqueue(Note("\(count - number)"), options)
      }
    }
    try await fixture.scheduler.start()
    // Each time, the due tasks run in the order in which they were enqueued, and no others.
    for round in 0..<6 {
      await fixture.scheduler.advance(fixture.clock, by: .seconds(1_000))
      let found = fixture.lines.take().compactMap { Int($0) }
      #expect(Set(found) == Set((round * 1_000 + 1)...(round * 1_000 + 1_000)) && found.count == 1_000)
    }
    await fixture.scheduler.stop()
  }

  @Test func `a start date follows the wall clock, and a restart with a clock set back does not extend a delay`()
    async throws
  {
    let fixture = try TaskFixture()
    try fixture.handle()
    try fixture.enqueue("date") { $0.start = .at(fixture.clock.wallNow + 3_600) }
    try fixture.enqueue("delay") { $0.start = .after(.seconds(100)) }
    // The machine starts again with a clock that was set back by ten years.
    let clock = ManualSchedulerClock(wall: fixture.clock.wallNow - 315_360_000)
    let again = try TaskFixture(fixture.database, clock: clock, lines: fixture.lines)
    try again.handle()
    try await again.scheduler.start()
    await again.scheduler.advance(clock, by: .seconds(99))
    #expect(fixture.lines.take() == [])
    await again.scheduler.advance(clock, by: .seconds(1))
    #expect(fixture.lines.take() == ["delay"])
    clock.setWall(fixture.clock.wallNow + 3_600)
    await again.scheduler.advance(clock, by: .seconds(60))
    #expect(fixture.lines.take() == ["date"])
    await again.scheduler.stop()
  }

  @Test func `layout 14: each of n queues with one task starts it within n + 1 starts, despite a queue of many tasks`()
    async throws
  {
    let (many, queues) = (TestScale.count(10_000), TestScale.count(1_000))
    let fixture = try TaskFixture(workers: 1)
    try fixture.handle()
    // From the first one on, handlers are known to be short: then more tasks are claimed than run.
    try await fixture.scheduler.start()
    try fixture.enqueue("first")
    await fixture.scheduler.waitUntilIdle()
    _ = fixture.lines.take()
    try fixture.write { tx in
      for number in 0..<many { try tx.enqueue(Note("big \(number)"), TaskOptions(queue: "big")) }
      for number in 0..<queues { try tx.enqueue(Note("small"), TaskOptions(queue: QueueName("small-\(number)"))) }
    }
    await fixture.scheduler.waitUntilIdle()
    let lines = fixture.lines.take()
    #expect(lines.count == many + queues)
    let last = try #require(lines.lastIndex(of: "small"))
    #expect(last <= queues, "the last of the small queues began as number \(last + 1)")
    await fixture.scheduler.stop()
  }

  @Test func `empty queues keep only their names in memory, and no timer`() async throws {
    let queues = TestScale.count(5_000)
    var rules = QueueRules(order: .standard, concurrency: 2)
    rules.ageing = .seconds(5)
    rules.rate = .init(count: 1_000_000, per: .seconds(1))
    let fixture = try TaskFixture(rules: [.prefix("aged"): rules], workers: 4)
    try fixture.handle()
    try await fixture.scheduler.start()
    try fixture.write { tx in
      for number in 0..<queues {
        try tx.enqueue(
          Note("task"), TaskOptions(queue: QueueName(number.isMultiple(of: 9) ? "aged-\(number)" : "\(number)")))
      }
    }
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take().count == queues)
    await fixture.scheduler.advance(fixture.clock, by: .seconds(10))
    let dispatcher = fixture.scheduler.dispatcher
    #expect(
      dispatcher.state.withLock {
        $0.subqueues.count + $0.subqueues.turns.count + $0.running.runs.count + $0.running.ahead.count
      } == 0)
    // The tokens of the last queues had not been refilled when their subqueues were removed.
    #expect(dispatcher.state.withLock { $0.subqueues.queues.count } < queues / 4)
    #expect(dispatcher.nextDeadline == nil)
    await fixture.scheduler.stop()
  }
}
