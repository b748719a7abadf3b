import Foundation
import Testing
import Varve
import VarveTestSupport
import VarveTesting

@_spi(Extensions) @testable import VarveTasks

/// Tests of the event about times of a schedule that have no task.
struct OverlapTests {
  private static func details(_ fixture: TaskFixture) throws -> [String?] {
    try fixture.read { tx in try tx.taskEvents() }.map(\.event).filter { $0.kind == .slotMissed }.map(\.detail)
  }

  /// Passes some times of a schedule that fires every ten minutes, one after the other.
  private static func pass(_ count: Int, _ fixture: TaskFixture) async throws {
    for _ in 0..<count {
      fixture.clock.advance(by: .seconds(600))
      let slot = fixture.clock.wallNow
      await fixture.poll { try fixture.read { tx in try tx.taskSchedules()[0].lastSlot == slot } }
    }
  }

  @Test func `each time that is skipped while the task of an earlier one has not ended is reported and kept`()
    async throws
  {
    let fixture = try TaskFixture(workers: 4)
    let (begun, mayEnd) = (AsyncFlag(), AsyncFlag())
    try fixture.handle { _, _ in
      begun.set()
      await mayEnd.wait()
      return .done
    }
    try fixture.scheduler.schedule("ten", "*/10 * * * *", rules: ScheduleRules(overlap: .skip)) { _ in Note("x") }
    let events = fixture.scheduler.events
    try await fixture.scheduler.start()
    await fixture.scheduler.waitUntilIdle()
    try await Self.pass(1, fixture)
    await begun.wait()
    #expect(try Self.details(fixture) == [])
    try await Self.pass(2, fixture)
    let text = "1 time of the schedule was left out: 1 because the task of an earlier time had not ended"
    #expect(try Self.details(fixture) == [text, text])
    mayEnd.set()
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take() == ["x"])
    await fixture.scheduler.stop()
    // The sequence ends with the scheduler.
    var missedCount = 0
    for await event in events where event.kind == .slotMissed { missedCount += 1 }
    #expect(missedCount == 2)
  }

  @Test func `of several times that are made up for at once, those that overlap are counted as left out`()
    async throws
  {
    let first = try TaskFixture()
    let rules = ScheduleRules(missed: .all(max: 3), overlap: .skip)
    try first.scheduler.schedule("ten", "*/10 * * * *", rules: rules) { _ in Note("x") }
    try await first.scheduler.start()
    await first.scheduler.waitUntilIdle()
    await first.scheduler.stop()
    first.clock.advance(by: .seconds(3_300))
    let next = try TaskFixture(first.database, clock: first.clock)
    try next.handle()
    try next.scheduler.schedule("ten", "*/10 * * * *", rules: rules) { slot in
      Note("\(Int(slot.date.timeIntervalSince1970) / 60 % 60)")
    }
    try await next.scheduler.start()
    await next.scheduler.waitUntilIdle()
    #expect(next.lines.take() == ["30"])
    let text = "4 times of the schedule were left out: 2 because the task of an earlier time had not ended"
    #expect(try Self.details(next) == [text])
    await next.scheduler.stop()
  }

  @Test func `times whose queue is drained, and those without a payload, are counted as left out`() async throws {
    let fixture = try TaskFixture()
    try fixture.handle()
    try fixture.scheduler.schedule("ten", "*/10 * * * *") { slot in
      if slot.date.timeIntervalSince1970.truncatingRemainder(dividingBy: 1_200) == 0 { throw Broken() }
      return Note("x")
    }
    try await fixture.scheduler.start()
    await fixture.scheduler.waitUntilIdle()
    try fixture.write { tx in try tx.drain("default") }
    try await Self.pass(2, fixture)
    #expect(
      try Self.details(fixture) == [
        "1 time of the schedule was left out: 1 because its queue is drained",
        "1 time of the schedule was left out: 1 because its task could not be made",
      ])
    await fixture.scheduler.stop()
  }
}
