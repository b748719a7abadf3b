import Testing
import Varve
import VarveTestSupport

@_spi(Extensions) @testable import VarveTasks
@testable import VarveTesting

/// Tests of handlers that end after their attempts were settled, or never.
///
/// A stop returns as soon as the last handler has ended, however its attempt was settled. Several attempts of one task
/// that do not return have a worker each, and each releases it when it returns or is abandoned.
struct StopTests {
  // MARK: - Stops

  /// Stops the scheduler, and calls `body` while the stop waits for handlers. Returns when the stop has returned: no
  /// time passes besides what `body` lets pass.
  private static func stop(_ fixture: TaskFixture, _ body: () -> Void) async {
    let drainEnd = fixture.clock.continuousNow + .seconds(30)
    let stop = Task { await fixture.scheduler.stop() }
    await fixture.poll { fixture.clock.deadlines.contains(drainEnd) }
    body()
    await stop.value
  }

  @Test(arguments: [false, true])
  func `transition 10: a stop returns when the last handler has ended that has completed its task`(
    completesBefore: Bool
  ) async throws {
    let fixture = try TaskFixture()
    let (begun, mayEnd) = (AsyncFlag(), AsyncFlag())
    try fixture.handle { _, context in
      if completesBefore { try await context.complete { _ in } }
      begun.set()
      await mayEnd.wait()
      if !completesBefore { try await context.complete { _ in } }
      return .done
    }
    try await fixture.scheduler.start()
    let id = try fixture.enqueue("runs")
    await begun.wait()
    await Self.stop(fixture) { mayEnd.set() }
    #expect(try fixture.state(id) == nil)
    #expect(fixture.lines.take() == ["runs"])
  }

  @Test(arguments: [false, true])
  func `transition 16: a stop returns when the last handler has ended whose time limit or lease had expired`(
    isLease: Bool
  ) async throws {
    let fixture = try TaskFixture()
    let (begun, mayEnd) = (AsyncFlag(), AsyncFlag())
    try fixture.handle(lease: isLease ? .seconds(5) : nil) { _, _ in
      begun.set()
      // The handler takes no account of its cancellation.
      await mayEnd.wait()
      return .done
    }
    try await fixture.scheduler.start()
    let id = try fixture.enqueue("slow") { options in
      if !isLease { options.timeout = .seconds(5) }
      options.maxAttempts = 1
    }
    await begun.wait()
    fixture.clock.advance(by: .seconds(5))
    let dispatcher = fixture.scheduler.dispatcher
    await fixture.poll { try fixture.state(id) == .dead && dispatcher.run(id) == nil }
    #expect(dispatcher.workload.running == 1)
    await Self.stop(fixture) { mayEnd.set() }
    #expect(try fixture.state(id) == .dead)
    #expect(fixture.lines.take() == ["slow"])
  }

  @Test
  func `transition 17: a stop returns when the last handler is abandoned, which was cancelled and does not return`()
    async throws
  {
    let fixture = try TaskFixture()
    let (begun, mayEnd) = (AsyncFlag(), AsyncFlag())
    try fixture.handle { _, _ in
      begun.set()
      await mayEnd.wait()
      return .done
    }
    try await fixture.scheduler.start()
    let id = try fixture.enqueue("stays")
    await begun.wait()
    #expect(try await fixture.scheduler.cancel(.id(id)) == 1)
    // The handler is abandoned after 10 s, and the stop would wait for 30 s.
    await Self.stop(fixture) { fixture.clock.advance(by: .seconds(10)) }
    #expect(try fixture.state(id) == nil)
    mayEnd.set()
  }

  // MARK: - Several attempts of one task

  /// Enqueues a task whose attempts exceed their time limit, each a second after it begins. The next one follows after
  /// 100 ms. Returns when all of them hang and the task is dead.
  private static func enqueueHanging(_ attempts: Int, _ fixture: TaskFixture) async throws -> TaskID {
    let dispatcher = fixture.scheduler.dispatcher
    let id = try fixture.enqueue("hangs") { options in
      options.timeout = .seconds(1)
      options.retry = .fixed(.milliseconds(100))
      options.maxAttempts = attempts
    }
    for attempt in 1...attempts {
      await fixture.poll { fixture.lines.count == attempt }
      fixture.clock.advance(by: .seconds(1))
      let state = attempt == attempts ? TaskState.dead : .retryWait
      await fixture.poll { try fixture.state(id) == state && dispatcher.run(id) == nil }
      if attempt < attempts { fixture.clock.advance(by: .milliseconds(100)) }
    }
    #expect(dispatcher.workload.running == attempts)
    #expect(fixture.lines.take() == Array(repeating: "hangs", count: attempts))
    return id
  }

