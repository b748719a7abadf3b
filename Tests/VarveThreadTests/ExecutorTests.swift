import Dispatch
import EngineTestSupport
import Testing
import VarveTestSupport

@testable import ObjectFixtures
@testable import Varve

/// Tests of the database's threads, on which tasks wait for the disk.
struct ExecutorTests {
  @Test func `there are as many threads as concurrent jobs, up to the limit, and the others follow in order`()
    async throws
  {
    let executor = DatabaseExecutor(limit: 2)
    let gate = Gate()
    gate.shut()
    let called = Called()
    try await withThrowingTaskGroup(of: Void.self) { group in
      for number in 0..<2 {
        group.addTask {
          try await executor.run {
            gate.pass(); called.add("held \(number)")
          }
        }
      }
      await Self.yield { gate.waitingCount == 2 }
      var others: [Task<Void, any Error>] = []
      for number in 0..<20 {
        others.append(Task { try await executor.run { called.add("\(number)") } })
        await Self.yield { executor.waitingCount == number + 1 }
      }
      #expect(executor.threadCount == 2)
      #expect(called.all.isEmpty)
      gate.open()
      for other in others { try await other.value }
      try await group.waitForAll()
    }
    #expect(executor.threadCount <= 2)
    #expect(Set(called.all).count == 22)
  }

  @Test func `one thread runs jobs in order of arrival`() async throws {
    let executor = DatabaseExecutor(limit: 1)
    let gate = Gate()
    gate.shut()
    let called = Called()
    let first = Task { try await executor.run { gate.pass() } }
    await Self.yield { gate.waitingCount == 1 }
    var others: [Task<Void, any Error>] = []
    for number in 0..<50 {
      others.append(Task { try await executor.run { called.add("\(number)") } })
      await Self.yield { executor.waitingCount == number + 1 }
    }
    gate.open()
    try await first.value
    for other in others { try await other.value }
    #expect(called.all == (0..<50).map { "\($0)" })
  }

  @Test func `jobs of urgent tasks run before others, which still get their turn`() async throws {
    let executor = DatabaseExecutor(limit: 1)
    let gate = Gate()
    gate.shut()
    let called = Called()
    let first = Task { try await executor.run { gate.pass() } }
    await Self.yield { gate.waitingCount == 1 }
    var waiting: [Task<Void, any Error>] = []
    for (name, priority) in [("slow", TaskPriority.background), ("usual", .medium), ("urgent", .high)] {
      for number in 0..<20 {
        waiting.append(Task.detached(priority: priority) { try await executor.run { called.add("\(name) \(number)") } })
        await Self.yield { executor.waitingCount == waiting.count }
      }
    }
    gate.open()
    try await first.value
    for task in waiting {
      // The tasks are not awaited before, because awaiting a task raises its priority.
      try await task.value
    }
    let order = called.all.map { String($0.prefix { $0 != " " }) }
    #expect(order.prefix(8).allSatisfy { $0 == "urgent" }, "\(order)")
    // Two of the other jobs must have their turn among the urgent ones.
    #expect(order.prefix(20).filter { $0 == "urgent" }.count == 18, "\(order)")
    #expect(order.prefix(22).filter { $0 == "urgent" }.count == 20, "\(order)")
    #expect(called.all.filter { $0.hasPrefix("urgent") } == (0..<20).map { "urgent \($0)" })
    #expect(Set(called.all).count == 60)
  }

  @Test func `an idle thread ends, and no job is lost in between`() async throws {
    let executor = DatabaseExecutor(limit: 4, keptIdle: .microseconds(20))
    let called = Called()
    for _ in 0..<200 {
      try await withThrowingTaskGroup(of: Void.self) { group in
        for _ in 0..<8 {
          group.addTask { try await executor.run { called.add("") } }
        }
        try await group.waitForAll()
      }
    }
    #expect(called.all.count == 1_600)
    await Self.yield { executor.threadCount == 0 }
  }

  // MARK: - More threads than the ready limit

  @Test func `thousands of tasks that wait for the writer at once share the ready threads`()
    async throws
  {
    let directory = try TemporaryDirectory()
    let database = try await Database.open(at: directory.path + "/db", options: .patient)
    let lane = database.core.writerExecutor
    let count = TestScale.atMost(5_000)
    let writers: [Task<Void, any Error>] = try await database.perform {
      let writers = (0..<count).map { number in
        Task.detached { try await database.write { tx in try tx.set(number, key: number, in: "rows") } }
      }
      await Self.yield { database.core.writer.waiterCount == count }
      return writers
    }
    for writer in writers { try await writer.value }
    // Besides the ready threads, only those that watch, and those added when a machine runs none for 5 ms.
    let ready = lane.mostThreads - lane.stallThreads
    #expect(ready <= DatabaseExecutor.usualReadyLimit, "\(lane.mostThreads) threads, \(lane.stallThreads) for stalls")
    #expect(try await database.read { tx in try tx.count(in: "rows") } == count)
    try await database.close()
  }

