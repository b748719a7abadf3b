import Testing
import Varve
import VarveTestSupport
import VarveTesting

@_spi(Extensions) @testable import VarveTasks

/// Tests of the scheduler's work after one of its commits has failed: nothing that belongs to the commit is left out.
struct FailedCommitTests {
  private static func fixture(
    _ rules: [QueueSelector: QueueRules] = [:], kept: Set<TaskEvent.Kind>? = nil
  ) throws -> (TaskFixture, FailingBackend) {
    let backend = FailingBackend(try EngineBackend.inMemory())
    return (try TaskFixture(over: backend, rules: rules, kept: kept), backend)
  }

  /// Lets the time pass after which a commit is tried again, until a condition holds.
  private static func passTime(_ fixture: TaskFixture, until condition: () throws -> Bool) async {
    await fixture.poll {
      fixture.clock.advance(by: .seconds(1))
      return try condition()
    }
  }

  @Test
  func
    `transition 16: a handler is cancelled at its time limit also if the commit that ends its attempt failed at first`()
    async throws
  {
    let (fixture, backend) = try Self.fixture([.all: QueueRules(order: .serial())])
    let (begun, isCancelled) = (AsyncFlag(), AsyncFlag())
    try fixture.handle { _, _ in
      begun.set()
      await waitForCancellation { isCancelled.set() }
      throw CancellationError()
    }
    let id = try fixture.enqueue("slow") { options in
      options.timeout = .seconds(10)
      options.maxAttempts = 1
    }
    try await fixture.scheduler.start()
    await begun.wait()
    backend.fail()
    fixture.clock.advance(by: .seconds(10))
    await fixture.poll { backend.hasFailed }
    await Self.passTime(fixture) { try fixture.state(id) == .dead }
    await isCancelled.wait()
    await fixture.scheduler.waitUntilIdle()
    await fixture.scheduler.stop()
  }

  @Test func `a handler that was abandoned in a commit that failed is still reported`() async throws {
    let (fixture, backend) = try Self.fixture(kept: [.abandoned, .cancelled])
    let (begun, returns) = (AsyncFlag(), AsyncFlag())
    try fixture.handle { note, _ in
      if note.text == "stays" {
        begun.set()
        await returns.wait()
      }
      return .done
    }
    try await fixture.scheduler.start()
    let id = try fixture.enqueue("stays")
    await begun.wait()
    try fixture.enqueue("next")
    #expect(try await fixture.scheduler.cancel(.id(id)) == 1)
    // One commit ends the attempt, and the one after it takes the worker from the handler.
    backend.fail(after: 1)
    fixture.clock.advance(by: .seconds(10))
    await fixture.poll { backend.hasFailed }
    #expect(try fixture.state(id) == nil)
    await Self.passTime(fixture) { try fixture.read { tx in try tx.taskEvents() }.count == 2 }
    #expect(try fixture.read { tx in try tx.taskEvents() }.map(\.event.kind) == [.cancelled, .abandoned])
    await fixture.poll { fixture.lines.count == 2 }
    returns.set()
    await fixture.scheduler.waitUntilIdle()
    await fixture.scheduler.stop()
  }

  /// The commits make tasks ready, begin them, and end them.
  @Test(arguments: [0, 1, 2])
  func `what was to be done in a commit that failed is done in the next one, and no handler runs twice`(
    number: Int
  ) async throws {
    let (fixture, backend) = try Self.fixture()
    try fixture.handle()
    try await fixture.scheduler.start()
    for number in 0..<5 { try fixture.enqueue("\(number)") { $0.start = .after(.seconds(10)) } }
    backend.fail(after: number)
    fixture.clock.advance(by: .seconds(10))
    await fixture.poll { backend.hasFailed }
    await Self.passTime(fixture) { try fixture.rowCount() == 0 }
    #expect(fixture.lines.take().sorted() == ["0", "1", "2", "3", "4"])
    await fixture.scheduler.stop()
  }
}
