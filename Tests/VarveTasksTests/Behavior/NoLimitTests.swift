import Foundation
import Testing
import Varve
import VarveTestSupport
import VarveTesting

@_spi(Extensions) @testable import VarveTasks

/// Tests of numbers and durations that are so large that they mean no limit, and of those that are too small.
struct NoLimitTests {
  /// Durations whose seconds, or the seconds of whose sums, do not fit into 64 bits.
  private static let longest = [Duration.seconds(Int64.max), .seconds(Int64.max) * 10]

  @Test func `the largest numbers of workers, running and waiting tasks, weights, tokens and attempts mean no limit`()
    async throws
  {
    var rules = QueueRules()
    rules.concurrency = .max
    rules.perKey = .max
    rules.weight = .max
    rules.maxWaiting = .max
    rules.rate = QueueRules.Rate(count: .max, per: .seconds(1), burst: .max)
    rules.ratePerKey = rules.rate
    let fixture = try TaskFixture(rules: [.all: rules], workers: .max, maxCrashes: .max)
    try fixture.handle()
    try await fixture.scheduler.start()
    // The handlers take no time by the fixture's clock, so tasks are claimed ahead.
    for _ in 0..<3 {
      for number in 0..<20 {
        try fixture.enqueue("task") { options in
          options.queue = QueueName("queue \(number % 2)")
          options.limitKey = number % 3 == 0 ? "key" : nil
          options.maxAttempts = .max
          options.retention = .keepCount(.max)
        }
      }
      await fixture.scheduler.waitUntilIdle()
    }
    #expect(fixture.lines.take().count == 60)
    await fixture.scheduler.stop()
  }

  @Test(arguments: longest) func `the longest durations of leases, limits, delays and deadlines mean no limit`(
    _ time: Duration
  ) async throws {
    var rules = QueueRules()
    rules.ageing = time
    rules.rate = QueueRules.Rate(count: 1, per: time, burst: 10)
    var configuration = TaskScheduler.Configuration()
    configuration.drainTimeout = time
    configuration.abandonAfter = time
    configuration.queues = [.all: rules]
    let fixture = try TaskFixture()
    let scheduler = try TaskScheduler(
      fixture.database, configuration: configuration, clock: fixture.clock, logger: fixture.scheduler.logger)
    var options = HandlerOptions()
    options.lease = time
    options.retry = .exponential(base: time, factor: 1e300, cap: time)
    let begun = AsyncFlag()
    try scheduler.register(Note.self, options: options) { note, context in
      try context.heartbeat()
      if note.text == "fails" { throw Broken() }
      begun.set()
      await waitForCancellation()
      throw CancellationError()
    }
    let fails = try fixture.enqueue("fails") { $0.timeout = time }
    let later = try fixture.enqueue("later") { $0.start = .after(time) }
    try await scheduler.run(until: time)
    #expect(try fixture.state(fails) == .retryWait && fixture.state(later) == .scheduled)

    try await scheduler.start()
    let waits = try fixture.enqueue("waits") { $0.timeout = time }
    await begun.wait()
    #expect(try await scheduler.cancel(.id(waits)) == 1)
    await scheduler.waitUntilIdle()
    #expect(try fixture.state(waits) == nil)
    await scheduler.stop()
  }

  @Test(arguments: longest) func `the clock of the system sleeps until a time that the system can't count`(
    _ deadline: Duration
  ) async throws {
    let sleeper = Task {
      let wait = SystemSchedulerClock().sleep
      try await wait(deadline)
    }
    sleeper.cancel()
    await #expect(throws: CancellationError.self) { try await sleeper.value }
    // A time that has passed.
    let wait = SystemSchedulerClock().sleep
    try await wait(Duration.zero - deadline)
  }

  @Test(arguments: longest) func `a manual clock that is advanced beyond the end of its time stays there`(
    _ time: Duration
  ) async throws {
    let fixture = try TaskFixture()
    try fixture.handle { note, context in
      if context.attempt == 1 { throw Broken() }
      return .done
    }
    try await fixture.scheduler.start()
    try fixture.enqueue("now")
    try fixture.enqueue("later") { $0.start = .after(.seconds(60)) }
    await fixture.scheduler.waitUntilIdle()
    for _ in 0..<3 { await fixture.scheduler.advance(fixture.clock, by: time) }
    #expect(fixture.clock.continuousNow == .seconds(Int64.max))
    #expect(fixture.lines.take().sorted() == ["later", "now", "now"])
    await fixture.scheduler.stop()
  }

  @Test func `tasks move up once in a millisecond if that is the time after which they do`() async throws {
    var rules = QueueRules()
    rules.ageing = .milliseconds(1)
    let fixture = try TaskFixture(rules: [.all: rules])
    try fixture.handle()
    try await fixture.scheduler.start()
    try fixture.write { tx in try tx.pause("default") }
    let id = try fixture.enqueue("waits")
    // It would never be idle if the task moved up again and again.
    await fixture.scheduler.waitUntilIdle()
    func priority() throws -> UInt8? { try fixture.read { tx in try tx.task(id)?.priority } }
    #expect(try priority() == 128)
    await fixture.scheduler.advance(fixture.clock, by: .milliseconds(1))
    #expect(try priority() == 127)
    await fixture.scheduler.stop()
  }

  @Test func `the key of a query by a unique key can be made for a kind that is too long for any task`() {
    let kind = String(repeating: "k", count: 1 << 17)
    #expect(ConfigKeys.unique(kind, [1]).count == 1 + 2 + kind.utf8.count + 1)
  }

  @Test func `a cron expression accepts any date, and has no time after one that is not finite`()
    throws
  {
    let daily = try CronExpression("0 6 * * *")
    for seconds in [Double.nan, .infinity, -.infinity] {
      #expect(daily.next(after: Date(timeIntervalSince1970: seconds), in: .gmt) == nil)
    }
    // A date in the far future counts as the end of the year 9999.
    let next = try #require(daily.next(after: Date(timeIntervalSince1970: 1e300), in: .gmt))
    #expect(next.timeIntervalSince1970 > Double(WallTime.latest / 1_000))
  }
}
