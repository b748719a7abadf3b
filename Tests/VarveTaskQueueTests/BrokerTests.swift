import EngineTestSupport
import Foundation
import Synchronization
import Testing
import Varve
import VarveTaskQueue
import VarveTasks
import VarveTestSupport
import VarveTesting

/// Tests of rows that are tasks.
struct BrokerTests {
  @Test func `saving an action runs it, in the order of its sort key, and removes it`() async throws {
    let site = try await ActionSite()
    let handler = RecordingHandler()
    try await site.database.write { tx in
      try MessageSendAction("second", at: 2).save(in: tx)
      try MessageSendAction("first", at: 1).save(in: tx)
      try MessageSendAction("other", queue: "messages-buddy", at: 0).save(in: tx)
      try MessageSendAction("foreign", queue: "messages10").save(in: tx)
    }
    let broker = try site.setup("messages", handler)
    #expect(broker.queueName(suffix: "buddy") == "messages-buddy")
    try await site.scheduler.start()
    await site.scheduler.waitUntilIdle()
    #expect(handler.take().filter { $0 != "other" } == ["first", "second"])
    // Queues with another name belong to another broker.
    #expect(try site.left() == ["foreign"])
    await site.scheduler.stop()
  }

  @Test func `a retryTimeout of 0 runs the action again at once, and one above 0 after that time`()
    async throws
  {
    let site = try await ActionSite()
    let count = Mutex(0)
    let handler = RecordingHandler { action in
      if action.key != "fails" { return .success }
      return count.withLock { count in
        count += 1
        return count == 1 ? .failure(retryTimeout: 0) : count == 2 ? .failure(retryTimeout: 5) : .success
      }
    }
    _ = try site.setup("messages", handler)
    try await site.scheduler.start()
    try site.save("fails", "next")
    await site.scheduler.waitUntilIdle()
    #expect(handler.take() == ["fails", "fails"])
    await site.scheduler.advance(site.clock, by: .seconds(4))
    #expect(handler.take() == [])
    await site.scheduler.advance(site.clock, by: .seconds(1))
    #expect(handler.take() == ["fails", "next"])
    #expect(try site.left() == [])
    await site.scheduler.stop()
  }

  @Test(arguments: [-1, .nan, .greatestFiniteMagnitude, .infinity])
  func `an action that waits without end blocks its queue, and runs again after restartQueues or a restart`(
    timeout: Double
  ) async throws {
    let site = try await ActionSite()
    let handler = RecordingHandler { _ in .failure(retryTimeout: timeout) }
    let broker = try site.setup("messages", handler)
    try await site.scheduler.start()
    try site.save("waits", "next")
    await site.scheduler.advance(site.clock, by: .seconds(1_000_000))
    #expect(handler.take() == ["waits"])
    try await broker.restartQueues(["messages"])
    await site.scheduler.waitUntilIdle()
    #expect(handler.take() == ["waits"])
    await site.scheduler.stop()
    let again = try ActionSite(after: site)
    let mended = RecordingHandler()
    _ = try again.setup("messages", mended)
    try await again.scheduler.start()
    await again.scheduler.waitUntilIdle()
    #expect(mended.take() == ["waits", "next"])
    await again.scheduler.stop()
  }

  @Test func `restartQueues runs an action again that waits for a time, and none of a queue that is not named`()
    async throws
  {
    let site = try await ActionSite()
    let handler = RecordingHandler { _ in .failure(retryTimeout: 3_600) }
    let broker = try site.setup("messages", handler)
    try await site.scheduler.start()
    try site.save("own")
    try site.save("other", queue: "messages-buddy")
    await site.scheduler.waitUntilIdle()
    #expect(handler.take().sorted() == ["other", "own"])
    try await broker.restartQueues(["messages"])
    await site.scheduler.waitUntilIdle()
    #expect(handler.take() == ["own"])
    await site.scheduler.advance(site.clock, by: .seconds(3_600))
    #expect(handler.take().sorted() == ["other", "own"])
    await site.scheduler.stop()
  }

