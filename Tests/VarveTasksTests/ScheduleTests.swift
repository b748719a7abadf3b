import Foundation
import Testing
import Varve
import VarveTestSupport
import VarveTesting

@_spi(Extensions) @testable import VarveTasks

/// Tests of tasks that are enqueued at times of a schedule.
struct ScheduleTests {
  /// Registers a schedule whose notes contain the time and whether it is late.
  private static func register(
    _ fixture: TaskFixture, _ expression: String = "*/10 * * * *", _ rules: ScheduleRules = ScheduleRules()
  ) throws {
    try fixture.scheduler.schedule("ten", expression, rules: rules) { slot in
      let parts = Calendar(identifier: .gregorian).dateComponents(in: .gmt, from: slot.date)
      return Note("\(parts.hour ?? 0):\(parts.minute ?? 0)\(slot.isLate ? " late" : "")")
    }
  }

  private static func restart(
    _ fixture: TaskFixture, after pause: Duration, _ rules: ScheduleRules, _ expression: String = "*/10 * * * *"
  ) async throws -> TaskFixture {
    await fixture.scheduler.stop()
    fixture.clock.advance(by: pause)
    let next = try TaskFixture(fixture.database, clock: fixture.clock)
    try next.handle()
    try register(next, expression, rules)
    try await next.scheduler.start()
    await next.scheduler.waitUntilIdle()
    return next
  }

