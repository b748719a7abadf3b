import EngineTestSupport
import Testing
import Varve
import VarveTestSupport
import VarveTesting

@_spi(Extensions) @testable import VarveTasks

/// Tests of what a scheduler counts and measures, and of the heads of its queues.
struct SchedulerStatisticsTests {
  // MARK: - Attempts that have lost their task

  @Test
  func `transition 16: an attempt that ends after its time limit is counted once, and those that end in time are not`()
    async throws
  {
    let (begun, mayEnd) = (AsyncFlag(), AsyncFlag())
    let fixture = try TaskFixture(workers: 2)
    try fixture.handle { note, context in
      switch note.text {
      case "late" where context.attempt == 1:
        begun.set()
        await mayEnd.wait()
        // The call and the return are both too late.
        await #expect(throws: TaskError.leaseLost(context.id)) { try await context.complete { _ in } }
      case "completes":
        try await context.complete { _ in }
        // The attempt has ended, but it has not lost its task.
        await #expect(throws: TaskError.leaseLost(context.id)) { try await context.complete { _ in } }
      default: break
      }
      return .done
    }
    try await fixture.scheduler.start()
    let id = try fixture.enqueue("late") { $0.timeout = .seconds(5) }
    await begun.wait()
    fixture.clock.advance(by: .seconds(5))
    await fixture.poll { try fixture.state(id) == .retryWait }
    #expect(fixture.scheduler.statistics.fencedCount == 0)
    mayEnd.set()
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.scheduler.statistics.fencedCount == 1)
    for text in ["plain", "completes"] { try fixture.enqueue(text) }
    await fixture.scheduler.advance(fixture.clock, by: .seconds(10))
    #expect(fixture.lines.take().sorted() == ["completes", "late", "late", "plain"])
    #expect(try fixture.taskCount() == 0)
    #expect(fixture.scheduler.statistics.fencedCount == 1)
    await fixture.scheduler.stop()
  }

  @Test(arguments: [false, true])
  func `transition 17: a handler of a cancelled task is counted only if it returns after the attempt was given up`(
    isLate: Bool
  ) async throws {
    let (begun, mayEnd, wasRefused) = (AsyncFlag(), AsyncFlag(), AsyncFlag())
    let fixture = try TaskFixture()
    try fixture.handle { _, context in
      begun.set()
      await mayEnd.wait()
      await #expect(throws: TaskError.leaseLost(context.id)) { try await context.complete { _ in } }
      wasRefused.set()
      throw CancellationError()
    }
    try await fixture.scheduler.start()
    let id = try fixture.enqueue("cancelled")
    await begun.wait()
    #expect(try await fixture.scheduler.cancel(.id(id)) == 1)
    if isLate {
      fixture.clock.advance(by: .seconds(10))
      await fixture.poll { try fixture.state(id) == nil }
    }
    mayEnd.set()
    // The scheduler does not wait for a handler that it has given up.
    await wasRefused.wait()
    await fixture.scheduler.waitUntilIdle()
    #expect(try fixture.state(id) == nil)
    #expect(fixture.scheduler.statistics.fencedCount == (isLate ? 1 : 0))
    await fixture.scheduler.stop()
  }

  @Test func `transition 19: a handler that a stop has left running is counted when it returns after the next start`()
    async throws
  {
    let (begun, mayEnd) = (AsyncFlag(), AsyncFlag())
    let fixture = try TaskFixture(drainTimeout: .zero)
    let lines = fixture.lines
    try fixture.handle { _, _ in
      if lines.count == 1 {
        begun.set()
        await mayEnd.wait()
      }
      return .done
    }
    try await fixture.scheduler.start()
    let id = try fixture.enqueue("stays")
    await begun.wait()
    async let stopped: Void = fixture.scheduler.stop()
    // The call waits for the handler until `abandonAfter`.
    await fixture.poll { fixture.clock.sleepCount > 0 }
    fixture.clock.advance(by: .seconds(10))
    await stopped
    #expect(try fixture.state(id) == .ready)
    try await fixture.scheduler.start()
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.count == 2)
    #expect(try fixture.state(id) == nil)
    #expect(fixture.scheduler.statistics.fencedCount == 0)
    mayEnd.set()
    await fixture.poll { fixture.scheduler.statistics.fencedCount > 0 }
    #expect(fixture.scheduler.statistics.fencedCount == 1)
    await fixture.scheduler.stop()
  }

  // MARK: - Reads, timers and claims

  private struct Slow: TaskPayload { static let kind = "slow" }

  @Test func `a read of a subqueue counts the rows of running tasks that it passes`() async throws {
    let gate = HandlerGate()
    gate.close(ignoringCancellation: false)
    let fixture = try TaskFixture(workers: 4)
    try fixture.scheduler.register(Slow.self) { _, context in
      _ = await gate.pass(context.id)
      return .done
    }
    try await fixture.scheduler.start()
    try fixture.write { tx in
      try tx.enqueue(Note("skipped"))
      for _ in 0..<3 { try tx.enqueue(Slow()) }
    }
    await fixture.poll { gate.count == 3 }
    #expect(fixture.scheduler.unhandledKinds == ["note"])
    #expect(fixture.scheduler.statistics.refillSkippedCount == 0)
    // The subqueue is read again from the task that was skipped.
    try fixture.handle()
    await fixture.poll { fixture.lines.count == 1 }
    #expect(fixture.scheduler.statistics.refillSkippedCount == 3)
    gate.open()
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.scheduler.statistics.refillSkippedCount == 3)
    #expect(try fixture.taskCount() == 0)
    await fixture.scheduler.stop()
  }

  @Test func `each timer counts with the time by which it has fired late`() async throws {
    let fixture = try TaskFixture()
    try fixture.handle()
    try await fixture.scheduler.start()
    for seconds in [5, 5, 6] { try fixture.enqueue("\(seconds)") { $0.start = .after(.seconds(seconds)) } }
    await fixture.scheduler.advance(fixture.clock, by: .seconds(4))
    #expect(fixture.scheduler.statistics.timers == TaskDurations())
    await fixture.scheduler.advance(fixture.clock, by: .milliseconds(1_007))
    await fixture.scheduler.advance(fixture.clock, by: .milliseconds(993))
    #expect(fixture.lines.take() == ["5", "5", "6"])
    let timers = fixture.scheduler.statistics.timers
    #expect(timers.count == 3 && timers.sum == .milliseconds(14) && timers.maximum == .milliseconds(7))
    // 7,000 µs are between 2^12 and 2^13.
    #expect(timers.buckets[0] == TaskDurations.Bucket(count: 1, sum: .zero))
    #expect(timers.buckets[13] == TaskDurations.Bucket(count: 2, sum: .milliseconds(14)))
    await fixture.scheduler.stop()
  }

  @Test func `a commit in which attempts begin counts once, with the time until it is acknowledged`() async throws {
    // The transactions of the test pass the gate, and the commits of the scheduler wait.
    let held = try HeldTasks(holding: .process)
    let (gate, fixture) = (held.gate, held.fixture)
    try fixture.handle()
    try await fixture.scheduler.start()
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.scheduler.statistics.claims == TaskDurations())
    gate.shut()
    try await fixture.writeOnThread(durability: .power) { tx in
      for text in ["a", "b"] { try tx.enqueue(Note(text)) }
    }
    await held.waitUntilHeld()
    fixture.clock.advance(by: .milliseconds(30))
    gate.open()
    await fixture.poll { fixture.lines.count == 2 }
    await fixture.scheduler.waitUntilIdle()
    let claims = fixture.scheduler.statistics.claims
    #expect(claims.count == 1 && claims.maximum == .milliseconds(30))
    #expect(try fixture.taskCount() == 0)
    await fixture.scheduler.stop()
  }

  @Test func `durations are counted in ranges of which each ends at twice the end of the one before it`() {
    var durations = TaskDurations()
    let cases: [(Duration, Int)] = [
      (.seconds(-1), 0), (.nanoseconds(999), 0), (.microseconds(1), 1), (.nanoseconds(1_999), 1), (.microseconds(2), 2),
      (.microseconds(1_023), 10), (.microseconds(1_024), 11), (.seconds(1), 20), (.seconds(1_073), 30),
      (.seconds(1_074), 31), (.seconds(Int64.max), 31),
    ]
    for (duration, bucket) in cases {
      let before = durations.buckets[bucket].count
      durations.add(duration)
      #expect(durations.buckets[bucket].count == before + 1, "\(duration)")
    }
    #expect(durations.count == cases.count && durations.buckets[0].sum == .nanoseconds(999))
    // The longest ones are clipped, so that the sum of any number of them can be computed.
    for _ in 0..<100 { durations.add(.seconds(Int64.max)) }
    #expect(durations.count == cases.count + 100)
    #expect(durations.maximum == .longest && durations.sum > .longest * 100)
  }

  // MARK: - Heads

  @Test func `each queue has its first waiting task as head, with its age, even if it was never read`() async throws {
    let fixture = try TaskFixture(rules: [.named("serial"): QueueRules(order: .serial())])
    try fixture.handle { note, _ in note.text == "parks" ? .park() : .done }
    try fixture.write { tx in
      try tx.pause("keys")
      try tx.pause("paused")
    }
    let old = try fixture.enqueue("old") { $0.queue = "paused" }
    #expect(try fixture.scheduler.queueHeads() == [])
    fixture.clock.advance(by: .seconds(60))
    try await fixture.scheduler.start()
    // The queue is paused, so no task of it is read.
    await fixture.scheduler.waitUntilIdle()
    try fixture.enqueue("new") { $0.queue = "paused" }
    let parked = try fixture.enqueue("parks") { $0.queue = "serial" }
    try fixture.enqueue("next") { $0.queue = "serial" }
    let first = try fixture.enqueue("first") { ($0.queue, $0.limitKey) = ("keys", "b") }
    fixture.clock.advance(by: .seconds(1))
    try fixture.enqueue("second") { ($0.queue, $0.limitKey) = ("keys", "a") }
    let unhandled = try fixture.write { tx in try tx.enqueue(Slow(), TaskOptions(queue: "unhandled")).id }
    try fixture.enqueue("later") { ($0.queue, $0.start) = ("timed", .after(.seconds(3_600))) }
    await fixture.scheduler.advance(fixture.clock, by: .seconds(29))
    let heads = try fixture.scheduler.queueHeads()
    #expect(heads.map(\.queue) == ["keys", "paused", "serial", "unhandled"])
    #expect(heads.map(\.task) == [first, old, parked, unhandled])
    #expect(heads.map(\.state) == [.ready, .ready, .parked, .ready])
    #expect(heads.map(\.age) == [.seconds(30), .seconds(90), .seconds(30), .seconds(29)])
    try fixture.write { tx in try tx.resume("paused") }
    await fixture.scheduler.waitUntilIdle()
    #expect(try fixture.scheduler.queueHeads().map(\.queue) == ["keys", "serial", "unhandled"])
    #expect(fixture.lines.take() == ["parks", "old", "new"])
    await fixture.scheduler.stop()
    #expect(try fixture.scheduler.queueHeads() == [])
  }

  @Test func `running tasks do not hide the first queued task, which is after them on disk`() async throws {
    let fixture = try TaskFixture(workers: 2)
    let mayEnd = AsyncFlag()
    try fixture.handle { _, _ in
      await mayEnd.wait()
      return .done
    }
    try await fixture.scheduler.start()
    // The first task has no handler, so the subqueue is read from its position on.
    let unhandled = try fixture.write { tx in try tx.enqueue(Slow()).id }
    let ids = try ["a", "b", "c"].map { try fixture.enqueue($0) }
    await fixture.poll { fixture.lines.count == 2 }
    #expect(try fixture.scheduler.queueHeads().map(\.task) == [unhandled])
    try fixture.write { tx in _ = try tx.cancel(.id(unhandled)) }
    #expect(try fixture.scheduler.queueHeads().map(\.task) == [ids[2]])
    mayEnd.set()
    await fixture.scheduler.waitUntilIdle()
    #expect(try fixture.scheduler.queueHeads() == [])
    await fixture.scheduler.stop()
  }
}
