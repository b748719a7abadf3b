import Foundation
import Testing
import Varve
import VarveTestSupport
import VarveTesting

@_spi(Extensions) @testable import VarveTasks

/// Tests that run the examples about waiting for tasks, and about status pages.
struct StatusGuideTests {
  @Test func `Tasks 4: a caller gets the result of its task`() async throws {
    let fixture = try TaskFixture()
    try fixture.scheduler.register(Tasks4.Export.self) { export, context in
      if export.month > 12 { return .discard("no such month") }
      try context.result("file-\(export.month)")
      return .done
    }
    try await fixture.scheduler.start()
    #expect(try await Tasks4.export(5, fixture.database, fixture.scheduler) == "file-5")
    #expect(try await Tasks4.export(13, fixture.database, fixture.scheduler) == nil)
    await fixture.scheduler.stop()
  }

  @Test func `StatusPages 1 to 3: the page and the alerts have what the summary has`() async throws {
    let fixture = try TaskFixture(rules: [.named("<serial>"): QueueRules(order: .serial())])
    try fixture.handle { _, _ in .discard("no") }
    try await fixture.scheduler.start()
    let dead = try fixture.enqueue("a") { $0.queue = "<serial>" }
    try fixture.enqueue("b") { $0.queue = "<serial>" }
    try fixture.write { tx in _ = try tx.enqueue(Other()) }
    await fixture.scheduler.waitUntilIdle()
    await fixture.scheduler.advance(fixture.clock, by: .seconds(400))
    let summary = try fixture.scheduler.summary()
    let decoder = JSONDecoder()
    decoder.dateDecodingStrategy = .iso8601
    #expect(try decoder.decode(TaskSummary.self, from: StatusPages1.statusJSON(fixture.scheduler)) == summary)
    let page = StatusPages2.statusPage(summary)
    #expect(page.contains("<tr><td>&lt;serial></td><td>blocked</td><td>0</td><td>1</td>"))
    let alerts = StatusPages3.alerts(summary)
    #expect(alerts.contains("queue <serial> waits for task \(dead)"))
    #expect(alerts.contains("queue default has a task that has waited for 400 s"))
    #expect(alerts.contains("kind other has no handler"))
    await fixture.scheduler.stop()
    #expect(StatusPages3.alerts(try fixture.scheduler.summary()).first == "no scheduler runs")
  }
}
