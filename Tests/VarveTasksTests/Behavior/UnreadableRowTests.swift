import Testing
import Varve
import VarveTestSupport
import VarveTesting

@_spi(Extensions) @testable import VarveTasks

/// Tests of a scheduler over a database of which some blocks are damaged: what needs them is left out, and everything
/// else continues.
struct UnreadableRowTests {
  private let log = LogRecorder()
  private let backend: DamagedBackend

  init() throws { backend = DamagedBackend(try EngineBackend.inMemory()) }

  private func fixture(_ rules: [QueueSelector: QueueRules] = [:], workers: Int = 1) throws -> TaskFixture {
    try TaskFixture(over: backend, rules: rules, workers: workers, logger: log.logger())
  }

  /// The number of parts of the database that were reported as unreadable.
  private var reportCount: Int {
    log.entries.count { $0.message == LogTests.Situation.unreadable.rawValue }
  }

  /// Waits until a condition holds. Returns false if the scheduler tries something again that fails each time.
  private func comes(_ condition: () throws -> Bool) async -> Bool {
    await waitUntil {
      if log.entries.contains(where: { $0.message == LogTests.Situation.failed.rawValue }) { return true }
      return try condition()
    }
    return (try? condition()) == true
  }

  /// Returns the key of the row of a task that has not ended.
  private func rowKey(_ id: TaskID, _ fixture: TaskFixture) throws -> [UInt8] {
    let position = try fixture.read { tx in try tx.tasks.parts.position(of: id)?.position }
    return try #require(position).key(of: id)
  }

  /// Starts the scheduler again after the damage is gone, and returns what runs.
  private func runMended(_ fixture: TaskFixture) async throws -> [String] {
    await fixture.scheduler.stop()
    _ = fixture.lines.take()
    backend.mend()
    try await fixture.scheduler.start()
    await fixture.scheduler.waitUntilIdle()
    return fixture.lines.take()
  }

  // MARK: - Commits

  enum Change: String, CaseIterable, Sendable {
    case cancel, retryNow, revive, delete

    func make(_ scheduler: TaskScheduler) async throws {
      let waiting = TaskQuery.queue("default").and(.state(.scheduled))
      switch self {
      case .cancel: try await scheduler.cancel(waiting)
      case .retryNow: try await scheduler.retryNow(waiting)
      case .revive: try await scheduler.revive(.dead("default"))
      case .delete: try await scheduler.delete(waiting)
      }
    }
  }

  @Test(arguments: Change.allCases)
  func `a request for a task whose rows can't be read throws the error, and other tasks and requests continue`(
    change: Change
  ) async throws {
    let fixture = try fixture()
    try fixture.handle { note, _ in note.text == "dies" ? .discard("no") : .done }
    try await fixture.scheduler.start()
    let waits = try fixture.enqueue("waits") { $0.start = .after(.seconds(3_600)) }
    let dies = try fixture.enqueue("dies")
    await fixture.scheduler.waitUntilIdle()
    backend.damage(StorageRange(prefix: TaskKeys.byID(waits)), of: "live")
    backend.damage(EndedKeys.byID(dies), of: "ended")
    let errors = TaskFixture.Lines()
    let request = Task {
      do {
        try await change.make(fixture.scheduler)
        errors.add("none")
      } catch { errors.add((error as? DatabaseError)?.code == .corruption ? "corruption" : "\(error)") }
    }
    try #require(await comes { errors.count == 1 })
    await request.value
    #expect(errors.take() == ["corruption"])
    let next = try fixture.enqueue("next")
    try #require(await comes { try fixture.state(next) == nil })
    #expect(fixture.lines.take() == ["dies", "next"])
    let other = try fixture.enqueue("other") { $0.start = .after(.seconds(3_600)) }
    #expect(try await fixture.scheduler.cancel(.id(other)) == 1)
    await fixture.scheduler.stop()
    backend.mend()
    #expect(try fixture.state(waits) == .scheduled)
    #expect(try fixture.state(dies) == .dead)
    try await fixture.close()
  }

