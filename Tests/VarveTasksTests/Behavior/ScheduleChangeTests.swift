import Foundation
import Testing
import Varve
import VarveTesting

@_spi(Extensions) @testable import VarveTasks

/// Tests of schedules that the program changes, or does not register for a time.
struct ScheduleChangeTests {
  /// Starts a scheduler, with a schedule or without, after the scheduler of an older fixture was stopped and a time has
  /// passed.
  private static func start(
    _ expression: String?, after old: TaskFixture? = nil, pause: Duration = .zero,
    rules: ScheduleRules = ScheduleRules()
  ) async throws -> TaskFixture {
    await old?.scheduler.stop()
    old?.clock.advance(by: pause)
    let fixture = try TaskFixture(old?.database, clock: old?.clock ?? ManualSchedulerClock())
    try fixture.handle()
    if let expression { try register(expression, fixture, rules) }
    try await fixture.scheduler.start()
    await fixture.scheduler.waitUntilIdle()
    return fixture
  }

  private static func register(_ expression: String, _ fixture: TaskFixture, _ rules: ScheduleRules) throws {
    try fixture.scheduler.schedule("s", expression, rules: rules) { slot in
      let parts = Calendar(identifier: .gregorian).dateComponents(in: .gmt, from: slot.date)
      return Note("\(parts.day ?? 0) \(parts.hour ?? 0):\(parts.minute ?? 0)\(slot.isLate ? " late" : "")")
    }
  }

  /// Advances the clock in steps of five minutes.
  private static func run(_ fixture: TaskFixture, minutes: Int) async -> [String] {
    for _ in 0..<(minutes / 5) { await fixture.scheduler.advance(fixture.clock, by: .seconds(300)) }
    return fixture.lines.take()
  }

  /// Whether no scheduler has run for a minute without the schedule.
  private static func isActive(_ fixture: TaskFixture) throws -> Bool? {
    try fixture.read { tx in try tx.taskSchedules() }.first.map { !$0.isInactive }
  }

  private static func isDeclared(_ fixture: TaskFixture) throws -> Bool? {
    try fixture.read { tx in try tx.taskSchedules() }.first?.isDeclared
  }

  private static func missedCount(_ fixture: TaskFixture) throws -> Int {
    try fixture.read { tx in try tx.taskEvents() }.count { $0.event.kind == .slotMissed }
  }

  // MARK: - Another expression

  @Test func `a changed expression has no slot at times at which another one was registered`() async throws {
    for missed in [ScheduleRules.Missed.latest, .skip, .all(max: 10)] {
      let rules = ScheduleRules(missed: missed)
      var fixture = try await Self.start("0 6 * * *", rules: rules)
      #expect(await Self.run(fixture, minutes: 7 * 60) == ["1 6:0"])
      // At 7:00, the expression is one that has matched at 6:30.
      fixture = try await Self.start("30 6 * * *", after: fixture, rules: rules)
      #expect(fixture.lines.take().isEmpty)
      #expect(try Self.missedCount(fixture) == 0)
      #expect(await Self.run(fixture, minutes: 24 * 60) == ["2 6:30"])
      // After another start with the same expression, a missed slot is made up for again.
      fixture = try await Self.start("30 6 * * *", after: fixture, pause: .seconds(86_400), rules: rules)
      #expect(fixture.lines.take() == (missed == .skip ? [] : ["3 6:30 late"]))
      await fixture.scheduler.stop()
    }
  }

  @Test func `slots that the earlier expression has missed are not made up for`() async throws {
    var fixture = try await Self.start("*/10 * * * *")
    #expect(await Self.run(fixture, minutes: 15) == ["1 0:10"])
    fixture = try await Self.start("5 * * * *", after: fixture, pause: .seconds(3_600))
    #expect(fixture.lines.take().isEmpty)
    #expect(await Self.run(fixture, minutes: 60) == ["1 2:5"])
    await fixture.scheduler.stop()
  }

