import Synchronization
import Testing
import Varve
import VarveEngine
import VarveTestSupport
import VarveTesting

@testable import VarveTasks

/// Tests of the scheduler's work after one of its commits has failed: nothing that belongs to the commit is left out.
@Suite(.timeLimit(.minutes(10)))
struct FailedCommitTests {
  /// A storage one of whose commits fails.
  private final class FailingBackend: ForwardingBackend, @unchecked Sendable {
    // Sendable: it has only atomic state.
    /// The number of commits before the one that fails, or a negative number if none is to fail.
    let rest = Atomic(-1)

    var hasFailed: Bool { rest.load(ordering: .acquiring) < 0 }

    override func commit(
      _ batch: StorageBatch, check: StorageCheck?, durability: StorageDurability
    ) throws -> any StorageTicket {
      // One writer commits at a time in these tests.
      let number = rest.load(ordering: .acquiring)
      if number >= 0 { rest.store(number - 1, ordering: .releasing) }
      if number == 0 { throw DatabaseError(.storage, "the disk does not answer") }
      return try super.commit(batch, check: check, durability: durability)
    }
  }

  private static func fixture(
    _ rules: [QueueSelector: QueueRules] = [:], kept: Set<TaskEvent.Kind>? = nil
  ) async throws -> (TaskFixture, FailingBackend) {
    let backend = FailingBackend(try EngineBackend(try Engine.open(at: "/failing", environment: .inMemory())))
    let database = try await Database.open(
      backend, path: "/failing", definition: DatabaseDefinition { TaskStorage.handle })
    return (try TaskFixture(database, rules: rules, kept: kept), backend)
  }

  /// Lets the time pass after which a commit is tried again, until a condition holds.
  private static func passTime(_ fixture: TaskFixture, until condition: () throws -> Bool) async {
    await fixture.poll {
      fixture.clock.advance(by: .seconds(1))
      return try condition()
    }
  }

  @Test func `16 a handler is cancelled at its time limit also if the commit that ends its attempt failed at first`()
    async throws
  {
    let (fixture, backend) = try await Self.fixture([.all: QueueRules(order: .serial())])
    let (begun, isCancelled) = (AsyncFlag(), AsyncFlag())
    try fixture.handle { _, _ in
      begun.set()
      await withTaskCancellationHandler {
        await isCancelled.wait()
      } onCancel: {
        isCancelled.set()
      }
      throw CancellationError()
    }
    let id = try fixture.enqueue("slow") { options in
      options.timeout = .seconds(10)
      options.maxAttempts = 1
    }
    try await fixture.scheduler.start()
    await begun.wait()
    backend.rest.store(0, ordering: .releasing)
    fixture.clock.advance(by: .seconds(10))
    await fixture.poll { backend.hasFailed }
    await Self.passTime(fixture) { try fixture.state(id) == .dead }
    await isCancelled.wait()
    await fixture.scheduler.waitUntilIdle()
    await fixture.scheduler.stop()
  }

  @Test func `a handler that was abandoned in a commit that failed is still reported`() async throws {
    let (fixture, backend) = try await Self.fixture(kept: [.abandoned, .cancelled])
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
    backend.rest.store(1, ordering: .releasing)
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
    let (fixture, backend) = try await Self.fixture()
    try fixture.handle()
    try await fixture.scheduler.start()
    for number in 0..<5 { try fixture.enqueue("\(number)") { $0.start = .after(.seconds(10)) } }
    backend.rest.store(number, ordering: .releasing)
    fixture.clock.advance(by: .seconds(10))
    await fixture.poll { backend.hasFailed }
    await Self.passTime(fixture) { try fixture.read { tx in try tx.tasks.parts.live.count() } == 0 }
    #expect(fixture.lines.take().sorted() == ["0", "1", "2", "3", "4"])
    await fixture.scheduler.stop()
  }
}
