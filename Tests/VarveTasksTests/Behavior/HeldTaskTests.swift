import Foundation
import FutexLocks
import Synchronization
import Testing
import Varve
import VarveTestSupport
import VarveTesting

@_spi(Extensions) @testable import VarveTasks

/// Tests of transactions that have changed tasks and are still open while the scheduler claims tasks.
struct HeldTaskTests {
  /// A change that a transaction makes to a queued task.
  enum Change: String, CaseIterable, Sendable {
    case payload, priority, start, delete, cancel

    func make(_ id: TaskID, _ tx: WriteTransaction) throws {
      switch self {
      case .payload: try tx.edit(id, payload: Note("edited"))
      case .priority: try tx.edit(id, priority: 200)
      case .start: try tx.edit(id, start: .after(.seconds(60)))
      case .delete: #expect(try tx.delete(.id(id)) == 1)
      case .cancel: #expect(try tx.cancel(.id(id)) == 1)
      }
    }
  }

  /// Ends a transaction. Returns when no open transaction changes tasks any more.
  private static func finish(_ open: OpenTransaction, _ fixture: TaskFixture) async throws {
    try await open.finish()
    await fixture.poll { fixture.scheduler.dispatcher.state.withLock { $0.held.isEmpty } }
  }

  @Test(arguments: Change.allCases, [false, true])
  func `no claim takes a task that an open transaction changes, a rollback frees it, and a commit has its effect`(
    change: Change, isUndone: Bool
  ) async throws {
    for isSerial in [false, true] {
      let fixture = try TaskFixture(rules: .all(isSerial: isSerial))
      let (begun, mayEnd) = (AsyncFlag(), AsyncFlag())
      try fixture.handle { note, _ in
        if note.text == "runs" {
          begun.set()
          await mayEnd.wait()
        }
        return .done
      }
      try await fixture.scheduler.start()
      try fixture.enqueue("runs")
      await begun.wait()
      let id = try fixture.enqueue("changed")
      for text in ["b", "c"] { try fixture.enqueue(text) }
      let open = await OpenTransaction(fixture, isUndone: isUndone) { tx in try change.make(id, tx) }
      // From now on, the only worker is free, and the changed task is the first one.
      mayEnd.set()
      await fixture.scheduler.waitUntilIdle()
      #expect(fixture.lines.take() == (isSerial ? ["runs"] : ["runs", "b", "c"]))
      #expect(try fixture.state(id) == .ready)
      try await Self.finish(open, fixture)
      await fixture.scheduler.waitUntilIdle()
      let rest = isSerial ? ["b", "c"] : []
      let expected: [String] =
        if isUndone {
          ["changed"] + rest
        } else {
          switch change {
          case .payload: ["edited"] + rest
          case .priority: rest + ["changed"]
          case .start, .delete, .cancel: rest
          }
        }
      #expect(fixture.lines.take() == expected, "\(change), serial: \(isSerial)")
      await fixture.scheduler.advance(fixture.clock, by: .seconds(60))
      #expect(fixture.lines.take() == (change == .start && !isUndone ? ["changed"] : []))
      #expect(try fixture.rowCount() == 0)
      await fixture.scheduler.stop()
    }
  }

  /// What a task waits for that a transaction wakes.
  enum Wait: String, CaseIterable, Sendable {
    /// The time that it was enqueued with.
    case time
    /// The time of its next attempt, in a standard queue.
    case attempt
    /// The time of its next attempt, at the head of a serial queue.
    case attemptOfHead
    /// A signal.
    case signal
    /// A call, at the head of a serial queue.
    case callAtHead
  }

  @Test(arguments: Wait.allCases, [false, true])
  func `transition 22: a task that an open transaction wakes is not claimed before the end, even if it becomes due`(
    wait: Wait, isUndone: Bool
  ) async throws {
    for isDue in [false, true] {
      let isHead = wait == .attemptOfHead || wait == .callAtHead
      let fixture = try TaskFixture(rules: .all(isSerial: isHead), workers: 4)
      try fixture.handle { note, context in
        if note.text != "woken" || context.failures > 0 { return .done }
        switch wait {
        case .attempt, .attemptOfHead: throw Broken()
        case .callAtHead: return .park()
        case .time, .signal: return .done
        }
      }
      try await fixture.scheduler.start()
      let id = try fixture.enqueue("woken") { options in
        if wait == .time { options.start = .after(.seconds(10)) }
        if wait == .signal { options.start = .parked(wakeOn: ["go"]) }
      }
      await fixture.scheduler.waitUntilIdle()
      let before = try #require(try fixture.state(id))
      #expect(fixture.lines.take() == (wait == .time || wait == .signal ? [] : ["woken"]))
      try fixture.enqueue("next")
      let open = await OpenTransaction(fixture, isUndone: isUndone) { tx in
        let count = try wait == .signal ? tx.signal("go") : tx.retryNow(.id(id))
        #expect(count == 1)
      }
      if isDue { fixture.clock.advance(by: .seconds(10)) }
      await fixture.scheduler.waitUntilIdle()
      #expect(fixture.lines.take() == (isHead ? [] : ["next"]))
      #expect(try fixture.state(id) == before)
      try await Self.finish(open, fixture)
      await fixture.scheduler.waitUntilIdle()
      // Without the commit, only a task whose time has come runs.
      let isTimed = wait != .signal && wait != .callAtHead
      let isRun = !isUndone || (isDue && isTimed)
      #expect(fixture.lines.take() == (isRun ? (isHead ? ["woken", "next"] : ["woken"]) : []), "\(wait), \(isDue)")
      #expect(try fixture.state(id) == (isRun ? nil : before))
      // A task that was not woken runs as it would have without the transaction.
      if !isRun {
        try fixture.write { tx in try tx.retryNow(.id(id)) }
        await fixture.scheduler.waitUntilIdle()
        #expect(fixture.lines.take() == (isHead ? ["woken", "next"] : ["woken"]))
      }
      await fixture.scheduler.advance(fixture.clock, by: .seconds(20))
      #expect(fixture.lines.take() == [])
      #expect(try fixture.rowCount() == 0)
      await fixture.scheduler.stop()
    }
  }

