import EngineTestSupport
import Foundation
import FutexLocks
import Testing
import Varve
import VarveTesting

@testable import VarveTasks

/// Tests of the timers in memory: they are bounded, and those that need not fire wake no one.
@Suite(.timeLimit(.minutes(10)))
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
      #expect(Self.counts(fixture).tasks <= 2 * TaskTimers.taskMaximum)
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
}
