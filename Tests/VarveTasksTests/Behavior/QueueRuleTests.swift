import Synchronization
import Testing
import Varve
import VarveTesting

@_spi(Extensions) @_spi(TaskQueue) @testable import VarveTasks

/// Tests of the rules of very many queues.
struct QueueRuleTests {
  @Test func `rules of very many queues are not looked at when others are registered or looked up`() throws {
    let fixture = try TaskFixture()
    var serial = QueueRules(order: .serial())
    try fixture.scheduler.use(serial, for: .prefix("chat-"))
    for number in 0..<20_000 {
      serial.weight = number + 1
      try fixture.scheduler.register(Note.self, on: [.named(QueueName("queue \(number)"))], rules: serial) { _, _ in
        .done
      }
    }
    // A lookup iterates over these alone, and a registration over none.
    let table = fixture.scheduler.state.withLock { $0.queues }
    #expect(table.others.map(\.selector) == [.prefix("chat-")])
    #expect(!table.hasWaitingLimits)
    for number in stride(from: 0, to: 20_000, by: 1_111) {
      #expect(fixture.scheduler.rules(of: QueueName("queue \(number)")).weight == number + 1)
    }
    #expect(fixture.scheduler.rules(of: "chat-7").isSerial && !fixture.scheduler.rules(of: "other").isSerial)
  }

  @Test func `the most exact rules of a queue count, and later ones replace those of the same selector`() {
    func rules(_ weight: Int) -> QueueRules {
      var rules = QueueRules()
      rules.weight = weight
      return rules
    }
    var table = QueueRuleTable([.prefix("a"): rules(2), .all: rules(1), .prefix("abc"): rules(4)])
    table.set(rules(5), for: .named("abcd"))
    table.set(rules(3), for: .prefix("ab"))
    #expect(["x", "a", "ab", "abc", "abcd"].map { table.find(QueueName($0))?.weight } == [1, 2, 3, 4, 5])
    table.set(rules(30), for: .prefix("ab"))
    table.set(rules(50), for: .named("abcd"))
    table.set(rules(10), for: .all)
    #expect(["x", "a", "ab", "abc", "abcd"].map { table.find(QueueName($0))?.weight } == [10, 2, 30, 4, 50])
    #expect(QueueRuleTable().find("x") == nil)
    var limited = rules(1)
    limited.maxWaiting = 1
    table.set(limited, for: .named("small"))
    #expect(table.hasWaitingLimits)
  }
}
