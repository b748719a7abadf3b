import EngineTestSupport
import Foundation
import Testing
import Varve
import VarveTestSupport
import VarveTesting

@_spi(Extensions) @testable import VarveTasks

/// Tests of options that begin with the defaults of a payload, and of rules of queues that are refused.
struct ChangedOptionsTests {
  private struct Charge: TaskPayload {
    static let kind = "charge"
    static var defaults: TaskOptions {
      TaskOptions(queue: "bank", retry: .fixed(.seconds(9)), maxAttempts: 3, timeout: .seconds(60), tags: ["money"])
    }
    var number = 0
  }

  private static func expectDefaults(_ task: TaskInfo?, _ location: SourceLocation = #_sourceLocation) throws {
    let task = try #require(task, sourceLocation: location)
    #expect(task.priority == 10, sourceLocation: location)
    #expect(task.queue == "bank" && task.tags == ["money"], sourceLocation: location)
    #expect(task.maxAttempts == 3 && task.retry == .fixed(.seconds(9)), sourceLocation: location)
    #expect(task.timeout == .seconds(60), sourceLocation: location)
  }

  @Test func `a closure changes options that begin with the defaults, and a value replaces them`() throws {
    let fixture = try TaskFixture()
    let ids = try fixture.write { tx in
      let one = try tx.enqueue(Charge()) { $0.priority = 10 }.id
      let many = try tx.enqueue(contentsOf: [Charge(), Charge()]) { $0.priority = 10 }.map(\.id)
      let last = try tx.enqueueGroup(Charge(), { $0.priority = 10 }) { group in
        try tx.enqueue(Charge()) { ($0.group, $0.priority) = (group, 10) }
      }
      return [one, last] + many
    }
    for id in ids { try Self.expectDefaults(fixture.read { tx in try tx.task(id) }) }
    #expect(try fixture.read { tx in try tx.tasks(.all) }.count == 5)
    let other = try fixture.write { tx in try tx.enqueue(Charge(), TaskOptions(priority: 10)).id }
    #expect(try fixture.read { tx in try tx.task(other) }?.queue == "default")
    #expect(throws: Broken.self) { try fixture.write { tx in try tx.enqueue(Charge()) { _ in throw Broken() } } }
    #expect(try fixture.read { tx in try tx.tasks(.all) }.count == 6)
  }

  @Test func `a closure also changes the options of the inbox and of a schedule`() async throws {
    let directory = try TemporaryDirectory()
    let definition = DatabaseDefinition { TaskStorage.handle }
    let database = try await Database.open(at: directory.path + "/db", definition: definition)
    let fixture = try TaskFixture(database)
    try fixture.write { tx in try tx.pause("bank") }
    try TaskInbox(fixture.database.path).send { try $0.enqueue(Charge()) { $0.priority = 10 } }
    try fixture.scheduler.schedule("minutes", "* * * * *", options: { $0.priority = 10 }) { _ in Charge() }
    try await fixture.scheduler.start()
    await fixture.scheduler.advance(fixture.clock, by: .seconds(60))
    await fixture.poll { try fixture.read { tx in try tx.tasks(.all) }.count == 2 }
    for task in try fixture.read({ tx in try tx.tasks(.all) }) { try Self.expectDefaults(task) }
    try await fixture.close()
  }

  @Test func `names of queues and signals may be made from other values`() throws {
    let fixture = try TaskFixture()
    let number = 7
    let id = try fixture.enqueue("x") {
      $0.queue = "account-\(number)"
      $0.start = .parked(wakeOn: ["reply-\(number)"])
    }
    let task = try #require(try fixture.read { tx in try tx.task(id) })
    #expect(task.queue.text == "account-7" && task.signals.map(\.text) == ["reply-7"])
  }

  @Test func `a scheduler refuses rules whose numbers are less than 1, and times that are not positive`() throws {
    let changes: [(inout QueueRules) -> Void] = [
      { $0.concurrency = 0 }, { $0.perKey = -1 }, { $0.weight = 0 }, { $0.maxWaiting = -1 }, { $0.ageing = .zero },
      { $0.rate = QueueRules.Rate(count: 0, per: .seconds(1)) },
      { $0.rate = QueueRules.Rate(count: 1, per: .seconds(-1)) },
      { $0.ratePerKey = QueueRules.Rate(count: 1, per: .seconds(1), burst: 0) },
    ]
    let fixture = try TaskFixture()
    for (number, change) in changes.enumerated() {
      var rules = QueueRules()
      change(&rules)
      var configuration = TaskScheduler.Configuration()
      configuration.queues = [.named("bank"): rules]
      #expect(throws: TaskError.self, "\(number)") {
        try TaskScheduler(fixture.database, configuration: configuration)
      }
      #expect(throws: TaskError.self, "\(number)") { try fixture.scheduler.use(rules, for: .prefix("bank-")) }
    }
    try fixture.scheduler.use(QueueRules(), for: .prefix("bank-"))
  }
}
