import FutexLocks
import Testing
import Varve
import VarveTestSupport
import VarveTesting

@_spi(Extensions) @testable import VarveTasks

/// Tests of claims that are made before a worker is free, because handlers have been quick. Nothing but the time that a
/// task takes to begin may show that they exist.
struct ClaimAheadTests {
  /// A scheduler with one worker, whose queue "q" has had quick tasks. The handler of "hour 0" runs, and does not
  /// return before `end` is called. "hour 1" to "hour 9" are next in their queue, with claims that were made ahead.
  struct Site {
    let fixture: TaskFixture
    let ids: [TaskID]
    private let flags: [AsyncFlag]
    private let firstHasBegun: AsyncFlag

    init(
      over backend: (any StorageBackend)? = nil, rules: [QueueSelector: QueueRules] = [:],
      drainTimeout: Duration = .seconds(30)
    ) async throws {
      fixture =
        try backend.map { try TaskFixture(over: $0, rules: rules) }
        ?? TaskFixture(rules: rules, drainTimeout: drainTimeout)
      let flags = (0..<10).map { _ in AsyncFlag() }
      let firstHasBegun = AsyncFlag()
      (self.flags, self.firstHasBegun) = (flags, firstHasBegun)
      try fixture.handle { note, _ in
        guard note.text.hasPrefix("hour"), let number = Int(note.text.dropFirst(5)) else { return .done }
        if number == 0 { firstHasBegun.set() }
        await flags[number].wait()
        return .done
      }
      ids = try fixture.write { tx in
        for number in 0..<5 { try tx.enqueue(Note("quick \(number)"), TaskOptions(queue: "q")) }
        return try (0..<10).map { try tx.enqueue(Note("hour \($0)"), TaskOptions(queue: "q")).id }
      }
      try await fixture.scheduler.start()
      await firstHasBegun.wait()
      await calm()
      #expect(fixture.lines.take() == (0..<5).map { "quick \($0)" } + ["hour 0"])
      // Otherwise the tests would show nothing.
      #expect(claimed() == Set(ids[1...]))
    }

    /// Waits until the scheduler has done what it can.
    func calm() async {
      let dispatcher = fixture.scheduler.dispatcher
      await fixture.poll { dispatcher.state.withLock { !$0.loop.isPumping && $0.running.ahead.strays.isEmpty } }
    }

    /// The tasks with claims that were made ahead.
    func claimed() -> Set<TaskID> {
      Set(fixture.scheduler.dispatcher.state.withLock { Array($0.running.ahead.claims.keys) })
    }

    func end(_ number: Int) { flags[number].set() }

    /// Lets the next task begin after "hour 0", and returns its text.
    func next() async -> String? {
      end(0)
      await fixture.poll { fixture.lines.count > 0 }
      return fixture.lines.take().first
    }

    func close() async throws {
      for flag in flags { flag.set() }
      try await fixture.close()
    }
  }

