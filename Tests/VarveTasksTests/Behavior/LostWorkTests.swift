import EngineTestSupport
import Foundation
import FutexLocks
import Synchronization
import Testing
import Varve
import VarveEngine
import VarveTestSupport
import VarveTesting

@testable import VarveTasks

/// Tests of tasks that come while the scheduler reads others from disk, and of reads and commits of the scheduler that
/// fail: no task is forgotten until the next start.
@Suite(.timeLimit(.minutes(10))) struct LostWorkTests {
  /// A storage whose reads of ranges of tasks wait at a gate after they have read.
  private final class HeldReadBackend: ForwardingBackend, @unchecked Sendable {
    // Sendable: it has only state that is safe from any thread.
    let gate = Gate()
    /// The first byte of the ranges whose reads wait.
    let tag: UInt8

    init(_ kind: TaskPosition.Kind) throws {
      tag = kind.rawValue
      super.init(try EngineBackend(try Engine.open(at: "/held", environment: .inMemory())))
    }

    override func snapshot() throws -> any StorageSnapshot { HeldSnapshot(try super.snapshot(), self) }

    override func commit(
      _ batch: StorageBatch, check: StorageCheck?, durability: StorageDurability
    ) throws -> any StorageTicket {
      var check = check
      if let own = check?.snapshot as? HeldSnapshot { check?.snapshot = own.snapshot }
      return try super.commit(batch, check: check, durability: durability)
    }
  }

  private final class HeldSnapshot: StorageSnapshot {
    let snapshot: any StorageSnapshot
    private let backend: HeldReadBackend

    init(_ snapshot: any StorageSnapshot, _ backend: HeldReadBackend) {
      self.snapshot = snapshot
      self.backend = backend
    }

    var version: CommitVersion { snapshot.version }
    func isOlder(than family: StorageFamily) -> Bool { snapshot.isOlder(than: family) }

    func values(of keys: [[UInt8]], in family: StorageFamily) throws -> [[UInt8]?] {
      try snapshot.values(of: keys, in: family)
    }

    func visit(_ key: [UInt8], in family: StorageFamily, _ body: (RawSpan) throws -> Void) throws {
      try snapshot.visit(key, in: family, body)
    }

    func page(
      _ range: StorageRange, in family: StorageFamily, isReverse: Bool, keysOnly: Bool, byteLimit: Int, rowLimit: Int
    ) throws -> StoragePage {
      let page = try snapshot.page(
        range, in: family, isReverse: isReverse, keysOnly: keysOnly, byteLimit: byteLimit, rowLimit: rowLimit)
      if range.lower.first == backend.tag { backend.gate.pass() }
      return page
    }
  }

  private static func fixture(_ backend: any StorageBackend, workers: Int = 1, isSerial: Bool = false) async throws
    -> TaskFixture
  {
    let database = try await Database.open(
      backend, path: "/lost", definition: DatabaseDefinition { TaskStorage.handle })
    return try TaskFixture(
      database, rules: isSerial ? [.all: QueueRules(order: .serial())] : [:], workers: workers)
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
  func `more tasks than a line holds, which come while its last tasks are read, all run, and in their order`(
    meanwhile: Meanwhile, isSerial: Bool
  ) async throws {
    let backend = try HeldReadBackend(.line)
    let fixture = try await Self.fixture(backend, isSerial: isSerial)
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
        if meanwhile == .before { options.priority = number < TaskLine.entryMaximum ? 200 : 100 }
        try tx.enqueue(Note("\(number)"), options)
      }
    }
    backend.gate.open()
    let (first, second) = (0..<TaskLine.entryMaximum, TaskLine.entryMaximum..<1_000)
    let expected: [String] =
      switch meanwhile {
      case .deleted: (0..<1_000).map { "\($0)" }
      case .before: second.map { "\($0)" } + (0..<10).map { "old \($0)" } + first.map { "\($0)" }
      }
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take() == expected)
    #expect(try fixture.read { tx in try tx.taskCount(in: "default", .ready) } == 0)
    await fixture.scheduler.stop()
    try await fixture.database.close()
  }

  // MARK: - Timers

  @Test(arguments: [1, 3])
  func `more timers than are held, which come while later rows of timers are read, all fire`(hours: Int) async throws {
    let backend = try HeldReadBackend(.timed)
    let fixture = try await Self.fixture(backend, workers: 8)
    try fixture.handle()
    try await fixture.scheduler.start()
    try fixture.write { tx in
      try Self.enqueue(TaskTimers.taskMaximum, "first", after: 1, in: tx)
      // These are only on disk, and are read when the others have fired.
      try Self.enqueue(10, "read", after: 7_200, in: tx)
    }
    await fixture.scheduler.waitUntilIdle()
    backend.gate.shut()
    fixture.clock.advance(by: .seconds(1))
    await fixture.poll { backend.gate.waitingCount == 1 }
    try fixture.write { tx in try Self.enqueue(5_000, "meanwhile", after: hours * 3_600, in: tx) }
    backend.gate.open()
    await Self.pass(0, fixture, runs: TaskTimers.taskMaximum, "first")
    if hours == 1 {
      await Self.pass(3_600, fixture, runs: 5_000, "meanwhile")
      await Self.pass(3_600, fixture, runs: 10, "read")
    } else {
      await Self.pass(7_200, fixture, runs: 10, "read")
      await Self.pass(3_600, fixture, runs: 5_000, "meanwhile")
    }
    await fixture.scheduler.waitUntilIdle()
    #expect(try fixture.read { tx in try tx.tasks.parts.live.count() } == 0)
    await fixture.scheduler.stop()
    try await fixture.database.close()
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
      try Self.enqueue(TaskTimers.taskMaximum, "2 hours", after: 7_200, in: tx)
      try Self.enqueue(900, "60 seconds", after: 60, in: tx)
    }
    try fixture.write { tx in try Self.enqueue(100, "5 seconds", after: 5, in: tx) }
    await Self.pass(5, fixture, runs: 100, "5 seconds")
    await Self.pass(55, fixture, runs: 900, "60 seconds")
    await Self.pass(7_140, fixture, runs: TaskTimers.taskMaximum, "2 hours")
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
      try Self.enqueue(TaskTimers.taskMaximum, "2 hours", after: 7_200, in: tx)
      try Self.enqueue(900, "30 seconds", after: 30, in: tx)
    }
    // No other event wakes the scheduler.
    await Self.pass(30, fixture, runs: 900, "30 seconds")
    await Self.pass(7_170, fixture, runs: TaskTimers.taskMaximum, "2 hours")
    await fixture.scheduler.stop()
  }

  // MARK: - Reads that fail

  /// A storage one of whose reads of the row of a task in line fails.
  private final class FailingReadBackend: ForwardingBackend, @unchecked Sendable {
    // Sendable: it has only atomic state.
    /// Whether the next read fails.
    let fails = Atomic(false)

    override func snapshot() throws -> any StorageSnapshot { FailingSnapshot(try super.snapshot(), self) }

    override func commit(
      _ batch: StorageBatch, check: StorageCheck?, durability: StorageDurability
    ) throws -> any StorageTicket {
      var check = check
      if let own = check?.snapshot as? FailingSnapshot { check?.snapshot = own.snapshot }
      return try super.commit(batch, check: check, durability: durability)
    }

    func read(_ keys: [[UInt8]]) throws {
      guard keys.contains(where: { $0.first == TaskPosition.Kind.line.rawValue }) else { return }
      if fails.exchange(false, ordering: .acquiringAndReleasing) {
        throw DatabaseError(.storage, "the disk does not answer")
      }
    }
  }

  private final class FailingSnapshot: StorageSnapshot {
    let snapshot: any StorageSnapshot
    private let backend: FailingReadBackend

    init(_ snapshot: any StorageSnapshot, _ backend: FailingReadBackend) {
      self.snapshot = snapshot
      self.backend = backend
    }

    var version: CommitVersion { snapshot.version }
    func isOlder(than family: StorageFamily) -> Bool { snapshot.isOlder(than: family) }

    func values(of keys: [[UInt8]], in family: StorageFamily) throws -> [[UInt8]?] {
      try backend.read(keys)
      return try snapshot.values(of: keys, in: family)
    }

    func visit(_ key: [UInt8], in family: StorageFamily, _ body: (RawSpan) throws -> Void) throws {
      try backend.read([key])
      try snapshot.visit(key, in: family, body)
    }

    func page(
      _ range: StorageRange, in family: StorageFamily, isReverse: Bool, keysOnly: Bool, byteLimit: Int, rowLimit: Int
    ) throws -> StoragePage {
      try snapshot.page(
        range, in: family, isReverse: isReverse, keysOnly: keysOnly, byteLimit: byteLimit, rowLimit: rowLimit)
    }
  }

  @Test(arguments: [false, true])
  func `a large task that comes first runs although it could not be read at first`(isSerial: Bool) async throws {
    let base = try EngineBackend(try Engine.open(at: "/failing", environment: .inMemory()))
    let backend = FailingReadBackend(base)
    let fixture = try await Self.fixture(backend, isSerial: isSerial)
    try fixture.handle()
    try await fixture.scheduler.start()
    await fixture.scheduler.waitUntilIdle()
    let large = String(repeating: "x", count: 4 * LineEntry.valueMaximum)
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
    #expect(try fixture.read { tx in try tx.tasks.parts.live.count() } == 0)
    await fixture.scheduler.stop()
    try await fixture.database.close()
  }

  // MARK: - Commits that fail

  /// A storage whose transactions wait at a gate before they begin, except those that a test lets pass.
  ///
  /// One of its commits fails.
  private final class FailingCommitBackend: ForwardingBackend, @unchecked Sendable {
    // Sendable: it has only state that is safe from any thread.
    /// Whether the caller's transactions begin although the gate is shut.
    @TaskLocal static var passes: Bool = false
    let gate = Gate()
    /// Whether the next commit fails.
    let fails = Atomic(false)

    override func snapshot() throws -> any StorageSnapshot {
      if !Self.passes { gate.pass() }
      return try super.snapshot()
    }

    override func commit(
      _ batch: StorageBatch, check: StorageCheck?, durability: StorageDurability
    ) throws -> any StorageTicket {
      if fails.exchange(false, ordering: .acquiringAndReleasing) {
        throw DatabaseError(.storage, "the disk does not answer")
      }
      return try super.commit(batch, check: check, durability: durability)
    }
  }

  /// Runs a transaction while those of the scheduler wait.
  private static func writeAlone<Result>(
    _ fixture: TaskFixture, _ body: (WriteTransaction) throws -> Result
  ) throws -> Result {
    try FailingCommitBackend.$passes.withValue(true) { try fixture.write(body) }
  }

  @Test(arguments: [false, true])
  func `17 a task that a transaction cancels while the commit that begins it fails is cancelled, and does not run`(
    isSerial: Bool
  ) async throws {
    let base = try EngineBackend(try Engine.open(at: "/failing", environment: .inMemory()))
    let backend = FailingCommitBackend(base)
    let fixture = try await Self.fixture(backend, isSerial: isSerial)
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
    backend.fails.store(true, ordering: .releasing)
    backend.gate.open()
    await fixture.poll { !backend.fails.load(ordering: .acquiring) }
    await fixture.poll {
      fixture.clock.advance(by: .seconds(1))
      return try fixture.state(id) == nil
    }
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take() == [])
    #expect(try fixture.state(id) == nil)
    #expect(try fixture.read { tx in try tx.tasks.parts.live.get(TaskKeys.cancel(id)) } == nil)
    #expect(try fixture.read { tx in try tx.tasks.parts.live.count() } == 0)
    // The line is not blocked.
    try fixture.enqueue("next")
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take() == ["next"])
    #expect(dispatcher.workload.running == 0)
    await fixture.scheduler.stop()
    try await fixture.database.close()
  }

  // MARK: - Children

  /// A storage whose commits of the scheduler wait before they are acknowledged, and pass one at a time.
  private final class SteppedBackend: ForwardingBackend, @unchecked Sendable {
    // Sendable: the state is guarded by its mutex.
    struct State {
      var isOpen = true
      var permits = 0
      var waiting = 0
      /// The number of commits that have passed one at a time.
      var passed = 0
    }

    let state = Mutex(State())

    private struct Ticket: StorageTicket {
      let ticket: any StorageTicket
      let backend: SteppedBackend
      var version: CommitVersion { ticket.version }
      var isDurable: Bool { false }
      func wait() throws { try ticket.wait() }
      func waitSuspended() async throws {
        await backend.pass()
        try await ticket.waitSuspended()
      }
    }

    private func pass() async {
      state.withLock { $0.waiting += 1 }
      while !mayPass() { await Task.yield() }
    }

    private func mayPass() -> Bool {
      state.withLock { state in
        if !state.isOpen {
          if state.permits == 0 { return false }
          state.permits -= 1
          state.passed += 1
        }
        state.waiting -= 1
        return true
      }
    }

    override func commit(
      _ batch: StorageBatch, check: StorageCheck?, durability: StorageDurability
    ) throws -> any StorageTicket {
      let ticket = try super.commit(batch, check: check, durability: durability)
      return durability == .process ? Ticket(ticket: ticket, backend: self) : ticket
    }
  }

  /// Enqueues tasks that wait for flags with their texts, and others that depend on these: some of the first one in the
  /// queue "old", and as many as one commit changes of each other one in the queue "new". Both queues are paused.
  private static func enqueueParents(_ texts: [String], children count: Int, _ fixture: TaskFixture) throws {
    try fixture.write { tx in for queue: QueueName in ["old", "new"] { try tx.pause(queue) } }
    for text in texts {
      try fixture.write { tx in
        let isFirst = text == texts.first
        var options = TaskOptions(queue: isFirst ? "old" : "new")
        options.dependsOn = [try tx.enqueue(Note(text)).id]
        for _ in 0..<(isFirst ? count : TaskWork.batchMaximum) { try tx.enqueue(Note("child"), options) }
      }
    }
  }

  private static func count(_ queue: QueueName, _ state: TaskState, _ fixture: TaskFixture) throws -> Int {
    try fixture.read { tx in try tx.taskCount(in: queue, state) }
  }

  @Test func `6 the children of a task run although each commit also ends another task with many children`()
    async throws
  {
    let (rounds, count) = (6, 2 * TaskWork.batchMaximum + 88)
    let backend = SteppedBackend(try EngineBackend(try Engine.open(at: "/stepped", environment: .inMemory())))
    let fixture = try await Self.fixture(backend, workers: rounds + 1)
    let texts = (0...rounds).map { "\($0)" }
    let mayEnd = Dictionary(uniqueKeysWithValues: texts.map { ($0, AsyncFlag()) })
    try fixture.handle { note, _ in
      await mayEnd[note.text]?.wait()
      return .done
    }
    let dispatcher = fixture.scheduler.dispatcher
    try Self.enqueueParents(texts, children: count, fixture)
    try await fixture.scheduler.start()
    await fixture.poll { fixture.lines.count == texts.count && !dispatcher.state.withLock { $0.isPumping } }
    backend.state.withLock { $0.isOpen = false }
    // The first commit ends the first task, and changes as many of its children as it may.
    mayEnd["0"]?.set()
    await fixture.poll { backend.state.withLock { $0.waiting } == 1 }
    for round in 1...rounds {
      // Each further commit ends another task, which came during the commit before.
      mayEnd["\(round)"]?.set()
      await fixture.poll { dispatcher.state.withLock { $0.startedCount } == rounds - round }
      backend.state.withLock { $0.permits += 1 }
      await fixture.poll { backend.state.withLock { $0.passed == round && $0.waiting == 1 } }
    }
    #expect(try Self.count("old", .blocked, fixture) == 0)
    #expect(try Self.count("old", .ready, fixture) == count)
    // The children of the others follow.
    backend.state.withLock { $0.isOpen = true }
    await fixture.scheduler.waitUntilIdle()
    #expect(try Self.count("new", .blocked, fixture) == 0)
    #expect(try Self.count("new", .ready, fixture) == rounds * TaskWork.batchMaximum)
    #expect(try fixture.read { tx in try tx.tasks.config.count(StorageRange(prefix: [ConfigKeys.pending])) } == 0)
    await fixture.scheduler.stop()
    try await fixture.database.close()
  }
}
