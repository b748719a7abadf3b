import EngineTestSupport
import Synchronization
import Testing
import Varve
import VarveEngine
import VarveTestSupport
import VarveTesting

@testable import VarveTasks

/// Tests of what a scheduler reads when it starts on a database with many tasks.
struct OpeningReadTests {
  /// A storage that counts the entries which are read from its snapshots.
  private final class CountingBackend: ForwardingBackend, @unchecked Sendable {
    // Sendable: the list is guarded by its mutex.

    private let snapshots = Mutex<[CountingSnapshot]>([])

    var count: Int { snapshots.withLock { $0.reduce(0) { $0 + $1.count } } }

    override func snapshot() throws -> any StorageSnapshot {
      let snapshot = CountingSnapshot(try super.snapshot())
      snapshots.withLock { $0.append(snapshot) }
      return snapshot
    }

    override func commit(
      _ batch: StorageBatch, check: StorageCheck?, durability: StorageDurability
    ) throws -> any StorageTicket {
      var check = check
      if let counted = check?.snapshot as? CountingSnapshot { check?.snapshot = counted.snapshot }
      return try super.commit(batch, check: check, durability: durability)
    }
  }

  private static let queues: [QueueName] = ["line", "serial", "other"]

  /// Returns the number of entries that are read until a scheduler has started on a database that was opened again, and
  /// in which `count` tasks wait in each of three lines, for a time, and for a signal.
  private static func readCount(waiting count: Int) async throws -> Int {
    let environment = EngineEnvironment.inMemory()
    let first = try await Database.open(
      try EngineBackend(Engine.open(at: "/db", environment: environment)), path: "/db",
      definition: DatabaseDefinition { TaskStorage.handle })
    try await first.write { tx in
      for queue in Self.queues { try tx.pause(queue) }
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
    let database = try await Database.open(backend, path: "/db", definition: DatabaseDefinition { TaskStorage.handle })
    let fixture = try TaskFixture(database, rules: [.named("serial"): QueueRules(order: .serial())])
    try fixture.handle()
    try await fixture.scheduler.start()
    await fixture.scheduler.waitUntilIdle()
    let read = backend.count
    #expect(try fixture.read { tx in try tx.taskCount(in: "line", .ready) } == count)
    await fixture.scheduler.stop()
    try await database.close()
    return read
  }

  @Test func `layout 3: a start reads the first tasks of each line and of the timers, however many tasks wait`()
    async throws
  {
    let (few, many) = (try await Self.readCount(waiting: 3_000), try await Self.readCount(waiting: 6_000))
    print("entries read by a start: \(few), and \(many) with twice as many tasks")
    #expect(few > 0)
    #expect(many <= few + 10)
    #expect(many <= 3 * 512 + TaskTimers.taskMaximum + 200)
  }
}