  @Test(arguments: [false, true])
  func `an attempt whose claim can't be read ends in memory, and its task runs again after the next start`(
    isSerial: Bool
  ) async throws {
    let fixture = try fixture(.all(isSerial: isSerial))
    let (begun, mayEnd) = (AsyncFlag(), AsyncFlag())
    try fixture.handle { note, _ in
      if note.text == "lost" {
        begun.set()
        await mayEnd.wait()
      }
      return .done
    }
    let dispatcher = fixture.scheduler.dispatcher
    try await fixture.scheduler.start()
    let id = try fixture.enqueue("lost")
    await begun.wait()
    backend.damage(try #require(dispatcher.run(id)).claimKey, of: "live")
    let next = try fixture.enqueue("next")
    mayEnd.set()
    try #require(await comes { try fixture.state(next) == nil })
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take() == ["lost", "next"])
    #expect(dispatcher.run(id) == nil && dispatcher.workload.running == 0)
    #expect(reportCount == 1)
    #expect(try fixture.state(id) != nil)
    #expect(try await runMended(fixture) == ["lost"])
    try fixture.expectNothingLeft()
    try await fixture.close()
  }

  @Test func `no task overtakes the head of a serial queue whose failure can't be written`() async throws {
    let fixture = try fixture(.all(isSerial: true))
    let (begun, mayEnd) = (AsyncFlag(), AsyncFlag())
    let isMended = Flag()
    try fixture.handle { note, _ in
      if note.text == "next" || isMended.isSet { return .done }
      begun.set()
      await mayEnd.wait()
      throw Broken()
    }
    try await fixture.scheduler.start()
    let id = try fixture.enqueue("lost")
    await begun.wait()
    backend.damage(try #require(fixture.scheduler.dispatcher.run(id)).claimKey, of: "live")
    try fixture.enqueue("next")
    mayEnd.set()
    try #require(await comes { reportCount == 1 })
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take() == ["lost"])
    #expect(fixture.scheduler.blockedQueues.map(\.task) == [id])
    isMended.set()
    #expect(try await runMended(fixture) == ["lost", "next"])
    try await fixture.close()
  }