  @Test func `a task that has not begun is ready, whether or not its claim was made ahead`() async throws {
    let site = try await Site()
    let running = try site.fixture.read { tx in try tx.tasks(.state(.running)).map(\.id) }
    #expect(running == [site.ids[0]])
    for id in site.ids[1...] { #expect(try site.fixture.state(id) == .ready) }
    try await site.close()
  }

  @Test func `a task with a smaller priority begins before those whose claims were made ahead`() async throws {
    let site = try await Site()
    try site.fixture.enqueue("urgent") { options in (options.queue, options.priority) = ("q", 0) }
    await site.calm()
    #expect(await site.next() == "urgent")
    try await site.close()
  }

  @Test func `another queue has its turn before the tasks whose claims were made ahead`() async throws {
    let site = try await Site()
    try site.fixture.enqueue("other") { $0.queue = "other" }
    await site.calm()
    // The first queue waited for its next turn before the other one had a task.
    site.end(1)
    site.end(0)
    await site.fixture.poll { site.fixture.lines.count == 3 }
    #expect(site.fixture.lines.take() == ["hour 1", "other", "hour 2"])
    try await site.close()
  }

  @Test func `no task of a paused queue begins, also if its claim was made ahead`() async throws {
    let site = try await Site()
    try await site.fixture.scheduler.pause("q")
    site.end(0)
    await site.fixture.scheduler.waitUntilIdle()
    #expect(site.fixture.lines.take() == [])
    try await site.fixture.scheduler.resume("q")
    await site.fixture.poll { site.fixture.lines.count == 1 }
    #expect(site.fixture.lines.take() == ["hour 1"])
    try await site.close()
  }

  @Test func `transition 18, 24 and 25: a task whose claim was made ahead is edited, deleted and cancelled as others`()
    async throws
  {
    let site = try await Site()
    let ids = site.ids
    try site.fixture.write { tx in
      try tx.edit(ids[1], payload: Note("edited"))
      #expect(try tx.delete(.id(ids[2])) == 1)
      #expect(try tx.cancel(.id(ids[3])) == 1)
    }
    #expect(try await site.fixture.scheduler.delete(.id(ids[4])) == 1)
    await site.calm()
    // The claims of these tasks are gone, too.
    #expect(site.claimed().isDisjoint(with: ids[2...4]))
    #expect(try site.fixture.claimCount() == 1 + site.claimed().count)
    for number in [0, 5, 6, 7, 8, 9] { site.end(number) }
    await site.fixture.scheduler.waitUntilIdle()
    #expect(site.fixture.lines.take() == ["edited"] + (5..<10).map { "hour \($0)" })
    try site.fixture.expectNothingLeft()
    #expect(try site.fixture.configCount(ConfigKeys.begun) == 0)
    try await site.close()
  }

  @Test func `a change of a task that is rolled back leaves its claim and its position`() async throws {
    let site = try await Site()
    do {
      try site.fixture.write { tx in
        try tx.edit(site.ids[1], payload: Note("edited"))
        throw Undo()
      }
    } catch is Undo {}
    await site.calm()
    #expect(site.claimed().contains(site.ids[1]))
    #expect(await site.next() == "hour 1")
    try await site.close()
  }

  @Test func `transition 19: after a stop no claim is left, and no task has begun that had not before`() async throws {
    let site = try await Site()
    async let stopped: Void = site.fixture.scheduler.stop()
    await site.fixture.poll { site.fixture.scheduler.dispatcher.state.withLock { $0.isStopping } }
    site.end(0)
    await stopped
    #expect(site.fixture.lines.take() == [])
    #expect(try site.fixture.claimCount() == 0)
    let tasks = try site.fixture.read { tx in try tx.tasks(.all).map(\.progress) }
    #expect(tasks.count == 9 && tasks.allSatisfy { $0.state == .ready && $0.attempt == 0 && $0.crashes == 0 })
    try await site.close()
  }

  @Test func `transition 20: a death counts for the task that ran, and not for those whose claims were made ahead`()
    async throws
  {
    let site = try await Site()
    // The process dies.
    site.fixture.scheduler.dispatcher.detach()
    let next = try TaskFixture(site.fixture.database, workers: 4, clock: site.fixture.clock, maxCrashes: 1)
    try await next.scheduler.start()
    await next.scheduler.waitUntilIdle()
    let tasks = try next.read { tx in try site.ids.map { try tx.task($0)?.progress } }
    #expect(tasks[0]?.state == .dead && tasks[0]?.crashes == 1)
    #expect(tasks[1...].allSatisfy { $0?.state == .ready && $0?.crashes == 0 && $0?.attempt == 0 })
    #expect(try next.claimCount() == 0 && next.configCount(ConfigKeys.begun) == 0)
    await next.scheduler.stop()
    try await site.close()
  }

  @Test
  func `crash m: a task that may have just begun when the process died is not counted, and not claimed ahead again`()
    async throws
  {
    let fixture = try TaskFixture(workers: 1)
    let (hasBegun, mayEnd) = (AsyncFlag(), AsyncFlag())
    try fixture.handle { note, _ in
      if note.text == "long" {
        hasBegun.set()
        await mayEnd.wait()
      }
      return .done
    }
    let (doubtful, other) = try fixture.write { tx in
      for number in 0..<5 { try tx.enqueue(Note("quick \(number)")) }
      try tx.enqueue(Note("long"))
      return (try tx.enqueue(Note("doubtful")).id, try tx.enqueue(Note("other")).id)
    }
    try await fixture.database.claimAndDie([doubtful], isAhead: true)
    try await fixture.scheduler.start()
    await hasBegun.wait()
    let dispatcher = fixture.scheduler.dispatcher
    await fixture.poll { dispatcher.state.withLock { !$0.loop.isPumping } }
    #expect(dispatcher.state.withLock { Array($0.running.ahead.claims.keys) } == [other])
    let task = try #require(try fixture.read { tx in try tx.task(doubtful) })
    #expect(task.progress.crashes == 0 && task.progress.state == .ready)
    mayEnd.set()
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take().suffix(2) == ["doubtful", "other"])
    try await fixture.close()
  }

