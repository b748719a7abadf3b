import Testing
import Varve

@testable import VarveTasks
@testable import VarveTesting

/// Tests of stops that wait for the last handler: they return as soon as it has ended, however its attempt was settled.
@Suite(.timeLimit(.minutes(1))) struct StopTests {
  /// Stops the scheduler, and calls `body` while the stop waits for handlers. Returns whether the stop has returned
  /// without any time having passed besides what `body` lets pass.
  private static func stops(_ fixture: TaskFixture, _ body: () -> Void) async -> Bool {
    let isStopped = Flag()
    let drainEnd = fixture.clock.continuousNow + .seconds(30)
    let stop = Task {
      await fixture.scheduler.stop()
      isStopped.set()
    }
    await fixture.poll { fixture.clock.deadlines.contains(drainEnd) }
    body()
    await fixture.poll { isStopped.isSet }
    let hasReturned = isStopped.isSet
    // A stop that still waits returns at the end of its time limits.
    while !isStopped.isSet {
      fixture.clock.advance(by: .seconds(60))
      await Task.yield()
    }
    await stop.value
    return hasReturned
  }

  @Test(arguments: [false, true])
  func `10 a stop returns when the last handler has ended that has completed its task, before or during the stop`(
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
    let hasReturned = await Self.stops(fixture) { mayEnd.set() }
    #expect(hasReturned)
    #expect(try fixture.state(id) == nil)
    #expect(fixture.lines.take() == ["runs"])
  }

  @Test(arguments: [false, true])
  func `16 a stop returns when the last handler has ended whose time limit or lease had expired`(
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
    let hasReturned = await Self.stops(fixture) { mayEnd.set() }
    #expect(hasReturned)
    #expect(try fixture.state(id) == .dead)
    #expect(fixture.lines.take() == ["slow"])
  }

  @Test func `17 a stop returns when the last handler is abandoned, which was cancelled and does not return`()
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
    let hasReturned = await Self.stops(fixture) { fixture.clock.advance(by: .seconds(10)) }
    #expect(hasReturned)
    #expect(try fixture.state(id) == nil)
    mayEnd.set()
  }
}
