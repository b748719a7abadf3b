import FutexLocks
import Testing
import Varve
import VarveTestSupport
import VarveTesting

@_spi(Extensions) @testable import VarveTasks

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
      await fixture.poll { dispatcher.state.withLock { !$0.loop.isPumping && $0.running.busyCount <= 1 } }
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
    func settle() async {
      await first.poll { dispatcher.state.withLock { !$0.loop.isPumping && $0.running.busyCount <= 2 } }
    }
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
    await first.poll { dispatcher.state.withLock { $0.holds.suspect?.hasBegun == false && !$0.loop.isPumping } }
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

  @Test func `transition 20: tasks of a queue overtake those that wait to begin alone, but not in a serial queue`()
    async throws
  {
    for isSerial in [false, true] {
      let fixture = try TaskFixture(rules: isSerial ? [.all: QueueRules(order: .serial())] : [:], workers: 10)
      let ids = try (0..<(isSerial ? 1 : 4)).map { try fixture.enqueue("suspect \($0)") }
      try await fixture.database.claimAndDie(ids)
      let mayEnd = AsyncFlag()
      defer { mayEnd.set() }
      try fixture.handle { note, _ in
        if note.text.hasPrefix("suspect") { await mayEnd.wait() }
        return .done
      }
      for text in ["a", "b", "c"] { try fixture.enqueue(text) }
      let dispatcher = fixture.scheduler.dispatcher
      func settle() async {
        await fixture.poll { dispatcher.state.withLock { !$0.loop.isPumping && $0.running.busyCount <= 4 } }
      }
      try await fixture.scheduler.start()
      await fixture.poll { fixture.lines.count == 1 }
      #expect(fixture.lines.take() == ["suspect 0"])
      await settle()
      fixture.clock.advance(by: .seconds(10))
      await settle()
      if isSerial {
        #expect(fixture.lines.take() == [])
      } else {
        await fixture.poll { fixture.lines.count == 3 }
        // Three workers begin at once, in any order.
        #expect(fixture.lines.take().sorted() == ["a", "b", "c"])
      }
      for number in 1..<ids.count {
        // The next one waits until others have had their time, and then for those that run.
        await settle()
        fixture.clock.advance(by: .seconds(10))
        await fixture.poll { dispatcher.state.withLock { $0.holds.suspect?.hasBegun == false && !$0.loop.isPumping } }
        fixture.clock.advance(by: .seconds(10))
        await fixture.poll { fixture.lines.count == 1 }
        #expect(fixture.lines.take() == ["suspect \(number)"])
      }
      mayEnd.set()
      await fixture.scheduler.waitUntilIdle()
      try fixture.expectNothingLeft()
      await fixture.scheduler.stop()
    }
  }

  @Test func `transition 20: tasks that are overtaken are cancelled, moved, held and read again, and run once`()
    async throws
  {
    let fixture = try TaskFixture(workers: 10)
    let ids = try (0..<5).map { try fixture.enqueue("suspect \($0)") }
    try await fixture.database.claimAndDie(ids)
    let mayEnd = AsyncFlag()
    defer { mayEnd.set() }
    try fixture.handle { note, _ in
      if note.text.hasPrefix("suspect") { await mayEnd.wait() }
      return .done
    }
    let dispatcher = fixture.scheduler.dispatcher
    /// Waits until the scheduler has done what it can, and a number of tasks are overtaken.
    func settle(overtaken count: Int? = nil) async {
      await fixture.poll {
        dispatcher.state.withLock {
          !$0.loop.isPumping && $0.running.busyCount <= 4
            && $0.holds.overtaken.count == count ?? $0.holds.overtaken.count
        }
      }
    }
    try await fixture.scheduler.start()
    await fixture.poll { fixture.lines.count == 1 }
    await settle()
    fixture.clock.advance(by: .seconds(10))
    await settle(overtaken: 4)
    #expect(try fixture.write { tx in try tx.cancel(.id(ids[1])) } == 1)
    await settle(overtaken: 3)
    try fixture.write { tx in try tx.edit(ids[2], priority: 200) }
    #expect(throws: Undo.self) {
      try fixture.write { tx in
        try tx.edit(ids[3], priority: 0)
        throw Undo()
      }
    }
    await settle(overtaken: 3)
    // The tasks after one without a handler are read again when it gets one.
    var options = TaskOptions()
    options.priority = 0
    try fixture.write { tx in _ = try tx.enqueue(Other(), options) }
    await fixture.poll { dispatcher.unhandledKinds == ["other"] }
    await settle(overtaken: 3)
    let lines = fixture.lines
    try fixture.scheduler.register(Other.self) { _, _ in
      lines.add("other")
      return .done
    }
    await fixture.poll { lines.count == 2 }
    try fixture.enqueue("last") { $0.priority = 250 }
    await fixture.poll { lines.count == 3 }
    await settle(overtaken: 3)
    #expect(lines.take() == ["suspect 0", "other", "last"])
    for text in ["suspect 3", "suspect 4", "suspect 2"] {
      await settle()
      fixture.clock.advance(by: .seconds(10))
      await fixture.poll { dispatcher.state.withLock { $0.holds.suspect?.hasBegun == false && !$0.loop.isPumping } }
      fixture.clock.advance(by: .seconds(10))
      await fixture.poll { lines.count == 1 }
      #expect(lines.take() == [text])
    }
    mayEnd.set()
    await fixture.scheduler.waitUntilIdle()
    #expect(lines.take() == [])
    try fixture.expectNothingLeft()
    #expect(dispatcher.state.withLock { $0.holds.overtaken.isEmpty && $0.holds.postponedTasks.isEmpty })
    await fixture.scheduler.stop()
  }

  @Test func `transition 20: tasks that arrive after one that waits to begin alone set no timers`() async throws {
    let fixture = try TaskFixture(rules: .all(isSerial: true), workers: 3)
    let ids = try ["one", "two"].map { text in try fixture.enqueue(text) { $0.queue = QueueName(text) } }
    try await fixture.database.claimAndDie(ids)
    let mayEnd = AsyncFlag()
    defer { mayEnd.set() }
    try fixture.handle { _, _ in
      await mayEnd.wait()
      return .done
    }
    let dispatcher = fixture.scheduler.dispatcher
    func settle() async {
      await fixture.poll { dispatcher.state.withLock { !$0.loop.isPumping && $0.running.busyCount == 1 } }
    }
    try await fixture.scheduler.start()
    await fixture.poll { fixture.lines.count == 1 }
    await settle()
    fixture.clock.advance(by: .seconds(10))
    await fixture.poll { dispatcher.state.withLock { $0.holds.suspect == nil && !$0.holds.postponedSubqueues.isEmpty } }
    let other = QueueName(fixture.lines.take() == ["one"] ? "two" : "one")
    for number in 0..<20 {
      await settle()
      try fixture.enqueue("\(number)") { $0.queue = other }
    }
    await settle()
    let count = dispatcher.state.withLock { $0.timers.count }
    #expect(count <= 3, "\(count) timers")
    mayEnd.set()
    await fixture.scheduler.waitUntilIdle()
    try fixture.expectNothingLeft()
    await fixture.scheduler.stop()
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
      await fixture.poll { dispatcher.state.withLock { $0.holds.suspect != nil && !$0.loop.isPumping } }
      try fixture.enqueue("after") { $0.queue = "d" }
      await settle()
      #expect(fixture.lines.take() == [])
      mayEnd.set()
      await fixture.scheduler.waitUntilIdle()
      #expect(fixture.lines.take() == ["suspect", "after"])
    }
  }
}