  @Test func `an action that sorts before the running one runs after it`() async throws {
    let site = try await ActionSite()
    let (begun, mayEnd) = (AsyncFlag(), AsyncFlag())
    let running = Gauge()
    let handler = RecordingHandler { action in
      running.add(1)
      if action.key == "runs" {
        begun.set()
        await mayEnd.wait()
      }
      running.add(-1)
      return .success
    }
    _ = try site.setup("messages", handler)
    try await site.scheduler.start()
    try await site.database.write { tx in try MessageSendAction("runs", at: 5).save(in: tx) }
    await begun.wait()
    try await site.database.write { tx in
      try MessageSendAction("earlier", at: 1).save(in: tx)
      try MessageSendAction("later", at: 9).save(in: tx)
    }
    mayEnd.set()
    await site.scheduler.waitUntilIdle()
    #expect(handler.take() == ["runs", "earlier", "later"])
    #expect(running.most() == 1)
    await site.scheduler.stop()
  }

  @Test func `removing a waiting head lets the next action run, and an action that its handler removes is done`()
    async throws
  {
    let site = try await ActionSite()
    let handler = RecordingHandler { action in
      if action.key == "removes" { try? site.remove("removes") }
      return action.key == "next" ? .success : .failure(retryTimeout: -1)
    }
    _ = try site.setup("messages", handler)
    try await site.scheduler.start()
    try site.save("waits", "removes", "next")
    await site.scheduler.waitUntilIdle()
    #expect(handler.take() == ["waits"])
    try site.remove("waits")
    await site.scheduler.waitUntilIdle()
    #expect(handler.take() == ["removes", "next"])
    #expect(try site.left() == [])
    await site.scheduler.stop()
  }

  @Test func `an action saved again while it runs is run again, and one saved again while it waits runs once`()
    async throws
  {
    let site = try await ActionSite()
    let count = Mutex(0)
    let handler = RecordingHandler { action in
      if action.key == "again",
        count.withLock({
          $0 += 1; return $0
        }) == 1
      {
        try? site.save("again")
      }
      return .success
    }
    _ = try site.setup("messages", handler)
    try site.save("again", "twice")
    try site.save("twice")
    try await site.scheduler.start()
    await site.scheduler.waitUntilIdle()
    #expect(handler.take().sorted() == ["again", "again", "twice"])
    #expect(try site.left() == [])
    await site.scheduler.stop()
  }

  @Test func `threads that save, remove and restart actions leave none, and no queue runs two at once`() async throws {
    let site = try await ActionSite()
    let queues = ["messages-1", "messages-2", "messages-3"]
    let running = Gauge()
    let attempts = Mutex<[String: Int]>([:])
    let handler = RecordingHandler { action in
      running.add(1, action.queue)
      let attempt = attempts.withLock { attempts in
        attempts[action.key, default: 0] += 1
        return attempts[action.key] ?? 0
      }
      for _ in 0..<3 { await Task.yield() }
      running.add(-1, action.queue)
      // Some actions fail, and some wait for a call.
      switch attempt == 1 ? action.key.count % 4 : 0 {
      case 1: return .failure(retryTimeout: 0)
      case 2: return .failure(retryTimeout: -1)
      default: return .success
      }
    }
    let broker = try site.setup("messages", handler)
    try await site.scheduler.start()
    let errors = WriterErrors()
    await withTaskGroup { group in
      for writer in 0..<6 {
        group.addTask {
          for round in 0..<40 {
            // Most actions are saved several times, also to another queue.
            let key = "\(writer) \(String(repeating: "x", count: round % 3))\(round % 4)"
            let queue = queues[(writer + round) % queues.count]
            await errors.retryConflicts {
              try await site.database.write { tx in try MessageSendAction(key, queue: queue).save(in: tx) }
            }
            if round % 3 == 0 { await errors.retryConflicts { try await broker.restartQueues(queues) } }
            guard round % 5 == 0 else { continue }
            await errors.retryConflicts {
              try await site.database.write { tx in _ = try tx.remove(key: key, in: "message-actions") }
            }
          }
        }
      }
    }
    #expect(errors.take() == [])
    while try !site.left().isEmpty {
      await site.scheduler.waitUntilIdle()
      try await broker.restartQueues(queues)
    }
    await site.scheduler.waitUntilIdle()
    #expect(running.maximum == 1 && running.total == 0)
    #expect(attempts.withLock { $0.count } > 40)
    #expect(site.scheduler.blockedQueues == [])
    await site.scheduler.stop()
  }

