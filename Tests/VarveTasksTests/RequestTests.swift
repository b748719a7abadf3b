import EngineTestSupport
import Foundation
import FutexLocks
import Synchronization
import Testing
import Varve
import VarveTestSupport
import VarveTesting

@_spi(Extensions) @testable import VarveTasks

/// Tests of changes of many tasks concurrent with transactions, and of the time between a commit of the scheduler and
/// its notification.
struct RequestTests {
  @Test func `tasks are cancelled, woken, revived and deleted by the scheduler, also while they run`() async throws {
    let fixture = try TaskFixture(workers: 4)
    let began = AsyncFlag()
    try fixture.handle { note, _ in
      if note.text == "runs" {
        began.set()
        let (stream, _) = AsyncStream.makeStream(of: Void.self)
        for await _ in stream {}
        throw CancellationError()
      }
      return note.text == "bad" ? .discard("no") : .done
    }
    for isRunning in [false, true] {
      if isRunning { try await fixture.scheduler.start() }
      for number in 0..<1_500 { try fixture.enqueue("\(number)") { $0.start = .parked(wakeOn: ["go"]) } }
      #expect(try await fixture.scheduler.cancel(.id(TaskID(rawValue: 1 << 40))) == 0)
      #expect(try await fixture.scheduler.signal("go") == 1_500)
      if !isRunning { #expect(try await fixture.scheduler.cancel(.queue("default")) == 1_500) }
    }
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take().count == 1_500)
    let running = try fixture.enqueue("runs")
    await began.wait()
    #expect(try await fixture.scheduler.delete(.id(running)) == 0)
    #expect(try await fixture.scheduler.cancel(.id(running)) == 1)
    let bad = try fixture.enqueue("bad")
    await fixture.scheduler.waitUntilIdle()
    #expect(try fixture.state(running) == nil && fixture.state(bad) == .dead)
    try fixture.write { tx in try tx.pause("default") }
    #expect(try await fixture.scheduler.revive(.dead("default")) == 1)
    #expect(try fixture.state(bad) == .ready)
    #expect(try await fixture.scheduler.delete(.all) == 1)
    #expect(try fixture.read { tx in try tx.tasks(.all).isEmpty && tx.tasks.parts.live.count() == 0 })
    await fixture.scheduler.stop()
  }

  @Test func `tasks that are edited while their queue ages run once each, and the counts are right`() async throws {
    var rules = QueueRules(order: .standard, concurrency: 4)
    rules.ageing = .milliseconds(1)
    let fixture = try TaskFixture(rules: [.all: rules], workers: 4, clock: ManualSchedulerClock())
    let runs = Mutex<[UInt64: Int]>([:])
    try fixture.handle { _, context in
      try await context.complete { tx in _ = tx }
      runs.withLock { $0[context.id.rawValue, default: 0] += 1 }
      return .done
    }
    try await fixture.scheduler.start()
    let clock = Task { [fixture] in
      while !Task.isCancelled {
        fixture.clock.advance(by: .milliseconds(1))
        await Task.yield()
      }
    }
    var enqueued = 0
    for round in 0..<300 {
      for _ in 0..<5 {
        try fixture.enqueue("x") { $0.priority = 128 }
        enqueued += 1
      }
      // A conflict is allowed, because the task has moved.
      try? fixture.write { tx in
        for task in try tx.tasks(.state(.ready), limit: 3) { try tx.edit(task.id, priority: UInt8(130 + round % 3)) }
      }
    }
    clock.cancel()
    await fixture.scheduler.waitUntilIdle()
    let often = runs.withLock { $0.filter { $0.value != 1 } }
    #expect(often.isEmpty, "\(often)")
    #expect(runs.withLock { $0.count } == enqueued)
    for state in TaskState.allCases {
      #expect(try fixture.count(state) == 0, "\(state)")
    }
    await fixture.scheduler.stop()
  }

