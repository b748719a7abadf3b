import Foundation
import Synchronization
import Testing
import Varve
import VarveTestSupport
import VarveTesting

@_spi(Extensions) @testable import VarveTasks

/// Tests of what handlers decide and report, of handlers that are registered late, and of those that run while the
/// scheduler stops.
struct HandlerTests {
  private enum Failure: Error { case soon, parked, hopeless, other }

  @Test func `transition 11, 13 and 15: onError decides by the error whether a task runs again, is parked or is dead`()
    async throws
  {
    let fixture = try TaskFixture()
    let failures: [String: Failure] = ["soon": .soon, "parked": .parked, "hopeless": .hopeless, "last": .soon]
    var options = HandlerOptions()
    options.retry = .fixed(.seconds(10))
    options.onError = { error, _ in
      switch error as? Failure {
      case .soon: return .retry(after: .seconds(3))
      case .parked: return .park(wakeOn: ["mended"])
      case .hopeless: return .discard("no use")
      default: return nil
      }
    }
    let lines = fixture.lines
    try fixture.scheduler.register(Note.self, options: options) { note, context in
      lines.add(note.text)
      if context.failures == 0 { throw failures[note.text] ?? Failure.other }
      return .done
    }
    let soon = try fixture.enqueue("soon")
    let parked = try fixture.enqueue("parked")
    let hopeless = try fixture.enqueue("hopeless")
    let other = try fixture.enqueue("other")
    // No decision gives a task more attempts than it has.
    let last = try fixture.enqueue("last") { $0.maxAttempts = 1 }
    try await fixture.scheduler.start()
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take() == ["soon", "parked", "hopeless", "other", "last"])
    #expect(try fixture.state(soon) == .retryWait && fixture.state(other) == .retryWait)
    #expect(try fixture.state(parked) == .parked)
    #expect(try fixture.state(hopeless) == .dead && fixture.state(last) == .dead)
    #expect(try fixture.read { tx in try tx.task(hopeless) }?.errors == ["no use: hopeless"])
    #expect(try fixture.read { tx in try tx.task(parked) }?.signals == ["mended"])
    await fixture.scheduler.advance(fixture.clock, by: .seconds(3))
    #expect(fixture.lines.take() == ["soon"])
    // Without a decision, the retries of the handler apply.
    await fixture.scheduler.advance(fixture.clock, by: .seconds(7))
    #expect(fixture.lines.take() == ["other"])
    #expect(try fixture.write { tx in try tx.signal("mended") } == 1)
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take() == ["parked"])
    await fixture.scheduler.stop()
  }

  @Test func `onError receives the number of failures so far, and if it returns nil, the retries of the task decide`()
    async throws
  {
    let fixture = try TaskFixture()
    let counts = Mutex<[Int]>([])
    var options = HandlerOptions()
    options.onError = { _, failures in
      counts.withLock { $0.append(failures) }
      return failures < 3 ? .retry(after: .seconds(1)) : nil
    }
    try fixture.scheduler.register(Note.self, options: options) { _, _ in throw Failure.other }
    let id = try fixture.enqueue("fails") { $0.retry = .never }
    try await fixture.scheduler.start()
    await fixture.scheduler.waitUntilIdle()
    for _ in 0..<4 { await fixture.scheduler.advance(fixture.clock, by: .seconds(1)) }
    #expect(counts.withLock { $0 } == [1, 2, 3])
    #expect(try fixture.state(id) == .dead)
    await fixture.scheduler.stop()
  }

  // MARK: - Late registration

  @Test func `the head of a serial queue waits for its handler, and no task passes it until one is registered`()
    async throws
  {
    let fixture = try TaskFixture(rules: [.named("serial"): QueueRules(order: .serial())], workers: 4)
    try fixture.handle()
    try await fixture.scheduler.start()
    let head = try fixture.write { tx in
      try tx.enqueue(Note("first"), TaskOptions(queue: "serial"))
      let head = try tx.enqueue(Other(), TaskOptions(queue: "serial")).id
      try tx.enqueue(Note("second"), TaskOptions(queue: "serial"))
      try tx.enqueue(Other(), TaskOptions(queue: "serial"))
      return head
    }
    await fixture.scheduler.waitUntilIdle()
    try fixture.enqueue("third") { $0.queue = "serial" }
    try fixture.enqueue("elsewhere")
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take() == ["first", "elsewhere"])
    #expect(fixture.scheduler.unhandledKinds == ["other"])
    let task = try fixture.read { tx in try tx.task(head) }
    #expect(task?.progress.state == .ready && task?.progress.attempt == 0 && task?.errors == [])
    let lines = fixture.lines
    try fixture.scheduler.register(Other.self) { _, _ in
      lines.add("other")
      return .done
    }
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take() == ["other", "second", "other", "third"])
    #expect(fixture.scheduler.unhandledKinds == [])
    await fixture.scheduler.stop()
  }

  // MARK: - Progress

  @Test func `the progress that a handler reports can be read while it runs, and is stored at most once a second`()
    async throws
  {
    let fixture = try TaskFixture()
    let context = Mutex<TaskContext?>(nil)
    let (begun, mayEnd) = (AsyncFlag(), AsyncFlag())
    try fixture.handle { _, running in
      context.withLock { $0 = running }
      begun.set()
      await mayEnd.wait()
      return .done
    }
    try await fixture.scheduler.start()
    let id = try fixture.enqueue("runs")
    await begun.wait()
    let running = try #require(context.withLock { $0 })
    #expect(fixture.scheduler.progress(of: id) == nil)
    running.progress(0.25, "reading")
    #expect(fixture.scheduler.progress(of: id) == HandlerProgress(0.25, "reading"))
    #expect(try fixture.read { tx in try tx.task(id) }?.handlerProgress == HandlerProgress(0.25, "reading"))
    await fixture.poll { try fixture.storedProgress(id) == HandlerProgress(0.25, "reading") }
    // Within the same second, only this process reads a later report.
    running.progress(0.5)
    #expect(fixture.scheduler.progress(of: id) == HandlerProgress(0.5, nil))
    for _ in 0..<100 { await Task.yield() }
    #expect(try fixture.storedProgress(id) == HandlerProgress(0.25, "reading"))
    fixture.clock.advance(by: .seconds(1))
    running.progress(7, "written")
    #expect(fixture.scheduler.progress(of: id)?.fraction == 1)
    await fixture.poll { try fixture.storedProgress(id) == HandlerProgress(1, "written") }
    mayEnd.set()
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.scheduler.progress(of: id) == nil)
    #expect(try fixture.storedProgress(id) == nil)
    await fixture.scheduler.stop()
  }

  // MARK: - Stopping

  @Test func `stop waits for a handler that ends within the drain timeout, counts its end, and begins no other task`()
    async throws
  {
    let fixture = try TaskFixture()
    let (begun, mayEnd) = (AsyncFlag(), AsyncFlag())
    try fixture.handle { _, _ in
      begun.set()
      await mayEnd.wait()
      #expect(!Task.isCancelled)
      return .done
    }
    try await fixture.scheduler.start()
    let running = try fixture.enqueue("runs") { $0.retention = .keep(.seconds(1_000)) }
    await begun.wait()
    let waiting = try fixture.enqueue("waits")
    async let stopped: Void = fixture.scheduler.stop()
    // The call waits until the time limit, which is 30 seconds.
    await fixture.poll { fixture.clock.sleepCount > 0 }
    fixture.clock.advance(by: .seconds(29))
    for _ in 0..<100 { await Task.yield() }
    #expect(try fixture.state(running) == .running)
    mayEnd.set()
    await stopped
    let done = try fixture.read { tx in try tx.task(running) }
    #expect(done?.progress.state == .done && done?.progress.attempt == 1)
    let left = try fixture.read { tx in try tx.task(waiting) }
    #expect(left?.progress.state == .ready && left?.progress.attempt == 0)
    #expect(fixture.lines.take() == ["runs"])
    // The other task runs after the next start.
    try await fixture.scheduler.start()
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take() == ["waits"])
    await fixture.scheduler.stop()
  }

  @Test func `transition 19: a handler that exceeds the drain timeout is cancelled, and its attempt does not count`()
    async throws
  {
    let fixture = try TaskFixture()
    let (begun, wasCancelled) = (AsyncFlag(), Flag())
    try fixture.handle { _, _ in
      begun.set()
      await waitForCancellation { wasCancelled.set() }
      throw CancellationError()
    }
    try await fixture.scheduler.start()
    let id = try fixture.enqueue("runs")
    await begun.wait()
    async let stopped: Void = fixture.scheduler.stop()
    await fixture.poll { fixture.clock.sleepCount > 0 }
    fixture.clock.advance(by: .seconds(29))
    for _ in 0..<100 { await Task.yield() }
    #expect(!wasCancelled.isSet)
    fixture.clock.advance(by: .seconds(1))
    await stopped
    #expect(wasCancelled.isSet)
    let task = try fixture.read { tx in try tx.task(id) }
    #expect(task?.progress.state == .ready && task?.progress.attempt == 0 && task?.errors == [])
  }

  @Test func `a handler that is cancelled may use the scheduler at once, and other kinds stay known as unhandled`()
    async throws
  {
    let fixture = try TaskFixture(workers: 2)
    let (begun, ended) = (AsyncFlag(), AsyncFlag())
    let scheduler = fixture.scheduler
    try fixture.handle(on: .named("a")) { _, _ in
      begun.set()
      await withTaskCancellationHandler {
        await ended.wait()
      } onCancel: {
        // The closure runs in the transaction's thread, which must hold no lock of the scheduler.
        if scheduler.blockedQueues.isEmpty { ended.set() }
      }
      throw CancellationError()
    }
    try await scheduler.start()
    let id = try fixture.enqueue("cancelled") { $0.queue = "a" }
    for queue: QueueName in ["b", "c"] { try fixture.enqueue("waits") { $0.queue = queue } }
    await begun.wait()
    #expect(try fixture.write { tx in try tx.cancel(.id(id)) } == 1)
    await fixture.scheduler.waitUntilIdle()
    #expect(scheduler.unhandledKinds == ["note"])
    try fixture.handle(on: .named("b"))
    await fixture.scheduler.waitUntilIdle()
    // A task in the queue "c" still waits for a handler.
    #expect(scheduler.unhandledKinds == ["note"])
    #expect(fixture.lines.take() == ["cancelled", "waits"])
    await fixture.scheduler.stop()
  }
}