  @Test func `a task that is due and can't be read is left out, and the others that are due run`() async throws {
    let fixture = try fixture()
    try fixture.handle()
    try await fixture.scheduler.start()
    let ids = try (0..<5).map { number in
      try fixture.enqueue("\(number)") { $0.start = .after(.seconds(10)) }
    }
    await fixture.scheduler.waitUntilIdle()
    backend.damage(try rowKey(ids[2], fixture), of: "live")
    fixture.clock.advance(by: .seconds(10))
    try #require(await comes { fixture.lines.count == 4 })
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take().sorted() == ["0", "1", "3", "4"])
    #expect(reportCount == 1)
    #expect(try await runMended(fixture) == ["2"])
    try fixture.expectNothingLeft()
    try await fixture.close()
  }

  @Test func `a task ends although the tasks that depend on it can't be read, and they run after the next start`()
    async throws
  {
    let fixture = try fixture()
    let (begun, mayEnd) = (AsyncFlag(), AsyncFlag())
    try fixture.handle { note, _ in
      if note.text == "parent" {
        begun.set()
        await mayEnd.wait()
      }
      return .done
    }
    try await fixture.scheduler.start()
    let parent = try fixture.enqueue("parent")
    try fixture.enqueue("child") { $0.dependsOn = [parent] }
    await begun.wait()
    backend.damage(StorageRange(prefix: TaskKeys.child(of: parent)), of: "live")
    mayEnd.set()
    try #require(await comes { try fixture.state(parent) == nil })
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take() == ["parent"])
    #expect(try await runMended(fixture) == ["child"])
    try fixture.expectNothingLeft()
    try await fixture.close()
  }

  // MARK: - The start

  @Test func `a start continues although tasks that have ended can't be read, and they are forgotten later`()
    async throws
  {
    let fixture = try fixture()
    try fixture.handle()
    try await fixture.scheduler.start()
    let kept = try fixture.enqueue("kept") { $0.retention = .keep(.seconds(1)) }
    await fixture.scheduler.waitUntilIdle()
    await fixture.scheduler.stop()
    #expect(try fixture.state(kept) == .done)
    fixture.clock.advance(by: .seconds(100))
    backend.damage(StorageRange(prefix: [EndedKeys.history]), of: "ended")
    try await fixture.scheduler.start()
    #expect(reportCount == 1)
    try fixture.enqueue("next")
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take() == ["kept", "next"])
    backend.mend()
    #expect(try fixture.state(kept) == .done)
    await fixture.scheduler.advance(fixture.clock, by: .seconds(61))
    #expect(try fixture.state(kept) == nil)
    try await fixture.close()
  }

  @Test func `the numbers of events continue although the last event can't be read`() async throws {
    let fixture = try fixture()
    try fixture.handle { _, _ in .discard("no") }
    try await fixture.scheduler.start()
    for text in ["first", "second"] { try fixture.enqueue(text) }
    await fixture.scheduler.waitUntilIdle()
    await fixture.scheduler.stop()
    backend.damage(TaskEventRecord.key(2), of: "events")
    // The number is not known from the start before.
    let second = try TaskFixture(
      fixture.database, clock: fixture.clock, lines: fixture.lines, logger: log.logger())
    try second.handle { _, _ in .discard("no") }
    try await second.scheduler.start()
    let id = try second.enqueue("third")
    await second.scheduler.waitUntilIdle()
    await second.scheduler.stop()
    #expect(reportCount == 1)
    backend.mend()
    let events = try second.read { tx in try tx.taskEvents() }
    #expect(events.map(\.number) == [1, 2, 3])
    #expect(events.last?.event.id == id)
    try await fixture.close()
  }

  @Test func `a queue whose first row can't be read runs its other tasks, and other queues run all of theirs`()
    async throws
  {
    let fixture = try fixture(workers: 4)
    try fixture.handle()
    var damaged: TaskID?
    for queue in ["a", "b", "c"] {
      for number in 0..<3 {
        let id = try fixture.enqueue("\(queue)\(number)") { $0.queue = QueueName(queue) }
        if queue == "b", number == 0 { damaged = id }
      }
    }
    backend.damage(try rowKey(try #require(damaged), fixture), of: "live")
    try await fixture.scheduler.start()
    try #require(await comes { fixture.lines.count == 8 })
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take().sorted() == ["a0", "a1", "a2", "b1", "b2", "c0", "c1", "c2"])
    #expect(reportCount > 0)
    #expect(try await runMended(fixture) == ["b0"])
    try fixture.expectNothingLeft()
    try await fixture.close()
  }

  @Test func `tasks between those that can't be read run, too`() async throws {
    let fixture = try fixture(workers: 4)
    try fixture.handle()
    let ids = try (0..<12).map { try fixture.enqueue("\($0)") }
    let damaged = [0, 1, 4, 9]
    for number in damaged { backend.damage(try rowKey(ids[number], fixture), of: "live") }
    try await fixture.scheduler.start()
    await fixture.poll { fixture.lines.count == 8 }
    await fixture.scheduler.waitUntilIdle()
    #expect(Set(fixture.lines.take()) == Set((0..<12).filter { !damaged.contains($0) }.map { "\($0)" }))
    #expect(Set(try await runMended(fixture)) == Set(damaged.map { "\($0)" }))
    try fixture.expectNothingLeft()
    try await fixture.close()
  }

  @Test func `a queue none of whose rows can be read does not keep the others from running`() async throws {
    let fixture = try fixture(workers: 4)
    try fixture.handle()
    for queue in ["a", "b", "c"] { try fixture.enqueue(queue) { $0.queue = QueueName(queue) } }
    let number = try #require(fixture.scheduler.dispatcher.queue("b")).number
    backend.damage(StorageRange(prefix: SubqueueID(queue: number).begin), of: "live")
    try await fixture.scheduler.start()
    try #require(await comes { fixture.lines.count == 2 })
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take().sorted() == ["a", "c"])
    #expect(log.entries.contains { $0.metadata["what"] == "tasks of queue b" })
    #expect(try await runMended(fixture) == ["b"])
    try await fixture.close()
  }

  @Test func `transition 20: a task whose crash can't be counted does not run until the next start, and others do`()
    async throws
  {
    let fixture = try fixture()
    try fixture.handle()
    let lost = try fixture.enqueue("lost")
    let crashed = try fixture.enqueue("crashed")
    try fixture.enqueue("other")
    try await fixture.database.claimAndDie([lost, crashed])
    // The row of the task itself can be read.
    backend.damage(TaskKeys.cancel(lost), of: "live")
    try await fixture.scheduler.start()
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take().sorted() == ["crashed", "other"])
    #expect(reportCount == 1)
    #expect(try fixture.claimCount() == 1)
    #expect(try await runMended(fixture) == ["lost"])
    try fixture.expectNothingLeft()
    try await fixture.close()
  }

  // MARK: - Searching

  @Test func `the middle of two keys is between them, and two keys that follow each other have none`() {
    #expect(TaskDamage.middle([0, 0], [1, 0]) == [0, 0x80])
    #expect(TaskDamage.middle([0xFF, 0xFE], [0xFF, 0xFF]) == nil)
    #expect(TaskDamage.middle([0xFE, 0xFF], [0xFF, 0x01]) == [0xFF, 0x00])
    #expect(TaskDamage.middle([7], [7]) == nil)
  }
}
