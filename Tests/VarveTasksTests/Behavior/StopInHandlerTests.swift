import EngineTestSupport
import Foundation
import FutexLocks
import Logging
import Synchronization
import Testing
import Varve
import VarveTestSupport

@_spi(Extensions) @testable import VarveTasks
@testable import VarveTesting

/// Tests of handlers that stop the scheduler which runs them, close its database, or wait for their own end otherwise.
struct StopInHandlerTests {
  private static func fixture(_ disk: CrashFileSystem) throws -> TaskFixture {
    let database = try Database.open(
      try TaskDisk.backend(disk), path: TaskDisk.path, definition: DatabaseDefinition { TaskStorage.handle })
    return try TaskFixture(database, workers: 4)
  }

  /// Lets a call that does not wait return.
  private static func giveTime(_ hasReturned: Flag) async {
    for _ in 0..<20_000 where !hasReturned.isSet { await Task.yield() }
  }

  /// Calls the blocking form.
  private static func closeHere(_ database: Database) throws { try database.close() }

  /// Expects that a start after a reopening runs a number of tasks, and finds no crash.
  private static func expectRuns(_ lines: [String], _ disk: CrashFileSystem) async throws {
    let next = try fixture(disk)
    try next.handle()
    try await next.scheduler.start()
    await next.scheduler.waitUntilIdle()
    #expect(next.lines.take() == lines)
    #expect(try next.read { tx in try tx.taskEvents() }.isEmpty)
    try next.expectNothingLeft()
    try await next.close()
  }

  @Test func `transition 10: the outcome of a handler that stops the scheduler is stored, and a close waits for that`()
    async throws
  {
    let disk = CrashFileSystem(seed: 41)
    let fixture = try Self.fixture(disk)
    let (stopped, mayEnd, isClosed) = (AsyncFlag(), AsyncFlag(), Flag())
    try fixture.handle { _, _ in
      await fixture.scheduler.stop()
      stopped.set()
      await mayEnd.wait()
      return .done
    }
    try await fixture.scheduler.start()
    try fixture.enqueue("stops")
    await stopped.wait()
    // No other task begins.
    try fixture.enqueue("other")
    do {
      try await Threads.alone { try fixture.database.close() }
      Issue.record("the database was closed")
    } catch { #expect((error as? DatabaseError)?.code == .writerBusy) }
    let close = Task {
      try await fixture.database.close()
      isClosed.set()
    }
    await Self.giveTime(isClosed)
    #expect(!isClosed.isSet)
    mayEnd.set()
    try await close.value
    #expect(fixture.lines.take() == ["stops"])
    try await Self.expectRuns(["other"], disk)
  }

  @Test func `transition 11: a handler that stops the scheduler and fails has another attempt`() async throws {
    let fixture = try TaskFixture()
    try fixture.handle { note, _ in
      await fixture.scheduler.stop()
      throw Broken()
    }
    try await fixture.scheduler.start()
    let id = try fixture.enqueue("stops")
    await fixture.poll { !fixture.scheduler.state.withLock { $0.isRunning } }
    let progress = try fixture.read { tx in try tx.task(id)?.progress }
    #expect(progress?.state == .retryWait && progress?.attempt == 1 && progress?.failures == 1)
    try await fixture.close()
  }

  @Test func `transition 10: a stop by a handler returns when all other attempts have ended`() async throws {
    let fixture = try TaskFixture(workers: 4)
    let (begun, mayEnd, hasStopped) = (AsyncFlag(), AsyncFlag(), Flag())
    try fixture.handle { note, _ in
      if note.text == "stops" {
        await begun.wait()
        await fixture.scheduler.stop()
        hasStopped.set()
      } else {
        begun.set()
        await mayEnd.wait()
      }
      return .done
    }
    try await fixture.scheduler.start()
    try fixture.write { tx in for text in ["stops", "other"] { try tx.enqueue(Note(text)) } }
    await fixture.poll { fixture.scheduler.dispatcher.hasStopCallers }
    await Self.giveTime(hasStopped)
    #expect(!hasStopped.isSet)
    mayEnd.set()
    // This call comes after the one of the handler.
    await fixture.scheduler.stop()
    #expect(hasStopped.isSet && Set(fixture.lines.take()) == ["stops", "other"])
    try fixture.expectNothingLeft()
    try await fixture.database.close()
  }

  @Test func `transition 10: several handlers may stop the scheduler, also while another call stops it`() async throws {
    let fixture = try TaskFixture(workers: 4)
    let mayStop = AsyncFlag()
    let count = TaskFixture.Lines()
    try fixture.handle { note, _ in
      await mayStop.wait()
      await fixture.scheduler.stop()
      count.add(note.text)
      return .done
    }
    try await fixture.scheduler.start()
    try fixture.write { tx in for number in 0..<3 { try tx.enqueue(Note("\(number)")) } }
    await fixture.poll { fixture.lines.count == 3 }
    let stop = Task { await fixture.scheduler.stop() }
    await fixture.poll { fixture.scheduler.dispatcher.state.withLock { $0.isStopping } }
    mayStop.set()
    await stop.value
    #expect(Set(count.take()) == ["0", "1", "2"])
    try fixture.expectNothingLeft()
    try await fixture.database.close()
  }

  @Test func `transition 19: a handler that stops the scheduler is done although another one does not return`()
    async throws
  {
    let disk = CrashFileSystem(seed: 42)
    let fixture = try Self.fixture(disk)
    let (begun, mayEnd, stopped) = (AsyncFlag(), AsyncFlag(), AsyncFlag())
    try fixture.handle { note, _ in
      if note.text == "stops" {
        await begun.wait()
        await fixture.scheduler.stop()
        stopped.set()
      } else {
        begun.set()
        await mayEnd.wait()
      }
      return .done
    }
    try await fixture.scheduler.start()
    try fixture.write { tx in for text in ["stops", "hangs"] { try tx.enqueue(Note(text)) } }
    let drainEnd = fixture.clock.continuousNow + .seconds(30)
    await fixture.poll { fixture.clock.deadlines.contains(drainEnd) }
    fixture.clock.advance(by: .seconds(30))
    let abandonEnd = fixture.clock.continuousNow + .seconds(10)
    await fixture.poll { fixture.clock.deadlines.contains(abandonEnd) }
    fixture.clock.advance(by: .seconds(10))
    await stopped.wait()
    try await fixture.database.close()
    mayEnd.set()
    let next = try Self.fixture(disk)
    try next.handle()
    try await next.scheduler.start()
    await next.scheduler.waitUntilIdle()
    #expect(next.lines.take() == ["hangs"])
    try await next.close()
  }

  @Test func `transition 10: a scheduler that a handler has stopped can be started again`() async throws {
    let fixture = try TaskFixture()
    let stopped = AsyncFlag()
    try fixture.handle { note, _ in
      if note.text != "stops" { return .done }
      await fixture.scheduler.stop()
      stopped.set()
      await #expect(throws: TaskError.self) { try await fixture.scheduler.start() }
      return .done
    }
    try await fixture.scheduler.start()
    try fixture.enqueue("stops")
    await stopped.wait()
    try await fixture.scheduler.start()
    try fixture.enqueue("next")
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take() == ["stops", "next"])
    try await fixture.close()
  }

