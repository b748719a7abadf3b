import EngineTestSupport
import Foundation
import Testing
import Varve
import VarveTestSupport
import VarveTesting

@_spi(Extensions) @testable import VarveTasks

/// Tests that each row of a task is put once before it is removed, because it is removed by a single delete.
struct SingleDeleteTests {
  /// Registers a handler whose attempts end in every way.
  private static func handle(_ fixture: TaskFixture) throws {
    try fixture.handle { note, context in
      let isFirst = context.failures == 0
      switch note.text {
      case "fails" where isFirst: throw Broken()
      case "again" where isFirst: return .retry(after: .zero)
      case "parks" where isFirst: return .park(wakeOn: ["net", "power"])
      case "snoozes" where context.run.record.progress.snoozes == 0: return .snooze(for: .seconds(5))
      case "bad": return .discard("no")
      case "steps":
        for step in 1...3 { try await context.checkpoint(step) }
        if isFirst { throw Broken() }
      case "completes": try await context.complete { tx in try tx.set(1, key: 1, in: "effects") }
      case "runs":
        await waitForCancellation()
        throw CancellationError()
      default: break
      }
      return .done
    }
  }

  /// Enqueues tasks of every kind, in a standard and in a serial queue.
  private static func enqueueAll(_ fixture: TaskFixture) throws {
    try fixture.write { tx in
      for queue: QueueName in ["standard", "serial"] {
        for text in ["fails", "again", "parks", "snoozes", "steps", "completes", "done", "bad"] {
          var options = TaskOptions(queue: queue)
          if text == "done" { options.retention = .keep(.seconds(100)) }
          try tx.enqueue(Note(text), options)
        }
      }
      let parent = try tx.enqueue(Note("bad")).id
      for rule in [ParentFailure.stayBlocked, .cancel, .runAnyway] {
        var options = TaskOptions()
        options.dependsOn = [parent]
        options.onParentFailure = rule
        let child = try tx.enqueue(Note("child"), options).id
        options.dependsOn = [child, parent]
        try tx.enqueue(Note("grandchild"), options)
      }
      try tx.enqueueGroup(Note("last")) { group in
        var options = TaskOptions()
        options.group = group
        for text in ["member", "fails"] { try tx.enqueue(Note(text), options) }
      }
      for text in ["old", "new"] {
        var options = TaskOptions()
        options.unique = Uniqueness(key: "key", onConflict: .replacePayload)
        try tx.enqueue(Note(text), options)
      }
    }
  }

  /// Changes tasks that wait.
  private static func changeWaiting(_ fixture: TaskFixture) throws {
    let parked = try fixture.enqueue("parked") { $0.start = .parked(wakeOn: ["never", "ever"]) }
    let later = try fixture.enqueue("later") { $0.start = .after(.seconds(500)) }
    let gone = try fixture.enqueue("gone") { $0.start = .parked(wakeOn: ["never"]) }
    try fixture.write { tx in
      try tx.edit(parked, priority: 3)
      try tx.edit(parked, payload: Note("edited"))
      try tx.edit(later, start: .after(.seconds(5)))
      #expect(try tx.retryNow(.id(parked)) == 1)
      #expect(try tx.cancel(.id(gone)) == 1)
    }
    let deleted = try fixture.enqueue("deleted") { $0.start = .parked(wakeOn: ["never"]) }
    #expect(try fixture.write { tx in try tx.delete(.id(deleted)) } == 1)
  }

  /// Cancels a task twice while it runs: it is queued again in between.
  private static func cancelRunning(_ fixture: TaskFixture) async throws {
    _ = fixture.lines.take()
    let id = try fixture.enqueue("runs") { $0.retention = .keep(.seconds(10_000)) }
    for round in 0..<2 {
      if round > 0 { #expect(try fixture.write { tx in try tx.revive(.id(id)) } == 1) }
      await fixture.poll { fixture.lines.count == 1 }
      #expect(try fixture.write { tx in try tx.cancel(.id(id)) } == 1)
      await fixture.scheduler.waitUntilIdle()
      #expect(try fixture.state(id) == .cancelled)
      #expect(fixture.lines.take() == ["runs"])
    }
  }

  /// Checks that each key was put once between its removals, and returns the keys that are left.
  private static func check(_ changes: [RecordingBackend.Change]) -> Set<[UInt8]> {
    var present: Set<[UInt8]> = []
    var counts: [[UInt8]: Int] = [:]
    for change in changes {
      switch change.operation {
      case .put, .putStamped:
        let isNew = present.insert(change.key).inserted
        #expect(isNew, "\(change.key) was put again")
        counts[change.key, default: 0] += 1
      case .singleDelete:
        let wasPresent = present.remove(change.key) != nil
        #expect(wasPresent, "\(change.key) was removed, and was not there")
      default: Issue.record("\(change.operation) of \(change.key)")
      }
    }
    // A request to cancel may follow an earlier one for another attempt. All other keys have a number of their own.
    let again = counts.filter { $0.value > 1 && $0.key.first != TaskKeys.cancel }
    #expect(again.isEmpty, "\(again)")
    return present
  }

  @Test func `layout 5: a row of a task is put once, and only a single delete removes it`() async throws {
    let recorded = try RecordedTasks(rules: [.named("serial"): QueueRules(order: .serial())], workers: 2)
    let fixture = recorded.fixture
    try Self.handle(fixture)
    try await fixture.scheduler.start()
    try Self.enqueueAll(fixture)
    try Self.changeWaiting(fixture)
    for round in 0..<8 {
      await fixture.scheduler.advance(fixture.clock, by: .seconds(10))
      try await fixture.scheduler.signal("net")
      if round < 4 { try await fixture.scheduler.revive(.state(.dead)) }
      if round == 5 { try await fixture.scheduler.delete(.state(.dead)) }
      await fixture.scheduler.waitUntilIdle()
    }
    try await Self.cancelRunning(fixture)
    await fixture.scheduler.advance(fixture.clock, by: .seconds(200))
    #expect(try fixture.read { tx in try tx.tasks(.all).map { try Note(encoded: Data($0.payload)).text } } == ["runs"])
    let left = Self.check(try recorded.takeChanges().flatMap { $0 })
    #expect(left.isEmpty, "\(left)")
    #expect(try fixture.rowCount() == 0)
    try await recorded.fixture.close()
  }

  @Test func `layout 5: two transactions that cancel one running task put one row, which the end of the task removes`()
    async throws
  {
    let held = try HeldTasks(holding: .power, workers: 1)
    let (gate, fixture) = (held.gate, held.fixture)
    try Self.handle(fixture)
    try await fixture.scheduler.start()
    let id = try fixture.enqueue("runs")
    await fixture.poll { fixture.lines.count == 1 }
    // Both transactions run before the commit of the first one is acknowledged.
    gate.shut()
    async let first = fixture.writeOnThread(durability: .power) { tx in try tx.cancel(.id(id)) }
    await held.waitUntilHeld(1)
    async let second = fixture.writeOnThread(durability: .power) { tx in try tx.cancel(.id(id)) }
    await held.waitUntilHeld(2)
    gate.open()
    let counts = [try await first, try await second]
    #expect(counts == [1, 1])
    await fixture.scheduler.waitUntilIdle()
    #expect(try fixture.state(id) == nil)
    #expect(try fixture.rowCount() == 0)
    try await fixture.close()
  }
}
