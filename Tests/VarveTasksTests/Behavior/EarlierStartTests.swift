import FutexLocks
import Synchronization
import Testing
import Varve
import VarveTesting

@_spi(Extensions) @testable import VarveTasks

/// Tests of what the loop of an earlier start still does when the next start runs tasks: a stop that has waited in vain
/// leaves a loop that reads from a slow disk.
struct EarlierStartTests {
  private let fixture: TaskFixture
  private var dispatcher: TaskDispatcher { fixture.scheduler.dispatcher }

  /// Attaches the host of the second start. The tests do its work.
  init() throws {
    fixture = try TaskFixture()
    try fixture.handle()
    // The second start reads the task, which exists before it.
    try fixture.enqueue("first")
    fixture.attach(workers: 4, start: 2)
  }

  private func discover() throws {
    dispatcher.discover([SubqueueID(queue: try #require(dispatcher.queue("default")).number)])
  }

  /// Reads the subqueues of the work for a start.
  private func read(_ work: TurnWork, of start: UInt32) throws {
    try fixture.read { tx in
      let live = try tx.tasks.parts.live
      for (subqueue, from) in work.refills { try fixture.scheduler.refill(subqueue, from, live, of: start) }
    }
  }

  @Test func `a read of a subqueue that an earlier start has begun does not end that of the next start`() throws {
    try discover()
    let work = try #require(dispatcher.takeWork(2))
    #expect(work.refills.count == 1)
    for (subqueue, from) in work.refills { dispatcher.refill(subqueue, from: from, [], next: nil, of: 1) }
    let isIdle = dispatcher.takeWork(2) == nil
    #expect(isIdle)
    try read(work, of: 2)
    #expect(dispatcher.takeWork(2)?.claims.count == 1)
  }

  @Test func `a read of a large task by an earlier start does not change the subqueue of the next start`() throws {
    let large = try fixture.enqueue(String(repeating: "x", count: 2 * QueuedTask.valueMaximum)) { $0.priority = 1 }
    try discover()
    try read(try #require(dispatcher.takeWork(2)), of: 2)
    let work = try #require(dispatcher.takeWork(2))
    #expect(work.loads.count == 1)
    for (subqueue, key) in work.loads { dispatcher.loadFirst(subqueue, key, nil, of: 1) }
    dispatcher.failLoads(work.loads.map(\.subqueue), of: 1)
    try fixture.read { tx in
      for (subqueue, key) in work.loads { dispatcher.loadFirst(subqueue, key, try tx.tasks.parts.live.get(key), of: 2) }
    }
    #expect(dispatcher.takeWork(2)?.claims.first?.id == large)
  }

  @Test func `a read of timers that an earlier start has begun does not end that of the next start`() throws {
    let id = try fixture.enqueue("later") { $0.start = .after(.seconds(10)) }
    let from = try #require(dispatcher.beginLoadingTimers())
    dispatcher.loadTimers([], next: nil, of: 1)
    try fixture.read { tx in try fixture.scheduler.loadTimers(from, try tx.tasks.parts.live, of: 2) }
    dispatcher.discover([])
    fixture.clock.advance(by: .seconds(10))
    #expect(dispatcher.takeWork(2)?.due.map { $0.id } == [id])
  }

  @Test func `the late effects of a commit of an earlier start do not queue a running task`() throws {
    try discover()
    try read(try #require(dispatcher.takeWork(2)), of: 2)
    let run = try #require(dispatcher.takeWork(2)?.claims.first)
    var late = SchedulerDelta()
    late.entries = [(run.record.position.subqueue, QueuedTask(run.stored, run.stored.bytes))]
    dispatcher.apply(late, of: 1)
    #expect(dispatcher.state.withLock { $0.subqueues[run.record.position.subqueue]?.entryCount } == 0)
    #expect(dispatcher.state.withLock { $0.loop.isCommitting })
    dispatcher.apply(SchedulerDelta(), of: 2)
    #expect(!dispatcher.state.withLock { $0.loop.isCommitting })
  }

  @Test func `a commit of an earlier start writes nothing`() async throws {
    let id = try fixture.enqueue("later") { $0.start = .after(.seconds(10)) }
    let record = try #require(try fixture.read { tx in try tx.tasks.parts.record(id) })
    var work = TurnWork()
    work.due = [(id, record.position.key(of: id))]
    await fixture.scheduler.commit(work, fixture.database, 1)
    #expect(try fixture.state(id) == .scheduled)
    await fixture.scheduler.commit(work, fixture.database, 2)
    #expect(try fixture.state(id) == .ready)
  }
}
