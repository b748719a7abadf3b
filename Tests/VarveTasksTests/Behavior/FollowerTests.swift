import EngineTestSupport
import Foundation
import Synchronization
import Testing
import Varve
import VarveTestSupport
import VarveTesting

@_spi(Extensions) @testable import VarveTasks

/// Tests of a database with tasks that is opened while another process, or another part of this one, writes it and runs
/// the tasks.
struct FollowerTests {
  private let directory: TemporaryDirectory

  init() throws { directory = try TemporaryDirectory() }

  private func open(follows: Bool) async throws -> Database {
    var options = DatabaseOptions()
    options.follows = follows
    return try await Database.open(
      at: directory.path + "/db", definition: DatabaseDefinition { TaskStorage.handle }, options: options)
  }

  /// These call the blocking forms.
  private static func look<Result>(_ database: Database, _ body: (ReadTransaction) throws -> Result) throws -> Result {
    try database.read(body)
  }
  private static func look<Result>(
    _ connection: Connection, _ body: (ReadTransaction) throws -> Result
  ) throws -> Result { try connection.read(body) }

  /// A database, its scheduler, and a follower, with tasks in several states: one runs until `mayEnd`.
  private struct Pair {
    let fixture: TaskFixture
    let follower: Database
    let mayEnd = AsyncFlag()
    let running: TaskContext
    let waiting: [TaskID]
    let parked: TaskID
    let later: TaskID
    let dead: TaskID

    init(_ database: Database, _ follower: Database) async throws {
      self.follower = follower
      let mayEnd = mayEnd
      let fixture = try TaskFixture(
        database, rules: [.named("serial"): QueueRules(order: .serial())], workers: 2, kept: [.dead, .done])
      self.fixture = fixture
      let contexts = Mutex<TaskContext?>(nil)
      try fixture.handle { note, context in
        if note.text == "bad" { return .discard("no") }
        if note.text == "runs" {
          contexts.withLock { $0 = context }
          await mayEnd.wait()
        }
        return .done
      }
      try fixture.scheduler.schedule("nightly", "0 3 * * *") { _ in Note("night") }
      try fixture.write { tx in try tx.pause("waits") }
      try await fixture.scheduler.start()
      waiting = try (0..<3).map { number in try fixture.enqueue("\(number)") { $0.queue = "waits" } }
      parked = try fixture.enqueue("parked") { $0.start = .parked(wakeOn: ["go"]) }
      later = try fixture.enqueue("later") { $0.start = .after(.seconds(60)) }
      dead = try fixture.enqueue("bad") { $0.queue = "serial" }
      await fixture.scheduler.waitUntilIdle()
      try fixture.enqueue("runs")
      await fixture.poll { contexts.withLock { $0 != nil } }
      running = try #require(contexts.withLock { $0 })
    }

    func close() async throws {
      mayEnd.set()
      try await follower.close()
      try await fixture.close()
    }
  }

  private func pair() async throws -> Pair {
    let database = try await open(follows: false)
    return try await Pair(database, try await open(follows: true))
  }

  @Test func `a follower reads queues, counts, tasks, schedules, events and the progress of handlers`() async throws {
    let pair = try await pair()
    let id = pair.running.id
    pair.running.progress(0.5, "half")
    let stored = HandlerProgress(0.5, "half")
    await pair.fixture.poll { try Self.look(pair.follower) { tx in try tx.task(id) }?.handlerProgress == stored }
    try Self.look(pair.follower) { tx in
      #expect(try tx.taskQueues() == ["default", "serial", "waits"])
      #expect(try tx.taskCount(in: "waits", .ready) == 3)
      #expect(try tx.taskCount(in: "default", .parked) == 1 && tx.taskCount(in: "default", .scheduled) == 1)
      #expect(try tx.taskQueueState("waits") == (true, false))
      #expect(try tx.tasks(.queue("waits")).map(\.id) == pair.waiting)
      #expect(try tx.tasks(.state(.running)).map(\.id) == [id])
      let running = try #require(try tx.task(id))
      #expect(running.progress.attempt == 1 && running.queue == "default" && running.kind == "note")
      #expect(try tx.task(pair.parked)?.signals == ["go"])
      let due = WallTime.milliseconds(pair.fixture.clock.wallNow) + 60_000
      #expect(try tx.task(pair.later)?.due == due)
      #expect(try tx.task(pair.dead)?.errors == ["no"])
      #expect(try tx.blockedTaskQueues() == [BlockedTaskQueue(queue: "serial", task: pair.dead, state: .dead)])
      #expect(try tx.taskEvents().map(\.event.kind) == [.dead] && tx.taskEvents().map(\.event.id) == [pair.dead])
      #expect(try tx.taskSchedules().map(\.name) == ["nightly"])
      #expect(try tx.areTasksHeld == false)
    }
    try await pair.close()
  }

