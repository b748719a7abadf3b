import EngineTestSupport
import Foundation
import FutexLocks
import Testing
import Varve
import VarveTesting

@_spi(Extensions) @testable import VarveTasks

/// Tests of the timers in memory: they are bounded, and those that need not fire wake no one.
struct TimerTests {
  private static func counts(_ fixture: TaskFixture) -> (timers: Int, tasks: Int, next: Duration?) {
    let dispatcher = fixture.scheduler.dispatcher
    let next = dispatcher.nextDeadline
    return dispatcher.state.withLock { ($0.timers.count, $0.timers.taskCount, next) }
  }

  @Test func `delayed tasks that are enqueued while a scheduler runs are in memory up to a maximum, and all run`()
    async throws
  {
    let fixture = try TaskFixture(workers: 8)
    try fixture.handle()
    try await fixture.scheduler.start()
    let number = 20_000
    for first in stride(from: 0, to: number, by: 100) {
      try fixture.write { tx in
        for number in first..<first + 100 {
          var options = TaskOptions(queue: "q")
          // The delays are in no order.
          options.start = .after(.seconds(1 + number &* 7_919 % 20_011))
          try tx.enqueue(Note("\(number)"), options)
        }
      }
      #expect(Self.counts(fixture).tasks <= 2 * Timers.taskMaximum)
    }
    var times: [Int] = []
    for _ in 0..<21 {
      await fixture.scheduler.advance(fixture.clock, by: .seconds(1_000))
      times += fixture.lines.take().compactMap { Int($0) }.map { 1 + $0 &* 7_919 % 20_011 }.sorted()
    }
    #expect(times.count == number)
    // Each task has run within the thousand seconds in which it was due.
    #expect(times.map { $0 / 1_000 } == times.map { $0 / 1_000 }.sorted())
    await fixture.scheduler.stop()
  }