  @Test func `transition 20: a death of a task that was claimed ahead before is counted, and then it runs alone`()
    async throws
  {
    let fixture = try TaskFixture()
    let id = try fixture.enqueue("doubtful")
    try await fixture.database.claimAndDie([id], isAhead: true)
    try await fixture.scheduler.start()
    await fixture.scheduler.stop()
    try await fixture.database.claimAndDie([id])
    try await fixture.scheduler.start()
    let record = try #require(try fixture.read { tx in try tx.tasks.parts.record(id) })
    #expect(record.progress.crashes == 1 && record.isSuspect && !record.mayHaveBegun)
    await fixture.scheduler.stop()
  }

  @Test func `a queue whose handlers take long gets no claims ahead, whatever those of others take`() async throws {
    let fixture = try TaskFixture(workers: 2)
    let clock = fixture.clock
    let (hasBegun, mayEnd) = (AsyncFlag(), AsyncFlag())
    try fixture.handle { note, _ in
      if note.text == "second" { clock.advance(by: .seconds(1)) }
      if note.text == "last" {
        hasBegun.set()
        await mayEnd.wait()
      }
      return .done
    }
    try await fixture.scheduler.start()
    try fixture.enqueue("second") { $0.queue = "slow" }
    await fixture.scheduler.waitUntilIdle()
    try fixture.write { tx in
      for number in 0..<20 { try tx.enqueue(Note("\(number)"), TaskOptions(queue: "quick")) }
      try tx.enqueue(Note("last"), TaskOptions(queue: "quick"))
      for _ in 0..<5 { try tx.enqueue(Note("second"), TaskOptions(queue: "slow")) }
    }
    await hasBegun.wait()
    let dispatcher = fixture.scheduler.dispatcher
    #expect(dispatcher.state.withLock { $0.running.ahead.claims.values.filter { $0.run.queue == "slow" }.isEmpty })
    mayEnd.set()
    await fixture.scheduler.waitUntilIdle()
    try await fixture.close()
  }

  @Test func `a store of events of beginnings has one for each attempt, in the commit of its claim`() async throws {
    let fixture = try TaskFixture(kept: [.started])
    try fixture.handle()
    try fixture.write { tx in
      for number in 0..<40 { try tx.enqueue(Note("\(number)")) }
    }
    try await fixture.scheduler.start()
    await fixture.scheduler.waitUntilIdle()
    let kinds = try fixture.read { tx in try tx.taskEvents().map(\.event.kind) }
    #expect(kinds == Array(repeating: .started, count: 40))
    try await fixture.close()
  }

  @Test(arguments: [false, true])
  func `a worker begins no task that the commit which is being made may change`(
    isChanging: Bool
  ) throws {
    let fixture = try TaskFixture()
    try fixture.handle()
    fixture.attach()
    let dispatcher = fixture.scheduler.dispatcher
    dispatcher.discover([])
    let ids = try fixture.write { tx in try tx.enqueue(contentsOf: (0..<4).map { Note("\($0)") }).map(\.id) }
    let first = try #require(dispatcher.takeWork(1)?.claims.first)
    #expect(dispatcher.finish(first, .outcome(.done), after: 1).next == nil)
    let work = try #require(dispatcher.takeWork(1))
    #expect(work.claims.map(\.id) == [ids[1]] && work.ahead.map(\.id) == [ids[2], ids[3]])
    dispatcher.didSettle(first, nil, [], isDone: true)
    dispatcher.didWrite(ahead: work.ahead, of: 1)
    // The commit of the loop asks before it cancels or deletes a task.
    if isChanging { #expect(dispatcher.mayChange(ids[2])) }
    let next = dispatcher.finish(work.claims[0], .outcome(.done), after: 1).next
    #expect(next?.id == (isChanging ? nil : ids[2]))
    dispatcher.detach()
  }
}