  @Test func `a follower sees what the scheduler and transactions have changed, and a held snapshot stays as it is`()
    async throws
  {
    let pair = try await pair()
    let (fixture, follower, id) = (pair.fixture, pair.follower, pair.running.id)
    let connection = follower.connection()
    try await connection.beginLongLivedRead()
    func counts(_ tx: ReadTransaction) throws -> [Int] {
      [try tx.taskCount(in: "waits", .ready), try tx.taskCount(in: "default", .parked), try tx.taskEvents().count]
    }
    #expect(try Self.look(connection, counts) == [3, 1, 1])
    let new = try fixture.enqueue("new") { $0.queue = "waits" }
    #expect(try Self.look(follower) { tx in try tx.tasks(.queue("waits")).map(\.id) } == pair.waiting + [new])
    try fixture.write { tx in try tx.cancel(.id(pair.waiting[1])) }
    #expect(try Self.look(follower) { tx in try tx.task(pair.waiting[1]) } == nil)
    #expect(try Self.look(follower, counts) == [3, 1, 1])
    try fixture.write { tx in try tx.edit(pair.waiting[0], priority: 7) }
    #expect(try Self.look(follower) { tx in try tx.task(pair.waiting[0])?.priority } == 7)
    // A process that follows the database changes it by its inbox.
    try TaskInbox(follower.path).send { batch in
      batch.signal("go")
      batch.resume("waits")
    }
    await fixture.poll { try Self.look(follower) { tx in try tx.taskCount(in: "waits", .ready) } == 0 }
    await fixture.poll { try Self.look(follower) { tx in try tx.task(pair.parked) } == nil }
    #expect(try Self.look(follower) { tx in try tx.taskQueueState("waits") } == (false, false))
    #expect(try Self.look(follower) { tx in try tx.task(id)?.progress.state } == .running)
    pair.mayEnd.set()
    await fixture.scheduler.waitUntilIdle()
    #expect(try Self.look(follower) { tx in try tx.task(id) } == nil)
    // The events are those of one dead and five done tasks.
    #expect(try Self.look(follower, counts) == [0, 0, 6])
    #expect(try Self.look(follower) { tx in try tx.taskEvents(after: 1) }.allSatisfy { $0.event.kind == .done })
    #expect(try Self.look(connection, counts) == [3, 1, 1])
    #expect(try Self.look(connection) { tx in try tx.tasks(.state(.running)).map(\.id) } == [id])
    try await connection.advance()
    #expect(try Self.look(connection, counts) == [0, 0, 6])
    connection.endLongLivedRead()
    try await pair.close()
  }

  /// Returns the code of the error that a call throws, or `nil` if it throws none.
  private static func code(_ body: () async throws -> Void) async -> DatabaseError.Code? {
    do { try await body() } catch let error as DatabaseError { return error.code } catch { Issue.record(error) }
    return nil
  }

  @Test func `a follower can't enqueue or change tasks, and a scheduler on it can't start`() async throws {
    let pair = try await pair()
    let follower = pair.follower
    let id = pair.parked
    #expect(await Self.code { try await follower.write { tx in _ = try tx.enqueue(Note("x")) } } == .readOnly)
    #expect(
      await Self.code { try await follower.writeConcurrently { tx in _ = try tx.enqueue(Note("x")) } } == .readOnly)
    #expect(await Self.code { try await follower.write { tx in try tx.pause("waits") } } == .readOnly)
    #expect(await Self.code { try await follower.write { tx in _ = try tx.cancel(.id(id)) } } == .readOnly)
    let scheduler = try TaskScheduler(follower, clock: pair.fixture.clock)
    let lines = pair.fixture.lines
    _ = lines.take()
    try scheduler.register(Note.self) { note, _ in
      lines.add("follower: \(note.text)")
      return .done
    }
    try scheduler.schedule("own", "* * * * *") { _ in Note("own") }
    #expect(await Self.code { try await scheduler.start() } == .readOnly)
    #expect(await Self.code { try await scheduler.run() } == .readOnly)
    #expect(await Self.code { try await scheduler.run(until: .seconds(1)) } == .readOnly)
    #expect(await Self.code { try await scheduler.pause("waits") } == .readOnly)
    #expect(await Self.code { try await scheduler.resume("waits") } == .readOnly)
    #expect(await Self.code { try await scheduler.drain("waits") } == .readOnly)
    #expect(await Self.code { try await scheduler.cancel(.id(id)) } == .readOnly)
    #expect(await Self.code { try await scheduler.retryNow(.id(id)) } == .readOnly)
    #expect(await Self.code { try await scheduler.revive(.id(pair.dead)) } == .readOnly)
    #expect(await Self.code { try await scheduler.delete(.id(id)) } == .readOnly)
    #expect(await Self.code { try await scheduler.signal("go") } == .readOnly)
    #expect(await Self.code { try await scheduler.unschedule("nightly") } == .readOnly)
    await scheduler.stop()
    // Nothing has changed, and the scheduler of the writing process continues.
    #expect(try pair.fixture.state(id) == .parked)
    #expect(try pair.fixture.read { tx in try tx.taskQueueState("waits") } == (true, false))
    #expect(try pair.fixture.read { tx in try tx.taskSchedules().map(\.name) } == ["nightly"])
    try pair.fixture.write { tx in try tx.resume("waits") }
    pair.mayEnd.set()
    await pair.fixture.scheduler.waitUntilIdle()
    #expect(lines.take().sorted() == ["0", "1", "2"])
    try await pair.close()
  }
}
