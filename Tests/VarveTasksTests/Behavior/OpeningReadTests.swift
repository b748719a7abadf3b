import EngineTestSupport
import FutexLocks
import Testing
import Varve
import VarveEngine
import VarveTestSupport
import VarveTesting

@_spi(Extensions) @testable import VarveTasks

/// Tests of what a scheduler reads when it starts on a database with many tasks.
struct OpeningReadTests {
  private static let queues: [QueueName] = ["line", "serial", "other"]

  /// Returns the number of entries that are read until a scheduler has started on a database that was opened again, and
  /// in which `count` tasks wait in each of three subqueues, for a time, and for a signal.
  ///
  /// If the queues are not paused, the start ends when one task of each subqueue runs.
  private static func readCount(waiting count: Int, isPaused: Bool) async throws -> Int {
    let environment = EngineEnvironment.inMemory()
    let first = try await Database.open(
      try EngineBackend(Engine.open(at: "/db", environment: environment)), path: "/db",
      definition: DatabaseDefinition { TaskStorage.handle })
    try await first.write { tx in
      if isPaused { for queue in Self.queues { try tx.pause(queue) } }
      for number in 0..<count {
        for queue in Self.queues {
          try tx.enqueue(Note("\(number)"), TaskOptions(queue: queue))
          for start in [Start.after(.seconds(3_600)), .parked(wakeOn: ["signal"])] {
            var options = TaskOptions(queue: queue)
            options.start = start
            try tx.enqueue(Note("\(number)"), options)
          }
        }
      }
    }
    try await first.close()
    let backend = CountingBackend(try EngineBackend(Engine.open(at: "/db", environment: environment)))
    let rules: [QueueSelector: QueueRules] = [.named("serial"): QueueRules(order: .serial())]
    let fixture = try TaskFixture(over: backend, rules: rules, workers: Self.queues.count)
    let mayEnd = AsyncFlag()
    try fixture.handle { _, _ in
      await mayEnd.wait()
      return .done
    }
    let dispatcher = fixture.scheduler.dispatcher
    try await fixture.scheduler.start()
    if isPaused {
      await fixture.scheduler.waitUntilIdle()
    } else {
      await fixture.poll {
        fixture.lines.count == Self.queues.count && !dispatcher.state.withLock { $0.loop.isPumping }
      }
      #expect(fixture.lines.take() == Self.queues.map { _ in "0" })
    }
    let read = backend.count
    #expect(try fixture.count(.ready, in: "line") == (isPaused ? count : count - 1))
    async let isStopped: Void = fixture.scheduler.stop()
    // No other task begins.
    await fixture.poll { dispatcher.state.withLock { $0.isStopping || $0.host == nil } }
    mayEnd.set()
    await isStopped
    try await fixture.database.close()
    return read
  }

  @Test func `layout 3: a start reads the first tasks of each subqueue and of the timers, however many tasks wait`()
    async throws
  {
    let few = try await Self.readCount(waiting: 3_000, isPaused: true)
    let many = try await Self.readCount(waiting: 6_000, isPaused: true)
    print("entries read by a start: \(few), and \(many) with twice as many tasks")
    #expect(few > 0)
    #expect(many <= few + 10)
    #expect(many <= 3 * 512 + Timers.taskMaximum + 200)
  }

  @Test
  func `layout 2: a start whose queues run reads one refill of each subqueue in addition, however many tasks wait`()
    async throws
  {
    let paused = try await Self.readCount(waiting: 3_000, isPaused: true)
    let few = try await Self.readCount(waiting: 3_000, isPaused: false)
    let many = try await Self.readCount(waiting: 6_000, isPaused: false)
    print("entries read by a start: \(few - paused) for three lines, and \(many - paused) with twice as many tasks")
    #expect(few - paused >= TurnWork.batchMaximum - 3)
    #expect(few - paused <= 3 * Subqueue.entryMaximum + 50)
    #expect(many <= few + 10)
  }
}
