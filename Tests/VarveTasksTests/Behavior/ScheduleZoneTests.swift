import Foundation
import Testing
import Varve
import VarveTesting

@_spi(Extensions) @testable import VarveTasks

/// Tests of schedules whose time zone is another one after a restart: because the program registers another zone, or
/// because the rules of the zone have changed.
///
/// The rules of a zone come from the system, and can't be changed by a test. So a zone whose rules have changed is
/// represented by two zones that agree up to the change: Athens and Istanbul had the same time until the end of October
/// 2016, when Turkey abolished winter time. A system with older rules continued with those of Athens. The stored
/// schedule then gets the name of the other zone, so that only the rules differ.
struct ScheduleZoneTests {
  /// Starts a scheduler with a daily schedule: on a new database at a date, or on the database of an older scheduler,
  /// which is stopped, after a pause.
  private static func start(
    _ expression: String, in zone: String, at date: String, after old: TaskFixture? = nil,
    _ missed: ScheduleRules.Missed = .latest, isOtherZone: Bool = false
  ) async throws -> TaskFixture {
    let begin = try Date(iso: date)
    let clock: ManualSchedulerClock
    if let old {
      await old.scheduler.stop()
      if !isOtherZone { try await rename(old.database, zone) }
      clock = old.clock
      clock.advance(by: .seconds(begin.timeIntervalSince(clock.wallNow)))
    } else {
      clock = ManualSchedulerClock(wall: begin)
    }
    let fixture = try TaskFixture(old?.database, clock: clock)
    try fixture.handle()
    let timeZone = try #require(TimeZone(identifier: zone))
    try fixture.scheduler.schedule("daily", expression, in: timeZone, rules: ScheduleRules(missed: missed)) { slot in
      Note(slot.date.ISO8601Format() + (slot.isLate ? " late" : ""))
    }
    try await fixture.scheduler.start()
    await fixture.scheduler.waitUntilIdle()
    return fixture
  }

  /// Sets the name of the zone of the stored schedule.
  private static func rename(_ database: Database, _ zone: String) async throws {
    try await database.commitIndependently { parts in
      let (config, key) = (try TaskParts(parts).config, ConfigKeys.schedule("daily"))
      guard let value = try config.get(key) else { return }
      var record = try ScheduleRecord(value)
      record.zone = zone
      try config.put(key, record.bytes)
    }
  }

  /// Advances the clock to a date in steps, and returns the slots that have run since the last call.
  private static func slots(until date: String, _ fixture: TaskFixture) async throws -> [String] {
    let end = try Date(iso: date)
    while fixture.clock.wallNow < end { await fixture.scheduler.advance(fixture.clock, by: .seconds(1_800)) }
    return fixture.lines.take()
  }

  private static func stored(_ fixture: TaskFixture) throws -> (zone: String, lastSlot: Date)? {
    try fixture.read { tx in try tx.taskSchedules() }.first.map { ($0.zone, $0.lastSlot) }
  }

