import Foundation
import Testing
import Varve
import VarveTestSupport
import VarveTesting

@_spi(Extensions) @testable import VarveTasks

/// Tests of the summary of queues and kinds.
struct SummaryTests {
  private static func queue(_ summary: TaskSummary, _ name: String = "default") throws -> TaskSummary.Queue {
    try #require(summary.queues.first { $0.name == name })
  }

  @Test func `a summary has the tasks of each queue by their states, and its oldest task`() async throws {
    let fixture = try TaskFixture(rules: [.named("serial"): QueueRules(order: .serial())])
    let flag = AsyncFlag()
    try fixture.handle { note, _ in
      switch note.text {
      case "dead": return .discard("no")
      case "long":
        await flag.wait()
        return .done
      default: throw Broken()
      }
    }
    try await fixture.scheduler.start()
    let dead = try fixture.enqueue("dead") { $0.queue = "serial" }
    try fixture.enqueue("fail")
    await fixture.scheduler.waitUntilIdle()
    try fixture.enqueue("long")
    await fixture.poll { fixture.lines.count == 3 }
    let oldest = try fixture.enqueue("ready")
    fixture.clock.advance(by: .seconds(5))
    try fixture.enqueue("ready")
    try fixture.enqueue("timed") { $0.start = .after(.seconds(60)) }
    try fixture.enqueue("parked") { $0.start = .parked() }
    try fixture.enqueue("blocked") { $0.dependsOn = [oldest] }
    try fixture.write { tx in try tx.drain("other") }
    let summary = try fixture.scheduler.summary()
    #expect(summary.isRunning && !summary.isHeld && !summary.isDiskFull && summary.workers == 1)
    #expect(summary.running == 1 && summary.date == fixture.clock.wallNow)
    let queue = try Self.queue(summary)
    #expect((queue.running, queue.ready, queue.scheduled) == (1, 2, 1))
    #expect((queue.retryWait, queue.blocked, queue.parked, queue.dead) == (1, 1, 1, 0) as (Int, Int, Int, Int))
    #expect(queue.oldest == 5 && queue.oldestTask == oldest && !queue.isPaused && queue.blockedBy.isEmpty)
    let serial = try Self.queue(summary, "serial")
    #expect(serial.dead == 1 && serial.blockedBy == [dead])
    #expect(try Self.queue(summary, "other").isDraining)
    #expect(summary.kinds.map(\.name) == ["note"] && summary.kinds[0].running == 1)
    flag.set()
    await fixture.scheduler.stop()
    // After a restart, the numbers of tasks are the same without any wait.
    let next = try TaskFixture(fixture.database, clock: fixture.clock)
    let stored = try next.scheduler.summary()
    #expect(!stored.isRunning && stored.running == 0 && stored.measured == 0)
    let again = try Self.queue(stored)
    #expect((again.running, again.scheduled, again.parked) == (0, 1, 1) && again.oldest == nil)
  }

  @Test func `the numbers of the last minute are those of attempts that have ended in it`() async throws {
    let fixture = try TaskFixture()
    try fixture.handle { note, context in
      switch note.text {
      case "dead": return .discard("no")
      case "again": return context.attempt == 1 ? .retry(after: .zero) : .done
      case "complete":
        try await context.complete(counting: "x")
        return .done
      case "snooze": return .snooze(for: .seconds(100_000))
      default: return .done
      }
    }
    try await fixture.scheduler.start()
    for text in ["dead", "again", "complete", "done", "snooze"] { try fixture.enqueue(text) }
    try fixture.enqueue("done") { $0.queue = "other" }
    await fixture.scheduler.waitUntilIdle()
    var summary = try fixture.scheduler.summary()
    var queue = try Self.queue(summary)
    #expect((queue.settled, queue.failed) == (4, 2))
    #expect((summary.kinds[0].settled, summary.kinds[0].failed) == (5, 2))
    #expect(try Self.queue(summary, "other").settled == 1)
    #expect(summary.measured == 0)
    await fixture.scheduler.advance(fixture.clock, by: .seconds(40))
    try fixture.enqueue("done")
    await fixture.scheduler.waitUntilIdle()
    summary = try fixture.scheduler.summary()
    queue = try Self.queue(summary)
    #expect((queue.settled, queue.failed) == (5, 2) && summary.measured == 40)
    await fixture.scheduler.advance(fixture.clock, by: .seconds(30))
    summary = try fixture.scheduler.summary()
    queue = try Self.queue(summary)
    #expect((queue.settled, queue.failed) == (1, 0) && summary.measured == 60)
    await fixture.scheduler.advance(fixture.clock, by: .seconds(60))
    #expect(try Self.queue(fixture.scheduler.summary()).settled == 0)
    await fixture.scheduler.stop()
  }

