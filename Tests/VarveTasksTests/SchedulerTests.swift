import EngineTestSupport
import Foundation
import Testing
import Varve
import VarveTestSupport
import VarveTesting

@_spi(Extensions) @testable import VarveTasks

/// Tests of the work of a scheduler.
struct SchedulerTests {
  @Test func `transition 1 and 9: an enqueued task runs after the commit, and is removed when it is done`() async throws
  {
    let fixture = try TaskFixture()
    try fixture.handle()
    try await fixture.scheduler.start()
    let id = try fixture.write { tx in
      let id = try tx.enqueue(Note("one")).id
      #expect(try tx.task(id)?.progress.state == .ready)
      #expect(try tx.taskCount(in: "default", .ready) == 1)
      return id
    }
    await fixture.scheduler.runUntilIdle()
    #expect(fixture.lines.take() == ["one"])
    #expect(try fixture.state(id) == nil)
    #expect(try fixture.count(.ready) == 0)
    try await fixture.close()
  }

  @Test func `a task enqueued in a transaction or savepoint that is rolled back never runs`() async throws {
    let fixture = try TaskFixture()
    try fixture.handle()
    try await fixture.scheduler.start()
    #expect(throws: Undo.self) {
      try fixture.write { tx in
        try tx.enqueue(Note("never"))
        throw Undo()
      }
    }
    try fixture.write { tx in
      try tx.enqueue(Note("first"))
      try? tx.savepoint {
        try tx.enqueue(Note("undone"))
        throw Undo()
      }
      try tx.enqueue(Note("second"))
    }
    await fixture.scheduler.runUntilIdle()
    #expect(fixture.lines.take() == ["first", "second"])
    await fixture.scheduler.stop()
  }

  @Test func `tasks run by priority, sort key and commit`() async throws {
    let fixture = try TaskFixture()
    try fixture.enqueue("d")
    try fixture.enqueue("f") { $0.sortKey = SortKey(7) }
    try fixture.enqueue("e") { $0.sortKey = SortKey(-7) }
    try fixture.enqueue("a") { $0.priority = 0 }
    try fixture.enqueue("g") { $0.priority = 255 }
    try fixture.write { tx in
      var options = TaskOptions()
      options.priority = 10
      try tx.enqueue(contentsOf: [Note("b"), Note("c")], options)
    }
    try fixture.handle()
    try await fixture.scheduler.start()
    await fixture.scheduler.runUntilIdle()
    #expect(fixture.lines.take() == ["a", "b", "c", "d", "e", "f", "g"])
    await fixture.scheduler.stop()
  }

  @Test func `transition 2 and 5: a task with a start date or a delay starts at that time, and not before`()
    async throws
  {
    let fixture = try TaskFixture()
    try fixture.handle()
    try await fixture.scheduler.start()
    let later = try fixture.enqueue("after") { $0.start = .after(.seconds(60)) }
    try fixture.enqueue("at") { $0.start = .at(fixture.clock.wallNow + 30) }
    try fixture.enqueue("passed") { $0.start = .at(fixture.clock.wallNow - 30) }
    await fixture.scheduler.runUntilIdle()
    #expect(fixture.lines.take() == ["passed"])
    #expect(try fixture.state(later) == .scheduled)
    await fixture.scheduler.advance(fixture.clock, by: .milliseconds(29_999))
    #expect(fixture.lines.take() == [])
    await fixture.scheduler.advance(fixture.clock, by: .milliseconds(1))
    #expect(fixture.lines.take() == ["at"])
    // A delay does not depend on the wall clock.
    fixture.clock.setWall(fixture.clock.wallNow - 100_000)
    await fixture.scheduler.advance(fixture.clock, by: .seconds(30))
    #expect(fixture.lines.take() == ["after"])
    await fixture.scheduler.stop()
  }

  @Test func `transition 11: a task that fails waits, lets others pass, and keeps its position`() async throws {
    let fixture = try TaskFixture()
    try fixture.handle { note, context in
      if note.text == "fails", context.attempt == 1 { throw Broken() }
      return .done
    }
    try await fixture.scheduler.start()
    let id = try fixture.enqueue("fails")
    try fixture.enqueue("other")
    await fixture.scheduler.runUntilIdle()
    #expect(fixture.lines.take() == ["fails", "other"])
    let info = try fixture.read { tx in try tx.task(id) }
    #expect(info?.progress.state == .retryWait && info?.progress.failures == 1 && info?.errors == ["Broken()"])
    await fixture.scheduler.advance(fixture.clock, by: .seconds(10))
    #expect(fixture.lines.take() == ["fails"])
    #expect(try fixture.state(id) == nil)
    await fixture.scheduler.stop()
  }

  @Test func `transition 11: a serial queue waits for the task that failed`() async throws {
    let fixture = try TaskFixture(rules: [.all: QueueRules(order: .serial())], workers: 8)
    try fixture.handle { note, context in
      if note.text == "fails", context.attempt < 3 { throw Broken() }
      return .done
    }
    try await fixture.scheduler.start()
    try fixture.enqueue("fails")
    try fixture.enqueue("other")
    await fixture.scheduler.runUntilIdle()
    // A task that sorts before the waiting one still comes after it.
    try fixture.enqueue("before") { $0.priority = 0 }
    await fixture.scheduler.runUntilIdle()
    #expect(fixture.lines.take() == ["fails"])
    await fixture.scheduler.advance(fixture.clock, by: .seconds(10))
    #expect(fixture.lines.take() == ["fails"])
    // The task's position survives a restart.
    await fixture.scheduler.stop()
    let again = try TaskFixture(
      fixture.database, rules: [.all: QueueRules(order: .serial())], workers: 8, clock: fixture.clock,
      lines: fixture.lines)
    try again.handle()
    try await again.scheduler.start()
    await again.scheduler.advance(fixture.clock, by: .seconds(10))
    #expect(fixture.lines.take() == ["fails", "before", "other"])
    await again.scheduler.stop()
  }

  @Test func `transition 15: a task without an attempt left is dead, and blocks a serial queue until it is revived`()
    async throws
  {
    let fixture = try TaskFixture(rules: [.all: QueueRules(order: .serial())])
    let isMended = Flag()
    try fixture.handle { note, _ in
      if note.text == "fails", !isMended.isSet { throw Broken() }
      return .done
    }
    try await fixture.scheduler.start()
    let id = try fixture.enqueue("fails") { $0.maxAttempts = 1 }
    try fixture.enqueue("other")
    await fixture.scheduler.runUntilIdle()
    #expect(fixture.lines.take() == ["fails"])
    #expect(
      fixture.scheduler.blockedQueues == [BlockedTaskQueue(queue: "default", task: id, state: .dead)])
    #expect(try fixture.read { tx in try tx.blockedTaskQueues() } == fixture.scheduler.blockedQueues)
    isMended.set()
    #expect(try fixture.write { tx in try tx.revive(.dead("default")) } == 1)
    await fixture.scheduler.runUntilIdle()
    #expect(fixture.lines.take() == ["fails", "other"])
    #expect(try fixture.read { tx in try tx.blockedTaskQueues() } == [])
    await fixture.scheduler.stop()
  }

  @Test func `transition 13 and 22: a parked task waits for its signal`() async throws {
    let fixture = try TaskFixture()
    try fixture.handle { note, context in context.attempt == 1 ? .park(wakeOn: ["network"]) : .done }
    try await fixture.scheduler.start()
    let id = try fixture.enqueue("send")
    await fixture.scheduler.runUntilIdle()
    #expect(try fixture.state(id) == .parked)
    #expect(try fixture.write { tx in try tx.signal("other") } == 0)
    #expect(try fixture.write { tx in try tx.signal("network") } == 1)
    await fixture.scheduler.runUntilIdle()
    #expect(fixture.lines.take() == ["send", "send"])
    #expect(try fixture.state(id) == nil)
    #expect(try fixture.write { tx in try tx.signal("network") } == 0)
    await fixture.scheduler.stop()
  }

  @Test func `transition 18: a waiting task is cancelled at once, even one that the same transaction has enqueued`()
    async throws
  {
    let fixture = try TaskFixture()
    try fixture.handle()
    let id = try fixture.enqueue("one")
    let other = try fixture.enqueue("later") { $0.start = .after(.seconds(5)) }
    try fixture.write { tx in
      let own = try tx.enqueue(Note("own")).id
      #expect(try tx.cancel(.id(own)) == 1)
      #expect(try tx.cancel(.id(id)) == 1)
      #expect(try tx.cancel(.id(other)) == 1)
      #expect(try tx.cancel(.id(other)) == 0)
      try tx.enqueue(Note("two"))
    }
    try await fixture.scheduler.start()
    await fixture.scheduler.advance(fixture.clock, by: .seconds(10))
    #expect(fixture.lines.take() == ["two"])
    await fixture.scheduler.stop()
  }

  @Test
  func `transition 17: a task that was cancelled while it runs is cancelled if its handler throws, and else done`()
    async throws
  {
    for isDone in [true, false] {
      let fixture = try TaskFixture()
      let begun = AsyncFlag()
      try fixture.handle { _, context in
        begun.set()
        await waitForCancellation()
        #expect(context.isCancelled)
        if isDone { return .done }
        throw CancellationError()
      }
      try await fixture.scheduler.start()
      let id = try fixture.enqueue("runs") { $0.retention = .keep(.seconds(100)) }
      await begun.wait()
      #expect(try fixture.state(id) == .running)
      #expect(try fixture.write { tx in try tx.cancel(.id(id)) } == 1)
      await fixture.scheduler.runUntilIdle()
      #expect(try fixture.state(id) == (isDone ? .done : .cancelled))
      await fixture.scheduler.stop()
    }
  }

  @Test func `transition 10 and 17: complete throws after the task was cancelled, and its effect is rolled back`()
    async throws
  {
    let fixture = try TaskFixture()
    let begun = AsyncFlag()
    try fixture.handle { note, context in
      begun.set()
      await waitForCancellation()
      await #expect(throws: TaskError.leaseLost(context.id)) {
        try await context.complete { tx in try tx.set(1, key: note.text, in: "effects") }
      }
      throw CancellationError()
    }
    try await fixture.scheduler.start()
    let id = try fixture.enqueue("runs") { $0.retention = .keep(.seconds(100)) }
    await begun.wait()
    #expect(try fixture.write { tx in try tx.cancel(.id(id)) } == 1)
    await fixture.scheduler.runUntilIdle()
    #expect(try fixture.state(id) == .cancelled)
    #expect(try fixture.read { tx in try tx.count(in: "effects") } == 0)
    await fixture.scheduler.stop()
  }

  @Test func `transition 16: an attempt that exceeds its timeout fails, and its late return has no effect`()
    async throws
  {
    let fixture = try TaskFixture(workers: 2)
    let gate = AsyncFlag()
    let begun = AsyncFlag()
    try fixture.handle { note, context in
      if context.attempt == 1 {
        begun.set()
        await gate.wait()
        #expect(throws: TaskError.self) { try context.heartbeat() }
        await #expect(throws: TaskError.self) { try await context.complete { _ in } }
        return .done
      }
      return .discard("for good")
    }
    try await fixture.scheduler.start()
    let id = try fixture.enqueue("slow") { $0.timeout = .seconds(5) }
    await begun.wait()
    fixture.clock.suspend(for: .seconds(100))
    fixture.clock.advance(by: .seconds(5))
    await fixture.poll { try fixture.state(id) == .retryWait }
    gate.set()
    await fixture.scheduler.runUntilIdle()
    await fixture.scheduler.advance(fixture.clock, by: .seconds(10))
    #expect(try fixture.state(id) == .dead)
    #expect(fixture.lines.take() == ["slow", "slow"])
    await fixture.scheduler.stop()
  }

  @Test func `transition 23: a revived task that died as the head of its serial queue runs after the current head`()
    async throws
  {
    let fixture = try TaskFixture(rules: [.all: QueueRules(order: .serial(onDead: .skip))])
    try fixture.handle { note, context in
      if note.text == "old", context.attempt == 2 { return .discard("no") }
      if context.failures == 0 { throw Broken() }
      return .done
    }
    try await fixture.scheduler.start()
    let old = try fixture.enqueue("old")
    await fixture.scheduler.waitUntilIdle()
    await fixture.scheduler.advance(fixture.clock, by: .seconds(10))
    #expect(try fixture.state(old) == .dead)
    let head = try fixture.enqueue("head") { $0.priority = 255 }
    await fixture.scheduler.waitUntilIdle()
    #expect(try fixture.state(head) == .retryWait)
    #expect(fixture.lines.take() == ["old", "old", "head"])
    #expect(try fixture.write { tx in try tx.revive(.id(old)) } == 1)
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take().isEmpty)
    await fixture.scheduler.advance(fixture.clock, by: .seconds(10))
    #expect(fixture.lines.take() == ["head", "old"])
    await fixture.scheduler.stop()
  }

  @Test func `transition 14: an attempt that snoozes its task does not count`() async throws {
    let fixture = try TaskFixture()
    try fixture.handle { _, context in
      #expect(context.attempt == 1)
      return context.failures == 0 && fixture.clock.continuousNow < .seconds(20) ? .snooze(for: .seconds(15)) : .done
    }
    try await fixture.scheduler.start()
    let id = try fixture.enqueue("later") { $0.maxAttempts = 1 }
    await fixture.scheduler.runUntilIdle()
    #expect(try fixture.state(id) == .scheduled)
    await fixture.scheduler.advance(fixture.clock, by: .seconds(15))
    await fixture.scheduler.advance(fixture.clock, by: .seconds(15))
    #expect(try fixture.state(id) == nil)
    #expect(fixture.lines.take() == ["later", "later", "later"])
    await fixture.scheduler.stop()
  }

  @Test func `transition 10: the writes of complete and the end of the task are committed together`() async throws {
    let fixture = try TaskFixture()
    try fixture.handle { note, context in
      do {
        try await context.complete { tx in
          try tx.set(1, key: "half", in: "effects")
          throw Broken()
        }
      } catch is Broken {}
      try await context.complete { tx in try tx.set(1, key: note.text, in: "effects") }
      // After the first call, there is nothing left to complete.
      await #expect(throws: TaskError.self) { try await context.complete { _ in } }
      throw Broken()
    }
    try await fixture.scheduler.start()
    let id = try fixture.enqueue("done")
    await fixture.scheduler.runUntilIdle()
    #expect(try fixture.state(id) == nil)
    #expect(try fixture.read { tx in try tx.keys(String.self, in: "effects") } == ["done"])
    await fixture.scheduler.stop()
  }

  @Test func `tasks without a handler wait until one is registered, and other tasks pass them`() async throws {
    let fixture = try TaskFixture()
    try fixture.handle()
    try await fixture.scheduler.start()
    try fixture.write { tx in
      for _ in 0..<3 { try tx.enqueue(Other()) }
      try tx.enqueue(Note("note"))
    }
    await fixture.scheduler.runUntilIdle()
    #expect(fixture.lines.take() == ["note"])
    #expect(fixture.scheduler.unhandledKinds == ["other"])
    let lines = fixture.lines
    try fixture.scheduler.register(Other.self) { _, _ in
      lines.add("other")
      return .done
    }
    await fixture.scheduler.runUntilIdle()
    #expect(fixture.lines.take() == ["other", "other", "other"])
    #expect(throws: TaskError.self) { try fixture.scheduler.register(Other.self, on: .named("x")) { _, _ in .done } }
    await fixture.scheduler.stop()
  }

  @Test func `a thousand tasks of several queues run once each, by many workers`() async throws {
    let fixture = try TaskFixture(rules: [.prefix("s"): QueueRules(order: .serial())], workers: 8)
    try fixture.handle()
    try await fixture.scheduler.start()
    var expected: [String] = []
    for round in 0..<10 {
      try fixture.write { tx in
        for number in 0..<100 {
          let text = "\(round) \(number)"
          expected.append(text)
          try tx.enqueue(
            Note(text), TaskOptions(queue: QueueName(number % 2 == 0 ? "s\(number % 6)" : "p\(number % 5)")))
        }
      }
    }
    await fixture.scheduler.runUntilIdle()
    #expect(fixture.lines.take().sorted() == expected.sorted())
    await fixture.scheduler.stop()
  }

  @Test func `more tasks than are kept in memory run in their order`() async throws {
    let fixture = try TaskFixture()
    try fixture.handle()
    try fixture.write { tx in
      for number in 0..<3_000 {
        var options = TaskOptions()
        options.sortKey = SortKey(Int64(3_000 - number))
        try tx.enqueue(Note("\(3_000 - number)"), options)
      }
    }
    try await fixture.scheduler.start()
    try fixture.write { tx in
      for number in 3_001...6_000 {
        var options = TaskOptions()
        options.sortKey = SortKey(Int64(number))
        try tx.enqueue(Note("\(number)"), options)
      }
    }
    await fixture.scheduler.runUntilIdle()
    #expect(fixture.lines.take() == (1...6_000).map { "\($0)" })
    await fixture.scheduler.stop()
  }

  @Test func `an idle scheduler sleeps without being woken`() async throws {
    let fixture = try TaskFixture()
    try fixture.handle()
    try await fixture.scheduler.start()
    for _ in 0..<5 { try fixture.enqueue("x") }
    await fixture.scheduler.runUntilIdle()
    #expect(fixture.clock.sleepCount == 0)
    await fixture.scheduler.stop()
  }

  @Test func `a paused queue starts no task, even after a restart`() async throws {
    let fixture = try TaskFixture()
    try fixture.handle()
    try await fixture.scheduler.start()
    try fixture.write { tx in try tx.pause("default") }
    try fixture.enqueue("waits")
    await fixture.scheduler.runUntilIdle()
    await fixture.scheduler.stop()
    let again = try TaskFixture(fixture.database, clock: fixture.clock, lines: fixture.lines)
    try again.handle()
    try await again.scheduler.start()
    await again.scheduler.runUntilIdle()
    #expect(fixture.lines.take() == [])
    try fixture.write { tx in try tx.resume("default") }
    await again.scheduler.runUntilIdle()
    #expect(fixture.lines.take() == ["waits"])
    await again.scheduler.stop()
  }

  @Test func `a second scheduler of a database can't start while the first one runs`() async throws {
    let fixture = try TaskFixture()
    try await fixture.scheduler.start()
    let other = try TaskFixture(fixture.database)
    await #expect(throws: TaskError.self) { try await other.scheduler.start() }
    await fixture.scheduler.stop()
    try await other.scheduler.start()
    await other.scheduler.stop()
  }
}
