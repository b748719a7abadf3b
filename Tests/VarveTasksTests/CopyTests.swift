import EngineTestSupport
import Foundation
import Synchronization
import Testing
import Varve
import VarveTestSupport
import VarveTesting

@_spi(Extensions) @testable import VarveTasks

/// Tests of copies of a database whose tasks another process runs, and of clocks that were set back.
struct CopyTests {
  private let directory: TemporaryDirectory

  init() throws { directory = try TemporaryDirectory() }

  private var path: String { directory.path + "/db" }
  private var copy: String { directory.path + "/copy" }

  private static func database(_ path: String) throws -> Database {
    try Database.open(at: path, definition: DatabaseDefinition { TaskStorage.handle })
  }

  private func open(_ path: String, _ clock: ManualSchedulerClock = ManualSchedulerClock()) throws -> TaskFixture {
    let fixture = try TaskFixture(Self.database(path), clock: clock)
    try fixture.handle()
    return fixture
  }

  @Test func `a backup starts no task and no schedule until they are released, and the original runs its own`()
    async throws
  {
    let original = try open(path)
    try original.enqueue("first")
    try original.backup(to: copy)
    #expect(try original.read { tx in try tx.areTasksHeld } == false)
    try await original.scheduler.start()
    await original.scheduler.waitUntilIdle()
    #expect(original.lines.take() == ["first"])

    var second = try open(copy)
    #expect(second.database.incarnation != original.database.incarnation)
    try second.scheduler.schedule("minute", "* * * * *") { _ in Note("slot") }
    try await second.scheduler.start()
    try second.scheduler.schedule("late", "* * * * *") { _ in Note("late") }
    try second.enqueue("second")
    second.clock.advance(by: .seconds(61))
    await second.scheduler.waitUntilIdle()
    #expect(second.lines.take().isEmpty)
    #expect(try second.read { tx in try tx.areTasksHeld })
    #expect(try second.count(.ready) == 2)

    // A release that is rolled back releases no tasks.
    #expect(throws: Undo.self) {
      try second.write { tx in
        #expect(try tx.releaseTasks())
        throw Undo()
      }
    }
    try second.write { tx in
      // The enqueue makes the transaction create its task state before the savepoint.
      try tx.enqueue(Note("third"))
      #expect(throws: Undo.self) {
        try tx.savepoint {
          try tx.releaseTasks()
          throw Undo()
        }
      }
    }
    await second.scheduler.waitUntilIdle()
    #expect(second.lines.take().isEmpty)

    // The tasks are held after the next start, too.
    let clock = second.clock
    try await second.close()
    second = try open(copy, clock)
    try second.scheduler.schedule("minute", "* * * * *") { _ in Note("slot") }
    try await second.scheduler.start()
    await second.scheduler.waitUntilIdle()
    #expect(second.lines.take().isEmpty)

    #expect(try second.write { tx in try tx.releaseTasks() })
    #expect(try second.write { tx in try tx.releaseTasks() } == false)
    await second.scheduler.waitUntilIdle()
    #expect(second.lines.take() == ["first", "second", "third"])
    await second.poll { try second.read { tx in try tx.taskSchedules().count } == 1 }
    try await second.close()
    second = try open(copy, clock)
    try second.enqueue("fourth")
    try await second.scheduler.start()
    await second.scheduler.waitUntilIdle()
    #expect(second.lines.take() == ["fourth"])
    try await second.close()
    try await original.close()
  }

  @Test func `the slots of a schedule that is new in a copy begin when the tasks of the copy are released`()
    async throws
  {
    let original = try open(path)
    try original.enqueue("first")
    try original.backup(to: copy)
    try await original.close()
    let second = try open(copy)
    try second.scheduler.schedule("minute", "* * * * *") { _ in Note("slot") }
    try await second.scheduler.start()
    second.clock.advance(by: .seconds(600))
    #expect(try second.write { tx in try tx.releaseTasks() })
    await second.scheduler.waitUntilIdle()
    #expect(second.lines.take() == ["first"])
    await second.scheduler.advance(second.clock, by: .seconds(60))
    #expect(second.lines.take() == ["slot"])
    try await second.close()
  }

  @Test(arguments: [true, false])
  func `a task that ran when a copy was made has not crashed in the copy`(isReleasedFirst: Bool) async throws {
    let (original, returns) = (try TaskFixture(Self.database(path)), AsyncFlag())
    try original.handle { _, _ in
      await returns.wait()
      return .done
    }
    let id = try original.enqueue("runs")
    try await original.scheduler.start()
    await original.poll { original.lines.count == 1 }
    try original.backup(to: copy)
    returns.set()
    await original.scheduler.waitUntilIdle()
    try await original.close()

    var second = try open(copy)
    if isReleasedFirst {
      try second.write { tx in try tx.releaseTasks() }
      try await second.close()
      second = try open(copy)
      try second.write { tx in try tx.pause("default") }
    }
    let events = second.scheduler.events
    try await second.scheduler.start()
    let progress = try #require(try second.read { tx in try tx.task(id) }).progress
    #expect(progress.state == .ready && progress.attempt == 0 && progress.crashes == 0)
    try second.write { tx in
      try tx.releaseTasks()
      try tx.resume("default")
    }
    await second.scheduler.waitUntilIdle()
    #expect(second.lines.take() == ["runs"])
    for await event in events {
      #expect(event.kind == .started)
      break
    }
    try await second.close()
  }

  @Test func `a copy of a database without tasks runs new tasks, and a copy of it that has tasks is held`() async throws
  {
    let third = directory.path + "/third"
    let original = try open(path)
    try original.backup(to: copy)
    try await original.close()
    let second = try open(copy)
    try second.enqueue("a")
    try await second.scheduler.start()
    await second.scheduler.waitUntilIdle()
    #expect(second.lines.take() == ["a"])
    try second.enqueue("b") { $0.start = .parked() }
    try second.backup(to: third)
    try await second.close()
    let fixture = try open(third)
    #expect(try fixture.read { tx in try tx.areTasksHeld })
    try await fixture.close()
    let again = try open(copy)
    #expect(try again.read { tx in try tx.areTasksHeld } == false)
    try await again.close()
  }

  @Test func `a copy is released by the inbox`() async throws {
    let original = try open(path)
    try original.enqueue("first")
    try original.backup(to: copy)
    try await original.close()
    let second = try open(copy)
    try await second.scheduler.start()
    try TaskInbox(copy).send { $0.releaseTasks() }
    await second.poll { second.lines.count == 1 }
    #expect(second.lines.take() == ["first"])
    try await second.close()
  }

  @Test func `the idempotency key is the same in each attempt, and another one in a copy`() async throws {
    let keys = Mutex<[String]>([])
    func run(_ path: String) async throws {
      let fixture = try TaskFixture(Self.database(path))
      try fixture.handle { _, context in
        keys.withLock { $0.append(context.idempotencyKey) }
        return context.attempt == 1 ? .retry(after: .zero) : .park()
      }
      try fixture.write { tx in try tx.releaseTasks() }
      try await fixture.scheduler.start()
      await fixture.scheduler.waitUntilIdle()
      try await fixture.close()
    }
    let original = try open(path)
    let id = try original.enqueue("first")
    try original.backup(to: copy)
    try await original.close()
    try await run(path)
    try await run(copy)
    let found = keys.withLock { $0 }
    #expect(found.count == 4)
    #expect(found[0] == found[1] && found[2] == found[3] && found[0] != found[2])
    for key in found { #expect(key.count == 17 + "\(id)".count && key.hasSuffix("-\(id)")) }
  }

  @Test func `a clock that was set back by more than an hour is reported at the start, and times stay as they are`()
    async throws
  {
    let clock = ManualSchedulerClock()
    let database = try TaskFixture().database
    func eventsOfStart() async throws -> [TaskEvent.Kind] {
      let fixture = try TaskFixture(database, clock: clock)
      try fixture.handle()
      let events = fixture.scheduler.events
      try await fixture.scheduler.start()
      try fixture.enqueue("now")
      await fixture.scheduler.waitUntilIdle()
      await fixture.scheduler.stop()
      #expect(fixture.lines.take() == ["now"])
      var kinds: [TaskEvent.Kind] = []
      for await event in events {
        kinds.append(event.kind)
        if event.kind == .done { break }
      }
      return kinds
    }
    #expect(try await eventsOfStart() == [.started, .done])
    clock.setWall(clock.wallNow.addingTimeInterval(-3_500))
    #expect(try await eventsOfStart() == [.started, .done])
    clock.setWall(clock.wallNow.addingTimeInterval(-200))
    #expect(try await eventsOfStart() == [.clockSetBack, .started, .done])
    clock.setWall(clock.wallNow.addingTimeInterval(200))
    #expect(try await eventsOfStart() == [.started, .done])
  }
}
