import Foundation
import Testing
import Varve
import VarveTestSupport
import VarveTesting

@_spi(Extensions) @testable import VarveTasks

/// Tests of how many tasks run at once, and of how often they begin.
struct LimitTests {
  private static func keyed(_ queue: QueueName, _ key: String?) -> TaskOptions {
    var options = TaskOptions(queue: queue)
    options.limitKey = key
    return options
  }

  @Test func `the numbers of running tasks of a key and of a queue do not exceed their limits`() async throws {
    var rules = QueueRules(order: .standard, concurrency: 5)
    rules.perKey = 2
    let fixture = try TaskFixture(rules: [.all: rules], workers: 16)
    let gauge = Gauge()
    let areAllBusy = AsyncFlag()
    try fixture.handle { note, context in
      let key = context.run.record.extras.limitKey ?? "none"
      gauge.add(1, key)
      // The first handlers wait for each other: one at a time could otherwise run.
      if gauge.add(1, "all") == 5 { areAllBusy.set() }
      await areAllBusy.wait()
      for _ in 0..<20 { await Task.yield() }
      gauge.add(-1, key)
      gauge.add(-1, "all")
      return .done
    }
    try fixture.write { tx in
      for number in 0..<2_000 {
        let key = ["a", "b", "c", nil][min(number / 400, 3)]
        try tx.enqueue(Note("\(number)"), Self.keyed("q", key))
      }
    }
    try await fixture.scheduler.start()
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take().count == 2_000)
    for key in ["a", "b", "c"] { #expect(1...2 ~= gauge.most(key)) }
    #expect(gauge.most("all") == 5)
    #expect(try fixture.count(.ready, in: "q") == 0)
    await fixture.scheduler.stop()
  }

  @Test func `the error of a transaction with too many tasks says to split it, and speaks of no rows`() throws {
    var options = DatabaseOptions.patient
    options.transactionBytes = 16 << 20
    let database = try Database.inMemory(definition: DatabaseDefinition { TaskStorage.handle }, options: options)
    let text = String(repeating: "x", count: 4_000)
    let error = #expect(throws: DatabaseError.self) {
      try database.write { tx in for _ in 0..<10_000 { _ = try tx.enqueue(Note(text)) } }
    }
    #expect(error?.code == .batchTooLarge)
    let message = error?.message ?? ""
    for words in ["16777216 bytes", "transactionBytes", "extension \"tasks\"", "split it into several transactions"] {
      #expect(message.contains(words), "\(message)")
    }
    for words in ["row", "insert(bulk:)", "inBatchesOf:"] { #expect(!message.contains(words), "\(message)") }
    #expect(try database.read { tx in try tx.tasks(.all).count } == 0)
    try database.close()
  }

  @Test func `no more handlers run at once than there are workers, over all queues, and as many do`() async throws {
    let fixture = try TaskFixture(rules: [.prefix("serial"): QueueRules(order: .serial())], workers: 3)
    let gauge = Gauge()
    let areAllBusy = AsyncFlag()
    try fixture.handle { _, _ in
      gauge.add(1, "all")
      // The first handlers wait for each other: one worker could otherwise run all tasks.
      if gauge.most("all") >= 3 { areAllBusy.set() }
      await areAllBusy.wait()
      for _ in 0..<20 { await Task.yield() }
      gauge.add(-1, "all")
      return .done
    }
    let queues: [QueueName] = ["a", "b", "c", "serial 1", "serial 2"]
    try fixture.write { tx in
      for number in 0..<500 { try tx.enqueue(Note("\(number)"), TaskOptions(queue: queues[number % queues.count])) }
    }
    try await fixture.scheduler.start()
    await fixture.scheduler.waitUntilIdle()
    #expect(gauge.most("all") == 3)
    #expect(fixture.lines.take().count == 500)
    await fixture.scheduler.stop()
  }

  @Test func `a serial queue runs the tasks of each key in their order, and a head that fails blocks its key alone`()
    async throws
  {
    let fixture = try TaskFixture(rules: [.all: QueueRules(order: .serial(), concurrency: 3)], workers: 8)
    try fixture.handle { note, context in
      if note.text == "a0", context.failures == 0 { throw CancellationError() }
      return .done
    }
    try fixture.write { tx in
      for number in 0..<3 {
        for key in ["a", "b"] { try tx.enqueue(Note("\(key)\(number)"), Self.keyed("q", key)) }
      }
    }
    try await fixture.scheduler.start()
    await fixture.scheduler.waitUntilIdle()
    var lines = fixture.lines.take()
    #expect(lines.filter { $0.hasPrefix("b") } == ["b0", "b1", "b2"] && lines.filter { $0.hasPrefix("a") } == ["a0"])
    await fixture.scheduler.advance(fixture.clock, by: .seconds(10))
    lines = fixture.lines.take()
    #expect(lines == ["a0", "a1", "a2"])
    await fixture.scheduler.stop()
  }

