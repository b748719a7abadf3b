import EngineTestSupport
import Foundation
import FutexLocks
import Synchronization
import Testing
import Varve
import VarveTestSupport
import VarveTesting

@_spi(Extensions) @testable import VarveTasks

/// Tests of tasks that come while the scheduler reads others from disk, and of reads and commits of the scheduler that
/// fail: no task is forgotten until the next start.
struct LostWorkTests {
  /// A storage whose reads of ranges of tasks wait at a gate after they have read.
  private final class HeldReadBackend: ObservedBackend, @unchecked Sendable {
    // Sendable: it has only state that is safe from any thread.
    let gate = Gate()
    /// The first byte of the ranges whose reads wait.
    let tag: UInt8

    init(_ kind: TaskPosition.Kind) throws {
      tag = kind.rawValue
      super.init(try EngineBackend.inMemory())
    }

    override func didRead(_ page: StoragePage, of range: StorageRange, in family: StorageFamily, isReverse: Bool) {
      if range.lower.first == tag { gate.pass() }
    }
  }

  private static func enqueue(
    _ count: Int, _ text: String, after delay: Int, in tx: WriteTransaction
  ) throws {
    var options = TaskOptions()
    options.start = .after(.seconds(delay))
    for _ in 0..<count { try tx.enqueue(Note(text), options) }
  }

  /// Lets time pass, and expects that it makes a number of tasks with a text run, and no others.
  ///
  /// Nothing but its own alarm wakes the scheduler.
  private static func pass(_ seconds: Int, _ fixture: TaskFixture, runs count: Int, _ text: String) async {
    fixture.clock.advance(by: .seconds(seconds))
    await fixture.poll { fixture.lines.count >= count }
    let lines = fixture.lines.take()
    #expect(lines.count == count && lines.allSatisfy { $0 == text }, "\(count) tasks \(text)")
  }

  // MARK: - Lines

  /// The case in which the row that is read is deleted meanwhile, and the one in which later tasks come first.
  enum Meanwhile: String, CaseIterable, Sendable { case deleted, before }

