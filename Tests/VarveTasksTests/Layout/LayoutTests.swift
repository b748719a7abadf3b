import EngineTestSupport
import Foundation
import FutexLocks
import Testing
import Varve
import VarveEngine
import VarveTestSupport
import VarveTesting

@_spi(Extensions) @testable import VarveTasks

/// Tests of where tasks are stored, of what the scheduler keeps only in memory, and of how much goes into one commit.
struct LayoutTests {
  private static let parts = ["live", "config", "ended", "counts", "numbers", "events"]

  @Test func `layout 1: tasks have families of their own, and those that wait have small memtables`() async throws {
    let recorded = try RecordedTasks()
    let (engine, fixture) = (recorded.engine, recorded.fixture)
    try fixture.handle()
    try await fixture.scheduler.start()
    // From here on, all families exist.
    try fixture.write { tx in try tx.set(1, key: 1, in: "rows") }
    try fixture.enqueue("kept") { $0.retention = .keep(.seconds(1_000)) }
    await fixture.scheduler.waitUntilIdle()
    let live = try recorded.family("live").name
    #expect(try engine.family(named: live).options.memtableSize == 8 << 20)
    let before = engine.statistics.families
    for number in 0..<100 { try fixture.enqueue("\(number)") }
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.count == 101)
    let after = engine.statistics.families
    #expect(before.map(\.name) == after.map(\.name))
    let changed = zip(before, after).filter { $0.0 != $0.1 }.map { $0.1.name }
    #expect(changed.contains(live))
    for name in changed {
      #expect(name.hasPrefix("x.") && Self.parts.contains { name.hasSuffix(".\($0)") }, "\(name)")
    }
    try await recorded.fixture.close()
  }

  @Test func `layout 8: neither an idle scheduler nor one whose handlers run holds a snapshot`() async throws {
    let recorded = try RecordedTasks(workers: 2)
    let (engine, fixture) = (recorded.engine, recorded.fixture)
    let (begun, mayEnd) = (AsyncFlag(), AsyncFlag())
    try fixture.handle { note, _ in
      if note.text == "runs" {
        begun.set()
        await mayEnd.wait()
      }
      return .done
    }
    try fixture.write { tx in
      try tx.pause("paused")
      try tx.enqueue(Note("ready"), TaskOptions(queue: "paused"))
      for start in [Start.after(.seconds(1_000)), .parked(wakeOn: ["signal"])] {
        var options = TaskOptions()
        options.start = start
        let id = try tx.enqueue(Note("waits"), options).id
        options.start = .now
        options.dependsOn = [id]
        try tx.enqueue(Note("blocked"), options)
      }
    }
    try await fixture.scheduler.start()
    /// Waits until there is no snapshot and no cursor. The threads of the last commits release theirs soon.
    func waitUntilReleased() async { await fixture.poll { engine.statistics.snapshotCount == 0 } }
    await fixture.scheduler.waitUntilIdle()
    await waitUntilReleased()
    try fixture.enqueue("runs")
    await begun.wait()
    await waitUntilReleased()
    mayEnd.set()
    await fixture.scheduler.waitUntilIdle()
    await waitUntilReleased()
    try await recorded.fixture.close()
  }

  @Test func `layout 12: after the process died the limits of a queue and of its keys are free`() async throws {
    var rules = QueueRules(order: .standard, concurrency: 2)
    rules.perKey = 1
    func enqueue(_ round: Int, _ fixture: TaskFixture) throws {
      try fixture.write { tx in
        for key in ["a", "b"] {
          var options = TaskOptions()
          options.limitKey = key
          try tx.enqueue(Note("\(key)\(round)"), options)
        }
      }
    }
    let first = try TaskFixture(rules: [.all: rules], workers: 8)
    let mayEnd = AsyncFlag()
    try first.handle { _, _ in
      await mayEnd.wait()
      return .done
    }
    try await first.scheduler.start()
    for round in 0..<2 { try enqueue(round, first) }
    await first.poll { first.lines.count == 2 }
    // The process dies while as many tasks run as the limits allow.
    first.scheduler.dispatcher.detach()
    mayEnd.set()
    let next = try TaskFixture(first.database, rules: [.all: rules], workers: 8, clock: first.clock)
    let areTwo = AsyncFlag()
    let running = Gauge()
    try next.handle { note, _ in
      if !note.text.hasSuffix("2") { return .done }
      if running.add(1) == 2 { areTwo.set() }
      await areTwo.wait()
      running.add(-1)
      return .done
    }
    try await next.scheduler.start()
    await next.scheduler.waitUntilIdle()
    #expect(Set(next.lines.take()) == ["a0", "b0", "a1", "b1"])
    try enqueue(2, next)
    await next.scheduler.waitUntilIdle()
    #expect(Set(next.lines.take()) == ["a2", "b2"])
    #expect(running.most() == 2)
    await next.scheduler.stop()
  }

  @Test func `layout 13: attempts that end while a commit is made are ended by the next ones, hundreds in each`()
    async throws
  {
    let (gate, count) = (Gate(), TurnWork.batchMaximum + 88)
    var rules = QueueRules()
    rules.concurrency = count + 1
    let recorded = try RecordedTasks(rules: [.all: rules], workers: count + 1, gate: gate)
    let fixture = recorded.fixture
    let (firstEnds, othersEnd) = (AsyncFlag(), AsyncFlag())
    try fixture.handle { note, _ in
      await (note.text == "first" ? firstEnds : othersEnd).wait()
      return .done
    }
    try await fixture.scheduler.start()
    try fixture.write { tx in
      try tx.enqueue(Note("first"))
      for number in 0..<count { try tx.enqueue(Note("\(number)")) }
    }
    await fixture.poll { fixture.lines.count == count + 1 }
    recorded.forget()
    gate.shut()
    firstEnds.set()
    await fixture.poll { gate.waitingCount == 1 }
    othersEnd.set()
    let dispatcher = fixture.scheduler.dispatcher
    await fixture.poll { dispatcher.state.withLock { $0.running.settlements.count } == count }
    gate.open()
    await fixture.scheduler.waitUntilIdle()
    let sizes = try recorded.takeChanges().map { changes in
      changes.tags(.singleDelete).count { $0 == TaskKeys.claim }
    }
    // A part of a commit is left to the tasks that begin.
    #expect(sizes == [1, TurnWork.batchMaximum - TurnWork.share, 88 + TurnWork.share])
    try await recorded.fixture.close()
  }

  // MARK: - Bytes

  /// Returns a scheduler of a database in memory whose handler does nothing, and the engine of the database.
  private static func measured() throws -> (engine: Engine, fixture: TaskFixture) {
    let engine = try Engine.open(at: "/measured", environment: .inMemory())
    let fixture = try TaskFixture(over: EngineBackend(engine), workers: 4)
    try fixture.handle()
    return (engine, fixture)
  }

  /// Returns payloads of 200 bytes of JSON, whose text can hardly be compressed.
  private static func payloads(_ count: Int, _ random: inout SeededRandom) -> [Note] {
    let letters = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")
    return (0..<count).map { _ in Note(String((0..<189).map { _ in letters[random.below(letters.count)] })) }
  }

  /// Returns the bytes of the tables with tasks.
  private static func tableBytes(_ engine: Engine) -> UInt64 {
    engine.statistics.families.filter { $0.name.hasPrefix("x.") }.flatMap(\.levels).reduce(0) { $0 + $1.bytes }
  }

  @Test func `layout: after all tasks have run, one compaction leaves at most 1 MiB of tables`() async throws {
    let (engine, fixture) = try Self.measured()
    var random = SeededRandom(seed: 1)
    let count = TestScale.count(20_000)
    for start in stride(from: 0, to: count, by: 1_000) {
      let notes = Self.payloads(min(1_000, count - start), &random)
      #expect(try notes.first?.encoded().count == 200)
      try fixture.write { tx in try tx.enqueue(contentsOf: notes) }
    }
    try engine.flush()
    let full = Self.tableBytes(engine)
    try await fixture.scheduler.start()
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.count == count)
    try engine.compact()
    let left = Self.tableBytes(engine)
    print("bytes of tables with \(count) tasks: \(full), and \(left) after all have run and one compaction")
    if TestScale.isWhole { #expect(full > 2 << 20) }
    #expect(left <= 1 << 20)
    try await fixture.close()
  }

  @Test func `layout: tasks that soon run write at most a tenth of the bytes of their payloads to tables`()
    async throws
  {
    let (engine, fixture) = try Self.measured()
    try await fixture.scheduler.start()
    var random = SeededRandom(seed: 2)
    let count = TestScale.count(20_000)
    for start in stride(from: 0, to: count, by: 100) {
      let notes = Self.payloads(min(100, count - start), &random)
      try fixture.write { tx in try tx.enqueue(contentsOf: notes) }
      await fixture.scheduler.waitUntilIdle()
    }
    #expect(fixture.lines.count == count)
    try engine.flush()
    let statistics = engine.statistics
    let written = statistics.bytesFlushed + statistics.bytesCompactionWritten
    let flushes = statistics.work.flushCount
    print("bytes that \(count) tasks of 200 bytes wrote to tables: \(written), in \(flushes) flushes")
    #expect(flushes > 0)
    if TestScale.isWhole { #expect(written * 10 <= UInt64(200 * count)) }
    try await fixture.close()
  }
}
