import EngineTestSupport
import Foundation
import Testing
import Varve
import VarveTestSupport
import VarveTesting

@_spi(Extensions) @testable import VarveTasks

/// Tests of callers that wait for the end of a task.
struct EndTests {
  /// Begins to wait for the end of a task, and returns when the call waits.
  private static func begin(_ fixture: TaskFixture, _ id: TaskID) async -> Task<TaskEnd, any Error> {
    let before = fixture.scheduler.dispatcher.ends.count
    let task = Task { try await fixture.scheduler.end(of: id) }
    await fixture.poll { fixture.scheduler.dispatcher.ends.count > before }
    return task
  }

  @Test func `a caller waits for a task to be done, dead, cancelled or deleted, also before the start`() async throws {
    let fixture = try TaskFixture()
    try fixture.handle { note, context in
      switch note.text {
      case "dead": return .discard("no")
      case "complete":
        try await context.complete(counting: "x")
        return .done
      case "retry": return context.attempt < 3 ? .retry(after: .zero) : .done
      default: return .done
      }
    }
    let texts = ["done", "complete", "retry", "dead"]
    var calls: [Task<TaskEnd, any Error>] = []
    for text in texts { calls.append(await Self.begin(fixture, try fixture.enqueue(text))) }
    let cancelled = await Self.begin(fixture, try fixture.enqueue("c") { $0.start = .after(.seconds(9)) })
    let parked = try fixture.enqueue("d") { $0.start = .parked() }
    let deleted = await Self.begin(fixture, parked)
    #expect(fixture.scheduler.dispatcher.ends.count == 6)
    try await fixture.scheduler.start()
    var ends: [TaskEnd] = []
    for call in calls { ends.append(try await call.value) }
    #expect(ends == [.done, .done, .done, .dead])
    try fixture.write { tx in
      try tx.cancel(.state(.scheduled))
      try tx.delete(.id(parked))
    }
    #expect(try await cancelled.value == .cancelled)
    #expect(try await deleted.value == .deleted)
    #expect(fixture.scheduler.dispatcher.ends.count == 0)
    await fixture.scheduler.stop()
  }

  @Test func `calls of the scheduler end tasks too, and so does the failure of a task that others depend on`()
    async throws
  {
    let fixture = try TaskFixture(rules: [.named("serial"): QueueRules(order: .serial())])
    try fixture.handle { note, _ in note.text == "bad" ? .discard("no") : .done }
    try await fixture.scheduler.start()
    let parent = try fixture.enqueue("bad") { $0.start = .parked() }
    let child = try fixture.enqueue("child") { ($0.dependsOn, $0.onParentFailure) = ([parent], .cancel) }
    let (first, second) = (await Self.begin(fixture, parent), await Self.begin(fixture, child))
    let waiting = try fixture.enqueue("w") { ($0.start, $0.tags) = (.parked(), ["w"]) }
    let third = await Self.begin(fixture, waiting)
    let head = await Self.begin(fixture, try fixture.enqueue("bad") { ($0.queue, $0.start) = ("serial", .parked()) })
    #expect(try await fixture.scheduler.retryNow(.queue("serial")) == 1)
    #expect(try await fixture.scheduler.retryNow(.id(parent)) == 1)
    #expect(try await first.value == .dead)
    #expect(try await second.value == .cancelled)
    // A dead head of a serial queue is still queued.
    #expect(try await head.value == .dead)
    #expect(try await fixture.scheduler.delete(.tag("w")) == 1)
    #expect(try await third.value == .deleted)
    await fixture.scheduler.stop()
  }

