import Synchronization
import Testing
import Varve
import VarveTaskQueue
import VarveTasks
import VarveTestSupport
import VarveTesting

/// Tests of brokers that choose their queues by a closure over the names, which YapTaskQueue describes and does not
/// have.
struct ClosureBrokerTests {
  @Test func `a broker with a closure runs the actions of the queues that it accepts, one at a time in each`()
    async throws
  {
    let site = try await ActionSite()
    let running = Gauge()
    let handler = RecordingHandler { action in
      running.add(1, action.queue)
      for _ in 0..<20 { await Task.yield() }
      running.add(-1, action.queue)
      return .success
    }
    let other = RecordingHandler()
    // Some actions are saved before the broker exists.
    try site.save("a 1", "a 2", queue: "avatars")
    _ = try site.setup("uploads", handler) { ["avatars", "attachments"].contains($0) }
    _ = try site.setup("messages", other)
    try site.save("b 1", "b 2", queue: "attachments")
    try await site.scheduler.start()
    // And some in queues that are new to a scheduler that runs.
    try site.save("a 3", "a 4", queue: "avatars")
    try site.save("b 3", queue: "attachments")
    try site.save("message", queue: "messages-ada")
    try site.save("foreign", queue: "elsewhere")
    await site.scheduler.waitUntilIdle()
    let keys = handler.take()
    #expect(keys.filter { $0.hasPrefix("a") } == ["a 1", "a 2", "a 3", "a 4"])
    #expect(keys.filter { $0.hasPrefix("b") } == ["b 1", "b 2", "b 3"])
    #expect(keys.count == 7 && other.take() == ["message"])
    #expect(running.maximum == 1 && running.keys.count == 2)
    #expect(try site.left() == ["foreign"])
    await site.scheduler.stop()
  }

  @Test func `a queue that a closure accepts is serial when it is met, and waits for an action that fails`()
    async throws
  {
    let site = try await ActionSite()
    let failures = Mutex(0)
    let handler = RecordingHandler { action in
      if action.key != "fails" { return .success }
      return failures.withLock { failures in
        failures += 1
        return failures == 1 ? .failure(retryTimeout: 5) : failures == 2 ? .failure(retryTimeout: -1) : .success
      }
    }
    let broker = try site.setup("ends", handler) { $0.hasSuffix("-up") }
    try await site.scheduler.start()
    for queue in ["new-up", "other-up"] {
      try site.save(queue == "new-up" ? "fails" : "works", "next of \(queue)", queue: queue)
    }
    await site.scheduler.waitUntilIdle()
    #expect(handler.take().sorted() == ["fails", "next of other-up", "works"])
    await site.scheduler.advance(site.clock, by: .seconds(5))
    #expect(handler.take() == ["fails"])
    await site.scheduler.advance(site.clock, by: .seconds(100_000))
    #expect(handler.take() == [])
    try await broker.restartQueues(["new-up"])
    await site.scheduler.waitUntilIdle()
    #expect(handler.take() == ["fails", "next of new-up"])
    #expect(try site.left() == [])
    await site.scheduler.stop()
  }

  /// Two brokers whose closures accept some of the same names.
  private static func overlapping(
    _ site: ActionSite
  ) throws -> (first: RecordingHandler, second: RecordingHandler) {
    let (first, second) = (RecordingHandler(), RecordingHandler())
    _ = try site.setup("first", first) { $0.hasPrefix("a") }
    _ = try site.setup("second", second) { $0.hasSuffix("z") }
    return (first, second)
  }

