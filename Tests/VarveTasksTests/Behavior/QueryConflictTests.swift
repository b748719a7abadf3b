import Foundation
import Testing
import Varve
import VarveTestSupport
import VarveTesting

@_spi(Extensions) @testable import VarveTasks

/// Tests of transactions that query tasks and queues while the scheduler changes both.
struct QueryConflictTests {
  /// Runs a write transaction that reads and then writes a row, and calls `body` between the two.
  private static func beside(
    _ fixture: TaskFixture, _ read: @escaping @Sendable (WriteTransaction) throws -> Void,
    meanwhile body: () async throws -> Void
  ) async throws {
    let (hasRead, mayCommit) = (AsyncFlag(), DispatchSemaphore(value: 0))
    async let write: Void = fixture.writeOnThread { tx in
      defer { hasRead.set() }
      try read(tx)
      try tx.set(1, key: 1, in: "rows")
      hasRead.set()
      mayCommit.wait()
    }
    await hasRead.wait()
    do {
      defer { mayCommit.signal() }
      try await body()
    }
    try await write
  }

  /// Makes a queue without the writer, as a schedule does with its first task.
  private static func make(_ queue: QueueName, _ fixture: TaskFixture) async throws {
    let dispatcher = fixture.scheduler.dispatcher
    try await fixture.database.commitIndependently { parts in
      let changes = SchedulerChanges(try TaskParts(parts), now: 0, continuous: .zero, dispatcher)
      _ = try changes.add(queue)
      _ = try changes.finish()
    }
  }

  @Test func `a transaction that queries queues does not conflict with a commit that adds one`() async throws {
    let fixture = try TaskFixture()
    try fixture.enqueue("known") { $0.queue = "known" }
    try await Self.beside(fixture) { tx throws in
      #expect(try tx.taskQueues() == ["known"])
      #expect(try tx.blockedTaskQueues() == [])
      #expect(try tx.tasks(.queue("new")).isEmpty)
      #expect(try tx.taskCount(in: "new", .ready) == 0)
      #expect(try tx.taskQueueState("new") == (false, false))
    } meanwhile: {
      try await Self.make("new", fixture)
    }
    #expect(try fixture.read { tx in try tx.taskQueues() } == ["known", "new"])
    #expect(try fixture.read { tx in try tx.count(in: "rows") } == 1)
  }

  @Test func `a transaction that looks for blocked queues does not conflict with changes of their tasks`()
    async throws
  {
    let fixture = try TaskFixture()
    try await fixture.scheduler.start()
    let id = try fixture.enqueue("waits") { $0.queue = "known" }
    try await Self.beside(fixture) { tx throws in
      #expect(try tx.blockedTaskQueues() == [])
    } meanwhile: {
      let count = try await fixture.scheduler.cancel(.id(id))
      #expect(count == 1)
    }
    #expect(try fixture.state(id) == nil)
    #expect(try fixture.read { tx in try tx.count(in: "rows") } == 1)
    await fixture.scheduler.stop()
  }

  @Test func `a transaction that makes a queue still conflicts with a commit that makes one`() async throws {
    let fixture = try TaskFixture()
    try fixture.enqueue("known") { $0.queue = "known" }
    var code: DatabaseError.Code?
    do {
      try await Self.beside(fixture) { tx throws in
        try tx.enqueue(Note("new"), TaskOptions(queue: "new"))
      } meanwhile: {
        try await Self.make("new", fixture)
      }
    } catch let error as DatabaseError { code = error.code }
    #expect(code == .conflict)
    #expect(try fixture.read { tx in try tx.taskQueues() } == ["known", "new"])
    #expect(try fixture.read { tx in try tx.count(in: "rows") } == 0)
  }
}
