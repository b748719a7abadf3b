import EngineTestSupport
import Foundation
import Synchronization
import Testing
import Varve
import VarveEngine
import VarveTestSupport
import VarveTesting

@testable import VarveTasks

/// Tests of what the scheduler does while a commit is not acknowledged yet, and of how much goes into one commit.
@Suite(.timeLimit(.minutes(5))) struct TaskCommitTests {
  /// A database whose commits wait while a gate is shut, and its scheduler. The gate is open at first.
  private struct Setup {
    let gate = Gate()
    let backend: HeldBackend
    let fixture: TaskFixture

    init(holding held: StorageDurability?, rules: [QueueSelector: QueueRules] = [:]) throws {
      let engine = try Engine.open(at: "/held", environment: .inMemory())
      backend = HeldBackend(try EngineBackend(engine), gate, holding: held)
      let database = try Database.open(backend, path: "/held", definition: DatabaseDefinition { TaskStorage.handle })
      fixture = try TaskFixture(database, rules: rules, workers: 2)
    }

    func waitUntilHeld(_ count: Int) async { await fixture.poll { gate.waitingCount >= count } }
  }

  /// Enqueues a task with the durability `.power`, and returns whether it was committed.
  ///
  /// The call runs on a separate thread: the threads of Swift's pool are needed to open the gate.
  private static func enqueueDurably(_ text: String, in database: Database) async -> Bool {
    await withCheckedContinuation { continuation in
      Thread.detachNewThread {
        let id = try? database.write(durability: .power) { tx in try tx.enqueue(Note(text)).id }
        continuation.resume(returning: id != nil)
      }
    }
  }

  @Test(arguments: [false, true])
  func `a task begins when its commit is acknowledged, and not before; if that may be lost, it never begins`(
    isLost: Bool
  ) async throws {
    let setup = try Setup(holding: .power)
    let fixture = setup.fixture
    try fixture.handle()
    try await fixture.scheduler.start()
    setup.gate.shut()
    async let committed = Self.enqueueDurably("held", in: fixture.database)
    await setup.waitUntilHeld(1)
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take() == [])
    #expect(try fixture.read { tx in try tx.tasks(.all).count } == 0)
    if isLost { setup.backend.fails.store(true, ordering: .releasing) }
    setup.gate.open()
    let isCommitted = await committed
    #expect(isCommitted == !isLost)
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take() == (isLost ? [] : ["held"]))
    await fixture.scheduler.stop()
  }

  @Test(arguments: [false, true], [false, true])
  func `the next task of a serial queue waits until the end of the previous one is durable, if the order is strict`(
    isStrict: Bool, completes: Bool
  ) async throws {
    var rules = QueueRules(order: .serial())
    rules.strictDurableOrder = isStrict
    let setup = try Setup(holding: .power, rules: [.all: rules])
    let fixture = setup.fixture
    let (begun, mayEnd) = (AsyncFlag(), AsyncFlag())
    try fixture.handle { note, context in
      if note.text == "first" {
        begun.set()
        await mayEnd.wait()
        if completes { try await context.complete { _ in } }
      }
      return .done
    }
    try await fixture.scheduler.start()
    for text in ["first", "second"] { try fixture.enqueue(text) }
    await begun.wait()
    setup.gate.shut()
    mayEnd.set()
    if isStrict {
      await setup.waitUntilHeld(1)
      for _ in 0..<1_000 { await Task.yield() }
      #expect(fixture.lines.count == 1)
    } else {
      await fixture.poll { fixture.lines.count == 2 }
      #expect(setup.gate.waitingCount == 0)
    }
    setup.gate.open()
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take() == ["first", "second"])
    #expect(try fixture.read { tx in try tx.tasks(.all).count } == 0)
    await fixture.scheduler.stop()
  }

  /// Enqueues more tasks than become ready in two commits, all for the same time, and returns their number.
  private static func enqueueDelayed(_ fixture: TaskFixture) throws -> Int {
    try fixture.write { tx in try tx.pause("default") }
    let count = 2 * TaskWork.batchMaximum + 1
    try fixture.write { tx in
      var options = TaskOptions()
      options.start = .after(.seconds(5))
      for number in 0..<count { try tx.enqueue(Note("\(number)"), options) }
    }
    return count
  }

  @Test
  func `layout 10: tasks that are due at one time become ready in several commits, and other commits come between`()
    async throws
  {
    let setup = try Setup(holding: nil)
    let fixture = setup.fixture
    try fixture.handle()
    try await fixture.scheduler.start()
    let count = try Self.enqueueDelayed(fixture)
    await fixture.scheduler.waitUntilIdle()
    _ = setup.backend.takeCommits()
    setup.gate.shut()
    fixture.clock.advance(by: .seconds(5))
    await setup.waitUntilHeld(1)
    async let committed = Self.enqueueDurably("between", in: fixture.database)
    await setup.waitUntilHeld(2)
    setup.gate.open()
    let isCommitted = await committed
    #expect(isCommitted)
    await fixture.scheduler.waitUntilIdle()
    #expect(setup.backend.takeCommits() == [.process, .power, .process, .process])
    #expect(try fixture.read { tx in try tx.taskCount(in: "default", .ready) } == count + 1)
    await fixture.scheduler.stop()
  }

  @Test func `tasks that are due at one time become ready while a transaction holds the writer`() async throws {
    let fixture = try TaskFixture()
    try fixture.handle()
    try await fixture.scheduler.start()
    let count = try Self.enqueueDelayed(fixture)
    await fixture.scheduler.waitUntilIdle()
    let (held, gate) = (AsyncFlag(), DispatchSemaphore(value: 0))
    async let write: Void = fixture.writeOnThread { tx in
      try tx.set(1, key: 1, in: "rows")
      held.set()
      gate.wait()
    }
    await held.wait()
    let before = fixture.database.statistics.asideCommits
    await fixture.scheduler.advance(fixture.clock, by: .seconds(5))
    #expect(fixture.database.statistics.asideCommits - before == 3)
    #expect(try fixture.read { tx in try tx.taskCount(in: "default", .ready) } == count)
    gate.signal()
    try await write
    #expect(try fixture.read { tx in try tx.count(in: "rows") } == 1)
    await fixture.scheduler.stop()
  }
}
