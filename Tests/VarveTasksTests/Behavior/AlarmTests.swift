import EngineTestSupport
import Foundation
import FutexLocks
import Synchronization
import Testing
import Varve
import VarveTestSupport

@_spi(Extensions) @testable import VarveTasks
@testable import VarveTesting

/// Tests of the alarm of a scheduler, and of the timers of subqueues and schedules, of which there is one for each.
struct AlarmTests {
  private static func timerCount(_ fixture: TaskFixture) -> Int {
    fixture.scheduler.dispatcher.state.withLock { $0.timers.count }
  }

  /// The maximum number of timers in memory of which one counts.
  private static let countMaximum = 2 + 64

  // MARK: - The alarm

  @Test func `an alarm has the time of the call that asked last, also if an earlier call takes longer`() async {
    let clock = ManualSchedulerClock()
    let alarm = Alarm(clock)
    let gate = Gate()
    let (isFirstSet, isSecondSet) = (Flag(), Flag())
    let (firstRings, secondRings) = (Flag(), Flag())
    gate.shut()
    Thread.detachNewThread {
      alarm.set(
        {
          gate.pass()
          return .seconds(10)
        }, { firstRings.set() })
      isFirstSet.set()
    }
    await waitUntil { gate.waitingCount > 0 }
    Thread.detachNewThread {
      alarm.set({ .seconds(5) }, { secondRings.set() })
      isSecondSet.set()
    }
    // The second call must not overtake the first one, which has asked before it.
    for _ in 0..<1_000 { await Task.yield() }
    gate.open()
    await waitUntil { isFirstSet.isSet && isSecondSet.isSet }
    await waitUntil { clock.deadlines == [.seconds(5)] }
    #expect(clock.deadlines == [.seconds(5)])
    clock.advance(by: .seconds(5))
    await waitUntil { secondRings.isSet }
    #expect(secondRings.isSet && !firstRings.isSet)
  }