  /// Returns the number of reads, of rows that they return, and of changes that it takes to save an action and to run
  /// it, while the actions of `queueCount` other queues wait.
  private static func cost(beside queueCount: Int) async throws -> [Int] {
    let backend = RecordingBackend(try EngineBackend.inMemory())
    let site = try await ActionSite(backend)
    let handler = RecordingHandler { action in action.key.hasPrefix("waits") ? .failure(retryTimeout: -1) : .success }
    _ = try site.setup("messages", handler)
    try await site.scheduler.start()
    try await site.database.write { tx in
      for number in 0..<queueCount {
        for key in ["waits \(number)", "next \(number)"] {
          try MessageSendAction(key, queue: "messages-\(number)").save(in: tx)
        }
      }
      try MessageSendAction("first", queue: "messages-free").save(in: tx)
    }
    await site.scheduler.waitUntilIdle()
    #expect(site.scheduler.blockedQueues.count == queueCount)
    _ = (backend.takeReads(), backend.takeCommits(), handler.take())
    try site.save("one", queue: "messages-free")
    await site.scheduler.waitUntilIdle()
    #expect(handler.take() == ["one"])
    let (reads, commits) = (backend.takeReads(), backend.takeCommits())
    await site.scheduler.stop()
    return [reads.count, reads.reduce(0) { $0 + $1.rowCount }, commits.reduce(0) { $0 + $1.changes.count }]
  }

  @Test func `what it costs to save and to run an action does not depend on the number of queues`()
    async throws
  {
    let few = try await Self.cost(beside: 10)
    let many = try await Self.cost(beside: 500)
    print("reads, rows and changes of an action: \(few) beside 10 queues, and \(many) beside 500")
    #expect(few.allSatisfy { $0 > 0 })
    for (few, many) in zip(few, many) { #expect(many <= few + 20) }
  }

  @Test func `the second call of a completion returns false, and a dropped completion parks its action`()
    async throws
  {
    let site = try await ActionSite()
    let answers = Mutex<[Bool]>([])
    let handler = CompletionHandler { action, completion in
      if action.actionKey == "dropped" { return }
      let found = [completion(true, 0), completion(false, 5)]
      answers.withLock { $0 = found }
    }
    _ = try site.setup("messages", handler)
    try await site.scheduler.start()
    try site.save("twice", "dropped")
    await site.scheduler.waitUntilIdle()
    #expect(answers.withLock { $0 } == [true, false])
    #expect(try site.left() == ["dropped"])
    #expect(site.scheduler.blockedQueues.map(\.state) == [.parked])
    await site.scheduler.stop()
  }

  @Test func `brokers whose queues overlap are refused`() async throws {
    let site = try await ActionSite()
    _ = try site.setup("handler1", RecordingHandler())
    _ = try site.setup("handler10", RecordingHandler())
    let same = TaskQueueError.overlappingBrokers(queue: "handler1", first: "handler1", second: "handler1")
    #expect(throws: same) { try site.setup("handler1", RecordingHandler()) }
    let within = TaskQueueError.overlappingBrokers(queue: "handler1-sub", first: "handler1", second: "handler1-sub")
    #expect(throws: within) { try site.setup("handler1-sub", RecordingHandler()) }
    #expect(
      same.description
        == "the brokers \"handler1\" and \"handler1\" both accept queue \"handler1\", and each queue needs exactly one")
  }
}

/// The errors of concurrent writers, except for conflicts.
private final class WriterErrors: Sendable {
  private let errors = Mutex<[String]>([])

  func take() -> [String] {
    errors.withLock { errors in
      defer { errors = [] }
      return errors
    }
  }

  /// Runs a transaction until it does not conflict.
  func retryConflicts(_ body: @Sendable () async throws -> Void) async {
    while true {
      do { return try await body() } catch let error as DatabaseError where error.code == .conflict {
        await Task.yield()
      } catch {
        return errors.withLock { $0.append("\(error)") }
      }
    }
  }
}
