import Synchronization
import Testing
import Varve
import VarveTesting

@testable import VarveTasks

/// Tests of several attempts of one task whose handlers do not return: each has a worker of its own, and releases it
/// when it returns or is abandoned.
@Suite(.timeLimit(.minutes(1))) struct HungAttemptTests {
  /// Enqueues a task whose attempts exceed their time limit, each a second after it begins, and are followed by the next
  /// one after 100 ms. Returns when all of them hang and the task is dead.
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

  @Test func `16 each of two attempts of a task that hang releases its worker when it is abandoned`() async throws {
    let fixture = try TaskFixture(workers: 2)
    let dispatcher = fixture.scheduler.dispatcher
    let returns = AsyncFlag()
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
    #expect(dispatcher.workload.running == 0)
    #expect(try Self.abandonedCount(fixture) == 2)
    // Handlers that return later have no effect.
    returns.set()
    try fixture.enqueue("last")
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take() == ["last"])
    #expect(dispatcher.workload.running == 0)
    await fixture.scheduler.stop()
  }

  @Test func `16 an attempt that returns late does not keep a later one of its task from being abandoned`() async throws
  {
    let fixture = try TaskFixture(workers: 2)
    let dispatcher = fixture.scheduler.dispatcher
    let (firstReturns, secondReturns) = (AsyncFlag(), AsyncFlag())
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
    #expect(dispatcher.workload.running == 0)
    await fixture.poll { try Self.abandonedCount(fixture) == 1 }
    #expect(try Self.abandonedCount(fixture) == 1)
    secondReturns.set()
    await fixture.scheduler.waitUntilIdle()
    #expect(try fixture.state(id) == .dead)
    #expect(dispatcher.workload.running == 0)
    await fixture.scheduler.stop()
  }

  @Test func `16 other tasks run beside several attempts of a task that hang, and all workers are free after that`()
    async throws
  {
    let fixture = try TaskFixture(workers: 4)
    let dispatcher = fixture.scheduler.dispatcher
    let returns = AsyncFlag()
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
    #expect(dispatcher.workload.running == 0)
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
