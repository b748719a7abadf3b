import Foundation
import Logging
import Testing
import Varve
import VarveTestSupport
import VarveTesting

@_spi(Extensions) @testable import VarveTasks

/// Tests that run the examples of the guides about order, failures and operation.
struct OperationGuideTests {
  /// Returns a scheduler for the database of a fixture, which the fixture's own scheduler then does not run.
  private static func scheduler(
    _ fixture: TaskFixture, _ configuration: TaskScheduler.Configuration
  ) throws -> TaskScheduler {
    try TaskScheduler(
      fixture.database, configuration: configuration, clock: fixture.clock, logger: fixture.scheduler.logger)
  }

  /// Returns the milliseconds for which a task still waits.
  private static func wait(_ id: TaskID, _ fixture: TaskFixture) throws -> Int64? {
    let now = WallTime.milliseconds(fixture.clock.wallNow)
    return try fixture.read { tx in try tx.task(id)?.due }.map { $0 - now }
  }

  // MARK: - OrderingTasks

  @Test func `OrderingTasks 1: a preview that has waited long enough runs before a new one`() async throws {
    let fixture = try TaskFixture()
    var configuration = OrderingTasks1.configuration()
    configuration.workers = 1
    let scheduler = try Self.scheduler(fixture, configuration)
    try scheduler.register(OrderingTasks1.Preview.self) { preview, _ in
      fixture.lines.add(preview.file)
      return .done
    }
    try await scheduler.start()
    try fixture.write { tx in try tx.pause("previews") }
    try fixture.write { tx in try OrderingTasks1.enqueue("old", isWanted: false, in: tx) }
    for _ in 0..<11 { await scheduler.advance(fixture.clock, by: .seconds(60)) }
    try fixture.write { tx in try OrderingTasks1.enqueue("new", isWanted: true, in: tx) }
    #expect(try fixture.read { tx in try tx.tasks(.queue("previews")).map(\.priority) } == [99, 100])
    try fixture.write { tx in try tx.resume("previews") }
    await scheduler.waitUntilIdle()
    #expect(fixture.lines.take() == ["old", "new"])
    await scheduler.stop()
  }

