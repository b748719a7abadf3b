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
    mayEnd.set()
    await fixture.scheduler.stop()
  }

  @Test
  func `transition 20: a task that crashed waits 10 s for others to end, and no task begins before it meanwhile`()
    async throws
  {
    for isShort in [true, false] {
      try await Self.afterCrash { fixture, mayEnd, settle in
        await settle()
        try fixture.enqueue("later") { $0.queue = "c" }
        await settle()
        fixture.clock.advance(by: .milliseconds(9_999))
        await settle()
        #expect(fixture.lines.take() == ["long"])
        // It begins when no other task runs, or after 10 s without another event than its timer.
        if isShort { mayEnd.set() } else { fixture.clock.advance(by: .milliseconds(1)) }
        await fixture.poll { fixture.lines.count == 2 }
        #expect(fixture.lines.take() == ["suspect", "later"])
      }
    }
  }

  @Test func `transition 20: a task that crashed runs alone for 10 s, and tasks of all queues begin after that`()
    async throws
  {
    let first = try TaskFixture(workers: 3)
    let ids = try ["one", "two"].map { text in try first.enqueue(text) { $0.queue = QueueName(text) } }
    try await first.database.claimAndDie(ids)
    let (begun, mayEnd) = (AsyncFlag(), AsyncFlag())
    defer { mayEnd.set() }
    try first.handle { note, _ in
      if note.text == "one" || note.text == "two" {
        begun.set()
        await mayEnd.wait()
      }
      return .done
    }
    let (clock, lines) = (first.clock, first.lines)
    let dispatcher = first.scheduler.dispatcher
    func settle() async { await first.poll { dispatcher.state.withLock { !$0.isPumping && $0.busyCount <= 2 } } }
    try await first.scheduler.start()
    await begun.wait()
    let suspect = try #require(lines.take().first)
    for text in ["a", "b"] { try first.enqueue(text) { $0.queue = QueueName(text) } }
    try first.enqueue("same") { $0.queue = QueueName(suspect) }
    await settle()
    clock.advance(by: .milliseconds(9_999))
    await settle()
    #expect(lines.take() == [])
    // From now on the others begin, and the other task that has crashed waits as long.
    clock.advance(by: .milliseconds(1))
    await first.poll { lines.count == 3 }
    #expect(Set(lines.take()) == ["a", "b", "same"])
    try first.enqueue("c") { $0.queue = "c" }
    await first.poll { lines.count == 1 }
    #expect(lines.take() == ["c"])
    await settle()
    // Then it waits for its turn alone, at most as long as the first one has had.
    clock.advance(by: .seconds(10))
    await first.poll { dispatcher.state.withLock { $0.suspect?.hasBegun == false && !$0.isPumping } }
    try first.enqueue("d") { $0.queue = "d" }
    await settle()
    #expect(lines.take() == [])
    clock.advance(by: .seconds(10))
    await first.poll { lines.count == 2 }
    #expect(lines.take().sorted() == [suspect == "one" ? "two" : "one", "d"].sorted())
    mayEnd.set()
    await first.scheduler.waitUntilIdle()
    try first.expectNothingLeft()
    await first.scheduler.stop()
  }

  @Test func `transition 20: a task that has ended an attempt since its crash does not run alone any more`()
    async throws
  {
    let fixture = try TaskFixture(workers: 2)
    let id = try fixture.enqueue("fails")
    try await fixture.database.claimAndDie([id])
    let (isRunning, mayEnd) = (AsyncFlag(), AsyncFlag())
    defer { mayEnd.set() }
    try fixture.handle { note, context in
      if note.text == "long" {
        isRunning.set()
        await mayEnd.wait()
      }
      if context.failures == 0, note.text == "fails" { throw Broken() }
      return .done
    }
    try await fixture.scheduler.start()
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take() == ["fails"])
    let progress = try #require(try fixture.read { tx in try tx.task(id)?.progress })
    #expect(progress.crashes == 1 && progress.failures == 1)
    try fixture.enqueue("long") { $0.queue = "long" }
    await isRunning.wait()
    fixture.clock.advance(by: .seconds(10))
    await fixture.poll { fixture.lines.count == 2 }
    #expect(fixture.lines.take() == ["long", "fails"])
    mayEnd.set()
    await fixture.scheduler.stop()
  }

  @Test func `transition 20: others begin if a task that crashed is cancelled while it waits to run alone`()
    async throws
  {
    try await Self.afterCrash { fixture, mayEnd, settle in
      await settle()
      try fixture.enqueue("later") { $0.queue = "c" }
      await settle()
      #expect(fixture.lines.take() == ["long"])
      #expect(try fixture.write { tx in try tx.cancel(.queue("a")) } == 1)
      await fixture.poll { fixture.lines.count == 1 }
      #expect(fixture.lines.take() == ["later"])
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
      await fixture.poll { dispatcher.state.withLock { $0.suspect != nil && !$0.isPumping } }
      try fixture.enqueue("after") { $0.queue = "d" }
      await settle()
      #expect(fixture.lines.take() == [])
      mayEnd.set()
      await fixture.scheduler.waitUntilIdle()
      #expect(fixture.lines.take() == ["suspect", "after"])
    }
  }
}
