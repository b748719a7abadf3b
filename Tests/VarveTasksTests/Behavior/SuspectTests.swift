import FutexLocks
import Testing
import Varve
import VarveTestSupport
import VarveTesting

@testable import VarveTasks

/// Tests of a task that may have caused the death of a process, while other tasks run for long.
struct SuspectTests {
  /// Runs `body` after a process has died in an attempt of the task "suspect", which is next in queue "a", while a
  /// handler of the task "long" runs, until `mayEnd` is set. `settle` waits until the scheduler has done what it can.
  private static func afterCrash(
    rules: [QueueSelector: QueueRules] = [:],
    _ body: (_ fixture: TaskFixture, _ mayEnd: AsyncFlag, _ settle: () async -> Void) async throws -> Void
  ) async throws {
    let first = try TaskFixture(rules: rules, workers: 3)
    let (begun, never) = (AsyncFlag(), AsyncFlag())
    defer { never.set() }
    try first.handle { _, _ in
      begun.set()
      await never.wait()
      return .done
    }
    try first.enqueue("suspect") { $0.queue = "a" }
    try await first.scheduler.start()
    await begun.wait()
    // The process dies.
    first.scheduler.dispatcher.detach()
    try first.write { tx in try tx.pause("a") }

    let fixture = try TaskFixture(first.database, rules: rules, workers: 3, clock: first.clock)
    let (isRunning, mayEnd) = (AsyncFlag(), AsyncFlag())
    defer { mayEnd.set() }
    try fixture.handle { note, _ in
      if note.text == "long" {
        isRunning.set()
        await mayEnd.wait()
      }
      return .done
    }
    try fixture.enqueue("long") { $0.queue = "b" }
    try await fixture.scheduler.start()
    await isRunning.wait()
    try fixture.write { tx in try tx.resume("a") }
    func settle() async {
      let dispatcher = fixture.scheduler.dispatcher
      await fixture.poll { dispatcher.state.withLock { !$0.isPumping && $0.busyCount <= 1 } }
    }
    try await body(fixture, mayEnd, settle)
    await fixture.scheduler.stop()
  }

  @Test
  func
    `transition 20: a task that crashed keeps others from beginning in every second minute, until no other task runs`()
    async throws
  {
    try await Self.afterCrash { fixture, mayEnd, settle in
      await settle()
      try fixture.enqueue("later") { $0.queue = "c" }
      await settle()
      fixture.clock.advance(by: .seconds(59))
      await settle()
      #expect(fixture.lines.take() == ["long"])
      // The minute is over without another event than its timer.
      fixture.clock.advance(by: .seconds(1))
      await fixture.poll { fixture.lines.count == 1 }
      #expect(fixture.lines.take() == ["later"])
      try fixture.enqueue("latest") { $0.queue = "d" }
      await fixture.poll { fixture.lines.count == 1 }
      #expect(fixture.lines.take() == ["latest"])
      // In the next minute no other task begins.
      fixture.clock.advance(by: .seconds(60))
      await settle()
      try fixture.enqueue("after") { $0.queue = "e" }
      await settle()
      #expect(fixture.lines.take() == [])
      mayEnd.set()
      await fixture.scheduler.waitUntilIdle()
      #expect(fixture.lines.take() == ["suspect", "after"])
    }
  }

  @Test func `transition 20: a task that crashed and has no token keeps no others from beginning until it has one`()
    async throws
  {
    var rules = QueueRules()
    // The attempt in which the process dies takes the only token.
    rules.rate = QueueRules.Rate(count: 1, per: .seconds(100))
    try await Self.afterCrash(rules: [.named("a"): rules]) { fixture, mayEnd, settle in
      let dispatcher = fixture.scheduler.dispatcher
      await settle()
      try fixture.enqueue("other") { $0.queue = "c" }
      await fixture.poll { fixture.lines.count == 2 }
      await settle()
      #expect(fixture.lines.take() == ["long", "other"])
      // From now on it has a token, and the others have to end.
      fixture.clock.advance(by: .seconds(100))
      await fixture.poll { dispatcher.state.withLock { $0.isSuspectNext && !$0.isPumping } }
      try fixture.enqueue("after") { $0.queue = "d" }
      await settle()
      #expect(fixture.lines.take() == [])
      mayEnd.set()
      await fixture.scheduler.waitUntilIdle()
      #expect(fixture.lines.take() == ["suspect", "after"])
    }
  }
}
