import Foundation
import Testing
import Varve
import VarveTestSupport
import VarveTesting

@_spi(Extensions) @testable import VarveTasks

/// Tests of the example of the guide "When tasks fail" about dead tasks.
struct DeadGuideTests {
  @Test func `FailingTasks 6: each dead payment is handled once, with its payload and its errors`() async throws {
    let fixture = try TaskFixture()
    let scheduler = fixture.scheduler
    try scheduler.register(FailingTasks6.Payment.self) { payment, _ in .discard("the bank refuses \(payment.amount)") }
    try fixture.handle { _, _ in .discard("no") }
    try await scheduler.start()
    func handle() throws -> [String] {
      try fixture.write { tx in
        var found: [String] = []
        try FailingTasks6.handleDeadPayments(in: tx) { found.append("\($0.amount): \($1.joined())") }
        return found
      }
    }
    #expect(try handle() == [])
    for amount in 1...2 {
      try fixture.write { tx in _ = try tx.enqueue(FailingTasks6.Payment(amount: amount)) }
      try fixture.enqueue("other")
      await scheduler.waitUntilIdle()
      #expect(try handle() == ["\(amount): the bank refuses \(amount)"])
      #expect(try handle() == [])
    }
    await scheduler.stop()
  }
}
