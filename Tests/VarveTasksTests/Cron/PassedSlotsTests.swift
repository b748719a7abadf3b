import EngineTestSupport
import Foundation
import Testing
import Varve
import VarveTesting

@_spi(Extensions) @testable import VarveTasks

/// Tests of slots that have passed while no scheduler ran, of which there may be very many.
struct PassedSlotsTests {
  /// Slots as a rule that looks at each of them treats them.
  private struct Expected: Equatable {
    var late: [Int64] = []
    var onTime: Int64?
    var missedCount = 0

    init() {}

    init(_ slots: [Int64], _ rules: ScheduleRules, now: Int64) {
      onTime = slots.last.flatMap { $0 > now - 60_000 ? $0 : nil }
      let all = onTime == nil ? slots : Array(slots.dropLast())
      let inGrace = all.filter { slot in rules.grace.map { slot >= now - $0.milliseconds } ?? true }
      switch rules.missed {
      case .skip: break
      case .latest: if onTime == nil { late = Array(inGrace.suffix(1)) }
      case .all(let count): late = Array(inGrace.suffix(count))
      }
      missedCount = all.count - late.count
    }
  }

  @Test func `a rule holds over all slots, however small the portions are in which they are processed`() throws {
    let seeds = TestScale.seed.map { $0...$0 } ?? 1...UInt64(TestScale.count(200))
    for seed in seeds {
      var random = SeededRandom(seed: seed)
      let text = ["* * * * *", "*/10 * * * *", "0 * * * *", "30 2 * * *"].randomElement(using: &random) ?? ""
      let zone = try #require(TimeZone(identifier: "Europe/Berlin"))
      let times = CronTimes(try CronExpression(text), LocalTime(zone))
      // Around 25 October 2026, when the clock is set back.
      let begin = Int64.random(in: 1_792_800_000_000..<1_793_000_000_000, using: &random)
      let now = begin + Int64.random(in: 0..<200_000_000, using: &random)
      var rules = ScheduleRules(
        missed: [.skip, .latest, .all(max: 1), .all(max: 7), .all(max: 1_000)].randomElement(using: &random) ?? .skip)
      if Bool.random(using: &random) {
        rules.grace = .milliseconds(Int64.random(in: 0..<250_000_000, using: &random))
      }
      var slots: [Int64] = []
      while let next = times.next(after: (slots.last ?? begin).flooredSecond), next * 1_000 <= now {
        slots.append(next * 1_000)
      }
      let comment: Comment = "VARVE_TEST_SEED=\(seed): \"\(text)\", \(rules), from \(begin) to \(now)"
      var (found, last, portionsEnd): (Expected, Int64, Int64?) = (Expected(), begin, nil)
      while last < slots.last ?? begin {
        let maximum = Int.random(in: 1...600, using: &random)
        let portion = PassedSlots(
          times, rules, after: last, portionsEnd: portionsEnd, now: now, atMost: maximum)
        #expect(portion.late.count + (portion.onTime == nil ? 0 : 1) <= maximum, comment)
        guard portion.last > last else {
          Issue.record("a portion has no slot; \(comment)")
          return
        }
        found.late += portion.late
        found.onTime = portion.onTime
        found.missedCount += portion.missedCount
        if portionsEnd != nil { #expect(portion.missedCount == 0, comment) }
        (last, portionsEnd) = (portion.last, portion.portionsEnd)
      }
      #expect(found == Expected(slots, rules, now: now), comment)
    }
  }

  // MARK: - By a scheduler

  private static let hour = Duration.seconds(3_600)
  /// More than the number of slots that were once processed at a time.
  private static let missedCount = 43_200

  /// Runs a scheduler with schedules that have a slot each hour, again after years. Returns the texts of the tasks that
  /// it has run then, and the details of the events about slots that were missed.
  private static func runAfterYears(
    _ rules: ScheduleRules, scheduleCount: Int = 1, after slot: Duration = .seconds(1_800)
  ) async throws -> (lines: [String], events: [String?]) {
    let fixture = try TaskFixture()
    func register(_ fixture: TaskFixture) throws {
      try fixture.handle()
      for number in 0..<scheduleCount {
        try fixture.scheduler.schedule("\(number)", "0 * * * *", rules: rules) { slot in
          let hours = Int(slot.date.timeIntervalSince1970 - 1_767_225_600) / 3_600
          return Note("\(hours)\(slot.isLate ? " late" : "")")
        }
      }
    }
    try register(fixture)
    try await fixture.scheduler.start()
    await fixture.scheduler.waitUntilIdle()
    await fixture.scheduler.stop()
    fixture.clock.advance(by: hour * missedCount + slot)
    let next = try TaskFixture(fixture.database, clock: fixture.clock)
    try register(next)
    try await next.scheduler.start()
    await next.scheduler.waitUntilIdle()
    let events = try next.read { tx in try tx.taskEvents() }.filter { $0.event.kind == .slotMissed }
    await next.scheduler.stop()
    return (next.lines.take(), events.map(\.event.detail))
  }

  @Test(arguments: ScheduleRules.Overlap.allOverlaps)
  func `the last of very many missed slots is made up for, and one event has the number of the others`(
    overlap: ScheduleRules.Overlap
  ) async throws {
    let (lines, events) = try await Self.runAfterYears(ScheduleRules(missed: .latest, overlap: overlap))
    #expect(lines == ["\(Self.missedCount) late"])
    #expect(events == ["\(Self.missedCount - 1) times of the schedule were left out"])
  }

  @Test func `the last ones of very many missed slots are made up for, and the one on time has its task`()
    async throws
  {
    let all = try await Self.runAfterYears(ScheduleRules(missed: .all(max: 3)), after: .seconds(30))
    #expect(all.lines == [3, 2, 1].map { "\(Self.missedCount - $0) late" } + ["\(Self.missedCount)"])
    #expect(all.events == ["\(Self.missedCount - 4) times of the schedule were left out"])
    let latest = try await Self.runAfterYears(ScheduleRules(missed: .latest), after: .seconds(30))
    #expect(latest.lines == ["\(Self.missedCount)"])
    #expect(latest.events == ["\(Self.missedCount - 1) times of the schedule were left out"])
    let graceful = ScheduleRules(missed: .all(max: 100), grace: Self.hour * 2)
    #expect(try await Self.runAfterYears(graceful).lines == [1, 0].map { "\(Self.missedCount - $0) late" })
  }

  @Test func `many slots are made up for in several commits, each of at most 512, and none of them twice`()
    async throws
  {
    let (lines, events) = try await Self.runAfterYears(ScheduleRules(missed: .all(max: 1_300)))
    #expect(lines == (0..<1_300).map { "\(Self.missedCount - 1_299 + $0) late" })
    #expect(events == ["\(Self.missedCount - 1_300) times of the schedule were left out"])
  }

  @Test func `one turn of the loop makes at most 512 tasks for the slots of all schedules`() async throws {
    let fixture = try TaskFixture()
    let names = (0..<20).map { "\($0)" }
    for name in names {
      try fixture.scheduler.schedule(name, "0 * * * *", rules: ScheduleRules(missed: .all(max: 400))) { _ in Note("") }
    }
    try await fixture.scheduler.start()
    await fixture.scheduler.stop()
    let now = WallTime.milliseconds(fixture.clock.wallNow) + Int64(Self.missedCount) * 3_600_000 + 30_000
    // Searching the days of a schedule ends the turn.
    let years = fixture.scheduler.dueSlots(names, now)
    #expect(years.due.map(\.slots.count) == [401] && years.due[0].missedCount == Self.missedCount - 401)
    #expect(years.left == Array(names.dropFirst()))
    let days = fixture.scheduler.dueSlots(names, WallTime.milliseconds(fixture.clock.wallNow) + 300 * 3_600_000)
    #expect(days.due.map(\.slots.count) == [300, 212] && days.due[1].portionsEnd != nil)
    #expect(days.left == Array(names.dropFirst(2)))
    let hour = fixture.scheduler.dueSlots(names, WallTime.milliseconds(fixture.clock.wallNow) + 3_600_000)
    #expect(hour.due.map(\.slots.count) == names.map { _ in 1 } && hour.left.isEmpty)
  }

  @Test func `each of many schedules makes up for its last missed slot`() async throws {
    let (lines, events) = try await Self.runAfterYears(ScheduleRules(missed: .latest), scheduleCount: 20)
    #expect(lines == Array(repeating: "\(Self.missedCount) late", count: 20))
    #expect(events.count == 20)
  }
}

extension ScheduleRules.Overlap {
  fileprivate static let allOverlaps = [allow, skip, queue]
}