  @Test func `a schedule whose expression is changed before a start has the slots from its registration on`()
    async throws
  {
    let old = try await Self.start("0 6 * * *")
    await old.scheduler.stop()
    let fixture = try TaskFixture(old.database, clock: old.clock)
    try fixture.handle()
    try Self.register("*/10 * * * *", fixture, ScheduleRules())
    fixture.clock.advance(by: .seconds(1_500))
    try await fixture.scheduler.start()
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take() == ["1 0:20 late"])
    await fixture.scheduler.stop()
  }

  @Test func `a changed expression repeats no slot after the clock was set back`() async throws {
    var fixture = try await Self.start("*/10 * * * *")
    #expect(await Self.run(fixture, minutes: 10) == ["1 0:10"])
    fixture.clock.setWall(fixture.clock.wallNow - 600)
    fixture = try await Self.start("*/5 * * * *", after: fixture)
    #expect(await Self.run(fixture, minutes: 15) == ["1 0:15"])
    await fixture.scheduler.stop()
  }

  @Test func `changed rules apply to the slots since the last one`() async throws {
    var fixture = try await Self.start("*/10 * * * *")
    #expect(await Self.run(fixture, minutes: 10) == ["1 0:10"])
    fixture = try await Self.start(
      "*/10 * * * *", after: fixture, pause: .seconds(1_500), rules: ScheduleRules(missed: .all(max: 9)))
    #expect(fixture.lines.take() == ["1 0:20 late", "1 0:30 late"])
    await fixture.scheduler.stop()
  }

  // MARK: - Schedules that are not registered

  @Test func `a schedule without which a scheduler has run for a minute is inactive, and begins as a new one`()
    async throws
  {
    var fixture = try await Self.start("*/10 * * * *", rules: ScheduleRules(missed: .all(max: 10)))
    #expect(await Self.run(fixture, minutes: 15) == ["1 0:10"])
    #expect(try Self.isDeclared(fixture) == true)
    fixture = try await Self.start(nil, after: fixture)
    #expect(try Self.isActive(fixture) == true)
    // Nothing fires it from the start on, so a summary has no slot for it.
    #expect(try Self.isDeclared(fixture) == false)
    let schedule = try #require(fixture.scheduler.summary().schedules.first)
    #expect(!schedule.isDeclared && schedule.nextSlot == nil)
    await fixture.scheduler.advance(fixture.clock, by: .seconds(60))
    #expect(try Self.isActive(fixture) == false)
    // A day and 59 days later.
    fixture = try await Self.start(nil, after: fixture, pause: .seconds(86_400))
    await fixture.scheduler.advance(fixture.clock, by: .seconds(60))
    #expect(try Self.isActive(fixture) == false)
    fixture = try await Self.start(
      "*/10 * * * *", after: fixture, pause: .seconds(59 * 86_400), rules: ScheduleRules(missed: .all(max: 10)))
    #expect(fixture.lines.take().isEmpty)
    #expect(try Self.missedCount(fixture) == 0)
    #expect(try Self.isActive(fixture) == true)
    #expect(await Self.run(fixture, minutes: 10).count == 1)
    await fixture.scheduler.stop()
  }

  @Test func `a schedule that is registered within a minute after a start is made up for`() async throws {
    var fixture = try await Self.start("*/10 * * * *")
    #expect(await Self.run(fixture, minutes: 15) == ["1 0:10"])
    fixture = try await Self.start(nil, after: fixture, pause: .seconds(3_600))
    await fixture.scheduler.advance(fixture.clock, by: .seconds(59))
    try Self.register("*/10 * * * *", fixture, ScheduleRules())
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take() == ["1 1:10 late"])
    await fixture.scheduler.advance(fixture.clock, by: .seconds(60))
    #expect(try Self.isActive(fixture) == true && Self.isDeclared(fixture) == true)
    await fixture.scheduler.stop()
  }

  @Test func `a scheduler that ends before it has seen a schedule does not make it inactive`() async throws {
    var fixture = try await Self.start("*/10 * * * *")
    #expect(await Self.run(fixture, minutes: 15) == ["1 0:10"])
    for _ in 0..<3 {
      fixture = try await Self.start(nil, after: fixture)
      await fixture.scheduler.advance(fixture.clock, by: .seconds(30))
    }
    #expect(try Self.isActive(fixture) == true)
    fixture = try await Self.start("*/10 * * * *", after: fixture, pause: .seconds(600))
    #expect(fixture.lines.take() == ["1 0:20 late"])
    await fixture.scheduler.stop()
  }

  @Test func `the bytes of an active schedule are those of earlier versions, and an inactive one has a byte more`()
    throws
  {
    var record = ScheduleRecord(
      expression: "0 6 * * *", zone: "GMT", kind: "note", queue: "default", rules: ScheduleRules(), lastSlot: 7)
    record.lastTask = TaskID(rawValue: 9)
    let bytes = record.bytes
    #expect(try ScheduleRecord(bytes) == record)
    record.isInactive = true
    let longer = record.bytes
    #expect(longer.count == bytes.count + 1 && longer.last == 1)
    #expect(try ScheduleRecord(longer) == record)
  }
}
