import EngineTestSupport
import Synchronization
import Testing
import Varve
import VarveTestSupport
import VarveTesting

@_spi(Extensions) @testable import VarveTasks

/// Tests of what the scheduler does while a commit is not acknowledged yet, and of how much goes into one commit.
struct TaskCommitTests {
  @Test(arguments: [false, true])
  func `a task begins when its commit is acknowledged, and not before; if that may be lost, it never begins`(
    isLost: Bool
  ) async throws {
    let setup = try HeldTasks(holding: .power)
    let fixture = setup.fixture
    try fixture.handle()
    try await fixture.scheduler.start()
    setup.gate.shut()
    // The threads of Swift's pool are needed to open the gate.
    async let committed = fixture.writeOnThread(durability: .power) { tx in try tx.enqueue(Note("held")).id }
    await setup.waitUntilHeld(1)
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take() == [])
    #expect(try fixture.taskCount() == 0)
    if isLost { setup.backend.fails.store(true, ordering: .releasing) }
    setup.gate.open()
    let id = try? await committed
    #expect((id != nil) == !isLost)
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
    let setup = try HeldTasks(holding: .power, rules: [.all: rules])
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
    #expect(try fixture.taskCount() == 0)
    await fixture.scheduler.stop()
  }

  /// Enqueues more tasks than become ready in two commits, all for the same time, and returns their number.
  private static func enqueueDelayed(_ fixture: TaskFixture) throws -> Int {
    try fixture.write { tx in try tx.pause("default") }
    let count = 2 * TurnWork.batchMaximum + 1
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
    let setup = try HeldTasks(holding: nil)
    let fixture = setup.fixture
    try fixture.handle()
    try await fixture.scheduler.start()
    let count = try Self.enqueueDelayed(fixture)
    await fixture.scheduler.waitUntilIdle()
    _ = setup.backend.takeCommits()
    setup.gate.shut()
    fixture.clock.advance(by: .seconds(5))
    await setup.waitUntilHeld(1)
    async let committed = fixture.writeOnThread(durability: .power) { tx in try tx.enqueue(Note("between")).id }
    await setup.waitUntilHeld(2)
    setup.gate.open()
    _ = try await committed
    await fixture.scheduler.waitUntilIdle()
    #expect(setup.backend.takeCommits().map(\.durability) == [.process, .power, .process, .process])
    #expect(try fixture.count(.ready) == count + 1)
    await fixture.scheduler.stop()
  }

  @Test func `tasks that are due at one time become ready while a transaction holds the writer`() async throws {
    let fixture = try TaskFixture()
    try fixture.handle()
    try await fixture.scheduler.start()
    let count = try Self.enqueueDelayed(fixture)
    await fixture.scheduler.waitUntilIdle()
    let open = await OpenTransaction(fixture) { tx in try tx.set(1, key: 1, in: "rows") }
    let before = fixture.database.statistics.independentCommits
    await fixture.scheduler.advance(fixture.clock, by: .seconds(5))
    #expect(fixture.database.statistics.independentCommits - before == 3)
    #expect(try fixture.count(.ready) == count)
    try await open.finish()
    #expect(try fixture.read { tx in try tx.count(in: "rows") } == 1)
    await fixture.scheduler.stop()
  }
}
