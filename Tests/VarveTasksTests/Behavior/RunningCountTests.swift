import EngineTestSupport
import Foundation
import Testing
import Varve
import VarveTestSupport
import VarveTesting

@_spi(Extensions) @testable import VarveTasks

/// Tests of the numbers of tasks in each state while some of them run.
struct RunningCountTests {
  /// The numbers of tasks in states that have some.
  private static func counts(_ tx: ReadTransaction, _ queue: QueueName = "default") throws -> [TaskState: Int] {
    var counts: [TaskState: Int] = [:]
    for state in TaskState.allCases {
      let count = try tx.taskCount(in: queue, state)
      if count != 0 { counts[state] = count }
      #expect(try tx.tasks(.queue(queue).and(.state(state))).count == count, "\(state)")
    }
    return counts
  }

  private static func counts(_ fixture: TaskFixture, _ queue: QueueName = "default") throws -> [TaskState: Int] {
    try fixture.read { tx in try counts(tx, queue) }
  }

  @Test func `a task that runs is counted as running, and in no other state`() async throws {
    let (fixture, mayEnd) = (try TaskFixture(workers: 2), AsyncFlag())
    try fixture.handle { note, _ in
      await mayEnd.wait()
      if note.text == "fails" { throw Broken() }
      return .done
    }
    try await fixture.scheduler.start()
    #expect(try Self.counts(fixture).isEmpty)
    try fixture.write { tx in
      for text in ["fails", "a", "b", "c"] { try tx.enqueue(Note(text)) }
      try tx.enqueue(Note("other"), TaskOptions(queue: "other"))
    }
    await fixture.poll { fixture.lines.count == 2 }
    let (own, other) = (try Self.counts(fixture), try Self.counts(fixture, "other"))
    #expect((own[.running] ?? 0) + (other[.running] ?? 0) == 2)
    #expect((own[.ready] ?? 0) + (other[.ready] ?? 0) == 3)
    // A transaction of the program has the same numbers, with its own changes.
    try fixture.write { tx in
      #expect(try Self.counts(tx) == own)
      try tx.enqueue(Note("d"))
      #expect(try tx.taskCount(in: "default", .ready) == (own[.ready] ?? 0) + 1)
      #expect(try tx.taskCount(in: "default", .running) == own[.running] ?? 0)
    }
    mayEnd.set()
    await fixture.scheduler.waitUntilIdle()
    #expect(try Self.counts(fixture) == [.retryWait: 1])
    #expect(try Self.counts(fixture, "other").isEmpty)
    await fixture.scheduler.stop()
  }

  @Test func `the head of a serial queue is counted as running in its second attempt`() async throws {
    let fixture = try TaskFixture(rules: [.all: QueueRules(order: .serial())])
    let mayEnd = AsyncFlag()
    try fixture.handle { _, context in
      if context.attempt == 1 { throw Broken() }
      await mayEnd.wait()
      return .done
    }
    try await fixture.scheduler.start()
    try fixture.write { tx in for text in ["head", "next"] { try tx.enqueue(Note(text)) } }
    await fixture.scheduler.waitUntilIdle()
    #expect(try Self.counts(fixture) == [.retryWait: 1, .ready: 1])
    fixture.clock.advance(by: .seconds(10))
    await fixture.poll { fixture.lines.count == 2 }
    #expect(try Self.counts(fixture) == [.running: 1, .ready: 1])
    mayEnd.set()
    await fixture.scheduler.waitUntilIdle()
    await fixture.scheduler.stop()
  }

  @Test func `the transaction that completes a task does not count it any more`() async throws {
    let fixture = try TaskFixture()
    try fixture.handle { _, context in
      let before = try await context.complete { tx in try tx.taskCount(in: "default", .running) }
      #expect(before == 1)
      #expect(try await fixture.database.read { tx in try tx.taskCount(in: "default", .running) } == 0)
      return .done
    }
    try await fixture.scheduler.start()
    try fixture.enqueue("completes")
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take() == ["completes"])
    await fixture.scheduler.stop()
  }

  @Test func `a follower counts the tasks that the other process runs`() async throws {
    let disk = CrashFileSystem(seed: 51)
    let definition = DatabaseDefinition { TaskStorage.handle }
    let fixture = try TaskFixture(
      try await Database.open(try TaskDisk.backend(disk), path: TaskDisk.path, definition: definition), workers: 2)
    let mayEnd = AsyncFlag()
    try fixture.handle { _, _ in
      await mayEnd.wait()
      return .done
    }
    try await fixture.scheduler.start()
    try fixture.write { tx in for number in 0..<3 { try tx.enqueue(Note("\(number)")) } }
    await fixture.poll { fixture.lines.count == 2 }
    let follower = try await Database.open(
      try TaskDisk.backend(disk, follows: true), path: TaskDisk.path, definition: definition)
    #expect(try await follower.read { tx in try Self.counts(tx) } == [.running: 2, .ready: 1])
    mayEnd.set()
    await fixture.scheduler.waitUntilIdle()
    #expect(try await follower.read { tx in try Self.counts(tx) }.isEmpty)
    try await follower.close()
    try await fixture.close()
  }

  @Test func `tasks that run take no room of the waiting tasks of a queue`() async throws {
    var rules = QueueRules()
    rules.maxWaiting = 1
    let (fixture, mayEnd) = (try TaskFixture(rules: [.all: rules], workers: 2), AsyncFlag())
    try fixture.handle { _, _ in
      await mayEnd.wait()
      return .done
    }
    try await fixture.scheduler.start()
    for count in 1...2 {
      try fixture.enqueue("runs")
      await fixture.poll { fixture.lines.count == count }
    }
    try fixture.enqueue("waits")
    #expect(throws: TaskError.queueFull("default", limit: 1)) { try fixture.enqueue("refused") }
    mayEnd.set()
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take() == ["runs", "runs", "waits"])
    await fixture.scheduler.stop()
  }
}