  @Test func `crash i: each slot after the registration of a schedule enqueues one task`() async throws {
    let fixture = try TaskFixture()
    try fixture.handle { note, context in
      #expect(context.slot?.schedule == "ten")
      return .done
    }
    try Self.register(fixture)
    try await fixture.scheduler.start()
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take().isEmpty)
    for _ in 0..<6 { await fixture.scheduler.advance(fixture.clock, by: .seconds(300)) }
    #expect(fixture.lines.take() == ["0:10", "0:20", "0:30"])
    let info = try fixture.read { tx in try tx.taskSchedules() }
    #expect(info.map(\.name) == ["ten"] && info[0].lastSlot == fixture.clock.wallNow)
    #expect(try info[0].next(2, after: info[0].lastSlot) == [info[0].lastSlot + 600, info[0].lastSlot + 1_200])
    #expect(try await fixture.scheduler.unschedule("ten"))
    await fixture.scheduler.advance(fixture.clock, by: .seconds(3_600))
    #expect(fixture.lines.take().isEmpty)
    #expect(try fixture.read { tx in try tx.taskSchedules() }.isEmpty)
    await fixture.scheduler.stop()
  }

  @Test func `missed slots are skipped, enqueued once, or all enqueued, within their grace period`() async throws {
    var fixture = try TaskFixture()
    try fixture.handle()
    try Self.register(fixture)
    try await fixture.scheduler.start()
    await fixture.scheduler.waitUntilIdle()
    // At 0:25, two times were missed.
    fixture = try await Self.restart(fixture, after: .seconds(1_500), ScheduleRules(missed: .latest))
    #expect(fixture.lines.take() == ["0:20 late"])
    // At 0:55, three times were missed.
    fixture = try await Self.restart(fixture, after: .seconds(1_800), ScheduleRules(missed: .all(max: 2)))
    #expect(fixture.lines.take() == ["0:40 late", "0:50 late"])
    // At 1:25.
    fixture = try await Self.restart(fixture, after: .seconds(1_800), ScheduleRules(missed: .skip))
    #expect(fixture.lines.take().isEmpty)
    let events = try fixture.read { tx in try tx.taskEvents() }
    #expect(events.map(\.event.kind) == [.slotMissed, .slotMissed, .slotMissed])
    #expect(events.last?.event.detail == "3 times of the schedule were left out")
    // At 1:55, where only times that are at most 10 minutes old are enqueued.
    let rules = ScheduleRules(missed: .all(max: 10), grace: .seconds(600))
    fixture = try await Self.restart(fixture, after: .seconds(1_800), rules)
    #expect(fixture.lines.take() == ["1:50 late"])
    await fixture.scheduler.advance(fixture.clock, by: .seconds(300))
    #expect(fixture.lines.take() == ["2:0"])
    // Another expression begins now.
    fixture = try await Self.restart(fixture, after: .seconds(300), rules, "0 * * * *")
    #expect(fixture.lines.take().isEmpty)
    for _ in 0..<11 { await fixture.scheduler.advance(fixture.clock, by: .seconds(300)) }
    #expect(fixture.lines.take() == ["3:0"])
    await fixture.scheduler.stop()
  }

  @Test func `a slot whose previous task has not ended is run concurrently, skipped or queued`() async throws {
    for overlap in [ScheduleRules.Overlap.allow, .skip, .queue] {
      let fixture = try TaskFixture(workers: 4)
      let flag = AsyncFlag()
      try fixture.handle { note, _ in
        if note.text == "0:10" { await flag.wait() }
        return .done
      }
      try Self.register(fixture, "*/10 * * * *", ScheduleRules(overlap: overlap))
      try await fixture.scheduler.start()
      await fixture.scheduler.waitUntilIdle()
      for _ in 0..<2 {
        fixture.clock.advance(by: .seconds(600))
        let slot = fixture.clock.wallNow
        await fixture.poll { try fixture.read { tx in try tx.taskSchedules()[0].lastSlot == slot } }
        if slot == Date(timeIntervalSince1970: 1_767_225_600 + 600) { await fixture.poll { fixture.lines.count == 1 } }
      }
      if overlap == .allow { await fixture.poll { fixture.lines.count == 2 } }
      let before = fixture.lines.take()
      flag.set()
      await fixture.scheduler.waitUntilIdle()
      #expect(before == (overlap == .allow ? ["0:10", "0:20"] : ["0:10"]))
      #expect(fixture.lines.take() == (overlap == .queue ? ["0:20"] : []))
      await fixture.scheduler.stop()
    }
  }

  @Test func `no slot runs twice after the clock is set back, and the last slot runs late after it is set forward`()
    async throws
  {
    let fixture = try TaskFixture()
    try fixture.handle()
    try Self.register(fixture)
    try await fixture.scheduler.start()
    await fixture.scheduler.advance(fixture.clock, by: .seconds(600))
    #expect(fixture.lines.take() == ["0:10"])
    fixture.clock.setWall(fixture.clock.wallNow - 1_800)
    for _ in 0..<6 { await fixture.scheduler.advance(fixture.clock, by: .seconds(300)) }
    #expect(fixture.lines.take().isEmpty)
    fixture.clock.setWall(fixture.clock.wallNow + 1_800)
    for _ in 0..<2 { await fixture.scheduler.advance(fixture.clock, by: .seconds(60)) }
    #expect(fixture.lines.take() == ["0:40 late"])
    await fixture.scheduler.stop()
  }

  // MARK: - Clocks that show a wrong date

  /// Thirteen years.
  private static let farFuture: TimeInterval = 13 * 365 * 86_400

  private static func lastSlot(_ fixture: TaskFixture) throws -> Date? {
    try fixture.read { tx in try tx.taskSchedules().first?.lastSlot }
  }

  @Test(arguments: [true, false])
  func `a schedule that was stored while the clock was years ahead continues from now after a restart`(hasRun: Bool)
    async throws
  {
    let fixture = try TaskFixture()
    let begin = fixture.clock.wallNow
    fixture.clock.setWall(begin + Self.farFuture)
    try fixture.handle()
    try Self.register(fixture)
    try await fixture.scheduler.start()
    await fixture.scheduler.waitUntilIdle()
    if hasRun { await fixture.scheduler.advance(fixture.clock, by: .seconds(600)) }
    #expect(fixture.lines.take() == (hasRun ? ["0:10"] : []))
    await fixture.scheduler.stop()
    #expect(try Self.lastSlot(fixture) ?? begin >= begin + Self.farFuture)
    fixture.clock.setWall(begin + 60)
    let next = try await Self.restart(fixture, after: .seconds(60), ScheduleRules())
    #expect(try Self.lastSlot(next) == begin + 120)
    #expect(next.lines.take().isEmpty)
    await next.scheduler.advance(next.clock, by: .seconds(480))
    #expect(next.lines.take() == ["0:10"])
    await next.scheduler.stop()
  }

  @Test func `a schedule that was stored while the clock was years ahead continues from now if it is registered late`()
    async throws
  {
    let fixture = try TaskFixture()
    let begin = fixture.clock.wallNow
    fixture.clock.setWall(begin + Self.farFuture)
    try Self.register(fixture)
    try await fixture.scheduler.start()
    await fixture.scheduler.stop()
    #expect(try Self.lastSlot(fixture) == begin + Self.farFuture)
    fixture.clock.setWall(begin)
    let next = try TaskFixture(fixture.database, clock: fixture.clock)
    try next.handle()
    try await next.scheduler.start()
    try Self.register(next)
    await next.scheduler.waitUntilIdle()
    #expect(try Self.lastSlot(next) == begin)
    await next.scheduler.advance(next.clock, by: .seconds(600))
    #expect(next.lines.take() == ["0:10"])
    await next.scheduler.stop()
  }

  @Test func `a schedule that was registered while the clock was years ahead begins at the start of its scheduler`()
    async throws
  {
    let fixture = try TaskFixture()
    let begin = fixture.clock.wallNow
    try fixture.handle()
    fixture.clock.setWall(begin + Self.farFuture)
    try Self.register(fixture)
    fixture.clock.setWall(begin)
    try await fixture.scheduler.start()
    #expect(try Self.lastSlot(fixture) == begin)
    await fixture.scheduler.advance(fixture.clock, by: .seconds(600))
    #expect(fixture.lines.take() == ["0:10"])
    await fixture.scheduler.stop()
  }

  @Test func `a schedule of a running scheduler continues from now when the clock is set back by years`() async throws {
    let fixture = try TaskFixture()
    let begin = fixture.clock.wallNow
    fixture.clock.setWall(begin + Self.farFuture)
    try fixture.handle()
    try Self.register(fixture)
    try await fixture.scheduler.start()
    await fixture.scheduler.advance(fixture.clock, by: .seconds(600))
    #expect(fixture.lines.take() == ["0:10"])
    fixture.clock.setWall(begin)
    for _ in 0..<2 { await fixture.scheduler.advance(fixture.clock, by: .seconds(60)) }
    let last = try #require(try Self.lastSlot(fixture))
    #expect(last >= begin && last <= begin + 120)
    #expect(fixture.lines.take().isEmpty)
    for _ in 0..<3 { await fixture.scheduler.advance(fixture.clock, by: .seconds(240)) }
    #expect(fixture.lines.take() == ["0:10"])
    await fixture.scheduler.advance(fixture.clock, by: .seconds(360))
    #expect(fixture.lines.take() == ["0:20"])
    await fixture.scheduler.stop()
  }

  @Test(arguments: [true, false])
  func `a last slot at most a day ahead of the clock stays, and a later one does not`(isWrong: Bool) async throws {
    let fixture = try TaskFixture()
    let begin = fixture.clock.wallNow
    try fixture.handle()
    try Self.register(fixture)
    try await fixture.scheduler.start()
    await fixture.scheduler.waitUntilIdle()
    #expect(try Self.lastSlot(fixture) == begin)
    await fixture.scheduler.stop()
    fixture.clock.setWall(begin - (isWrong ? 86_401 : 86_400))
    let next = try await Self.restart(fixture, after: .zero, ScheduleRules())
    #expect(try Self.lastSlot(next) == (isWrong ? begin - 86_401 : begin))
    await next.scheduler.stop()
  }

  @Test func `invalid options of a schedule are refused, and so is a second schedule of one name`() throws {
    let fixture = try TaskFixture()
    try Self.register(fixture)
    #expect(throws: TaskError.self) { try Self.register(fixture) }
    var options = TaskOptions()
    options.unique = Uniqueness()
    #expect(throws: TaskError.self) {
      try fixture.scheduler.schedule("u", "@daily", options: options) { _ in Note("") }
    }
    #expect(throws: TaskError.self) { try fixture.scheduler.schedule("", "@daily") { _ in Note("") } }
    #expect(throws: TaskError.self) { try fixture.scheduler.schedule("n", "0 0 31 2 *") { _ in Note("") } }
  }

  @Test func `a draining queue also takes no task of a schedule`() async throws {
    let fixture = try TaskFixture()
    try fixture.handle()
    try Self.register(fixture)
    try await fixture.scheduler.start()
    try fixture.write { tx in try tx.drain("default") }
    await fixture.scheduler.advance(fixture.clock, by: .seconds(600))
    #expect(fixture.lines.take().isEmpty)
    try fixture.write { tx in try tx.resume("default") }
    await fixture.scheduler.advance(fixture.clock, by: .seconds(600))
    #expect(fixture.lines.take() == ["0:20"])
    await fixture.scheduler.stop()
  }

  @Test func `a schedule that is registered while the scheduler runs begins with its next slot`() async throws {
    let fixture = try TaskFixture()
    try fixture.handle()
    try await fixture.scheduler.start()
    try Self.register(fixture)
    await fixture.poll { try fixture.read { tx in try tx.taskSchedules().count == 1 } }
    await fixture.poll { fixture.scheduler.dispatcher.nextDeadline != nil }
    await fixture.scheduler.advance(fixture.clock, by: .seconds(600))
    #expect(fixture.lines.take() == ["0:10"])
    await fixture.scheduler.stop()
  }
}