  @Test(arguments: Meanwhile.allCases, [false, true])
  func `more tasks than a subqueue holds, which come while its last tasks are read, all run, and in their order`(
    meanwhile: Meanwhile, isSerial: Bool
  ) async throws {
    let backend = try HeldReadBackend(.queued)
    let fixture = try TaskFixture(over: backend, rules: .all(isSerial: isSerial))
    try fixture.handle()
    let old = try fixture.write { tx in
      try tx.pause("default")
      return try (0..<(meanwhile == .deleted ? 1 : 10)).map { try tx.enqueue(Note("old \($0)")).id }
    }
    try await fixture.scheduler.start()
    await fixture.scheduler.waitUntilIdle()
    backend.gate.shut()
    try fixture.write { tx in try tx.resume("default") }
    await fixture.poll { backend.gate.waitingCount == 1 }
    try fixture.write { tx in
      if meanwhile == .deleted { try tx.delete(.id(old[0])) }
      var options = TaskOptions()
      for number in 0..<1_000 {
        if meanwhile == .before { options.priority = number < Subqueue.entryMaximum ? 200 : 100 }
        try tx.enqueue(Note("\(number)"), options)
      }
    }
    backend.gate.open()
    let (first, second) = (0..<Subqueue.entryMaximum, Subqueue.entryMaximum..<1_000)
    let expected: [String] =
      switch meanwhile {
      case .deleted: (0..<1_000).map { "\($0)" }
      case .before: second.map { "\($0)" } + (0..<10).map { "old \($0)" } + first.map { "\($0)" }
      }
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take() == expected)
    #expect(try fixture.count(.ready) == 0)
    try await fixture.close()
  }

  // MARK: - Timers

  @Test(arguments: [1, 3])
  func `more timers than are held, which come while later rows of timers are read, all fire`(hours: Int) async throws {
    let backend = try HeldReadBackend(.timed)
    let fixture = try TaskFixture(over: backend, workers: 8)
    try fixture.handle()
    try await fixture.scheduler.start()
    try fixture.write { tx in
      try Self.enqueue(Timers.taskMaximum, "first", after: 1, in: tx)
      // These are only on disk, and are read when the others have fired.
      try Self.enqueue(10, "read", after: 7_200, in: tx)
    }
    await fixture.scheduler.waitUntilIdle()
    backend.gate.shut()
    fixture.clock.advance(by: .seconds(1))
    await fixture.poll { backend.gate.waitingCount == 1 }
    try fixture.write { tx in try Self.enqueue(5_000, "meanwhile", after: hours * 3_600, in: tx) }
    backend.gate.open()
    await Self.pass(0, fixture, runs: Timers.taskMaximum, "first")
    if hours == 1 {
      await Self.pass(3_600, fixture, runs: 5_000, "meanwhile")
      await Self.pass(3_600, fixture, runs: 10, "read")
    } else {
      await Self.pass(7_200, fixture, runs: 10, "read")
      await Self.pass(3_600, fixture, runs: 5_000, "meanwhile")
    }
    await fixture.scheduler.waitUntilIdle()
    #expect(try fixture.rowCount() == 0)
    try await fixture.close()
  }

  @Test func `a task that waits for a date does not delay those of a large transaction that are due before it`()
    async throws
  {
    let fixture = try TaskFixture(workers: 8)
    try fixture.handle()
    try await fixture.scheduler.start()
    try fixture.enqueue("date") { $0.start = .at(fixture.clock.wallNow.addingTimeInterval(30 * 86_400)) }
    try fixture.write { tx in try Self.enqueue(5_000, "soon", after: 60, in: tx) }
    await Self.pass(61, fixture, runs: 5_000, "soon")
    await Self.pass(30 * 86_400, fixture, runs: 1, "date")
    await fixture.scheduler.stop()
  }

  @Test func `many dates, many delays and shorter delays after them all end at their times`() async throws {
    let fixture = try TaskFixture(workers: 8)
    try fixture.handle()
    try await fixture.scheduler.start()
    let date = fixture.clock.wallNow.addingTimeInterval(30 * 86_400)
    try fixture.write { tx in
      var options = TaskOptions()
      options.start = .at(date)
      for _ in 0..<4_000 { try tx.enqueue(Note("30 days"), options) }
    }
    try fixture.write { tx in
      try Self.enqueue(Timers.taskMaximum, "2 hours", after: 7_200, in: tx)
      try Self.enqueue(900, "60 seconds", after: 60, in: tx)
    }
    try fixture.write { tx in try Self.enqueue(100, "5 seconds", after: 5, in: tx) }
    await Self.pass(5, fixture, runs: 100, "5 seconds")
    await Self.pass(55, fixture, runs: 900, "60 seconds")
    await Self.pass(7_140, fixture, runs: Timers.taskMaximum, "2 hours")
    await Self.pass(30 * 86_400 - 7_200, fixture, runs: 4_000, "30 days")
    await fixture.scheduler.stop()
  }

  @Test(arguments: [false, true])
  func `the last tasks of a large transaction run at their times if they are due before all that are held`(
    hasDate: Bool
  ) async throws {
    let fixture = try TaskFixture(workers: 8)
    try fixture.handle()
    try await fixture.scheduler.start()
    if hasDate {
      try fixture.enqueue("date") { $0.start = .at(fixture.clock.wallNow.addingTimeInterval(30 * 86_400)) }
    }
    try fixture.write { tx in
      try Self.enqueue(Timers.taskMaximum, "2 hours", after: 7_200, in: tx)
      try Self.enqueue(900, "30 seconds", after: 30, in: tx)
    }
    // No other event wakes the scheduler.
    await Self.pass(30, fixture, runs: 900, "30 seconds")
    await Self.pass(7_170, fixture, runs: Timers.taskMaximum, "2 hours")
    await fixture.scheduler.stop()
  }

  // MARK: - Reads that fail

  /// A storage one of whose reads of the row of a queued task fails.
  private final class FailingReadBackend: ObservedBackend, @unchecked Sendable {
    // Sendable: it has only atomic state.
    /// Whether the next read fails.
    let fails = Atomic(false)

    override func willRead(_ keys: [[UInt8]], in family: StorageFamily) throws {
      guard keys.contains(where: { $0.first == TaskPosition.Kind.queued.rawValue }) else { return }
      if fails.exchange(false, ordering: .acquiringAndReleasing) { throw FailingBackend.error }
    }
  }

  @Test(arguments: [false, true])
  func `a large task that comes first runs although it could not be read at first`(isSerial: Bool) async throws {
    let backend = FailingReadBackend(try EngineBackend.inMemory())
    let fixture = try TaskFixture(over: backend, rules: .all(isSerial: isSerial))
    try fixture.handle()
    try await fixture.scheduler.start()
    await fixture.scheduler.waitUntilIdle()
    let large = String(repeating: "x", count: 4 * QueuedTask.valueMaximum)
    try fixture.write { tx in
      try tx.pause("default")
      try tx.enqueue(contentsOf: [Note(large), Note("next")])
    }
    await fixture.scheduler.waitUntilIdle()
    backend.fails.store(true, ordering: .releasing)
    try fixture.write { tx in try tx.resume("default") }
    await fixture.poll { !backend.fails.load(ordering: .acquiring) }
    #expect(fixture.lines.take() == [])
    await fixture.poll {
      fixture.clock.advance(by: .seconds(1))
      return fixture.lines.count == 2
    }
    #expect(fixture.lines.take() == [large, "next"])
    await fixture.scheduler.waitUntilIdle()
    #expect(try fixture.rowCount() == 0)
    try await fixture.close()
  }

  // MARK: - Commits that fail

  /// A storage whose transactions wait at a gate before they begin, except those that a test lets pass.
  private final class HeldTransactionBackend: ForwardingBackend, @unchecked Sendable {
    // Sendable: it has only state that is safe from any thread.
    /// Whether the caller's transactions begin although the gate is shut.
    @TaskLocal static var passes: Bool = false
    let gate = Gate()

    override func snapshot() throws -> any StorageSnapshot {
      if !Self.passes { gate.pass() }
      return try super.snapshot()
    }
  }

  /// Runs a transaction while those of the scheduler wait.
  private static func writeAlone<Result>(
    _ fixture: TaskFixture, _ body: (WriteTransaction) throws -> Result
  ) throws -> Result {
    try HeldTransactionBackend.$passes.withValue(true) { try fixture.write(body) }
  }

  @Test(arguments: [false, true])
  func `transition 17: a task that is cancelled while the commit that begins it fails is cancelled, and does not run`(
    isSerial: Bool
  ) async throws {
    let failing = FailingBackend(try EngineBackend.inMemory())
    let backend = HeldTransactionBackend(failing)
    let fixture = try TaskFixture(over: backend, rules: .all(isSerial: isSerial))
    try fixture.handle()
    let dispatcher = fixture.scheduler.dispatcher
    try await fixture.scheduler.start()
    try fixture.write { tx in try tx.pause("default") }
    let id = try fixture.enqueue("cancelled")
    await fixture.scheduler.waitUntilIdle()
    backend.gate.shut()
    try Self.writeAlone(fixture) { tx in try tx.resume("default") }
    await fixture.poll { backend.gate.waitingCount == 1 && dispatcher.run(id) != nil }
    #expect(try Self.writeAlone(fixture) { tx in try tx.cancel(.id(id)) } == 1)
    failing.fail()
    backend.gate.open()
    await fixture.poll { failing.hasFailed }
    await fixture.poll {
      fixture.clock.advance(by: .seconds(1))
      return try fixture.state(id) == nil
    }
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take() == [])
    #expect(try fixture.state(id) == nil)
    #expect(try fixture.read { tx in try tx.tasks.parts.live.get(TaskKeys.cancel(id)) } == nil)
    #expect(try fixture.rowCount() == 0)
    // The subqueue is not blocked.
    try fixture.enqueue("next")
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take() == ["next"])
    #expect(dispatcher.workload.running == 0)
    try await fixture.close()
  }

  // MARK: - Children

  /// Enqueues tasks that wait for flags with their texts, and others that depend on these: some of the first one in the
  /// queue "old", and as many as one commit changes of each other one in the queue "new". Both queues are paused.
  private static func enqueueParents(_ texts: [String], children count: Int, _ fixture: TaskFixture) throws {
    try fixture.write { tx in for queue: QueueName in ["old", "new"] { try tx.pause(queue) } }
    for text in texts {
      try fixture.write { tx in
        let isFirst = text == texts.first
        var options = TaskOptions(queue: isFirst ? "old" : "new")
        options.dependsOn = [try tx.enqueue(Note(text)).id]
        for _ in 0..<(isFirst ? count : TurnWork.batchMaximum) { try tx.enqueue(Note("child"), options) }
      }
    }
  }

  @Test func `transition 6: the children of a task run although each commit also ends another task with many children`()
    async throws
  {
    let (rounds, count) = (6, 2 * TurnWork.batchMaximum + 88)
    let held = try HeldTasks(holding: .process, workers: rounds + 1)
    let (gate, fixture) = (held.gate, held.fixture)
    let texts = (0...rounds).map { "\($0)" }
    let mayEnd = Dictionary(uniqueKeysWithValues: texts.map { ($0, AsyncFlag()) })
    try fixture.handle { note, _ in
      await mayEnd[note.text]?.wait()
      return .done
    }
    let dispatcher = fixture.scheduler.dispatcher
    try Self.enqueueParents(texts, children: count, fixture)
    try await fixture.scheduler.start()
    await fixture.poll { fixture.lines.count == texts.count && !dispatcher.state.withLock { $0.loop.isPumping } }
    gate.shut()
    // The first commit ends the first task, and changes as many of its children as it may.
    mayEnd["0"]?.set()
    await held.waitUntilHeld()
    for round in 1...rounds {
      // Each further commit ends another task, which came during the commit before.
      mayEnd["\(round)"]?.set()
      await fixture.poll { dispatcher.state.withLock { $0.running.busyCount } == rounds - round }
      gate.letOnePass()
      await fixture.poll { gate.passedCount == round && gate.waitingCount == 1 }
    }
    #expect(try fixture.count(.blocked, in: "old") == 0)
    #expect(try fixture.count(.ready, in: "old") == count)
    // The children of the others follow.
    gate.open()
    await fixture.scheduler.waitUntilIdle()
    #expect(try fixture.count(.blocked, in: "new") == 0)
    #expect(try fixture.count(.ready, in: "new") == rounds * TurnWork.batchMaximum)
    #expect(try fixture.configCount(ConfigKeys.pending) == 0)
    try await fixture.close()
  }
}