  private static func abandonedCount(_ fixture: TaskFixture) throws -> Int {
    try fixture.read { tx in try tx.taskEvents() }.count { $0.event.kind == .abandoned }
  }

  @Test func `transition 16: each of two attempts of a task that hang releases its worker when it is abandoned`()
    async throws
  {
    let fixture = try TaskFixture(workers: 2)
    let dispatcher = fixture.scheduler.dispatcher
    let returns = AsyncFlag()
    defer { returns.set() }
    try fixture.handle { note, _ in
      if note.text == "hangs" { await returns.wait() }
      return .done
    }
    try await fixture.scheduler.start()
    _ = try await Self.enqueueHanging(2, fixture)
    // The attempts were settled after 1 s and 2.1 s, and are abandoned 10 s later. Until then no worker is free.
    try fixture.enqueue("other")
    fixture.clock.advance(by: .milliseconds(8_900))
    await fixture.poll { fixture.lines.count == 1 && dispatcher.workload.running == 1 }
    #expect(fixture.lines.take() == ["other"])
    fixture.clock.advance(by: .milliseconds(1_100))
    await fixture.poll { dispatcher.workload.running == 0 }
    await fixture.poll { try Self.abandonedCount(fixture) == 2 }
    // Handlers that return later have no effect.
    returns.set()
    try fixture.enqueue("last")
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take() == ["last"])
    #expect(dispatcher.workload.running == 0)
    await fixture.scheduler.stop()
  }

  @Test func `transition 16: an attempt that returns late does not keep a later one of its task from being abandoned`()
    async throws
  {
    let fixture = try TaskFixture(workers: 2)
    let dispatcher = fixture.scheduler.dispatcher
    let (firstReturns, secondReturns) = (AsyncFlag(), AsyncFlag())
    defer { secondReturns.set() }
    try fixture.handle { _, context in
      await (context.attempt == 1 ? firstReturns : secondReturns).wait()
      return .done
    }
    try await fixture.scheduler.start()
    let id = try await Self.enqueueHanging(2, fixture)
    firstReturns.set()
    await fixture.poll { dispatcher.workload.running == 1 }
    fixture.clock.advance(by: .seconds(10))
    await fixture.poll { dispatcher.workload.running == 0 }
    await fixture.poll { try Self.abandonedCount(fixture) == 1 }
    secondReturns.set()
    await fixture.scheduler.waitUntilIdle()
    #expect(try fixture.state(id) == .dead)
    #expect(dispatcher.workload.running == 0)
    await fixture.scheduler.stop()
  }

  @Test
  func
    `transition 16: other tasks run while several attempts of a task hang, and all workers are free after that`()
    async throws
  {
    let fixture = try TaskFixture(workers: 4)
    let dispatcher = fixture.scheduler.dispatcher
    let returns = AsyncFlag()
    defer { returns.set() }
    try fixture.handle { note, _ in
      if note.text == "hangs" { await returns.wait() }
      return .done
    }
    try await fixture.scheduler.start()
    _ = try await Self.enqueueHanging(3, fixture)
    try fixture.write { tx in for _ in 0..<20 { try tx.enqueue(Note("other")) } }
    await fixture.poll { fixture.lines.count == 20 && dispatcher.workload.running == 3 }
    #expect(dispatcher.workload.running == 3)
    #expect(fixture.lines.take() == Array(repeating: "other", count: 20))
    fixture.clock.advance(by: .seconds(10))
    await fixture.poll { dispatcher.workload.running == 0 }
    // As many handlers run at once as there are workers, which are four.
    try fixture.write { tx in for _ in 0..<4 { try tx.enqueue(Note("hangs")) } }
    await fixture.poll { fixture.lines.count == 4 }
    #expect(dispatcher.workload.running == 4)
    returns.set()
    await fixture.scheduler.waitUntilIdle()
    #expect(dispatcher.workload.running == 0)
    await fixture.scheduler.stop()
  }
}