  @Test func `OrderingTasks 2: feeds run in the order of their dates, after those without a key`() async throws {
    let fixture = try TaskFixture()
    try fixture.scheduler.register(OrderingTasks2.Feed.self) { feed, _ in
      fixture.lines.add(feed.name)
      return .done
    }
    try fixture.write { tx in
      for (name, time) in [("third", 300.0), ("first", 100.0), ("second", 200.0)] {
        try OrderingTasks2.enqueue(name, dated: Date(timeIntervalSince1970: time), in: tx)
      }
      try tx.enqueue(OrderingTasks2.Feed(name: "without a key"), TaskOptions(queue: "feeds"))
    }
    try await fixture.scheduler.start()
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take() == ["without a key", "first", "second", "third"])
    await fixture.scheduler.stop()
  }

  @Test func `OrderingTasks 3: the tasks of one call run in its order`() async throws {
    let fixture = try TaskFixture()
    try fixture.scheduler.register(OrderingTasks3.Analyze.self) { task, context in
      fixture.lines.add("\(task.file) \(context.id)")
      return .done
    }
    let ids = try fixture.write { tx in try OrderingTasks3.enqueueAll(["b", "c", "a"], in: tx) }
    #expect(Set(ids).count == 3)
    try await fixture.scheduler.start()
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take() == zip(["b", "c", "a"], ids).map { "\($0) \($1)" })
    await fixture.scheduler.stop()
  }

  @Test func `OrderingTasks 4: three of four free workers run tasks of the queue with a weight of three`() async throws
  {
    let fixture = try TaskFixture()
    let scheduler = try Self.scheduler(fixture, OrderingTasks4.configuration())
    let mayEnd = AsyncFlag()
    try scheduler.register(Note.self) { _, context in
      fixture.lines.add(context.queue.text)
      await mayEnd.wait()
      return .done
    }
    for _ in 0..<6 {
      try fixture.enqueue("reply") { $0.queue = "replies" }
      try fixture.enqueue("export") { $0.queue = "exports" }
    }
    try await scheduler.start()
    await fixture.poll { fixture.lines.count == 4 }
    #expect(fixture.lines.take().sorted() == ["exports", "replies", "replies", "replies"])
    mayEnd.set()
    await scheduler.waitUntilIdle()
    #expect(fixture.lines.count == 8)
    await scheduler.stop()
  }

  @Test func `OrderingTasks 5: payments run one after the other`() async throws {
    let fixture = try TaskFixture()
    let scheduler = try Self.scheduler(fixture, OrderingTasks5.configuration())
    #expect(scheduler.rules(of: "payments-7").strictDurableOrder && !scheduler.rules(of: "other").strictDurableOrder)
    try scheduler.register(Note.self) { note, _ in
      fixture.lines.add(note.text)
      return .done
    }
    for text in ["a", "b", "c"] { try fixture.enqueue(text) { $0.queue = "payments-7" } }
    try await scheduler.start()
    await scheduler.waitUntilIdle()
    #expect(fixture.lines.take() == ["a", "b", "c"])
    await scheduler.stop()
  }

  @Test func `OrderingTasks 6: the next scan starts although a cancelled handler does not return`() async throws {
    let fixture = try TaskFixture()
    let scheduler = try Self.scheduler(fixture, OrderingTasks6.configuration())
    let returns = AsyncFlag()
    try scheduler.register(Note.self) { note, _ in
      fixture.lines.add(note.text)
      if note.text == "stays" { await returns.wait() }
      return .done
    }
    try await scheduler.start()
    let id = try fixture.enqueue("stays") { $0.queue = "scans" }
    await fixture.poll { fixture.lines.count == 1 }
    try fixture.enqueue("next") { $0.queue = "scans" }
    #expect(try await scheduler.cancel(.id(id)) == 1)
    fixture.clock.advance(by: .seconds(5))
    await fixture.poll { fixture.lines.count == 2 }
    #expect(fixture.lines.take() == ["stays", "next"])
    #expect(try fixture.state(id) == nil)
    returns.set()
    await scheduler.waitUntilIdle()
    await scheduler.stop()
  }

  // MARK: - FailingTasks

  @Test func `FailingTasks 1: the delays grow by the factor, within the jitter`() async throws {
    let fixture = try TaskFixture()
    try fixture.scheduler.register(FailingTasks1.Fetch.self) { _, _ in throw Broken() }
    try await fixture.scheduler.start()
    let id = try fixture.write { tx in try tx.enqueue(FailingTasks1.Fetch(address: "a")).id }
    let ranges: [ClosedRange<Int64>] = [1_600...2_400, 4_800...7_200, 14_400...21_600]
    for range in ranges {
      await fixture.scheduler.waitUntilIdle()
      let wait = try #require(try Self.wait(id, fixture))
      #expect(range.contains(wait))
      try fixture.write { tx in try tx.retryNow(.id(id)) }
    }
    await fixture.scheduler.waitUntilIdle()
    #expect(try fixture.read { tx in try tx.task(id)?.progress.failures } == 4)
    await fixture.scheduler.stop()
  }

  @Test func `FailingTasks 2: the decision about an error depends on the error`() async throws {
    struct Post: FailingTasks2.Server {
      func accept(_ text: String) async throws {
        switch text {
        case "later": throw FailingTasks2.Offline()
        case "never": throw FailingTasks2.Rejected()
        default: throw Broken()
        }
      }
    }
    let fixture = try TaskFixture()
    try FailingTasks2.register(fixture.scheduler, Post())
    try await fixture.scheduler.start()
    let ids = try fixture.write { tx in
      try tx.enqueue(contentsOf: ["later", "never", "again"].map { FailingTasks2.Deliver(text: $0) }).map(\.id)
    }
    await fixture.scheduler.waitUntilIdle()
    let tasks = try fixture.read { tx in try ids.compactMap { try tx.task($0) } }
    #expect(tasks.map(\.progress.state) == [.parked, .dead, .retryWait])
    #expect(tasks.first?.signals == ["network"])
    #expect(tasks.dropFirst().first?.errors == ["the server has rejected it: Rejected()"])
    #expect(try Self.wait(ids[2], fixture) == 30_000)
    await fixture.scheduler.stop()
  }

  @Test func `FailingTasks 3: an export that is not ready is collected later, and the attempt does not count`()
    async throws
  {
    let fixture = try TaskFixture()
    let isReady = Flag()
    try FailingTasks3.register(fixture.scheduler) { export in
      fixture.lines.add(export)
      return isReady.isSet
    }
    try await fixture.scheduler.start()
    let id = try fixture.write { tx in try tx.enqueue(FailingTasks3.Collect(export: "a")).id }
    await fixture.scheduler.waitUntilIdle()
    let task = try #require(try fixture.read { tx in try tx.task(id) })
    #expect(task.progress.state == .scheduled && task.progress.attempt == 0 && task.progress.snoozes == 1)
    #expect(task.errors.isEmpty)
    isReady.set()
    await fixture.scheduler.advance(fixture.clock, by: .seconds(29))
    #expect(fixture.lines.count == 1)
    await fixture.scheduler.advance(fixture.clock, by: .seconds(1))
    #expect(fixture.lines.take() == ["a", "a"])
    #expect(try fixture.state(id) == nil)
    await fixture.scheduler.stop()
  }

  @Test func `FailingTasks 4: an attempt that exceeds its time limit has failed, and the task runs again`() async throws
  {
    let fixture = try TaskFixture()
    let begun = AsyncFlag()
    try FailingTasks4.register(fixture.scheduler) { page in
      fixture.lines.add("\(page)")
      if fixture.lines.count > 1 { return }
      begun.set()
      await waitForCancellation()
      throw CancellationError()
    }
    try await fixture.scheduler.start()
    let id = try fixture.write { tx in try tx.enqueue(FailingTasks4.Render(page: 7)).id }
    await begun.wait()
    // The time in which the machine sleeps does not count.
    fixture.clock.suspend(for: .seconds(100))
    #expect(try fixture.state(id) == .running)
    await fixture.scheduler.advance(fixture.clock, by: .seconds(20))
    let task = try #require(try fixture.read { tx in try tx.task(id) })
    #expect(task.progress.state == .retryWait && task.progress.failures == 1)
    #expect(task.errors == ["the time limit of 20000 ms was over"])
    await fixture.scheduler.advance(fixture.clock, by: .seconds(60))
    #expect(fixture.lines.take() == ["7", "7"])
    #expect(try fixture.state(id) == nil)
    await fixture.scheduler.stop()
  }

  @Test func `FailingTasks 5: a task that was running at two deaths of the process is dead`() async throws {
    let fixture = try TaskFixture()
    let id = try fixture.enqueue("poison")
    let mayEnd = AsyncFlag()
    for _ in 0..<2 {
      let scheduler = try Self.scheduler(fixture, FailingTasks5.configuration())
      let begun = AsyncFlag()
      try scheduler.register(Note.self) { _, _ in
        begun.set()
        await mayEnd.wait()
        return .done
      }
      try await scheduler.start()
      await begun.wait()
      #expect(try FailingTasks5.suspects(fixture.database).isEmpty)
      scheduler.dispatcher.detach()
    }
    let scheduler = try Self.scheduler(fixture, FailingTasks5.configuration())
    try await scheduler.start()
    await scheduler.waitUntilIdle()
    let suspects = try FailingTasks5.suspects(fixture.database)
    #expect(suspects.map(\.id) == [id] && suspects.first?.progress.crashes == 2)
    mayEnd.set()
    await scheduler.stop()
  }

  // MARK: - OperatingTasks

  @Test func `OperatingTasks 1: a task waits until its handler is registered`() async throws {
    let fixture = try TaskFixture()
    let scheduler = fixture.scheduler
    try await scheduler.start()
    let id = try fixture.write { tx in try tx.enqueue(OperatingTasks1.Sync(account: 7)).id }
    await scheduler.waitUntilIdle()
    #expect(scheduler.unhandledKinds == ["sync"])
    #expect(try fixture.read { tx in try tx.task(id)?.progress.attempt } == 0)
    let hasWaited = try OperatingTasks1.signedIn(scheduler) { account in fixture.lines.add("\(account)") }
    await scheduler.waitUntilIdle()
    #expect(hasWaited && scheduler.unhandledKinds.isEmpty)
    #expect(fixture.lines.take() == ["7"])
    await scheduler.stop()
  }

  @Test func `OperatingTasks 2: the database keeps the start and the end of each attempt`() async throws {
    let fixture = try TaskFixture()
    let scheduler = try Self.scheduler(fixture, OperatingTasks2.configuration())
    try scheduler.register(Note.self) { _, context in
      if context.failures == 0 { throw Broken() }
      return .done
    }
    try await scheduler.start()
    let id = try fixture.enqueue("a")
    await scheduler.waitUntilIdle()
    try fixture.write { tx in try tx.retryNow(.id(id)) }
    await scheduler.waitUntilIdle()
    let history = try OperatingTasks2.history(fixture.database, after: 0)
    #expect(history == ["1 started", "2 failed", "3 started", "4 done"])
    #expect(try OperatingTasks2.history(fixture.database, after: 3) == ["4 done"])
    await scheduler.stop()
  }

  @Test func `OperatingTasks 3: a scan continues from its checkpoint when the system grants time again`() async throws {
    let fixture = try TaskFixture()
    let (scheduler, clock, lines) = (fixture.scheduler, fixture.clock, fixture.lines)
    let begun = AsyncFlag()
    try OperatingTasks3.register(scheduler) { page in
      lines.add("\(page)")
      if lines.count != 2 { return }
      begun.set()
      await waitForCancellation()
      throw CancellationError()
    }
    let id = try fixture.write { tx in try tx.enqueue(OperatingTasks3.Scan(pageCount: 3)).id }
    async let isRun: Void = OperatingTasks3.runInBackground(scheduler, for: .seconds(21), clock: clock)
    await begun.wait()
    clock.advance(by: .seconds(20))
    try await isRun
    let task = try #require(try fixture.read { tx in try tx.task(id) })
    #expect(task.progress.state == .ready && task.progress.attempt == 0)
    try await OperatingTasks3.runInBackground(scheduler, for: .seconds(21), clock: clock)
    #expect(lines.take() == ["0", "1", "1", "2"])
    #expect(try fixture.state(id) == nil)
  }

  @Test func `OperatingTasks 4: the lines of a handler have the metadata of its attempt`() async throws {
    let fixture = try TaskFixture()
    let recorder = LogRecorder()
    let scheduler = try OperatingTasks4.makeScheduler(fixture.database, recorder.logger(.info))
    try await scheduler.start()
    let id = try fixture.write { tx in try tx.enqueue(OperatingTasks4.Mail(address: "a@b")).id }
    await scheduler.waitUntilIdle()
    await scheduler.stop()
    let entries = recorder.entries
    #expect(entries.map(\.message) == ["sending"] && entries.first?.level == .info)
    let expected = [
      "mail.address": "a@b", "service": "mailer", "task.attempt": "1", "task.id": "\(id)", "task.kind": "mail",
      "task.queue": "default",
    ]
    #expect(entries.first?.metadata.filter { $0.key != "task.epoch" } == expected)
  }

  @Test func `OperatingTasks 5: a report names the queues whose first task has waited for a minute`() async throws {
    let fixture = try TaskFixture()
    try fixture.handle()
    try await fixture.scheduler.start()
    try fixture.enqueue("done")
    await fixture.scheduler.waitUntilIdle()
    try fixture.write { tx in try tx.pause("paused") }
    let id = try fixture.enqueue("waiting") { $0.queue = "paused" }
    fixture.clock.advance(by: .seconds(60))
    #expect(try OperatingTasks5.report(fixture.scheduler).count == 3)
    fixture.clock.advance(by: .seconds(1))
    let lines = try OperatingTasks5.report(fixture.scheduler)
    #expect(lines.first == "queue paused waits with task \(id), which is ready")
    #expect(lines.contains("attempts that lost their task: 0"))
    #expect(lines.count == 4)
    await fixture.scheduler.stop()
  }
}
