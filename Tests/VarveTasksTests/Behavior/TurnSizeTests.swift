import FutexLocks
import Testing
import Varve
import VarveTestSupport
import VarveTesting

@_spi(Extensions) @testable import VarveTasks

/// Tests of how much a turn of the scheduler's loop does. What arrives in the meantime waits for the end of the turn.
struct TurnSizeTests {
  @Test func `a turn handles at most 512 tasks and reads at most 512 rows, however many of each kind there are`()
    async throws
  {
    var ageing = QueueRules()
    ageing.ageing = .seconds(50)
    var keyed = QueueRules()
    keyed.ratePerKey = QueueRules.Rate(count: 1, per: .seconds(40))
    let fixture = try TaskFixture(rules: [.named("aged"): ageing, .named("keyed"): keyed], workers: 8)
    try fixture.handle()
    let count = 600
    try fixture.write { tx in
      for queue in ["aged", "paused"] { try tx.pause(QueueName(queue)) }
      // Tasks that only the disk has when the scheduler starts, in many subqueues and in one.
      for number in 0..<count {
        try tx.enqueue(Note("\(number)"), TaskOptions(queue: QueueName("many \(number % 300)")))
        var options = TaskOptions(queue: "keyed")
        options.limitKey = "\(number % 300)"
        try tx.enqueue(Note("\(number)"), options)
      }
      try tx.enqueue(contentsOf: (0..<count).map { Note("\($0)") }, TaskOptions(queue: "one"))
      // Tasks that wait for others, for a time, and for a call.
      var options = TaskOptions(queue: "children")
      options.dependsOn = [try tx.enqueue(Note("parent")).id]
      for number in 0..<count { try tx.enqueue(Note("child \(number)"), options) }
      options = TaskOptions(queue: "due")
      options.start = .after(.seconds(60))
      try tx.enqueue(contentsOf: (0..<count).map { Note("\($0)") }, options)
      options.start = .parked()
      try tx.enqueue(contentsOf: (0..<count).map { Note("\($0)") }, options)
      for queue in ["aged", "paused"] {
        for priority in [100, 101, 102] {
          options = TaskOptions(queue: QueueName(queue))
          options.priority = UInt8(priority)
          try tx.enqueue(contentsOf: (0..<count / 3 + 50).map { Note("\($0)") }, options)
        }
      }
    }
    try await fixture.scheduler.start()
    await fixture.scheduler.advance(fixture.clock, by: .seconds(60))
    async let woken = fixture.scheduler.retryNow(.parked("due"))
    async let cancelled = fixture.scheduler.cancel(.queue("paused"))
    _ = try await (woken, cancelled)
    for _ in 0..<3 { await fixture.scheduler.advance(fixture.clock, by: .seconds(40)) }
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take().count == 6 * count + 1)
    // Times of a schedule that are made up for, while tasks move up.
    try fixture.scheduler.schedule("minutes", "* * * * *", rules: ScheduleRules(missed: .all(max: count))) { _ in
      Note("slot")
    }
    await fixture.scheduler.advance(fixture.clock, by: .seconds(1))
    _ = fixture.lines.take()
    fixture.clock.advance(by: .seconds(60 * (count + 100)))
    await fixture.poll { fixture.lines.count >= count }
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take().count { $0 == "slot" } >= count)
    let aged = try fixture.read { tx in try tx.tasks(.queue("aged")).map(\.priority) }
    #expect(aged.count == count + 150 && (aged.max() ?? 0) < 102)
    let largest = fixture.scheduler.dispatcher.state.withLock { $0.largestTurn }
    #expect(256...512 ~= largest.tasks && 256...512 ~= largest.rows, "\(largest)")
    await fixture.scheduler.stop()
  }

  @Test func `all tasks of a queue move up, however many turns that takes, at most 512 of each priority`() async throws
  {
    var rules = QueueRules()
    rules.ageing = .seconds(50)
    let fixture = try TaskFixture(rules: [.all: rules])
    try fixture.handle()
    try fixture.write { tx in
      try tx.pause("default")
      for priority in [UInt8(10), 20, 30] {
        var options = TaskOptions()
        options.priority = priority
        try tx.enqueue(contentsOf: (0..<600).map { Note("\($0)") }, options)
      }
    }
    try await fixture.scheduler.start()
    await fixture.scheduler.advance(fixture.clock, by: .seconds(50))
    let priorities = try fixture.read { tx in try tx.tasks(.all).map(\.priority) }
    for priority in [UInt8(10), 20, 30] {
      #expect(priorities.count { $0 == priority - 1 } == 512)
      #expect(priorities.count { $0 == priority } == 88)
    }
    await fixture.scheduler.stop()
  }
}
