import EngineTestSupport
import Foundation
import FutexLocks
import Synchronization
import Testing
import Varve
import VarveTestSupport
import VarveTesting

@_spi(Extensions) @testable import VarveTasks

/// Tests of schedules that are registered after the start, of which some are stored late, and of a stop during that.
struct LateScheduleTests {
  private static func register(_ fixture: TaskFixture) throws {
    try fixture.scheduler.schedule("ten", "*/10 * * * *") { slot in
      let parts = Calendar(identifier: .gregorian).dateComponents(in: .gmt, from: slot.date)
      return Note("\(parts.hour ?? 0):\(parts.minute ?? 0)\(slot.isLate ? " late" : "")")
    }
  }

  private static func storedCount(_ fixture: TaskFixture) throws -> Int {
    try fixture.read { tx in try tx.taskSchedules().count }
  }

  /// Closes the database by the form that does not wait for transactions.
  private static func close(_ fixture: TaskFixture) async throws {
    let database = fixture.database
    try await Threads.alone { try database.close() }
  }

  /// Lets a call that does not wait return.
  private static func giveTime(_ hasReturned: Flag) async {
    for _ in 0..<20_000 where !hasReturned.isSet { await Task.yield() }
  }

  @Test func `crash i: the slots of a schedule begin with its registration, also if it is stored later`()
    async throws
  {
    let held = try HeldTasks(holding: .process)
    let (fixture, gate) = (held.fixture, held.gate)
    try fixture.handle()
    try await fixture.scheduler.start()
    await fixture.scheduler.waitUntilIdle()
    gate.shut()
    defer { gate.open() }
    // The loop waits for the commit of a claim, so the schedule is stored after that.
    try await fixture.writeOnThread(durability: .power) { tx in _ = try tx.enqueue(Note("first")) }
    await held.waitUntilHeld()
    try Self.register(fixture)
    fixture.clock.advance(by: .seconds(601))
    gate.open()
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take().sorted() == ["0:10", "first"])
    await fixture.scheduler.advance(fixture.clock, by: .seconds(599))
    #expect(fixture.lines.take() == ["0:20"])
    try await fixture.close()
  }

  @Test func `crash i: an advance of the clock waits until a schedule is stored, and until its slots have run`()
    async throws
  {
    let held = try HeldTasks(holding: .process)
    let (fixture, gate, isOver) = (held.fixture, held.gate, Flag())
    try fixture.handle()
    try await fixture.scheduler.start()
    await fixture.scheduler.waitUntilIdle()
    gate.shut()
    defer { gate.open() }
    try Self.register(fixture)
    let advance = Task {
      await fixture.scheduler.advance(fixture.clock, by: .seconds(601))
      isOver.set()
    }
    await held.waitUntilHeld()
    await Self.giveTime(isOver)
    #expect(!isOver.isSet)
    gate.open()
    await advance.value
    #expect(fixture.lines.take() == ["0:10"])
    try await fixture.close()
  }

  @Test func `crash i: the first slot of a schedule runs if the clock is advanced right after the registration`()
    async throws
  {
    for _ in 0..<TestScale.count(20) {
      let fixture = try TaskFixture()
      try fixture.handle()
      try await fixture.scheduler.start()
      try Self.register(fixture)
      await fixture.scheduler.advance(fixture.clock, by: .seconds(601))
      #expect(fixture.lines.take() == ["0:10"])
      await fixture.scheduler.stop()
      try await Self.close(fixture)
    }
  }

  @Test func `a schedule that can't be stored is stored when the database can be written again`() async throws {
    let backend = FailingBackend(try EngineBackend.inMemory())
    let fixture = try TaskFixture(over: backend)
    try fixture.handle()
    try await fixture.scheduler.start()
    await fixture.scheduler.waitUntilIdle()
    let before = fixture.clock.sleepCount
    backend.fail(.max)
    try Self.register(fixture)
    // The scheduler waits a second before it tries again.
    await fixture.poll { fixture.clock.sleepCount > before }
    backend.mend()
    await fixture.scheduler.advance(fixture.clock, by: .seconds(601))
    #expect(fixture.lines.take() == ["0:10"])
    try await fixture.close()
  }

  // MARK: - Stops

  @Test func `transition 10: a stop waits for a schedule that is being stored, and the database can be closed then`()
    async throws
  {
    let (fixture, isStopped) = (try TaskFixture(), Flag())
    try fixture.handle()
    try await fixture.scheduler.start()
    await fixture.scheduler.waitUntilIdle()
    // The commit that stores the schedule waits as for a call that removes another one.
    await fixture.scheduler.scheduleMutex.lock()
    try Self.register(fixture)
    let stop = Task {
      await fixture.scheduler.stop()
      isStopped.set()
      return try Self.storedCount(fixture)
    }
    await fixture.poll { fixture.scheduler.dispatcher.state.withLock { $0.isStopping } }
    await Self.giveTime(isStopped)
    #expect(!isStopped.isSet)
    fixture.scheduler.scheduleMutex.unlock()
    #expect(try await stop.value == 1)
    try await Self.close(fixture)
  }

  @Test func `transition 10: a stop waits for a schedule that is being removed, and the database can be closed then`()
    async throws
  {
    let (fixture, isStopped) = (try TaskFixture(), Flag())
    let scheduler = fixture.scheduler
    try Self.register(fixture)
    try await scheduler.start()
    await scheduler.waitUntilIdle()
    await scheduler.scheduleMutex.lock()
    async let isRemoved = scheduler.unschedule("ten")
    await fixture.poll { scheduler.state.withLock { $0.schedules.isEmpty } }
    let stop = Task {
      await scheduler.stop()
      isStopped.set()
      return try Self.storedCount(fixture)
    }
    await fixture.poll { !scheduler.state.withLock { $0.isRunning } }
    await Self.giveTime(isStopped)
    #expect(!isStopped.isSet)
    scheduler.scheduleMutex.unlock()
    #expect(try await stop.value == 0)
    let wasRegistered = try await isRemoved
    #expect(wasRegistered)
    try await Self.close(fixture)
  }

  @Test func `transition 10: no work outside of the loop begins after a stop, which waits for all such work`() async {
    let (gate, isClosed) = (AsyncGate(), Flag())
    #expect(!gate.enter())
    gate.open()
    #expect(gate.enter())
    #expect(gate.enter())
    let close = Task {
      await gate.close()
      isClosed.set()
    }
    while gate.enter() {
      gate.leave()
      await Task.yield()
    }
    gate.leave()
    await Self.giveTime(isClosed)
    #expect(!isClosed.isSet)
    gate.leave()
    await close.value
    #expect(!gate.enter())
  }
}