  @Test func `a summary has the next slots of schedules, and its JSON can be read again`() async throws {
    let fixture = try TaskFixture()
    try fixture.handle()
    try fixture.scheduler.schedule("ten", "*/10 * * * *") { _ in Note("slot") }
    try fixture.scheduler.schedule("day", "0 6 * * *", options: TaskOptions(queue: "days")) { _ in Note("slot") }
    try await fixture.scheduler.start()
    await fixture.scheduler.advance(fixture.clock, by: .seconds(660))
    try fixture.write { tx in _ = try tx.enqueue(Other()) }
    await fixture.scheduler.waitUntilIdle()
    let summary = try fixture.scheduler.summary()
    let begin = Date(timeIntervalSince1970: 1_767_225_600)
    #expect(summary.schedules.map(\.name) == ["day", "ten"])
    #expect(summary.schedules.map(\.nextSlot) == [begin + 6 * 3_600, begin + 1_200])
    #expect(try Self.queue(summary).nextSlot == begin + 1_200)
    #expect(summary.kinds.map(\.name) == ["note", "other"])
    #expect(
      summary.kinds.map(\.nextSlot) == [begin + 1_200, nil] && summary.kinds.map(\.isUnhandled) == [false, true])
    let json = try JSONEncoder().encode(summary)
    #expect(try JSONDecoder().decode(TaskSummary.self, from: json) == summary)
    await fixture.scheduler.stop()
  }

  @Test func `the counts of the last minute of very many queues do not grow for ever`() {
    let rates = TaskRates()
    for number in 0..<10_000 {
      let key = TaskRates.Key(queue: QueueName("\(number)"), kind: "k")
      rates.note([(key, TaskRates.Counts(settled: 1))], at: .seconds(number))
    }
    let counts = rates.counts(.seconds(10_000)).counts
    #expect(counts.count <= 60 && counts.count >= 55 && counts.values.allSatisfy { $0.settled == 1 })
    // A clock that goes back neither traps nor removes what was counted.
    rates.note([(TaskRates.Key(queue: "9999", kind: "k"), TaskRates.Counts(failed: 1))], at: .seconds(-5))
    #expect(rates.counts(.seconds(10_000)).counts[TaskRates.Key(queue: "9999", kind: "k")]?.failed == 1)
    #expect(rates.counts(.seconds(Int64.max)).counts.isEmpty)
  }

  // MARK: - The manual clock

  @Test func `an advance of a manual clock returns while handlers sleep by it, and a later one wakes them`()
    async throws
  {
    let fixture = try TaskFixture(workers: 2)
    try fixture.handle { note, _ in
      let rest = fixture.clock.sleep
      try await rest(fixture.clock.continuousNow + .seconds(10))
      fixture.lines.add("\(note.text) is awake")
      return .done
    }
    try await fixture.scheduler.start()
    try fixture.enqueue("a")
    try fixture.enqueue("b")
    await fixture.scheduler.advance(fixture.clock, by: .seconds(1))
    #expect(fixture.lines.take().sorted() == ["a", "b"])
    await fixture.scheduler.advance(fixture.clock, by: .seconds(5))
    #expect(fixture.lines.take().isEmpty)
    await fixture.scheduler.advance(fixture.clock, by: .seconds(5))
    #expect(fixture.lines.take().sorted() == ["a is awake", "b is awake"])
    try fixture.expectNothingLeft()
    await fixture.scheduler.stop()
  }
}
