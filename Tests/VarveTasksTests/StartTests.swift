import Testing
import Varve
import VarveTestSupport
import VarveTesting

@_spi(Extensions) @testable import VarveTasks

/// Tests of transactions that enqueue tasks while a scheduler starts.
struct StartTests {
  /// A scheduler that has attached itself and has read nothing from the disk yet.
  private struct Start {
    let fixture: TaskFixture
    let wakes = Flag()
    var dispatcher: TaskDispatcher { fixture.scheduler.dispatcher }

    init(rules: [QueueSelector: QueueRules] = [:]) throws {
      fixture = try TaskFixture(rules: rules)
      try fixture.handle()
      let wakes = wakes
      fixture.attach(wake: { wakes.set() })
    }

    /// Takes work as the scheduler does: subqueues are read first.
    func takeWork() throws -> TurnWork? {
      guard let work = dispatcher.takeWork(1) else { return nil }
      try fixture.read { tx in
        for (line, from) in work.refills { try fixture.scheduler.refill(line, from, try tx.tasks.parts.live, of: 1) }
      }
      return dispatcher.takeWork(1)
    }

    func queueNumber(_ name: QueueName) throws -> UInt32 { try #require(dispatcher.queue(name)).number }
  }

  @Test func `no task begins before the scheduler has recovered those that ran when a process died`() throws {
    let start = try Start()
    try start.fixture.enqueue("a")
    #expect(!start.wakes.isSet)
    #expect(start.dispatcher.timerFired() == nil)
    #expect(start.dispatcher.add(ChangeRequest(.cancel, [TaskID(rawValue: 99)])).map { $0 == nil } == true)
    #expect(!start.wakes.isSet)
    start.dispatcher.discover([])
    #expect(start.wakes.isSet)
    #expect(try start.takeWork()?.claims.count == 1)
  }

  @Test func `a queue that receives a task while the scheduler starts has the tokens that the disk has`() throws {
    let rate = QueueRules.Rate(count: 1, per: .seconds(3_600), burst: 5)
    var rules = QueueRules(order: .standard)
    rules.rate = rate
    for (tokens, claims) in [(0.0, 0), (1.0, 1)] {
      let start = try Start(rules: [.named("q"): rules])
      for text in ["a", "b"] { try start.fixture.enqueue(text) { $0.queue = "q" } }
      let bucket = TokenBucket(tokens: tokens, time: WallTime.milliseconds(start.fixture.clock.wallNow))
      start.dispatcher.loadTokens([try start.queueNumber("q"): bucket])
      start.dispatcher.discover([])
      #expect(try (start.takeWork()?.claims.count ?? 0) == claims)
    }
  }

  @Test func `children whose parents end while the scheduler starts are looked at`() throws {
    let start = try Start()
    var delta = TaskDelta()
    delta.pending = [TaskID(rawValue: 5), TaskID(rawValue: 6)]
    start.dispatcher.acknowledge(delta, .zero)
    start.dispatcher.loadParents([], areAll: true, pending: [6, 7].map { TaskID(rawValue: $0) })
    start.dispatcher.discover([])
    #expect(start.dispatcher.takeWork(1)?.pending.map(\.rawValue) == [5, 6, 7])
  }

  @Test func `callers hold a mutex one after the other, in the order in which they asked for it`() async throws {
    let (mutex, lines) = (AsyncMutex(), TaskFixture.Lines())
    let (begun, ends) = (AsyncFlag(), AsyncFlag())
    async let first: Void = mutex.withLock {
      begun.set()
      await ends.wait()
      lines.add("first")
    }
    await begun.wait()
    async let second: Void = mutex.withLock { lines.add("second") }
    for _ in 0..<100 { await Task.yield() }
    #expect(lines.count == 0)
    ends.set()
    await first
    await second
    await mutex.withLock { lines.add("third") }
    #expect(lines.take() == ["first", "second", "third"])
  }

  @Test func `starts and stops of many callers take effect one after the other, and no task counts a crash`()
    async throws
  {
    let fixture = try TaskFixture(workers: 4, kept: [.crashed, .dead])
    let running = Gauge()
    try fixture.handle { note, _ in
      running.add(1, note.text)
      for _ in 0..<20 { await Task.yield() }
      running.add(-1, note.text)
      return .done
    }
    for number in 0..<200 { try fixture.enqueue("\(number)") }
    await withTaskGroup { group in
      for caller in 0..<6 {
        group.addTask {
          for _ in 0..<15 {
            if caller.isMultiple(of: 2) { try? await fixture.scheduler.start() } else { await fixture.scheduler.stop() }
            await Task.yield()
          }
        }
      }
    }
    await fixture.scheduler.stop()
    try await fixture.scheduler.start()
    await fixture.scheduler.waitUntilIdle()
    await fixture.scheduler.stop()
    #expect(running.maximum == 1)
    #expect(try fixture.read { tx in try tx.taskEvents() }.map(\.event.kind) == [])
    #expect(try fixture.taskCount() == 0)
    #expect(Set(fixture.lines.take()).count == 200)
  }
}
