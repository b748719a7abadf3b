import EngineTestSupport
import Foundation
import Synchronization
import Testing
import Varve
import VarveEngine
import VarveTaskQueue
import VarveTasks
import VarveTestSupport
import VarveTesting

/// The example of YapTaskQueue, in the spelling of this module.
struct MessageSendAction: TaskQueueAction {
  static let actionCollection = "message-actions"
  var key: String
  var messageKey: String
  var queue: String
  var date: Date

  init(_ key: String, queue: String = "messages", at seconds: Double = 0) {
    self.key = key
    messageKey = "message " + key
    self.queue = queue
    date = Date(timeIntervalSince1970: seconds)
  }

  var actionKey: String { key }
  var queueName: String { queue }
  var sortKey: SortKey { SortKey(date) }
}

/// Tests of rows that are tasks.
struct BrokerTests {
  private final class Handler: TaskQueueActionHandler {
    let lines = Mutex<[String]>([])
    let body: @Sendable (MessageSendAction) async -> ActionResult

    init(_ body: @escaping @Sendable (MessageSendAction) async -> ActionResult = { _ in .success }) { self.body = body }

    func handleNextItem(_ action: any TaskQueueAction) async -> ActionResult {
      guard let action = action as? MessageSendAction else { return .failure(retryTimeout: -1) }
      lines.withLock { $0.append(action.messageKey) }
      return await body(action)
    }

    func take() -> [String] {
      lines.withLock { lines in
        defer { lines = [] }
        return lines
      }
    }
  }

  private final class Site: Sendable {
    let database: Database
    let actions = TaskQueueActions(MessageSendAction.self).named("actions")
    let clock: ManualSchedulerClock
    let scheduler: TaskScheduler

    /// Creates a site over the database of another one, or over a storage, or over a new database in memory.
    init(_ old: Site? = nil, on backend: (any StorageBackend)? = nil) throws {
      let actions = actions
      let definition = DatabaseDefinition {
        MessageSendAction.collection
        TaskStorage.handle
        actions
      }
      if let backend {
        database = try Database.open(backend, path: "/actions", definition: definition)
      } else {
        database = try old?.database ?? Database.inMemory(definition: definition)
      }
      clock = old?.clock ?? ManualSchedulerClock()
      var configuration = TaskScheduler.Configuration()
      configuration.workers = 4
      scheduler = try TaskScheduler(database, configuration: configuration, clock: clock)
    }

    func save(_ keys: String..., queue: String = "messages") throws {
      try database.write { tx in for key in keys { try MessageSendAction(key, queue: queue).save(in: tx) } }
    }

    func left() throws -> [String] { try database.read { tx in try tx.keys(String.self, in: "message-actions") } }
    func remove(_ key: String) throws {
      try database.write { tx in _ = try tx.remove(key: key, in: "message-actions") }
    }
    func setup(_ name: String, _ handler: some TaskQueueActionHandler) throws -> TaskQueueBroker {
      try TaskQueueBroker.setup(scheduler, actions, name: name, handler: handler)
    }
  }

  @Test func `saving an action runs it, in the order of its sort key, and removes it`() async throws {
    let site = try Site()
    let handler = Handler()
    try site.database.writeHere { tx in
      try MessageSendAction("second", at: 2).save(in: tx)
      try MessageSendAction("first", at: 1).save(in: tx)
      try MessageSendAction("other", queue: "messages-buddy", at: 0).save(in: tx)
      try MessageSendAction("foreign", queue: "messages10").save(in: tx)
    }
    let broker = try site.setup("messages", handler)
    #expect(broker.queueName(suffix: "buddy") == "messages-buddy")
    try await site.scheduler.start()
    await site.scheduler.waitUntilIdle()
    #expect(handler.take().filter { $0 != "message other" } == ["message first", "message second"])
    // Queues with another name belong to another broker.
    #expect(try site.left() == ["foreign"])
    await site.scheduler.stop()
  }