  @Test func `a task that has ended is found if it is kept, or if it is one of the last ones`() async throws {
    let fixture = try TaskFixture()
    try fixture.handle { note, context in
      try context.result(note.text)
      return .done
    }
    try await fixture.scheduler.start()
    let kept = try fixture.enqueue("kept") { $0.retention = .keep(.seconds(60)) }
    let gone = try fixture.enqueue("gone")
    #expect(try await fixture.scheduler.end(of: kept) == .done)
    // What the handler has kept is visible when the call returns.
    #expect(try fixture.read { tx in try tx.task(kept)?.result(as: String.self) } == "kept")
    await fixture.scheduler.waitUntilIdle()
    #expect(try await fixture.scheduler.end(of: kept) == .done)
    #expect(try await fixture.scheduler.end(of: gone) == .done)
    // Another scheduler of the database knows no more and no less.
    await fixture.scheduler.stop()
    let next = try TaskFixture(fixture.database, clock: fixture.clock)
    #expect(try await next.scheduler.end(of: kept) == .done)
    #expect(try await next.scheduler.end(of: gone) == .done)
    await #expect(throws: TaskError.unknownTask(TaskID(rawValue: 1 << 40))) {
      try await next.scheduler.end(of: TaskID(rawValue: 1 << 40))
    }
  }

  @Test func `transition 20: a start that makes a task dead, because the process has died with it, ends the wait`()
    async throws
  {
    let fixture = try TaskFixture(maxCrashes: 1)
    try fixture.handle()
    let id = try fixture.enqueue("x")
    try await fixture.database.claimAndDie([id])
    let call = await Self.begin(fixture, id)
    try await fixture.scheduler.start()
    #expect(try await call.value == .dead)
    await fixture.scheduler.stop()
  }

  @Test func `a wait ends with an error if its caller is cancelled, if the scheduler stops, and in the task itself`()
    async throws
  {
    let fixture = try TaskFixture()
    try fixture.handle { _, context in
      await #expect(throws: TaskError.self) { try await fixture.scheduler.end(of: context.id) }
      return .done
    }
    try await fixture.scheduler.start()
    let id = try fixture.enqueue("x") { $0.start = .parked() }
    let call = await Self.begin(fixture, id)
    call.cancel()
    await #expect(throws: CancellationError.self) { try await call.value }
    #expect(fixture.scheduler.dispatcher.ends.count == 0)
    let other = await Self.begin(fixture, id)
    await fixture.scheduler.stop()
    await #expect { try await other.value } throws: { ($0 as? DatabaseError)?.code == .closed }
    try await fixture.scheduler.start()
    try fixture.write { tx in try tx.retryNow(.id(id)) }
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take() == ["x"])
    await fixture.scheduler.stop()
  }

  @Test func `a transaction that is rolled back ends no task`() async throws {
    let fixture = try TaskFixture()
    let id = try fixture.enqueue("x") { $0.start = .parked() }
    let call = await Self.begin(fixture, id)
    try? fixture.write { tx in
      try tx.cancel(.id(id))
      throw Undo()
    }
    try fixture.write { tx in
      try? tx.savepoint {
        try tx.cancel(.id(id))
        throw Undo()
      }
    }
    #expect(fixture.scheduler.dispatcher.ends.count == 1)
    try fixture.write { tx in _ = try tx.delete(.id(id)) }
    #expect(try await call.value == .deleted)
  }

  @Test func `every one of many callers returns that wait while tasks begin and end`() async throws {
    let fixture = try TaskFixture(workers: 4)
    try fixture.handle()
    try await fixture.scheduler.start()
    let ends = try await withThrowingTaskGroup(of: TaskEnd.self) { group in
      for number in 0..<TestScale.count(200) {
        let id = try fixture.enqueue("\(number)")
        for _ in 0..<2 { group.addTask { try await fixture.scheduler.end(of: id) } }
      }
      return try await group.reduce(into: [TaskEnd: Int]()) { $0[$1, default: 0] += 1 }
    }
    #expect(Set(ends.keys).isSubset(of: [.done, .forgotten]))
    #expect(ends.values.reduce(0, +) == 2 * TestScale.count(200))
    #expect(fixture.scheduler.dispatcher.ends.count == 0)
    await fixture.scheduler.stop()
  }
}