  @Test(arguments: ["transaction", "scheduler", "edit"], [false, true])
  func `a scheduler sleeps no more when the only task that waits for a time waits no more`(
    by: String, isDate: Bool
  ) async throws {
    let fixture = try TaskFixture()
    try fixture.handle()
    try await fixture.scheduler.start()
    let date = fixture.clock.wallNow.addingTimeInterval(3_600)
    let id = try fixture.enqueue("waits") { $0.start = isDate ? .at(date) : .after(.seconds(3_600)) }
    await fixture.poll { fixture.clock.deadlines.count == 1 }
    switch by {
    case "transaction": try fixture.write { tx in try tx.cancel(.id(id)) }
    case "scheduler": #expect(try await fixture.scheduler.cancel(.id(id)) == 1)
    default: try fixture.write { tx in try tx.edit(id, start: .now) }
    }
    await fixture.poll { fixture.clock.deadlines.isEmpty }
    #expect(fixture.clock.deadlines == [])
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take() == (by == "edit" ? ["waits"] : []))
    await fixture.scheduler.stop()
  }

  @Test(arguments: [false, true])
  func `a scheduler sleeps until the next time when the first task that waits is cancelled or postponed`(
    isPostponed: Bool
  ) async throws {
    let fixture = try TaskFixture()
    try fixture.handle()
    try await fixture.scheduler.start()
    let first = try fixture.enqueue("first") { $0.start = .after(.seconds(3_600)) }
    try fixture.enqueue("second") { $0.start = .after(.seconds(7_200)) }
    await fixture.poll { fixture.clock.deadlines == [.seconds(3_600)] }
    try fixture.write { tx in
      if isPostponed { try tx.edit(first, start: .after(.seconds(9_000))) } else { try tx.cancel(.id(first)) }
    }
    await fixture.poll { fixture.clock.deadlines == [.seconds(7_200)] }
    #expect(fixture.clock.deadlines == [.seconds(7_200)])
    fixture.clock.advance(by: .seconds(7_200))
    await fixture.poll { fixture.lines.count == 1 }
    #expect(fixture.lines.take() == ["second"])
    await fixture.scheduler.stop()
  }

  // MARK: - One timer for each subqueue and schedule

  @Test func `the head of a serial queue that waits for its next attempt has one timer, however often it is edited`()
    async throws
  {
    let fixture = try TaskFixture(rules: [.all: QueueRules(order: .serial())])
    try fixture.handle { _, context in
      if context.failures == 0 { throw Broken() }
      return .done
    }
    try await fixture.scheduler.start()
    let id = try fixture.enqueue("first") { $0.retry = .fixed(.seconds(86_400)) }
    await fixture.scheduler.waitUntilIdle()
    #expect(try fixture.state(id) == .retryWait)
    for number in 1...1_000 {
      try fixture.write { tx in
        if number.isMultiple(of: 2) {
          try tx.edit(id, priority: UInt8(number % 200))
        } else {
          try tx.edit(id, payload: Note("\(number)"))
        }
      }
    }
    await fixture.scheduler.waitUntilIdle()
    #expect(Self.timerCount(fixture) <= Self.countMaximum)
    #expect(fixture.scheduler.dispatcher.nextDeadline == .seconds(86_400))
    await fixture.scheduler.advance(fixture.clock, by: .seconds(86_399))
    #expect(fixture.lines.take() == ["first"])
    await fixture.scheduler.advance(fixture.clock, by: .seconds(1))
    #expect(fixture.lines.take() == ["999"])
    #expect(try fixture.state(id) == nil)
    await fixture.scheduler.stop()
  }

  @Test func `the head of a serial queue that is woken and fails has one timer, however often this happens`()
    async throws
  {
    let fixture = try TaskFixture(rules: [.all: QueueRules(order: .serial())])
    let mayPass = Flag()
    try fixture.handle { _, _ in
      if !mayPass.isSet { throw Broken() }
      return .done
    }
    try await fixture.scheduler.start()
    let id = try fixture.enqueue("head") { options in
      options.retry = .fixed(.seconds(86_400))
      options.maxAttempts = nil
    }
    await fixture.scheduler.waitUntilIdle()
    for _ in 0..<1_000 {
      #expect(try fixture.write { tx in try tx.retryNow(.id(id)) } == 1)
      await fixture.scheduler.waitUntilIdle()
    }
    #expect(fixture.lines.take().count == 1_001)
    #expect(Self.timerCount(fixture) <= Self.countMaximum)
    mayPass.set()
    await fixture.scheduler.advance(fixture.clock, by: .seconds(86_400))
    #expect(fixture.lines.take() == ["head"])
    #expect(try fixture.state(id) == nil)
    await fixture.scheduler.stop()
  }

  @Test func `a schedule that is removed and registered again enqueues one task for each slot, and has one timer`()
    async throws
  {
    let fixture = try TaskFixture()
    try fixture.handle()
    try await fixture.scheduler.start()
    for round in 0..<20 {
      if round > 0 { #expect(try await fixture.scheduler.unschedule("ten")) }
      try fixture.scheduler.schedule("ten", "*/10 * * * *") { _ in Note("slot") }
      await fixture.poll { fixture.scheduler.state.withLock { $0.schedules["ten"]?.lastSlot ?? 0 } > 0 }
    }
    for slot in 1...3 {
      fixture.clock.advance(by: .seconds(600))
      let date = fixture.clock.wallNow
      await fixture.poll { try fixture.read { tx in try tx.taskSchedules() }.first?.lastSlot == date }
      await fixture.scheduler.waitUntilIdle()
      #expect(fixture.lines.take() == ["slot"])
      // The timers of the earlier registrations came first, if there were any.
      #expect(Self.timerCount(fixture) == 1, "after slot \(slot)")
      #expect(fixture.scheduler.dispatcher.nextDeadline != nil)
    }
    #expect(try await fixture.scheduler.unschedule("ten"))
    await fixture.scheduler.advance(fixture.clock, by: .seconds(600))
    #expect(fixture.lines.take() == [])
    #expect(Self.timerCount(fixture) == 0)
    await fixture.scheduler.stop()
  }
}