  @Test func `fault 1: a retryTimeout of 0 runs the action again at once, and one above 0 after that time`()
    async throws
  {
    let site = try Site()
    let count = Mutex(0)
    let handler = Handler { action in
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
    #expect(handler.take() == ["message fails", "message fails"])
    await site.scheduler.advance(site.clock, by: .seconds(4))
    #expect(handler.take() == [])
    await site.scheduler.advance(site.clock, by: .seconds(1))
    #expect(handler.take() == ["message fails", "message next"])
    #expect(try site.left() == [])
    await site.scheduler.stop()
  }

  @Test(arguments: [-1, .nan, .greatestFiniteMagnitude, .infinity])
  func `fault 5: an action that waits without end blocks its queue, and runs again after restartQueues or a restart`(
    timeout: Double
  ) async throws {
    let site = try Site()
    let handler = Handler { _ in .failure(retryTimeout: timeout) }
    let broker = try site.setup("messages", handler)
    try await site.scheduler.start()
    try site.save("waits", "next")
    await site.scheduler.advance(site.clock, by: .seconds(1_000_000))
    #expect(handler.take() == ["message waits"])
    try await broker.restartQueues(["messages"])
    await site.scheduler.waitUntilIdle()
    #expect(handler.take() == ["message waits"])
    await site.scheduler.stop()
    let again = try Site(site)
    let mended = Handler()
    _ = try again.setup("messages", mended)
    try await again.scheduler.start()
    await again.scheduler.waitUntilIdle()
    #expect(mended.take() == ["message waits", "message next"])
    await again.scheduler.stop()
  }

  @Test func `restartQueues runs an action again that waits for a time, and none of a queue that is not named`()
    async throws
  {
    let site = try Site()
    let handler = Handler { _ in .failure(retryTimeout: 3_600) }
    let broker = try site.setup("messages", handler)
    try await site.scheduler.start()
    try site.save("own")
    try site.save("other", queue: "messages-buddy")
    await site.scheduler.waitUntilIdle()
    #expect(handler.take().sorted() == ["message other", "message own"])
    try await broker.restartQueues(["messages"])
    await site.scheduler.waitUntilIdle()
    #expect(handler.take() == ["message own"])
    await site.scheduler.advance(site.clock, by: .seconds(3_600))
    #expect(handler.take().sorted() == ["message other", "message own"])
    await site.scheduler.stop()
  }

  @Test func `fault 2: an action that sorts before the running one runs after it`() async throws {
    let site = try Site()
    let (begun, gate) = (AsyncStream.makeStream(of: Void.self), AsyncStream.makeStream(of: Void.self))
    let running = Mutex((now: 0, most: 0))
    let handler = Handler { action in
      running.withLock { $0 = ($0.now + 1, max($0.most, $0.now + 1)) }
      if action.key == "runs" {
        begun.continuation.yield()
        for await _ in gate.stream { break }
      }
      running.withLock { $0.now -= 1 }
      return .success
    }
    _ = try site.setup("messages", handler)
    try await site.scheduler.start()
    try site.database.writeHere { tx in try MessageSendAction("runs", at: 5).save(in: tx) }
    for await _ in begun.stream { break }
    try site.database.writeHere { tx in
      try MessageSendAction("earlier", at: 1).save(in: tx)
      try MessageSendAction("later", at: 9).save(in: tx)
    }
    gate.continuation.yield()
    await site.scheduler.waitUntilIdle()
    #expect(handler.take() == ["message runs", "message earlier", "message later"])
    #expect(running.withLock { $0.most } == 1)
    await site.scheduler.stop()
  }

  @Test
  func `fault 3: removing a waiting head lets the next action run, and an action that its handler removes is done`()
    async throws
  {
    let site = try Site()
    let handler = Handler { action in
      if action.key == "removes" { try? site.remove("removes") }
      return action.key == "next" ? .success : .failure(retryTimeout: -1)
    }
    _ = try site.setup("messages", handler)
    try await site.scheduler.start()
    try site.save("waits", "removes", "next")
    await site.scheduler.waitUntilIdle()
    #expect(handler.take() == ["message waits"])
    try site.remove("waits")
    await site.scheduler.waitUntilIdle()
    #expect(handler.take() == ["message removes", "message next"])
    #expect(try site.left() == [])
    await site.scheduler.stop()
  }

  @Test func `an action saved again while it runs is run again, and one saved again while it waits runs once`()
    async throws
  {
    let site = try Site()
    let count = Mutex(0)
    let handler = Handler { action in
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
    #expect(handler.take().sorted() == ["message again", "message again", "message twice"])
    #expect(try site.left() == [])
    await site.scheduler.stop()
  }

  @Test(.timeLimit(.minutes(5)))
  func `fault 4: threads that save, remove and restart actions leave none, and no queue runs two at once`() async throws
  {
    let site = try Site()
    let queues = ["messages-1", "messages-2", "messages-3"]
    let state = Mutex((running: [String: Int](), overlaps: 0, attempts: [String: Int]()))
    let handler = Handler { action in
      let attempt = state.withLock { state in
        let count = state.running[action.queue, default: 0] + 1
        state.running[action.queue] = count
        if count > 1 { state.overlaps += 1 }
        state.attempts[action.key, default: 0] += 1
        return state.attempts[action.key] ?? 0
      }
      for _ in 0..<3 { await Task.yield() }
      state.withLock { $0.running[action.queue, default: 0] -= 1 }
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
    while try !site.left().isEmpty, !Task.isCancelled {
      await site.scheduler.waitUntilIdle()
      try await broker.restartQueues(queues)
    }
    await site.scheduler.waitUntilIdle()
    let (running, overlaps, attempts) = state.withLock { $0 }
    #expect(overlaps == 0 && running.values.allSatisfy { $0 == 0 })
    #expect(attempts.count > 40)
    #expect(site.scheduler.blockedQueues == [])
    await site.scheduler.stop()
  }

  /// Returns the number of reads, of rows that they return, and of changes that it takes to save an action and to run
  /// it, while the actions of `queueCount` other queues wait.
  private static func cost(beside queueCount: Int) async throws -> [Int] {
    let backend = RecordingBackend(try EngineBackend(Engine.open(at: "/actions", environment: .inMemory())))
    let site = try Site(on: backend)
    let handler = Handler { action in action.key.hasPrefix("waits") ? .failure(retryTimeout: -1) : .success }
    _ = try site.setup("messages", handler)
    try await site.scheduler.start()
    try site.database.writeHere { tx in
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
    #expect(handler.take() == ["message one"])
    let (reads, commits) = (backend.takeReads(), backend.takeCommits())
    await site.scheduler.stop()
    return [reads.count, reads.reduce(0) { $0 + $1.rowCount }, commits.reduce(0) { $0 + $1.changes.count }]
  }

  @Test func `fault 6: what it costs to save and to run an action does not depend on the number of queues`()
    async throws
  {
    let few = try await Self.cost(beside: 10)
    let many = try await Self.cost(beside: 500)
    print("reads, rows and changes of an action: \(few) beside 10 queues, and \(many) beside 500")
    #expect(few.allSatisfy { $0 > 0 })
    for (few, many) in zip(few, many) { #expect(many <= few + 20) }
  }

  @Test func `fault 7: the second call of a completion returns false, and a dropped completion parks its action`()
    async throws
  {
    let site = try Site()
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

  @Test func `fault 8: brokers whose queues overlap are refused`() throws {
    let site = try Site()
    _ = try site.setup("handler1", Handler())
    _ = try site.setup("handler10", Handler())
    #expect(throws: TaskError.self) { try site.setup("handler1", Handler()) }
    #expect(throws: TaskError.self) { try site.setup("handler1-sub", Handler()) }
  }
}

extension Database {
  /// Calls the blocking form of `write`, in contexts in which that name means the asynchronous form.
  fileprivate func writeHere(_ body: (WriteTransaction) throws -> Void) throws { try write(body) }
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