  @Test func `a schedule that is registered with another zone begins with its first slot there from now on`()
    async throws
  {
    var fixture = try await Self.start("0 6 * * *", in: "GMT", at: "2026-01-10T00:00:00Z")
    #expect(
      try await Self.slots(until: "2026-01-11T12:00:00Z", fixture) == ["2026-01-10T06:00:00Z", "2026-01-11T06:00:00Z"])
    // In Berlin, it was 6:00 before the last slot. That time does not count as missed.
    fixture = try await Self.start(
      "0 6 * * *", in: "Europe/Berlin", at: "2026-01-11T12:00:00Z", after: fixture, isOtherZone: true)
    #expect(fixture.lines.take() == [])
    let (stored, last) = (try Self.stored(fixture), try Date(iso: "2026-01-11T12:00:00Z"))
    #expect(stored?.zone == "Europe/Berlin" && stored?.lastSlot == last)
    #expect(try await Self.slots(until: "2026-01-12T12:00:00Z", fixture) == ["2026-01-12T05:00:00Z"])
    // In New York, it was 6:00 after the last slot and before the start, but the schedule was that of Berlin then.
    fixture = try await Self.start(
      "0 6 * * *", in: "America/New_York", at: "2026-01-12T12:00:00Z", after: fixture, isOtherZone: true)
    #expect(fixture.lines.take() == [])
    #expect(try await Self.slots(until: "2026-01-13T12:00:00Z", fixture) == ["2026-01-13T11:00:00Z"])
    // Another start in the same zone repeats nothing.
    fixture = try await Self.start("0 6 * * *", in: "America/New_York", at: "2026-01-13T12:00:00Z", after: fixture)
    #expect(try await Self.slots(until: "2026-01-14T12:00:00Z", fixture) == ["2026-01-14T11:00:00Z"])
    await fixture.scheduler.stop()
  }

  @Test func `after a change of a zone's rules the next slot follows the new rules, and no slot is repeated`()
    async throws
  {
    var fixture = try await Self.start("0 9 * * *", in: "Europe/Athens", at: "2016-10-28T00:00:00Z")
    #expect(
      try await Self.slots(until: "2016-10-29T12:00:00Z", fixture) == ["2016-10-28T06:00:00Z", "2016-10-29T06:00:00Z"])
    // By the old rules, the next slot would be at 7:00.
    let info = try #require(try fixture.read { tx in try tx.taskSchedules().first })
    #expect(try info.next(1, after: info.lastSlot) == [Date(iso: "2016-10-30T07:00:00Z")])
    fixture = try await Self.start("0 9 * * *", in: "Europe/Istanbul", at: "2016-10-29T12:00:00Z", after: fixture)
    #expect(fixture.lines.take() == [])
    #expect(try Self.stored(fixture)?.lastSlot == Date(iso: "2016-10-29T06:00:00Z"))
    #expect(
      try await Self.slots(until: "2016-10-31T12:00:00Z", fixture) == ["2016-10-30T06:00:00Z", "2016-10-31T06:00:00Z"])
    await fixture.scheduler.stop()
  }

  @Test func `a slot that by the new rules has passed before the start is treated as any other missed slot`()
    async throws
  {
    let cases: [(missed: ScheduleRules.Missed, lines: [String], events: Int)] = [
      (.latest, ["2016-10-30T06:00:00Z late"], 0), (.skip, [], 1), (.all(max: 9), ["2016-10-30T06:00:00Z late"], 0),
    ]
    for (missed, lines, events) in cases {
      var fixture = try await Self.start("0 9 * * *", in: "Europe/Athens", at: "2016-10-29T00:00:00Z", missed)
      #expect(try await Self.slots(until: "2016-10-30T05:30:00Z", fixture) == ["2016-10-29T06:00:00Z"])
      fixture = try await Self.start(
        "0 9 * * *", in: "Europe/Istanbul", at: "2016-10-30T06:30:00Z", after: fixture, missed)
      #expect(fixture.lines.take() == lines, "\(missed)")
      #expect(try fixture.read { tx in try tx.taskEvents() }.count { $0.event.kind == .slotMissed } == events)
      // Nothing happens at the time that the old rules had.
      #expect(try await Self.slots(until: "2016-10-31T12:00:00Z", fixture) == ["2016-10-31T06:00:00Z"])
      await fixture.scheduler.stop()
    }
  }

  @Test func `all slots since the last one are made up for by the new rules, if the schedule says so`() async throws {
    var fixture = try await Self.start("0 9 * * *", in: "Europe/Athens", at: "2016-10-29T00:00:00Z", .all(max: 9))
    #expect(try await Self.slots(until: "2016-10-29T12:00:00Z", fixture) == ["2016-10-29T06:00:00Z"])
    fixture = try await Self.start(
      "0 9 * * *", in: "Europe/Istanbul", at: "2016-11-01T12:00:00Z", after: fixture, .all(max: 9))
    let days = ["2016-10-30", "2016-10-31", "2016-11-01"]
    #expect(fixture.lines.take() == days.map { "\($0)T06:00:00Z late" })
    #expect(try await Self.slots(until: "2016-11-02T12:00:00Z", fixture) == ["2016-11-02T06:00:00Z"])
    await fixture.scheduler.stop()
  }

  @Test func `a local time that by the new rules comes again after the last slot is another slot`() async throws {
    var fixture = try await Self.start("0 9 * * *", in: "Europe/Istanbul", at: "2016-10-30T00:00:00Z")
    #expect(try await Self.slots(until: "2016-10-30T06:30:00Z", fixture) == ["2016-10-30T06:00:00Z"])
    // The clocks of the new rules show 8:30.
    fixture = try await Self.start("0 9 * * *", in: "Europe/Athens", at: "2016-10-30T06:30:00Z", after: fixture)
    #expect(fixture.lines.take() == [])
    #expect(
      try await Self.slots(until: "2016-10-31T12:00:00Z", fixture) == ["2016-10-30T07:00:00Z", "2016-10-31T07:00:00Z"])
    await fixture.scheduler.stop()
  }
}
