import Testing
import Varve
import VarveTesting

@_spi(Extensions) @testable import VarveTasks

/// Tests of the turns in which queues start their tasks.
struct TurnTests {
  /// Returns a scheduler that is attached to its database, and that takes work only when a test does so.
  private static func fixture(_ rules: [QueueSelector: QueueRules], workers: Int) throws -> TaskFixture {
    let fixture = try TaskFixture(rules: rules)
    try fixture.handle()
    fixture.attach(workers: workers)
    fixture.scheduler.dispatcher.discover([])
    return fixture
  }

  private static func enqueue(_ count: Int, in queues: [QueueName], _ fixture: TaskFixture) throws {
    try fixture.write { tx in
      for queue in queues {
        for number in 0..<count { try tx.enqueue(Note("\(number)"), TaskOptions(queue: queue)) }
      }
    }
  }

  @Test func `a queue with weight 3 starts three tasks in each turn, and one with weight 1 starts one`() throws {
    var heavy = QueueRules()
    heavy.weight = 3
    let fixture = try Self.fixture([.named("heavy"): heavy], workers: 8)
    try Self.enqueue(12, in: ["heavy", "light"], fixture)
    let claims = fixture.scheduler.dispatcher.takeWork(1)?.claims ?? []
    #expect(
      claims.map(\.queue) == ["heavy", "heavy", "heavy", "light", "heavy", "heavy", "heavy", "light"])
  }

  @Test func `a queue that no other queue competes with starts as many tasks as there are workers`() throws {
    let fixture = try Self.fixture([:], workers: 4)
    try Self.enqueue(12, in: ["only"], fixture)
    #expect(fixture.scheduler.dispatcher.takeWork(1)?.claims.count == 4)
  }

  @Test func `a queue keeps its turn while its tasks wait for a worker`() throws {
    var heavy = QueueRules()
    heavy.weight = 3
    let fixture = try Self.fixture([.named("heavy"): heavy], workers: 1)
    try Self.enqueue(12, in: ["heavy", "light"], fixture)
    let dispatcher = fixture.scheduler.dispatcher
    var queues: [QueueName] = []
    while queues.count < 8, let work = dispatcher.takeWork(1) {
      for run in work.settlements.map(\.run) { dispatcher.didSettle(run, nil, [], isDone: true) }
      for run in work.claims {
        queues.append(run.queue)
        // The handler takes a second, so no claims are made ahead.
        _ = dispatcher.finish(run, .outcome(.done), after: 1e9)
      }
    }
    #expect(queues == ["heavy", "heavy", "heavy", "light", "heavy", "heavy", "heavy", "light"])
  }
}
