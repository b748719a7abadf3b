import Synchronization
import Testing
import Varve
import VarveTestSupport
import VarveTesting

@_spi(Extensions) @testable import VarveTasks

/// Tests of what handlers do, and how their attempts end, while a transaction of the program holds the writer.
struct HeldWriterTests {
  /// Runs `body` while a transaction that has written a row holds the writer.
  private static func whileHeld(_ fixture: TaskFixture, _ body: () async throws -> Void) async throws {
    let isCommitted = Flag()
    let open = await OpenTransaction(fixture) { tx in
      try tx.set(1, key: 1, in: "rows")
      tx.onCommit { isCommitted.set() }
    }
    try await body()
    #expect(!isCommitted.isSet)
    #expect(try fixture.read { tx in try tx.count(in: "rows") } == 0)
    try await open.finish()
    #expect(isCommitted.isSet)
    #expect(try fixture.read { tx in try tx.count(in: "rows") } == 1)
  }

  /// Returns the last checkpoint of a task on disk.
  private static func checkpoint(_ id: TaskID, _ fixture: TaskFixture) throws -> [UInt8]? {
    try fixture.read { tx in
      try tx.tasks.parts.live.first(in: StorageRange(prefix: TaskKeys.step(id)), isReverse: true)?.value
    }
  }

  @Test func `a handler renews its lease, keeps checkpoints, reports progress and ends while the writer is held`()
    async throws
  {
    let fixture = try TaskFixture()
    let (begun, mayWork, hasWorked, mayEnd) = (AsyncFlag(), AsyncFlag(), AsyncFlag(), AsyncFlag())
    try fixture.handle(lease: .seconds(30)) { _, context in
      begun.set()
      await mayWork.wait()
      for step in 1...3 {
        // Without its heartbeats, the handler would lose its lease after half of this time.
        fixture.clock.advance(by: .seconds(20))
        try context.heartbeat()
        try await context.checkpoint(step)
        context.progress(Double(step) / 4, "step \(step)")
        let reported = HandlerProgress(Double(step) / 4, "step \(step)")
        await fixture.poll { try fixture.storedProgress(context.id) == reported }
      }
      hasWorked.set()
      await mayEnd.wait()
      return .done
    }
    try await fixture.scheduler.start()
    let id = try fixture.enqueue("long") { $0.retention = .keep(.seconds(1_000)) }
    await begun.wait()
    try await Self.whileHeld(fixture) {
      mayWork.set()
      await hasWorked.wait()
      #expect(try Self.checkpoint(id, fixture) == Array("3".utf8))
      #expect(try fixture.storedProgress(id) == HandlerProgress(0.75, "step 3"))
      #expect(try fixture.state(id) == .running)
      mayEnd.set()
      await fixture.scheduler.waitUntilIdle()
      let task = try fixture.read { tx in try tx.task(id) }
      #expect(task?.progress.state == .done && task?.progress.attempt == 1 && task?.errors == [])
      #expect(try Self.checkpoint(id, fixture) == nil)
    }
    #expect(fixture.lines.take() == ["long"])
    await fixture.scheduler.stop()
  }

