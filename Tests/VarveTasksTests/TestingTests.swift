import Foundation
import Synchronization
import Testing
import Varve
import VarveTesting

@_spi(Extensions) @testable import VarveTasks

/// Tests of the support for tests of a program's tasks.
struct TestingTests {
  private struct Charge: TaskPayload, Hashable {
    static let kind = "charge"
    var account: String
  }

  private static func database() async throws -> Database { try await Database.inMemory { TaskStorage.handle } }

  @Test func `a handler that calls complete has its effect once, at whichever of its points the process dies`()
    async throws
  {
    let attempts = Mutex(0)
    let points = Mutex<[String]>([])
    let count = try await assertSurvivesCrashes(of: Charge(account: "a"), in: Self.database) { scheduler in
      try scheduler.register(Charge.self) { charge, context in
        attempts.withLock { $0 += 1 }
        try await context.checkpoint("began")
        try await context.complete { tx in
          let before = try tx.object(Int.self, key: charge.account, in: "charges") ?? 0
          try tx.set(before + 1, key: charge.account, in: "charges")
        }
        return .done
      }
    } check: { database, point in
      points.withLock { $0.append(point) }
      #expect(try await database.read { tx in try tx.object(Int.self, key: "a", in: "charges") } == 1, "\(point)")
      try await database.read { tx in try tx.assertNotEnqueued(Charge.self) }
    }
    #expect(count == 6)
    #expect(
      points.withLock { $0 } == [
        "before handler", "before checkpoint", "after checkpoint", "before complete", "after complete", "after handler",
        "nowhere",
      ])
    // With a crash at the three points within the handler and before the effect, the handler runs twice; at each of
    // the others, and without a crash, it runs once.
    #expect(attempts.withLock { $0 } == 10)
  }

  @Test func `assertSurvivesCrashes reaches the points of later attempts, too`() async throws {
    let count = try await assertSurvivesCrashes(of: Charge(account: "a"), in: Self.database) { scheduler in
      try scheduler.register(Charge.self) { _, context in
        if context.failures == 0 { throw CancellationError() }
        return context.run.record.progress.snoozes == 0 ? .snooze(for: .seconds(60)) : .done
      }
    } check: { database, point in
      let left = try await database.read { tx in try tx.tasks(.all).count }
      #expect(left == 0, "\(point)")
    }
    #expect(count == 6)
  }

  @Test func `a handler whose effect is not committed together with its end is detected`() async throws {
    let broken = Mutex<[String]>([])
    try await assertSurvivesCrashes(of: Charge(account: "a"), in: Self.database) { scheduler in
      try scheduler.register(Charge.self) { [weak scheduler] charge, _ in
        _ = try await scheduler?.database.write { tx in
          let before = try tx.object(Int.self, key: charge.account, in: "charges") ?? 0
          try tx.set(before + 1, key: charge.account, in: "charges")
        }
        return .done
      }
    } check: { database, point in
      let count = try await database.read { tx in try tx.object(Int.self, key: "a", in: "charges") }
      if count != 1 { broken.withLock { $0.append(point) } }
    }
    #expect(broken.withLock { $0 } == ["after handler"])
  }

  @Test func `assertEnqueued finds tasks by their payload, and its error states the expected number`() async throws {
    let database = try await Self.database()
    try await database.write { tx in
      for account in ["a", "b"] { try tx.enqueue(Charge(account: account)) }
    }
    let found = try await database.read { tx in try tx.assertEnqueued(Charge.self) { $0.account == "a" } }
    #expect(found == [Charge(account: "a")])
    let error = await #expect(throws: TaskAssertionFailed.self) {
      try await database.read { tx in _ = try tx.assertEnqueued(Charge.self, count: 3) }
    }
    #expect("\(error.map { "\($0)" } ?? "")".contains("expected 3"))
    await #expect(throws: TaskAssertionFailed.self) {
      try await database.read { tx in try tx.assertNotEnqueued(Charge.self) { $0.account == "b" } }
    }
    try await database.close()
  }

  @Test func `assertEnqueued counts only tasks that have not ended, in all queues or in the one that is named`()
    async throws
  {
    let database = try await Self.database()
    let ids = try await database.write { tx in
      var options = TaskOptions(queue: "east")
      options.retention = .keep(.seconds(60))
      return try tx.enqueue(contentsOf: ["a", "b"].map { Charge(account: $0) }, options).map(\.id)
    }
    try await database.write { tx in
      try tx.enqueue(Charge(account: "c"))
      try tx.cancel(.id(ids[0]))
    }
    #expect(try await database.read { tx in try tx.task(ids[0])?.progress.state } == .cancelled)
    let east = try await database.read { tx in try tx.assertEnqueued(Charge.self, in: "east", count: 1) }
    #expect(east == [Charge(account: "b")])
    let all = try await database.read { tx in try tx.assertEnqueued(Charge.self, count: 2) }
    #expect(Set(all.map(\.account)) == ["b", "c"])
    try await database.read { tx in
      try tx.assertNotEnqueued(Charge.self) { $0.account == "a" }
      try tx.assertNotEnqueued(Charge.self, in: "west")
    }
    try await database.close()
  }

  @Test func `a handler runs without a scheduler, and keeps its checkpoints for the next attempt`() async throws {
    let database = try await Self.database()
    let trial = TestWorker(database)
    let body: @Sendable (Charge, TaskContext) async throws -> TaskOutcome = { charge, context in
      context.progress(0.5, "half")
      if try context.restored(Int.self) == nil {
        try await context.checkpoint(7)
        return .retry()
      }
      try context.result(charge.account)
      try await context.complete { tx in try tx.set(1, key: charge.account, in: "charges") }
      await #expect(throws: TaskError.leaseLost(context.id)) { try await context.complete { _ in } }
      return .done
    }
    let first = try await trial.perform(Charge(account: "a")) { try await body($0, $1) }
    let second = try await trial.perform(Charge(account: "a"), attempt: 2) { try await body($0, $1) }
    #expect(first == .retry() && second == .done)
    #expect(trial.progress?.note == "half")
    #expect(try trial.result(as: String.self) == "a")
    #expect(try await database.read { tx in try tx.object(Int.self, key: "a", in: "charges") } == 1)
    try await database.close()
  }

  @Test func `perform runs a handler without a scheduler, and returns its outcome or throws its error`() async throws {
    let database = try await Self.database()
    let done = try await database.perform(Charge(account: "a"), attempt: 3) { charge, context in
      #expect(charge == Charge(account: "a") && context.kind == "charge" && context.attempt == 3)
      try await context.complete { tx in try tx.set(7, key: charge.account, in: "charges") }
      return .done
    }
    #expect(done == .done)
    #expect(try await database.read { tx in try tx.object(Int.self, key: "a", in: "charges") } == 7)
    let refused = try await database.perform(Charge(account: "b")) { charge, _ in .discard(charge.account) }
    #expect(refused == .discard("b"))
    await #expect(throws: Broken.self) {
      _ = try await database.perform(Charge(account: "c")) { _, _ in throw Broken() }
    }
    // Nothing is committed by a closure of `complete` that throws.
    await #expect(throws: Broken.self) {
      _ = try await database.perform(Charge(account: "c")) { charge, context in
        try await context.complete { tx in
          try tx.set(1, key: charge.account, in: "charges")
          throw Broken()
        }
        return .done
      }
    }
    #expect(try await database.read { tx in try tx.keys(String.self, in: "charges") } == ["a"])
    try await database.read { tx in try tx.assertNotEnqueued(Charge.self) }
    try await database.close()
  }
}