  @Test func `the timers of attempts that have ended are removed, and wake no one`() async throws {
    let fixture = try TaskFixture(workers: 4)
    try fixture.handle(lease: .seconds(7_200))
    try await fixture.scheduler.start()
    for number in 0..<2_000 { try fixture.enqueue("\(number)") { $0.timeout = .seconds(3_600) } }
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take().count == 2_000)
    let (timers, _, next) = Self.counts(fixture)
    #expect(timers <= 8 * 4 + 256)
    #expect(next == nil)
    await fixture.scheduler.stop()
  }

  @Test(arguments: ["transaction", "scheduler", "edit"])
  func `the timer of a task that waits no more for its date is removed`(by: String) async throws {
    let fixture = try TaskFixture()
    try fixture.handle()
    try await fixture.scheduler.start()
    let date = fixture.clock.wallNow.addingTimeInterval(86_400)
    let ids = try (0..<100).map { number in try fixture.enqueue("\(number)") { $0.start = .at(date) } }
    #expect(Self.counts(fixture).tasks == 100)
    switch by {
    case "transaction": try fixture.write { tx in for id in ids { try tx.cancel(.id(id)) } }
    case "scheduler": _ = try await fixture.scheduler.cancel(.state(.scheduled))
    default: try fixture.write { tx in for id in ids { try tx.edit(id, start: .now) } }
    }
    await fixture.scheduler.waitUntilIdle()
    let (_, tasks, next) = Self.counts(fixture)
    #expect(tasks == 0)
    #expect(next == nil)
    #expect(fixture.lines.take().count == (by == "edit" ? 100 : 0))
    await fixture.scheduler.stop()
  }

  @Test func `a task that is postponed many times has one timer, and runs at the last time`() async throws {
    let fixture = try TaskFixture()
    try fixture.handle()
    try await fixture.scheduler.start()
    let id = try fixture.enqueue("postponed") { $0.start = .after(.seconds(10)) }
    for number in 1...1_000 {
      try fixture.write { tx in
        try tx.edit(id, start: .after(.seconds(10 + number)))
        // The timer of a change that is undone in the same transaction does not count.
        try tx.edit(id, start: .after(.seconds(5)))
        try tx.edit(id, start: .after(.seconds(10 + number)))
      }
    }
    let (timers, tasks, _) = Self.counts(fixture)
    #expect(tasks == 1)
    #expect(timers <= 2 + 64)
    await fixture.scheduler.advance(fixture.clock, by: .seconds(1_009))
    #expect(fixture.lines.take() == [])
    await fixture.scheduler.advance(fixture.clock, by: .seconds(1))
    #expect(fixture.lines.take() == ["postponed"])
    await fixture.scheduler.stop()
  }

  @Test func `a date is not late if it is enqueued after the clock was set back`() async throws {
    let fixture = try TaskFixture()
    try fixture.handle()
    try await fixture.scheduler.start()
    try fixture.enqueue("first")
    await fixture.scheduler.waitUntilIdle()
    fixture.clock.setWall(fixture.clock.wallNow.addingTimeInterval(-3_600))
    let date = fixture.clock.wallNow.addingTimeInterval(10)
    try fixture.enqueue("date") { $0.start = .at(date) }
    await fixture.scheduler.advance(fixture.clock, by: .seconds(10))
    #expect(fixture.lines.take() == ["first", "date"])
    await fixture.scheduler.stop()
  }

  @Test(arguments: [1, Timers.taskMaximum + 1_000])
  func `a delay does not end early if the clock is set forward, and a date does, however many tasks wait`(
    count: Int
  ) async throws {
    let fixture = try TaskFixture(workers: 8)
    try fixture.handle()
    try await fixture.scheduler.start()
    let begin = fixture.clock.wallNow
    fixture.clock.advance(by: .seconds(1))
    try fixture.write { tx in
      var options = TaskOptions()
      options.start = .after(.seconds(3_600))
      for _ in 0..<count { try tx.enqueue(Note("delay"), options) }
      // This date is after those of the delays.
      options.start = .at(begin.addingTimeInterval(4_000))
      try tx.enqueue(Note("date"), options)
    }
    fixture.clock.setWall(fixture.clock.wallNow.addingTimeInterval(3_000))
    await fixture.scheduler.advance(fixture.clock, by: .seconds(60))
    await fixture.scheduler.advance(fixture.clock, by: .seconds(540))
    // By now the wall clock shows the dates of the delays.
    #expect(fixture.lines.take() == [])
    await fixture.scheduler.advance(fixture.clock, by: .seconds(399))
    #expect(fixture.lines.take() == ["date"])
    await fixture.scheduler.advance(fixture.clock, by: .seconds(2_595))
    #expect(fixture.lines.take() == [])
    // A delay that has got a new date may end a second early.
    await fixture.scheduler.advance(fixture.clock, by: .seconds(6))
    #expect(fixture.lines.take().count == count)
    #expect(try fixture.read { tx in try tx.tasks(.all).count } == 0)
    await fixture.scheduler.stop()
  }

  @Test(arguments: [1, Timers.taskMaximum + 1_000])
  func `a delay does not end late if the clock is set back, however many delays wait`(count: Int) async throws {
    let fixture = try TaskFixture(workers: 8)
    try fixture.handle()
    try await fixture.scheduler.start()
    try fixture.write { tx in
      var options = TaskOptions()
      options.start = .after(.seconds(3_600))
      for _ in 0..<count { try tx.enqueue(Note("delay"), options) }
    }
    await fixture.scheduler.advance(fixture.clock, by: .seconds(1_800))
    fixture.clock.setWall(fixture.clock.wallNow.addingTimeInterval(-7_200))
    await fixture.scheduler.advance(fixture.clock, by: .seconds(60))
    await fixture.scheduler.advance(fixture.clock, by: .seconds(1_739))
    #expect(fixture.lines.take() == [])
    await fixture.scheduler.advance(fixture.clock, by: .seconds(1))
    #expect(fixture.lines.take().count == count)
    await fixture.scheduler.stop()
  }

  @Test func `what is left of a delay follows from what the clocks showed when it was written`() {
    // The clock showed 1,000 when the scheduler started, at 0. At 500 it was set forward by 10,000.
    var spans = WallSpans(from: 1_000, offset: 1_000)
    #expect(spans.remaining(of: 300, due: 1_500, at: 10) == nil)
    spans.end(1_000, next: 11_000, at: 500)
    // This row was written at 200, when the clock showed 1,200.
    #expect(spans.remaining(of: 5_000, due: 6_200, at: 500) == 4_700)
    #expect(spans.remaining(of: 5_000, due: 6_200, at: 5_200) == 0)
    // These rows were written before the start, and after the clock was set.
    #expect(spans.remaining(of: 5_000, due: 5_900, at: 500) == nil)
    #expect(spans.remaining(of: 5_000, due: 16_600, at: 600) == nil)
    // It is set back by 10,000 at 1,000, and forward by 20,000 at 2,000.
    spans.end(11_000, next: 1_000, at: 1_000)
    #expect(spans.remaining(of: 5_000, due: 16_600, at: 1_000) == 4_600)
    spans.end(1_000, next: 21_000, at: 2_000)
    #expect(spans.remaining(of: 5_000, due: 16_600, at: 2_000) == 3_600)
    #expect(spans.remaining(of: 5_000, due: 7_500, at: 2_000) == 4_500)
    #expect(spans.remaining(of: 5_000, due: 6_200, at: 2_000) == 3_200)
  }

  @Test func `a delay is not late if it was written on a date that the clock has shown twice`() {
    // The clock showed 1,000 when the scheduler started, at 0. It is set back by 300 at 500, when it shows 1,500.
    var spans = WallSpans(from: 1_000, offset: 1_000)
    spans.end(1_000, next: 700, at: 500)
    // It is set forward by 10,000 at 1,000, when it shows 1,700.
    spans.end(700, next: 10_700, at: 1_000)
    // The clock showed 1,300 at 300 and at 600, and 1,600 at 900.
    #expect(spans.remaining(of: 5_000, due: 6_300, at: 1_000) == 4_300)
    #expect(spans.remaining(of: 5_000, due: 6_600, at: 1_000) == 4_900)
  }
}
