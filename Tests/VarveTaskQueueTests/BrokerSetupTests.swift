import Synchronization
import Testing
import Varve
import VarveTaskQueue
import VarveTasks
import VarveTestSupport
import VarveTesting

/// Tests of brokers whose setup throws: it has no effect, and may be repeated.
struct BrokerSetupTests {
  /// Sets up the broker `a-b`, and requires that a broker `a` is refused, because it would get the queue `a-b`.
  private static func refuse(_ handler: RecordingHandler, in site: ActionSite) throws {
    _ = try site.setup("a-b", RecordingHandler())
    let error = TaskQueueError.overlappingBrokers(queue: "a-b", first: "a-b", second: "a")
    #expect(throws: error) { try site.setup("a", handler) }
  }

  @Test func `a broker that is refused for the queues with a suffix leaves that of its name to others`()
    async throws
  {
    let site = try await ActionSite()
    let (refused, other) = (RecordingHandler(), RecordingHandler())
    try Self.refuse(refused, in: site)
    _ = try site.setup("single", other) { $0 == "a" }
    try site.save("one", queue: "a")
    try await site.scheduler.start()
    await site.scheduler.waitUntilIdle()
    #expect(other.take() == ["one"] && refused.take() == [])
    #expect(try site.left() == [])
    await site.scheduler.stop()
  }

  @Test func `a broker that is refused for the queues with a suffix leaves no rules for that of its name`()
    async throws
  {
    let site = try await ActionSite()
    try Self.refuse(RecordingHandler(), in: site)
    let runCount = Mutex(0)
    try site.scheduler.register(Native.self) { native, _ in
      runCount.withLock { $0 += 1 }
      return native.isParked ? .park() : .done
    }
    try await site.database.write { tx in
      for isParked in [true, false] { try tx.enqueue(Native(isParked: isParked), TaskOptions(queue: "a")) }
    }
    try await site.scheduler.start()
    await site.scheduler.waitUntilIdle()
    // In a serial queue, the second task would wait for the one that is parked.
    #expect(runCount.withLock { $0 } == 2)
    await site.scheduler.stop()
  }

  @Test func `a broker with an empty name is refused, whichever way it chooses its queues`() async throws {
    let site = try await ActionSite()
    let error = TaskError.invalidValue("the name of a broker is empty")
    #expect(throws: error) { try site.setup("", RecordingHandler()) }
    #expect(throws: error) { try site.setup("", RecordingHandler()) { _ in true } }
    // What was refused accepts no queue.
    _ = try site.setup("messages", RecordingHandler())
  }

  @Test(arguments: [false, true], [false, true])
  func `a broker whose setup can't be committed runs nothing, and may be set up again`(
    usesClosure: Bool, isRunning: Bool
  ) async throws {
    let backend = FailingBackend(try EngineBackend.inMemory())
    let first = try await ActionSite(backend)
    let parking = RecordingHandler { _ in .failure(retryTimeout: -1) }
    try first.setup(parking, usesClosure: usesClosure)
    try first.save("waits", "next", queue: "messages-ada")
    try await first.scheduler.start()
    await first.scheduler.waitUntilIdle()
    #expect(parking.take() == ["waits"])
    await first.scheduler.stop()
    let second = try ActionSite(after: first)
    if isRunning {
      try await second.scheduler.start()
      await second.scheduler.waitUntilIdle()
    }
    let (failed, handler) = (RecordingHandler(), RecordingHandler())
    backend.fail(.max)
    // The action that waits is made ready in the transaction that fails.
    let error = #expect(throws: DatabaseError.self) {
      try second.setup(failed, usesClosure: usesClosure)
    }
    #expect(error?.code == .storage)
    backend.mend()
    #expect(try second.count(.parked) == 1)
    try second.setup(handler, usesClosure: usesClosure)
    if !isRunning { try await second.scheduler.start() }
    await second.scheduler.waitUntilIdle()
    let keys = handler.take()
    // A queue that has received tasks since the start is not serial before the next start.
    #expect((isRunning ? keys.sorted() : keys) == (isRunning ? ["next", "waits"] : ["waits", "next"]))
    #expect(failed.take() == [])
    #expect(try second.left() == [])
    await second.scheduler.stop()
    try await second.database.close()
  }
}
