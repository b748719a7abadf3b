import Foundation
import FutexLocks
import Synchronization
import Testing
import Varve
import VarveTestSupport
import VarveTesting

@_spi(Extensions) @testable import VarveTasks

/// Tests of handlers that confirm from time to time that they still hold their lease.
struct LeaseTests {
  private func fixture(
    _ lease: Duration, _ body: @escaping @Sendable (Note, TaskContext) async throws -> TaskOutcome
  ) throws -> TaskFixture {
    let fixture = try TaskFixture(workers: 2)
    var options = HandlerOptions()
    options.retry = .fixed(.seconds(10))
    options.lease = lease
    try fixture.scheduler.register(Note.self, options: options, body)
    return fixture
  }

  @Test
  func `transition 21: an attempt without a heartbeat fails when its lease ends, and its late return has no effect`()
    async throws
  {
    let gate = AsyncFlag()
    let begun = AsyncFlag()
    let fixture = try fixture(.seconds(30)) { _, context in
      if context.attempt > 1 { return .discard("for good") }
      begun.set()
      await gate.wait()
      #expect(Task.isCancelled)
      #expect(throws: TaskError.self) { try context.heartbeat() }
      await #expect(throws: TaskError.self) { try await context.complete { _ in } }
      return .done
    }
    try await fixture.scheduler.start()
    let id = try fixture.enqueue("silent")
    await begun.wait()
    // The sleep of a machine ends no lease.
    fixture.clock.suspend(for: .seconds(1_000))
    fixture.clock.advance(by: .seconds(29))
    #expect(try fixture.state(id) == .running)
    fixture.clock.advance(by: .seconds(1))
    await fixture.poll { try fixture.state(id) == .retryWait }
    let task = try fixture.read { tx in try tx.task(id) }
    #expect(task?.progress.failures == 1)
    #expect(task?.errors.last == "its handler sent no heartbeat for 30.0 seconds")
    gate.set()
    await fixture.scheduler.runUntilIdle()
    await fixture.scheduler.advance(fixture.clock, by: .seconds(10))
    #expect(try fixture.state(id) == .dead)
    await fixture.scheduler.stop()
  }

  @Test func `transition 21: each heartbeat renews the lease, and a task whose last attempt loses it is dead`()
    async throws
  {
    let (beats, beat) = AsyncStream.makeStream(of: Void.self)
    let (answers, answer) = AsyncStream.makeStream(of: Void.self)
    let fixture = try fixture(.seconds(30)) { _, context in
      defer { answer.finish() }
      for await _ in beats {
        try context.heartbeat()
        answer.yield()
      }
      throw CancellationError()
    }
    let events = fixture.scheduler.events
    try await fixture.scheduler.start()
    let id = try fixture.enqueue("beats") { $0.maxAttempts = 1 }
    var received = answers.makeAsyncIterator()
    for _ in 0..<5 {
      beat.yield()
      if await received.next() == nil {
        Issue.record("the lease was over")
        break
      }
      fixture.clock.advance(by: .seconds(25))
      // All due work is done.
      let dispatcher = fixture.scheduler.dispatcher
      await fixture.poll {
        let isDue = dispatcher.nextDeadline.map { $0 <= fixture.clock.continuousNow } ?? false
        return !isDue && !dispatcher.state.withLock { $0.loop.isPumping }
      }
      #expect(try fixture.state(id) == .running)
    }
    fixture.clock.advance(by: .seconds(5))
    await fixture.poll { try fixture.state(id) == .dead }
    var kinds: [TaskEvent.Kind] = []
    for await event in events {
      kinds.append(event.kind)
      if event.kind == .dead { break }
    }
    #expect(kinds == [.started, .timedOut, .dead])
    await fixture.scheduler.stop()
  }
}