  // MARK: - Tasks that run

  /// Returns a scheduler that runs a task until `mayEnd`, and the contexts of its attempts.
  private static func running(
    _ mayEnd: AsyncFlag, _ contexts: @escaping @Sendable (TaskContext) -> Void
  ) async throws -> (fixture: TaskFixture, id: TaskID) {
    let fixture = try TaskFixture(workers: 2)
    let begun = AsyncFlag()
    try fixture.handle { note, context in
      if note.text != "runs" { return .done }
      contexts(context)
      begun.set()
      await mayEnd.wait()
      if context.isCancelled { throw CancellationError() }
      return .done
    }
    try await fixture.scheduler.start()
    let id = try fixture.enqueue("runs") { $0.retention = .keep(.seconds(1_000)) }
    await begun.wait()
    return (fixture, id)
  }

  @Test
  func
    `transition 24 and 25: editing and deleting a running task throws at the call, and the transaction may continue`()
    async throws
  {
    let mayEnd = AsyncFlag()
    let (fixture, id) = try await Self.running(mayEnd) { _ in }
    try fixture.write { tx in
      #expect(throws: TaskError.taskRunning(id)) { try tx.edit(id, payload: Note("edited")) }
      #expect(throws: TaskError.taskRunning(id)) { try tx.edit(id, priority: 0) }
      #expect(throws: TaskError.taskRunning(id)) { try tx.edit(id, start: .after(.seconds(60))) }
      #expect(throws: TaskError.taskRunning(id)) { try tx.delete(.id(id)) }
      #expect(throws: TaskError.taskRunning(id)) { try tx.delete(.queue("default")) }
      #expect(try tx.retryNow(.id(id)) == 0)
      #expect(try tx.revive(.id(id)) == 0)
      try tx.enqueue(Note("other"))
    }
    await fixture.poll { fixture.lines.count == 2 }
    mayEnd.set()
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take() == ["runs", "other"])
    let task = try fixture.read { tx in try tx.task(id) }
    let payload = try Array(Note("runs").encoded())
    #expect(task?.progress.state == .done && task?.payload == payload && task?.priority == 128)
    await fixture.scheduler.stop()
  }

  @Test(arguments: [false, true])
  func `transition 17: a running task that a transaction cancels is notified at the commit, and never after a rollback`(
    isUndone: Bool
  ) async throws {
    let mayEnd = AsyncFlag()
    let context = Mutex<TaskContext?>(nil)
    let (fixture, id) = try await Self.running(mayEnd) { running in context.withLock { $0 = running } }
    let running = try #require(context.withLock { $0 })
    let open = await OpenTransaction(fixture, isUndone: isUndone) { tx in
      let count = try tx.cancel(.id(id))
      #expect(count == 1)
    }
    #expect(!running.isCancelled)
    #expect(try fixture.read { tx in try tx.tasks.parts.live.get(TaskKeys.cancel(id)) } == nil)
    try await Self.finish(open, fixture)
    #expect(running.isCancelled == !isUndone)
    mayEnd.set()
    await fixture.scheduler.waitUntilIdle()
    #expect(try fixture.state(id) == (isUndone ? .done : .cancelled))
    #expect(fixture.lines.take() == ["runs"])
    await fixture.scheduler.stop()
  }

  // MARK: - Requests

  @Test(arguments: [false, true])
  func `a request to the scheduler for a task that an open transaction changes is made after the transaction`(
    isUndone: Bool
  ) async throws {
    let fixture = try TaskFixture()
    try fixture.handle()
    try fixture.write { tx in try tx.pause("default") }
    try await fixture.scheduler.start()
    let id = try fixture.enqueue("a")
    let open = await OpenTransaction(fixture, isUndone: isUndone) { tx in _ = try tx.delete(.id(id)) }
    let isMade = Flag()
    let scheduler = fixture.scheduler
    let request = Task {
      let count = try await scheduler.cancel(.id(id))
      isMade.set()
      return count
    }
    for _ in 0..<1_000 { await Task.yield() }
    #expect(!isMade.isSet)
    #expect(try fixture.state(id) == .ready)
    try await Self.finish(open, fixture)
    #expect(try await request.value == (isUndone ? 1 : 0))
    #expect(try fixture.state(id) == nil)
    #expect(try fixture.count(.ready) == 0)
    await fixture.scheduler.stop()
  }
}