  @Test func `a rate starts a burst of tasks and then one per interval, even after a restart`() async throws {
    var rules = QueueRules()
    rules.rate = QueueRules.Rate(count: 2, per: .seconds(1), burst: 3)
    let fixture = try TaskFixture(rules: [.all: rules], workers: 8)
    try fixture.handle()
    for number in 0..<20 { try fixture.enqueue("\(number)") }
    try await fixture.scheduler.start()
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take().count == 3)
    await fixture.scheduler.advance(fixture.clock, by: .milliseconds(499))
    #expect(fixture.lines.take().isEmpty)
    await fixture.scheduler.advance(fixture.clock, by: .milliseconds(1))
    #expect(fixture.lines.take().count == 1)
    await fixture.scheduler.advance(fixture.clock, by: .seconds(1))
    #expect(fixture.lines.take().count >= 1)
    for _ in 0..<4 { await fixture.scheduler.advance(fixture.clock, by: .milliseconds(500)) }
    _ = fixture.lines.take()
    await fixture.scheduler.stop()
    let next = try TaskFixture(fixture.database, rules: [.all: rules], workers: 8, clock: fixture.clock)
    try next.handle()
    try await next.scheduler.start()
    await next.scheduler.waitUntilIdle()
    #expect(next.lines.take().isEmpty)
    await next.scheduler.stop()
  }

  @Test func `setting the wall clock neither delays the next token of a rate nor adds one`() async throws {
    var rules = QueueRules()
    rules.rate = QueueRules.Rate(count: 1, per: .seconds(3_600))
    let fixture = try TaskFixture(rules: [.all: rules], workers: 8)
    try fixture.handle()
    for number in 0..<5 { try fixture.enqueue("\(number)") }
    try await fixture.scheduler.start()
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take() == ["0"])
    await fixture.scheduler.advance(fixture.clock, by: .seconds(3_000))
    fixture.clock.setWall(fixture.clock.wallNow.addingTimeInterval(-7_200))
    await fixture.scheduler.advance(fixture.clock, by: .seconds(599))
    #expect(fixture.lines.take().isEmpty)
    await fixture.scheduler.advance(fixture.clock, by: .seconds(1))
    #expect(fixture.lines.take() == ["1"])
    fixture.clock.setWall(fixture.clock.wallNow.addingTimeInterval(7_200))
    await fixture.scheduler.advance(fixture.clock, by: .seconds(3_599))
    #expect(fixture.lines.take().isEmpty)
    await fixture.scheduler.advance(fixture.clock, by: .seconds(1))
    #expect(fixture.lines.take() == ["2"])

    // What is on disk is a time of day: half of the next token is there after a restart.
    await fixture.scheduler.advance(fixture.clock, by: .seconds(1_800))
    await fixture.scheduler.stop()
    let next = try TaskFixture(
      fixture.database, rules: [.all: rules], workers: 8, clock: ManualSchedulerClock(), lines: fixture.lines)
    next.clock.setWall(fixture.clock.wallNow)
    try next.handle()
    try await next.scheduler.start()
    await next.scheduler.advance(next.clock, by: .seconds(1_799))
    #expect(fixture.lines.take().isEmpty)
    await next.scheduler.advance(next.clock, by: .seconds(1))
    #expect(fixture.lines.take() == ["3"])
    await next.scheduler.stop()
  }

  @Test func `a burst is spent once, however often the scheduler is started`() async throws {
    var rules = QueueRules()
    rules.rate = QueueRules.Rate(count: 20, per: .seconds(3_600))
    let fixture = try TaskFixture(rules: [.all: rules], workers: 8)
    for number in 0..<60 { try fixture.enqueue("\(number)") }
    for round in 0..<3 {
      let next = try TaskFixture(fixture.database, rules: [.all: rules], workers: 8, clock: fixture.clock)
      try next.handle()
      try await next.scheduler.start()
      await next.scheduler.waitUntilIdle()
      #expect(next.lines.take().count == (round == 0 ? 20 : 0))
      await next.scheduler.stop()
    }
  }

  @Test func `a rate per key does not delay the tasks of other keys`() async throws {
    var rules = QueueRules()
    rules.ratePerKey = QueueRules.Rate(count: 1, per: .seconds(10))
    let fixture = try TaskFixture(rules: [.all: rules], workers: 8)
    try fixture.handle()
    try fixture.write { tx in
      for number in 0..<3 {
        for key in ["a", "b"] { try tx.enqueue(Note("\(key)\(number)"), Self.keyed("q", key)) }
      }
      try tx.enqueue(Note("free"), Self.keyed("q", nil))
    }
    try await fixture.scheduler.start()
    await fixture.scheduler.waitUntilIdle()
    #expect(Set(fixture.lines.take()) == ["a0", "b0", "free"])
    await fixture.scheduler.advance(fixture.clock, by: .seconds(10))
    #expect(Set(fixture.lines.take()) == ["a1", "b1"])
    await fixture.scheduler.stop()
  }

  @Test func `a full queue and a draining queue refuse new tasks`() async throws {
    var rules = QueueRules()
    rules.maxWaiting = 3
    let fixture = try TaskFixture(rules: [.named("small"): rules])
    try fixture.handle()
    try await fixture.scheduler.start()
    try fixture.write { tx in
      try tx.pause("small")
      for number in 0..<3 { try tx.enqueue(Note("\(number)"), TaskOptions(queue: "small")) }
      #expect(throws: TaskError.queueFull("small", limit: 3)) {
        try tx.enqueue(Note("x"), TaskOptions(queue: "small"))
      }
      try tx.drain("small")
    }
    #expect(throws: TaskError.queueDraining("small")) {
      try fixture.write { tx in try tx.enqueue(Note("x"), TaskOptions(queue: "small")) }
    }
    #expect(try fixture.read { tx in try tx.taskQueueState("small") } == (true, true))
    await fixture.scheduler.stop()
    let next = try TaskFixture(fixture.database, rules: [.named("small"): rules], clock: fixture.clock)
    try next.handle()
    try await next.scheduler.start()
    #expect(throws: TaskError.queueDraining("small")) {
      try next.write { tx in try tx.enqueue(Note("x"), TaskOptions(queue: "small")) }
    }
    try next.write { tx in try tx.resume("small") }
    try next.write { tx in try tx.drain("small") }
    await next.scheduler.waitUntilIdle()
    #expect(next.lines.take().count == 3)
    try next.write { tx in try tx.resume("small") }
    try next.write { tx in try tx.enqueue(Note("y"), TaskOptions(queue: "small")) }
    await next.scheduler.waitUntilIdle()
    #expect(next.lines.take() == ["y"])
    await next.scheduler.stop()
  }

  @Test func `a waiting task gains priority if its queue ages`() async throws {
    var rules = QueueRules(order: .standard, concurrency: 1)
    rules.ageing = .seconds(10)
    let fixture = try TaskFixture(rules: [.all: rules])
    try fixture.handle()
    try await fixture.scheduler.start()
    try fixture.write { tx in try tx.pause("default") }
    try fixture.enqueue("old") { $0.priority = 130 }
    for _ in 0..<3 { await fixture.scheduler.advance(fixture.clock, by: .seconds(10)) }
    try fixture.enqueue("new") { $0.priority = 128 }
    try fixture.enqueue("first") { $0.priority = 0 }
    #expect(try fixture.read { tx in try tx.tasks(.queue("default")).map(\.priority) } == [0, 127, 128])
    try fixture.write { tx in try tx.resume("default") }
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take() == ["first", "old", "new"])
    await fixture.scheduler.stop()
  }

  @Test func `transition 25: a waiting task can be edited, and one that runs or has ended can't`() async throws {
    let fixture = try TaskFixture()
    let (began, mayEnd) = (AsyncFlag(), AsyncFlag())
    try fixture.handle { note, _ in
      if note.text == "runs" {
        began.set()
        await mayEnd.wait()
      }
      return .done
    }
    try await fixture.scheduler.start()
    let running = try fixture.enqueue("runs")
    await began.wait()
    let (first, second) = (try fixture.enqueue("first"), try fixture.enqueue("second"))
    let third = try fixture.enqueue("third")
    let kept = try fixture.enqueue("kept") { $0.start = .parked() }
    #expect(throws: TaskError.self) { try fixture.write { tx in try tx.edit(first, payload: Other()) } }
    try fixture.write { tx in
      try tx.edit(first, payload: Note("changed"))
      try tx.edit(second, priority: 0)
      try tx.edit(third, start: .after(.seconds(5)))
      try tx.edit(kept, payload: Note("parked"))
    }
    #expect(throws: TaskError.taskRunning(running)) { try fixture.write { tx in try tx.edit(running, priority: 1) } }
    mayEnd.set()
    await fixture.scheduler.waitUntilIdle()
    #expect(throws: TaskError.unknownTask(first)) { try fixture.write { tx in try tx.edit(first, priority: 1) } }
    #expect(fixture.lines.take() == ["runs", "second", "changed"])
    await fixture.scheduler.advance(fixture.clock, by: .seconds(5))
    try fixture.write { tx in try tx.retryNow(.id(kept)) }
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take() == ["third", "parked"])
    await fixture.scheduler.stop()
  }
}