  // MARK: - Other calls that would wait for the handler

  @Test(arguments: [false, true])
  func `transition 10: a handler that closes the database gets an error that names its task, and can end`(
    isBlocking: Bool
  ) async throws {
    let disk = CrashFileSystem(seed: 43)
    let fixture = try Self.fixture(disk)
    let errors = TaskFixture.Lines()
    try fixture.handle { note, context in
      do {
        if isBlocking { try Self.closeHere(fixture.database) } else { try await fixture.database.close() }
      } catch { errors.add("\((error as? DatabaseError)?.code == .writerBusy) \(context.id) \(error)") }
      return .done
    }
    try await fixture.scheduler.start()
    let id = try fixture.enqueue("closes")
    await fixture.scheduler.waitUntilIdle()
    let found = errors.take()
    #expect(found.count == 1 && found[0].hasPrefix("true \(id)") && found[0].contains("the handler of task \(id)"))
    try await fixture.close()
    try await Self.expectRuns([], disk)
  }

  @Test func `transition 10: a Swift task that a handler has begun may stop the scheduler after the handler`()
    async throws
  {
    let fixture = try TaskFixture()
    let (mayStop, isStopped) = (AsyncFlag(), AsyncFlag())
    try fixture.handle { _, _ in
      Task {
        await mayStop.wait()
        await fixture.scheduler.stop()
        try await fixture.database.close()
        isStopped.set()
      }
      return .done
    }
    try await fixture.scheduler.start()
    try fixture.enqueue("begins")
    await fixture.scheduler.waitUntilIdle()
    mayStop.set()
    await isStopped.wait()
  }

  @Test func `a handler that waits until no work is left is named by a warning`() async throws {
    let recorder = LogRecorder()
    let fixture = try TaskFixture(logger: recorder.logger(.warning))
    try fixture.handle { _, _ in
      await fixture.scheduler.waitUntilIdle()
      return .done
    }
    try await fixture.scheduler.start()
    let id = try fixture.enqueue("waits")
    await fixture.poll { !recorder.entries.isEmpty }
    #expect(try await fixture.scheduler.cancel(.id(id)) == 1)
    await fixture.scheduler.waitUntilIdle()
    let entry = try #require(recorder.entries.first)
    #expect(entry.level == .warning && entry.message.contains("waits for its own end"))
    #expect(entry.metadata["task.id"] == "\(id)" && entry.metadata["call"] == "waitUntilIdle()")
    try await fixture.close()
  }
}
