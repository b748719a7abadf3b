import EngineTestSupport
import Testing
import Varve
import VarveTestSupport
import VarveTesting

@_spi(Extensions) @testable import VarveTasks

/// Tests of callers that wait for the end of a task while the scheduler stops, the database is closed, or the handler
/// has not returned yet.
struct EndOfServiceTests {
  private static func begin(_ fixture: TaskFixture, _ id: TaskID) async -> Task<TaskEnd, any Error> {
    let task = Task { try await fixture.scheduler.end(of: id) }
    await fixture.poll { fixture.scheduler.dispatcher.ends.count == 1 }
    return task
  }

  @Test func `a wait ends when the scheduler is stopped before its first start`() async throws {
    let fixture = try TaskFixture()
    let call = await Self.begin(fixture, try fixture.enqueue("x"))
    await fixture.scheduler.stop()
    await #expect { try await call.value } throws: { ($0 as? DatabaseError)?.code == .closed }
    #expect(fixture.scheduler.dispatcher.ends.count == 0)
  }

  @Test(arguments: [false, true])
  func `a wait ends when the database is closed, whether or not a scheduler ran`(runs: Bool) async throws {
    let fixture = try TaskFixture()
    try fixture.handle()
    if runs { try await fixture.scheduler.start() }
    let id = try fixture.enqueue("x") { $0.start = .parked() }
    let call = await Self.begin(fixture, id)
    try await fixture.database.close()
    await #expect { try await call.value } throws: { ($0 as? DatabaseError)?.code == .closed }
    await #expect { try await fixture.scheduler.end(of: id) } throws: { ($0 as? DatabaseError)?.code == .closed }
    #expect(fixture.scheduler.dispatcher.ends.count == 0)
  }

  @Test func `a task whose end is stored has ended for every reader, although its handler has not returned`()
    async throws
  {
    let fixture = try TaskFixture()
    let returns = AsyncFlag()
    try fixture.handle { _, context in
      try await context.complete(counting: "x")
      await returns.wait()
      return .done
    }
    try await fixture.scheduler.start()
    let id = try fixture.enqueue("x") { $0.retention = .keep(.seconds(60)) }
    #expect(try await fixture.scheduler.end(of: id) == .done)
    try fixture.read { tx throws in
      #expect(try tx.task(id)?.progress.state == .done)
      #expect(try tx.tasks(.state(.done)).map(\.id) == [id])
      #expect(try tx.tasks(.state(.running)).isEmpty)
    }
    returns.set()
    await fixture.scheduler.stop()
  }
}
