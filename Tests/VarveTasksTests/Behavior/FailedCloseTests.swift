import EngineTestSupport
import Foundation
import Synchronization
import Testing
@_spi(Extensions) import Varve
import VarveEngine
import VarveTestSupport
import VarveTesting

@_spi(Extensions) @testable import VarveTasks

/// Tests of a close of the database that begins while a scheduler runs tasks, and waits for work outside transactions.
struct FailedCloseTests {
  private static func open(_ environment: EngineEnvironment) async throws -> Database {
    try await Database.open(
      try EngineBackend(Engine.open(at: "/db", environment: environment)), path: "/db",
      definition: DatabaseDefinition { TaskStorage.handle })
  }

  /// Closes a database on a thread of its own, by the form that does not wait for transactions. Returns the code of its
  /// error, or `nil` if the database is closed.
  private static func closeOnThread(_ database: Database) async -> DatabaseError.Code? {
    await withCheckedContinuation { continuation in
      Thread.detachNewThread {
        do {
          try database.close()
          continuation.resume(returning: nil)
        } catch {
          continuation.resume(returning: (error as? DatabaseError)?.code)
        }
      }
    }
  }

  private static func readOnThread(_ database: Database, _ body: @escaping @Sendable () -> Void) async throws {
    try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Void, any Error>) in
      Thread.detachNewThread { continuation.resume(with: Result { try database.read { _ in body() } }) }
    }
  }

  /// Closes the database, and calls `body` while the close waits for a worker. Returns the code of the close's error.
  private static func closing(_ fixture: TaskFixture, _ body: () throws -> Void) async throws -> DatabaseError.Code? {
    let (worker, mayEnd) = (fixture.scheduler.dispatcher.worker, AsyncFlag())
    let isRun = worker.runAsync { _ in await mayEnd.wait() }
    #expect(isRun)
    async let code = closeOnThread(fixture.database)
    await fixture.poll { worker.isStopping }
    do {
      defer { mayEnd.set() }
      try body()
    }
    return await code
  }

  @Test func `tasks run on after a close that failed because a transaction ran`() async throws {
    let fixture = try TaskFixture()
    try fixture.handle()
    try await fixture.scheduler.start()
    try fixture.enqueue("before")
    await fixture.scheduler.waitUntilIdle()
    let (isReading, mayEnd) = (AsyncFlag(), DispatchSemaphore(value: 0))
    async let read: Void = Self.readOnThread(fixture.database) {
      isReading.set()
      mayEnd.wait()
    }
    // A test that fails leaves no thread that waits.
    defer { mayEnd.signal() }
    await isReading.wait()
    for text in ["first", "second"] {
      let code = try await Self.closing(fixture) { try fixture.enqueue(text) }
      #expect(code == .writerBusy)
    }
    mayEnd.signal()
    try await read
    #expect(fixture.scheduler.state.withLock { $0.isRunning })
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take() == ["before", "first", "second"])
    try fixture.enqueue("after")
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take() == ["after"])
    await fixture.scheduler.stop()
  }

  @Test func `a close that succeeds ends the scheduler, and the work that waited for it is done after the next open`()
    async throws
  {
    let environment = EngineEnvironment.inMemory()
    let fixture = try TaskFixture(try await Self.open(environment))
    try fixture.handle()
    try await fixture.scheduler.start()
    let code = try await Self.closing(fixture) { try fixture.enqueue("meanwhile") }
    #expect(code == nil)
    await fixture.scheduler.waitUntilIdle()
    #expect(!fixture.scheduler.state.withLock { $0.isRunning })
    #expect(!fixture.scheduler.dispatcher.isAttached)
    #expect(fixture.lines.take() == [])
    let again = try TaskFixture(try await Self.open(environment))
    try again.handle()
    try await again.scheduler.start()
    await again.scheduler.waitUntilIdle()
    #expect(again.lines.take() == ["meanwhile"])
    await again.scheduler.stop()
    try await again.database.close()
  }
}
