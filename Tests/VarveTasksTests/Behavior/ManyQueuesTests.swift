import EngineTestSupport
import Testing
import Varve
import VarveTesting

@_spi(Extensions) @testable import VarveTasks

/// Tests of transactions that change or make many queues.
struct ManyQueuesTests {
  /// So many that a search through all of them for each one would take many minutes.
  private static let count = TestScale.atMost(100_000)
  private static let readCount = min(2_000, count)

  private static func name(_ number: Int) -> QueueName { QueueName("queue \(number)") }

  @Test func `one transaction pauses very many queues, enqueues a task in each, and reads them`() async throws {
    let fixture = try TaskFixture()
    try fixture.handle()
    try await fixture.scheduler.start()
    let (pausedCount, readCount) = try await fixture.writeOnThread { tx in
      for number in 0..<Self.count {
        try tx.pause(Self.name(number))
        try tx.enqueue(Note("task"), TaskOptions(queue: Self.name(number)))
        if number != Self.count / 2 { continue }
        try? tx.savepoint {
          for number in 0..<Self.count / 2 { try tx.resume(Self.name(number)) }
          throw Undo()
        }
      }
      let pausedCount = try (0..<Self.count).count { try tx.taskQueueState(Self.name($0)).isPaused }
      return (pausedCount, Set(try tx.tasks(.all, limit: Self.readCount).map(\.queue)).count)
    }
    #expect(pausedCount == Self.count)
    #expect(readCount == Self.readCount)
    #expect(try fixture.read { tx in try tx.taskQueues().count } == Self.count)
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.count == 0)
    let last = Self.name(Self.count - 1)
    try fixture.write { tx in try tx.resume(last) }
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take() == ["task"])
    await fixture.scheduler.stop()
  }

  @Test func `queues are as they were before a savepoint that was rolled back, also within another one`() throws {
    let fixture = try TaskFixture()
    try fixture.write { tx in
      func state(_ queue: QueueName) throws -> [Bool] {
        let state = try tx.taskQueueState(queue)
        return [state.isPaused, state.isDraining]
      }
      try tx.pause("old")
      try tx.savepoint {
        try tx.drain("old")
        try? tx.savepoint {
          try tx.resume("old")
          try tx.resume("old")
          try tx.pause("new")
          throw Undo()
        }
        #expect(try state("old") == [true, true])
        #expect(try state("new") == [false, false])
      }
      #expect(try state("old") == [true, true])
      try? tx.savepoint {
        try tx.resume("old")
        try tx.drain("new")
        throw Undo()
      }
      #expect(try state("old") == [true, true])
      #expect(try state("new") == [false, false])
      // The number of the queue that was undone may be that of this one.
      try tx.enqueue(Note("task"), TaskOptions(queue: "other"))
      #expect(try tx.tasks(.all).map(\.queue) == ["other"])
    }
    #expect(try fixture.read { tx in try tx.taskQueues() } == ["old", "other"])
  }

  @Test func `the change of a queue with limit keys reaches all of its subqueues, and so does that of several queues`()
    async throws
  {
    let fixture = try TaskFixture(workers: 4)
    try fixture.handle()
    try await fixture.scheduler.start()
    let queues: [QueueName] = ["plain", "one key", "keys"]
    try fixture.write { tx in
      for queue in queues {
        try tx.pause(queue)
        for number in 0..<(queue == "keys" ? 3 : 1) {
          var options = TaskOptions(queue: queue)
          options.limitKey = queue == "plain" ? nil : "\(number)"
          try tx.enqueue(Note(queue.text), options)
        }
      }
    }
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.count == 0)
    try fixture.write { tx in for queue in queues { try tx.resume(queue) } }
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take().sorted() == ["keys", "keys", "keys", "one key", "plain"])
    await fixture.scheduler.stop()
  }
}