  @Test func `transition 9 to 16: attempts end in each way, and the next ones begin, while the writer is held`()
    async throws
  {
    let fixture = try TaskFixture(workers: 8)
    let begun = Mutex(0)
    let mayEnd = AsyncFlag()
    try fixture.handle { note, context in
      if context.attempt > 1 || context.run.record.progress.snoozes > 0 { return .done }
      begun.withLock { $0 += 1 }
      await mayEnd.wait()
      switch note.text {
      case "fails": throw Broken()
      case "parks": return .park()
      case "snoozes": return .snooze(for: .seconds(10))
      case "discards": return .discard("no")
      case "again": return .retry(after: .zero)
      case "slow":
        await waitForCancellation()
        throw CancellationError()
      default: return .done
      }
    }
    try await fixture.scheduler.start()
    let texts = ["good", "fails", "parks", "snoozes", "discards", "again", "slow"]
    let ids = try Dictionary(
      uniqueKeysWithValues: texts.map { text in
        (text, try fixture.enqueue(text) { $0.timeout = text == "slow" ? .seconds(5) : nil })
      })
    await fixture.poll { begun.withLock { $0 } == texts.count }
    try await Self.whileHeld(fixture) {
      mayEnd.set()
      await fixture.poll { try ids["again"].map { try fixture.state($0) == nil } ?? false }
      fixture.clock.advance(by: .seconds(5))
      await fixture.scheduler.waitUntilIdle()
      let states = try ids.mapValues { try fixture.state($0) }
      #expect(
        states == [
          "good": nil, "fails": .retryWait, "parks": .parked, "snoozes": .scheduled, "discards": .dead, "again": nil,
          "slow": .retryWait,
        ])
      // The next attempts begin, too.
      await fixture.scheduler.advance(fixture.clock, by: .seconds(10))
      let later = try ids.compactMapValues { try fixture.state($0) }
      #expect(later == ["parks": .parked, "discards": .dead])
    }
    let attempts = Dictionary(grouping: fixture.lines.take()) { $0 }.mapValues(\.count)
    let expected = ["good": 1, "fails": 2, "parks": 1, "snoozes": 2, "discards": 1, "again": 2, "slow": 2]
    #expect(attempts == expected)
    await fixture.scheduler.stop()
  }

  @Test
  func `transition 17 and 22: the scheduler cancels and wakes tasks at a caller's request while the writer is held`()
    async throws
  {
    let fixture = try TaskFixture(workers: 2)
    let begun = AsyncFlag()
    try fixture.handle { note, _ in
      if note.text != "runs" { return .done }
      begun.set()
      await waitForCancellation()
      throw CancellationError()
    }
    try await fixture.scheduler.start()
    let runs = try fixture.enqueue("runs")
    let waits = try fixture.enqueue("waits") { $0.start = .after(.seconds(100)) }
    let parked = try fixture.enqueue("parked") { $0.start = .parked(wakeOn: ["go"]) }
    await begun.wait()
    try await Self.whileHeld(fixture) {
      var counts = [try await fixture.scheduler.cancel(.id(runs)), try await fixture.scheduler.cancel(.id(waits))]
      counts.append(try await fixture.scheduler.signal("go"))
      #expect(counts == [1, 1, 1])
      await fixture.scheduler.waitUntilIdle()
      let states = try [runs, waits, parked].map { try fixture.state($0) }
      #expect(states == [nil, nil, nil])
    }
    #expect(fixture.lines.take() == ["runs", "parked"])
    await fixture.scheduler.stop()
  }

  @Test func `complete waits on for a transaction that holds the writer for long, unless the attempt is to end`()
    async throws
  {
    let fixture = try TaskFixture()
    let isChecked = Flag()
    try fixture.handle { _, context in
      let run = context.run
      let count = Mutex(0)
      /// Fails twice, as when the writer is not free in time.
      @Sendable func commit() throws -> Int {
        try count.withLock { count in
          count += 1
          if count < 3 { throw DatabaseError(.writerBusy, "the writer is held") }
          return count
        }
      }
      let result = try await TaskScheduler.completing(run) { try commit() }
      #expect(result == 3)
      count.withLock { $0 = 0 }
      run.state.withLock { $0.isInterrupted = true }
      await #expect(throws: DatabaseError.self) { try await TaskScheduler.completing(run) { try commit() } }
      #expect(count.withLock { $0 } == 1)
      run.state.withLock { $0.isInterrupted = false }
      isChecked.set()
      return .done
    }
    try await fixture.scheduler.start()
    try fixture.enqueue("task")
    await fixture.scheduler.waitUntilIdle()
    #expect(isChecked.isSet)
    await fixture.scheduler.stop()
  }
}
