import EngineTestSupport
import Foundation
import FutexLocks
import Synchronization
import Testing
import Varve
import VarveTestSupport
import VarveTesting

@_spi(Extensions) @testable import VarveTasks

/// Tests of a close of the database while tasks run, by a program that does not stop the scheduler before it.
///
/// No process has died then, so the attempts do not count. A process that dies at any other time has crashed.
struct CloseWithoutStopTests {
  private static let closedStart: UInt8 = 0x45
  private static let pointLimit = TestScale.count(16)

  private static func fixture(_ disk: CrashFileSystem) throws -> TaskFixture {
    let database = try Database.open(
      try TaskDisk.backend(disk), path: TaskDisk.path, definition: DatabaseDefinition { TaskStorage.handle })
    return try TaskFixture(database)
  }

  /// Starts the scheduler of a database with one task. Returns when its handler runs, which ends with the flag.
  private static func begin(_ fixture: TaskFixture, _ mayEnd: AsyncFlag) async throws {
    try fixture.handle { _, _ in
      await mayEnd.wait()
      return .done
    }
    try await fixture.scheduler.start()
    await fixture.poll { fixture.lines.count == 1 }
  }

  /// Returns the attempts that begin until no task is due: the text of each task, the number of its attempt, and the
  /// number of its crashes.
  private static func run(_ fixture: TaskFixture) async throws -> [String] {
    let attempts = TaskFixture.Lines()
    try fixture.handle { note, context in
      attempts.add("\(note.text) \(context.attempt) \(context.run.record.progress.crashes)")
      return .done
    }
    try await fixture.scheduler.start()
    await fixture.scheduler.waitUntilIdle()
    return attempts.take()
  }

  private static func close(_ database: Database, isSuspended: Bool) async throws {
    if isSuspended { try await database.close() } else { try await Threads.alone { try database.close() } }
  }

  @Test(arguments: [false, true])
  func `transition 19: a task that runs at each close of the database has not crashed, and its attempts do not count`(
    isSuspended: Bool
  ) async throws {
    let disk = CrashFileSystem(seed: 31)
    // One round more than the number of crashes that make a task dead.
    for round in 0..<4 {
      let (fixture, mayEnd) = (try Self.fixture(disk), AsyncFlag())
      defer { mayEnd.set() }
      if round == 0 { try fixture.enqueue("long") }
      try await Self.begin(fixture, mayEnd)
      try await Self.close(fixture.database, isSuspended: isSuspended)
    }
    let last = try Self.fixture(disk)
    #expect(try last.configCount(Self.closedStart) == 1)
    #expect(try await Self.run(last) == ["long 1 0"])
    #expect(try last.read { tx in try tx.taskEvents() }.isEmpty)
    #expect(try last.configCount(Self.closedStart) == 0)
    try last.expectNothingLeft()
    try await last.close()
    let stopped = try Self.fixture(disk)
    #expect(try stopped.configCount(Self.closedStart) == 0)
    try await stopped.close()
  }

  @Test func `transition 20: a process that dies after a close that failed has crashed`() async throws {
    let disk = CrashFileSystem(seed: 32)
    let (fixture, mayEnd) = (try Self.fixture(disk), AsyncFlag())
    defer { mayEnd.set() }
    try fixture.enqueue("long")
    try await Self.begin(fixture, mayEnd)
    let (isReading, mayReturn) = (AsyncFlag(), DispatchSemaphore(value: 0))
    let database = fixture.database
    async let read: Void = Threads.alone {
      try database.read { _ in
        isReading.set()
        mayReturn.wait()
      }
    }
    await isReading.wait()
    var code: DatabaseError.Code?
    do { try await Self.close(database, isSuspended: false) } catch { code = (error as? DatabaseError)?.code }
    #expect(code == .writerBusy)
    let image = disk.crashImage(seed: 32, policy: .processKill)
    mayReturn.signal()
    try await read
    mayEnd.set()
    try await fixture.close()
    let next = try Self.fixture(image)
    #expect(try await Self.run(next) == ["long 2 1"])
    try await next.close()
  }

  @Test func `transition 20: a process that dies after the start that follows a close has crashed`() async throws {
    let disk = CrashFileSystem(seed: 33)
    let mayEnd = AsyncFlag()
    defer { mayEnd.set() }
    let first = try Self.fixture(disk)
    try first.enqueue("long")
    try await Self.begin(first, mayEnd)
    try await first.database.close()
    let second = try Self.fixture(disk)
    try await Self.begin(second, mayEnd)
    let image = disk.crashImage(seed: 33, policy: .processKill)
    mayEnd.set()
    try await second.close()
    let next = try Self.fixture(image)
    #expect(try next.configCount(Self.closedStart) == 0)
    #expect(try await Self.run(next) == ["long 2 1"])
    try await next.close()
  }

  @Test func `transition 20: a claim that is not of the start whose tasks ran at the close counts as a crash`()
    async throws
  {
    let disk = CrashFileSystem(seed: 34)
    let fixture = try Self.fixture(disk)
    let id = try fixture.write { tx in try tx.enqueue(Other()).id }
    try await fixture.scheduler.start()
    await fixture.scheduler.waitUntilIdle()
    try await fixture.database.claimAndDie([id])
    try await fixture.database.close()
    let next = try Self.fixture(disk)
    #expect(try next.configCount(Self.closedStart) == 1)
    try await next.scheduler.start()
    #expect(try next.read { tx in try tx.task(id) }?.progress.crashes == 1)
    try await next.close()
  }

  @Test
  func `transition 20: a process that dies during a close has crashed or not, and has not if it dies after the close`()
    async throws
  {
    let disk = CrashFileSystem(seed: 35)
    let (fixture, mayEnd) = (try Self.fixture(disk), AsyncFlag())
    defer { mayEnd.set() }
    try fixture.enqueue("long")
    try await Self.begin(fixture, mayEnd)
    await fixture.poll { fixture.scheduler.dispatcher.state.withLock { !$0.loop.isPumping } }
    let points = Mutex<[CrashPoint]>([])
    disk.observe { _, capture in points.withLock { $0.append(capture()) } }
    try await fixture.database.close()
    disk.observe(nil)
    let found = points.withLock { $0 }
    #expect(!found.isEmpty)
    let stride = max(1, found.count / Self.pointLimit)
    var outcomes: Set<[String]> = []
    for index in found.indices where index.isMultiple(of: stride) {
      let next = try Self.fixture(found[index].image(seed: UInt64(index), policy: .processKill))
      outcomes.insert(try await Self.run(next))
      try await next.close()
    }
    #expect(outcomes.isSubset(of: [["long 1 0"], ["long 2 1"]]), "\(outcomes)")
    // The first operation writes the last commit.
    #expect(outcomes.contains(["long 2 1"]))
    let next = try Self.fixture(disk)
    #expect(try await Self.run(next) == ["long 1 0"])
    try await next.close()
  }
}