  @Test(arguments: [false, true])
  func `an action in a queue that two brokers accept is refused when it is saved, and neither runs it`(
    isRunning: Bool
  ) async throws {
    let site = try await ActionSite()
    let (first, second) = try Self.overlapping(site)
    if isRunning { try await site.scheduler.start() }
    let error = TaskQueueError.overlappingBrokers(queue: "abcz", first: "first", second: "second")
    for _ in 0..<2 {
      #expect(throws: error) { try site.save("both", queue: "abcz") }
    }
    #expect("\(error)".contains("\"first\"") && "\(error)".contains("\"second\"") && "\(error)".contains("\"abcz\""))
    // A transaction that catches the error can't be committed either.
    let doomed = #expect(throws: DatabaseError.self) {
      try site.save("caught", catching: "both", queue: "abcz")
    }
    #expect(doomed?.code == .doomed)
    #expect(try site.left() == [])
    try site.save("one", queue: "abc")
    try site.save("other", queue: "xyz")
    if !isRunning { try await site.scheduler.start() }
    await site.scheduler.waitUntilIdle()
    #expect(first.take() == ["one"] && second.take() == ["other"])
    #expect(try site.left() == [])
    await site.scheduler.stop()
  }

  @Test func `a broker is refused if another one accepts a queue that has actions, or had some`() async throws {
    let site = try await ActionSite()
    try site.save("waits", queue: "abcz")
    let (first, second) = (RecordingHandler(), RecordingHandler())
    _ = try site.setup("first", first) { $0.hasPrefix("a") }
    let error = TaskQueueError.overlappingBrokers(queue: "abcz", first: "first", second: "second")
    #expect(throws: error) { try site.setup("second", second) { $0.hasSuffix("z") } }
    try await site.scheduler.start()
    // A broker that was refused runs nothing.
    try site.save("elsewhere", queue: "xyz")
    await site.scheduler.waitUntilIdle()
    #expect(first.take() == ["waits"] && second.take() == [])
    #expect(try site.left() == ["elsewhere"])
    // The queue is empty now, and belongs to the first broker.
    #expect(throws: error) { try site.setup("second", second) { $0.hasSuffix("z") } }
    await site.scheduler.stop()
    // After another launch, either of them may have it.
    let again = try ActionSite(after: site)
    _ = try again.setup("second", second) { $0.hasSuffix("z") }
    try await again.scheduler.start()
    try again.save("later", queue: "abcz")
    await again.scheduler.waitUntilIdle()
    #expect(second.take().sorted() == ["elsewhere", "later"])
    await again.scheduler.stop()
  }

  @Test func `a closure that accepts the name of another broker is refused, in whichever order they come`()
    async throws
  {
    var site = try await ActionSite()
    _ = try site.setup("handler1", RecordingHandler())
    #expect(throws: TaskQueueError.overlappingBrokers(queue: "handler1", first: "handler1", second: "all")) {
      try site.setup("all", RecordingHandler()) { _ in true }
    }
    // A queue with a suffix is met only when it has an action.
    let handler = RecordingHandler()
    _ = try site.setup("suffixes", handler) { $0.hasSuffix("-2") }
    #expect(throws: TaskQueueError.overlappingBrokers(queue: "handler1-2", first: "handler1", second: "suffixes")) {
      try site.save("both", queue: "handler1-2")
    }
    site = try await ActionSite()
    _ = try site.setup("all", RecordingHandler()) { _ in true }
    #expect(throws: TaskQueueError.overlappingBrokers(queue: "handler1", first: "all", second: "handler1")) {
      try site.setup("handler1", RecordingHandler())
    }
    // The broker that was refused has left its queues to the other one.
    try site.save("mine", queue: "handler1")
    try await site.scheduler.start()
    await site.scheduler.waitUntilIdle()
    #expect(try site.left() == [])
    await site.scheduler.stop()
  }

  @Test func `a closure that accepts each name has no effect on the queues of other tasks`() async throws {
    let site = try await ActionSite()
    let both = AsyncFlag()
    let count = Mutex(0)
    // Each of the two handlers waits for the other one, so they must run at once.
    try site.scheduler.register(Native.self) { _, _ in
      let isSecond = count.withLock { count in
        count += 1
        return count == 2
      }
      if isSecond { both.set() }
      await both.wait()
      return .done
    }
    let handler = RecordingHandler()
    try await site.database.write { tx in for _ in 0..<2 { try tx.enqueue(Native()) } }
    _ = try site.setup("all", handler) { _ in true }
    try site.save("action", queue: "messages")
    try await site.scheduler.start()
    await site.scheduler.waitUntilIdle()
    #expect(count.withLock { $0 } == 2 && handler.take() == ["action"])
    #expect(try await site.database.read { tx in try tx.tasks(.all).count } == 0)
    await site.scheduler.stop()
  }

  @Test func `a broker does not keep its database alive`() async throws {
    final class Owner: TaskQueueActionHandler {
      let database: Database
      init(_ database: Database) { self.database = database }
      func handleNextItem(_ action: any TaskQueueAction) async -> ActionResult { .success }
    }
    weak var scheduler: TaskScheduler?
    weak var owner: Owner?
    weak var database: Database?
    do {
      let site = try await ActionSite()
      let handler = Owner(site.database)
      (scheduler, owner, database) = (site.scheduler, handler, site.database)
      _ = try site.setup("all", handler) { _ in true }
      try site.save("waits", queue: "messages")
      #expect(scheduler != nil && owner != nil && database != nil)
    }
    #expect(scheduler == nil && owner == nil && database == nil)
  }
}

extension ActionSite {
  /// Saves an action, and one in another queue whose error is caught.
  fileprivate func save(_ key: String, catching other: String, queue: String) throws {
    try database.write { tx in
      try MessageSendAction(key, queue: "elsewhere").save(in: tx)
      try? MessageSendAction(other, queue: queue).save(in: tx)
    }
  }
}