  @Test func `short jobs start on the ready threads, however many arrive at once`() async throws {
    let executor = DatabaseExecutor(limit: .max, readyLimit: 3)
    let gate = Gate()
    gate.shut()
    let called = Called()
    let held = (0..<3).map { _ in Task { try await executor.run { gate.pass() } } }
    await Self.yield { gate.waitingCount == 3 }
    let others = (0..<500).map { number in Task { try await executor.run { called.add("\(number)") } } }
    for other in others { try await other.value }
    // One thread was enough for all short jobs, and it was started because three were blocked. A loaded machine that
    // runs no job for 5 ms adds threads for the stall, which are counted separately.
    #expect(executor.mostThreads >= 4, "\(executor.mostThreads) threads")
    let ready = executor.mostThreads - executor.stallThreads
    #expect(ready <= 3, "\(executor.mostThreads) threads, \(executor.stallThreads) for stalls")
    gate.open()
    for task in held { try await task.value }
    #expect(Set(called.all).count == 500)
  }

  @Test func `each job gets a new thread if all others are blocked, up to the limit`() async throws {
    for limit in [40, Int.max] {
      let executor = DatabaseExecutor(limit: limit, readyLimit: 2)
      let gate = Gate()
      gate.shut()
      let jobs = (0..<60).map { _ in Task { try await executor.run { gate.pass() } } }
      let expected = min(limit, 60)
      await Self.yield { gate.waitingCount == expected }
      #expect(executor.mostThreads <= min(limit, 61))
      #expect(executor.waitingCount == 60 - expected)
      gate.open()
      for job in jobs { try await job.value }
    }
  }

  enum Waiting: CaseIterable { case write, writeConcurrently, register }

  @Test(arguments: Waiting.allCases)
  func `a task that waits for the writer does not keep others from reading`(kind: Waiting) async throws {
    let directory = try TemporaryDirectory()
    let database = try await Database.open(at: directory.path + "/db", options: .patient)
    let count = 3 * DatabaseExecutor.usualLimit
    var waiting: [Task<Void, any Error>] = []
    try await database.perform {
      for number in 0..<count {
        // None of the tasks belongs to this `perform`: they are separate writers.
        waiting.append(Task.detached { try await Self.write(kind, number, database) })
      }
      await Self.yield { database.core.writer.waiterCount == count }
      let lane = database.core.executor
      #expect(lane.mostThreads - lane.stallThreads <= DatabaseExecutor.usualLimit)
      let read = try await Task.detached { try await database.read { tx in try tx.count(in: "rows") } }.value
      #expect(read == 0)
    }
    for task in waiting { try await task.value }
    let rows = try await database.read { tx in try tx.count(in: "rows") }
    #expect(rows + database.registeredExtensions.count == count)
    try await database.close()
  }

  private static func write(_ kind: Waiting, _ number: Int, _ database: Database) async throws {
    switch kind {
    case .write: try await database.write { tx in try tx.set("\(number)", key: number, in: "rows") }
    case .writeConcurrently:
      try await database.writeConcurrently { tx in try tx.set("\(number)", key: number, in: "rows") }
    case .register: try await database.register(Hooks(), as: "hooks \(number)")
    }
  }

  @Test func `a task that is canceled while its concurrent write waits writes nothing`() async throws {
    let directory = try TemporaryDirectory()
    let database = try await Database.open(at: directory.path + "/db", options: .patient)
    let written = try await database.perform {
      let waiting = Task.detached { try await database.writeConcurrently { tx in try tx.set("a", key: 1, in: "rows") } }
      await Self.yield { database.core.writer.waiterCount == 1 }
      waiting.cancel()
      return await waiting.result
    }
    #expect(throws: CancellationError.self) { try written.get() }
    #expect(try await database.read { tx in try tx.count(in: "rows") } == 0)
    try await database.close()
  }

  /// Lets other tasks run until a condition holds.
  private static func yield(until condition: () -> Bool) async { while !condition() { await Task.yield() } }
}