  @Test func `the late result of a commit does not add a second entry for a task that was edited since`()
    async throws
  {
    let fixture = try TaskFixture()
    try fixture.handle()
    try await fixture.scheduler.start()
    try fixture.write { tx in try tx.pause("default") }
    let id = try fixture.enqueue("x")
    await fixture.scheduler.waitUntilIdle()
    let record = try #require(try fixture.read { tx in try tx.tasks.parts.record(id) })
    let dispatcher = fixture.scheduler.dispatcher
    // Simulates the time between the commit and its notification: no other task is begun.
    dispatcher.state.withLock { ($0.loop.isCommitting, $0.loop.isPumping) = (true, true) }
    try fixture.write { tx in try tx.edit(id, priority: 7) }
    var late = SchedulerDelta()
    late.entries = [(record.position.subqueue, QueuedTask(record, record.bytes))]
    dispatcher.apply(late, of: fixture.scheduler.state.withLock { $0.start })
    dispatcher.state.withLock { $0.loop.isPumping = false }
    #expect(dispatcher.state.withLock { $0.subqueues[record.position.subqueue]?.entryCount } == 1)
    try fixture.write { tx in try tx.resume("default") }
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take() == ["x"])
    await fixture.scheduler.stop()
  }

  @Test func `a task cancelled in the commit in which it becomes due, starts or ends is not queued, and counts once`()
    async throws
  {
    let fixture = try TaskFixture(workers: 8)
    var options = HandlerOptions()
    options.retry = .fixed(.milliseconds(1))
    try fixture.scheduler.register(Note.self, options: options) { _, _ in .retry(after: .milliseconds(1)) }
    try await fixture.scheduler.start()
    for round in 0..<6 {
      try fixture.write { tx in
        for number in 0..<600 { try tx.enqueue(Note("\(number)")) }
      }
      let clock = Task { [fixture] in
        while !Task.isCancelled {
          fixture.clock.advance(by: .milliseconds(1))
          await Task.yield()
        }
      }
      _ = try await fixture.scheduler.retryNow(.all)
      if round % 2 == 0 { _ = try await fixture.scheduler.cancel(.state(.ready)) }
      while try fixture.read({ tx in try tx.tasks(.all).contains { !$0.progress.state.isSettled } }) {
        _ = try await fixture.scheduler.cancel(.all)
      }
      clock.cancel()
      await fixture.scheduler.waitUntilIdle()
      _ = try await fixture.scheduler.delete(.all)
      for state in TaskState.allCases {
        #expect(try fixture.count(state) == 0, "\(state), round \(round)")
      }
      #expect(try fixture.rowCount() == 0)
    }
    await fixture.scheduler.stop()
  }

  /// Makes one change as a writer does. Returns the task that it has enqueued, or `nil` if none.
  private static func change(_ tx: WriteTransaction, _ kind: Int, _ number: Int, _ queue: Int, _ chosen: TaskID?) throws
    -> TaskID?
  {
    var options = TaskOptions(queue: ["serial-1", "serial-2", "p-1", "p-2"][queue])
    options.limitKey = queue == 3 ? "key \(number % 5)" : nil
    if kind == 4, let chosen { options.dependsOn = [chosen] }
    if kind == 4 { options.onParentFailure = .runAnyway }
    if kind == 5 { options.unique = Uniqueness(key: "u\(number % 4)", onConflict: .rerun) }
    switch kind {
    case 0: if let chosen { try tx.cancel(.id(chosen)) }
    case 1: try tx.signal("go")
    case 2: if let chosen { try? tx.edit(chosen, priority: UInt8(number % 200)) }
    case 3: if let chosen { _ = try? tx.delete(.id(chosen)) }
    default: return try tx.enqueue(Note("\(number)"), options).id
    }
    return nil
  }

  @Test
  func `eight writers that enqueue, cancel, wake, edit and delete concurrently with 8 workers leave no task or key`()
    async throws
  {
    var rules = QueueRules(order: .standard, concurrency: 8)
    rules.perKey = 2
    let fixture = try TaskFixture(
      rules: [.prefix("serial"): QueueRules(order: .serial(onDead: .skip), concurrency: 4), .prefix("p"): rules],
      workers: 8)
    try fixture.handle { note, context in
      let number = Int(note.text) ?? 0
      if number % 9 == 0, context.failures == 0 { return .retry(after: .milliseconds(5)) }
      if number % 13 == 0, context.failures == 0 { return .park(wakeOn: ["go"]) }
      return number % 17 == 0 ? .discard("no") : .done
    }
    try await fixture.scheduler.start()
    let clock = Task { [fixture] in
      while !Task.isCancelled {
        fixture.clock.advance(by: .milliseconds(5))
        await Task.yield()
      }
    }
    let database = fixture.database
    let conflicts = TaskFixture.Lines()
    await withTaskGroup { group in
      for writer in 0..<8 {
        group.addTask {
          var random = SeededRandom(seed: UInt64(writer))
          var own: [TaskID] = []
          for round in 0..<60 {
            let (kind, number) = (random.below(8), writer * 1_000 + round)
            let (chosen, other) = (own.isEmpty ? nil : own[random.below(own.count)], random.below(4))
            do {
              let id = try await database.write { tx in try Self.change(tx, kind, number, other, chosen) }
              if let id { own.append(id) }
            } catch let error as DatabaseError where error.code == .conflict {
              conflicts.add("conflict")
            } catch { conflicts.add("\(error)") }
          }
        }
      }
    }
    // Parked tasks are woken until only settled tasks are left.
    while try fixture.read({ tx in try tx.tasks(.all).contains { !$0.progress.state.isSettled } }) {
      _ = try await fixture.scheduler.signal("go")
      await fixture.scheduler.waitUntilIdle()
    }
    clock.cancel()
    _ = try await fixture.scheduler.delete(.all)
    await fixture.scheduler.waitUntilIdle()
    #expect(Set(conflicts.take()).isSubset(of: ["conflict"]))
    try fixture.read { tx in
      #expect(try tx.tasks.parts.live.count() == 0)
      for tag: UInt8 in [0x46, 0x55] { #expect(try tx.tasks.config.count(StorageRange(prefix: [tag])) == 0, "\(tag)") }
      for queue in try tx.taskQueues() {
        for state in TaskState.allCases { #expect(try tx.taskCount(in: queue, state) == 0, "\(queue) \(state)") }
      }
    }
    await fixture.scheduler.stop()
  }

  /// Ways in which an attempt ends.
  enum AttemptEnd: CaseIterable { case done, retry, discard }

  @Test(arguments: AttemptEnd.allCases, [true, false])
  func
    `transition 18: a task that a transaction cancels while its attempt ends has no further attempt and leaves no row`(
      end: AttemptEnd, isSerial: Bool
    ) async throws
  {
    let fixture = try TaskFixture(rules: .all(isSerial: isSerial))
    let flag = AsyncFlag()
    try fixture.handle { _, _ in
      await flag.wait()
      switch end {
      case .done: return .done
      case .retry: return .retry(after: .seconds(3_600))
      case .discard: return .discard("no")
      }
    }
    try await fixture.scheduler.start()
    let id = try fixture.write { tx in try tx.enqueue(Note("a")).id }
    await fixture.poll { fixture.lines.count == 1 }
    try await fixture.writeOnThread { tx in
      #expect(try tx.cancel(.id(id)) == 1)
      flag.set()
      while try tx.tasks.dispatcher.run(id) != nil { sched_yield() }
    }
    await fixture.scheduler.waitUntilIdle()
    #expect(try fixture.rowCount() == 0)
    #expect(try fixture.taskCount() == 0)
    await fixture.scheduler.stop()
  }

  @Test func `a request leaves out a task that is in another state by then, or waits for another signal`() async throws
  {
    let fixture = try TaskFixture()
    try fixture.handle()
    let id = try fixture.enqueue("a") { $0.start = .parked(wakeOn: ["net"]) }
    try fixture.write { tx in try tx.pause("default") }
    try await fixture.scheduler.start()
    func ask(_ change: ChangeRequest.Change, _ condition: ChangeRequest.Condition) async throws -> Int {
      try await withCheckedThrowingContinuation { continuation in
        fixture.scheduler.dispatcher.add(ChangeRequest(change, [id], if: condition, continuation))??.wake()
      }.count
    }
    #expect(try await ask(.cancel, .states([.ready, .dead])) == 0)
    #expect(try await ask(.delete, .states([.running])) == 0)
    #expect(try await ask(.wake, .signal("other")) == 0)
    #expect(try fixture.state(id) == .parked)
    #expect(try await ask(.wake, .signal("net")) == 1)
    #expect(try await ask(.wake, .signal("net")) == 0)
    #expect(try fixture.state(id) == .ready)
    #expect(try await ask(.cancel, .states([.ready])) == 1)
    #expect(try await ask(.cancel, .states([.ready])) == 0)
    #expect(try fixture.state(id) == nil)
    await fixture.scheduler.stop()
  }

  @Test func `the first task of a database can be enqueued concurrently with the first start of its scheduler`()
    async throws
  {
    let fixture = try TaskFixture()
    try fixture.handle()
    let (enqueued, started) = (AsyncFlag(), Flag())
    async let write: Void = fixture.writeOnThread { tx in
      try tx.enqueue(Note("first"))
      enqueued.set()
      while !started.isSet { sched_yield() }
    }
    await enqueued.wait()
    async let start: Void = fixture.scheduler.start()
    await fixture.poll { (try? fixture.read { tx in try tx.tasks.parts.numbers.counter(TaskNumbers.start) }) == 1 }
    started.set()
    try await write
    try await start
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take() == ["first"])
    await fixture.scheduler.stop()
  }

  @Test func `deleting by a unique key releases the key of a task that no longer exists`() async throws {
    let fixture = try TaskFixture()
    try fixture.handle()
    try await fixture.scheduler.start()
    func enqueue() throws -> EnqueueResult {
      try fixture.write { tx in
        var options = TaskOptions()
        options.unique = Uniqueness(key: "k", window: .forever)
        return try tx.enqueue(Note("a"), options)
      }
    }
    let first = try enqueue()
    await fixture.scheduler.waitUntilIdle()
    #expect(try enqueue() == .duplicate(of: first.id, nil))
    #expect(try await fixture.scheduler.delete(.unique("note", "k")) == 1)
    #expect(try await fixture.scheduler.delete(.unique("note", "k")) == 0)
    let second = try enqueue()
    #expect(second == .inserted(second.id))
    await fixture.scheduler.stop()
  }

  @Test func `transition 18: a stored request to cancel whose process has ended is applied after the next start`()
    async throws
  {
    let fixture = try TaskFixture()
    try fixture.handle()
    let ids = try fixture.write { tx in try ["a", "b"].map { try tx.enqueue(Note($0)).id } }
    try fixture.write { tx in
      for id in [ids[0], TaskID(rawValue: 1_000_000)] { try tx.tasks.parts.live.put(TaskKeys.cancel(id), []) }
    }
    try await fixture.scheduler.start()
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take() == ["b"])
    #expect(try fixture.rowCount() == 0)
    await fixture.scheduler.stop()
  }

  @Test func `deleting the dead head of a serial queue lets the next one run`() async throws {
    let fixture = try TaskFixture(rules: [.all: QueueRules(order: .serial())])
    try fixture.handle { note, _ in note.text == "bad" ? .discard("no") : .done }
    try await fixture.scheduler.start()
    for text in ["bad", "next", "last"] { try fixture.enqueue(text) }
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take() == ["bad"])
    #expect(try await fixture.scheduler.delete(.dead("default")) == 1)
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take() == ["next", "last"])
    await fixture.scheduler.stop()
  }

  @Test func `a caller of waitUntilIdle is resumed when it is cancelled, even before it waits`() async throws {
    let fixture = try TaskFixture()
    let (began, flag) = (AsyncFlag(), AsyncFlag())
    try fixture.handle { _, _ in
      began.set()
      await flag.wait()
      return .done
    }
    try await fixture.scheduler.start()
    try fixture.enqueue("long")
    await began.wait()
    for _ in 0..<100 {
      let waiter = Task { await fixture.scheduler.waitUntilIdle() }
      waiter.cancel()
      await waiter.value
    }
    flag.set()
    await fixture.scheduler.waitUntilIdle()
    // With a time that has passed, no task is begun, and none is left waiting.
    for _ in 0..<100 {
      await fixture.scheduler.stop()
      try await fixture.scheduler.run(until: .zero)
    }
    #expect(fixture.scheduler.state.withLock { $0.idleWaiters.isEmpty })
  }

  @Test
  func
    `transition 19: a handler that outlives stop is not counted as a crash, and a cancelled caller does not end stop`()
    async throws
  {
    let fixture = try TaskFixture(workers: 2)
    let flag = AsyncFlag()
    let began = Mutex(0)
    try fixture.handle { _, context in
      if context.run.start < 4 {
        began.withLock { $0 += 1 }
        await flag.wait()
      }
      return .done
    }
    let id = try fixture.enqueue("stubborn")
    for number in 1...3 {
      let scheduler = try TaskFixture(fixture.database, clock: fixture.clock, lines: fixture.lines)
      try scheduler.handle { _, _ in
        began.withLock { $0 += 1 }
        await flag.wait()
        return .done
      }
      try await scheduler.scheduler.start()
      await fixture.poll { began.withLock { $0 } == number }
      let stop = Task { await scheduler.scheduler.stop() }
      if number == 2 { stop.cancel() }
      let clock = Task { [fixture] in
        while !Task.isCancelled {
          fixture.clock.advance(by: .seconds(1))
          await Task.yield()
        }
      }
      await stop.value
      clock.cancel()
      let task = try #require(try fixture.read { tx in try tx.task(id) })
      #expect(task.progress.state == .ready && task.progress.attempt == 0 && task.progress.crashes == 0)
    }
    flag.set()
    let last = try TaskFixture(fixture.database, clock: fixture.clock)
    try last.handle()
    try await last.scheduler.start()
    await last.scheduler.waitUntilIdle()
    #expect(last.lines.take() == ["stubborn"])
    #expect(try fixture.state(id) == nil)
    await last.scheduler.stop()
  }
}
