import EngineTestSupport
import Foundation
import Synchronization
import Testing
import Varve
import VarveTestSupport
import VarveTesting

@_spi(Extensions) @_spi(Testing) @testable import VarveTasks

/// Tests of the death of the process, or a loss of power, at single points in the life of a task.
///
/// Where a commit may be cut off, each operation of the disk during the commit is such a point, or a sample of them.
struct CrashPointTests {
  private static let pointLimit = TestScale.count(16)

  private static func open(_ backend: any StorageBackend) throws -> Database {
    try Database.open(
      backend, path: TaskDisk.path,
      definition: DatabaseDefinition {
        CollectionDefinition("orders", Int.self, key: String.self)
        CollectionDefinition("effects", Int.self, key: String.self)
        TaskStorage.handle
      })
  }

  /// Opens the database on a disk, with a scheduler that was not started.
  private static func fixture(
    _ disk: CrashFileSystem, _ clock: ManualSchedulerClock = ManualSchedulerClock(), workers: Int = 1
  ) throws -> TaskFixture {
    try TaskFixture(try open(try TaskDisk.backend(disk)), workers: workers, clock: clock)
  }

  /// Writes an order and enqueues its task in one transaction.
  @discardableResult
  private static func enqueue(
    _ text: String, _ fixture: TaskFixture, _ durability: StorageDurability = .power,
    _ change: (inout TaskOptions) -> Void = { _ in }
  ) throws -> TaskID {
    var options = Note.defaults
    change(&options)
    return try fixture.database.write(durability: durability) { tx in
      try tx.set(1, key: text, in: "orders")
      return try tx.enqueue(Note(text), options).id
    }
  }

  /// Makes everything durable that was committed so far.
  private static func makeDurable(_ fixture: TaskFixture) throws {
    try fixture.database.write(durability: .power) { tx in
      let count = try tx.object(Int.self, key: 1, in: "marks") ?? 0
      try tx.set(count + 1, key: 1, in: "marks")
    }
  }

  /// Ends the process, as far as the disk that was copied before is concerned.
  private static func end(_ fixture: TaskFixture) async throws {
    fixture.scheduler.die()
    try await fixture.database.close()
  }

  /// Registers a handler, and runs the tasks of a database until none is due. Returns the attempts that have begun:
  /// the text of each task, the number of its attempt, and the number of its crashes.
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

  /// Returns the disk as it is before each of its operations while `body` runs and `isWanted` is true, or a sample of
  /// these states, and as it is at the end.
  private static func points(
    of disk: CrashFileSystem, while isWanted: @escaping @Sendable () -> Bool = { true },
    _ body: () async throws -> Void
  ) async throws -> [CrashPoint] {
    let points = Mutex<[CrashPoint]>([])
    disk.observe { _, capture in
      if isWanted() { points.withLock { $0.append(capture()) } }
    }
    try await body()
    disk.observe(nil)
    let found = points.withLock { $0 }
    #expect(!found.isEmpty)
    let stride = max(1, found.count / pointLimit)
    return found.indices.filter { $0.isMultiple(of: stride) }.map { found[$0] } + [disk.crashPoint]
  }

  /// Opens the database on images of each point, as the next process does at the time of `clock`.
  private static func forEachImage(
    _ points: [CrashPoint], _ clock: ManualSchedulerClock, _ body: (TaskFixture, _ image: String) async throws -> Void
  ) async throws {
    for (index, point) in points.enumerated() {
      for policy in CrashPolicy.allCases {
        let image = "image \(index), \(point.operation.map { "\($0)" } ?? "at the end"), \(policy)"
        let next = try fixture(
          point.image(seed: UInt64(index), policy: policy), ManualSchedulerClock(wall: clock.wallNow))
        do { try await body(next, image) } catch { Issue.record(error, "\(image)") }
        try await next.close()
      }
    }
  }

  // MARK: - Enqueueing

  @Test func `crash a: a transaction that is not durable leaves both its row and its task, or neither`() async throws {
    let disk = CrashFileSystem(seed: 1)
    let first = try Self.fixture(disk)
    try Self.makeDurable(first)
    let points = try await Self.points(of: disk) { try Self.enqueue("a", first) }
    var outcomes: Set<Int> = []
    try await Self.forEachImage(points, first.clock) { next, image in
      let (orders, tasks) = try next.read { tx in (try tx.count(in: "orders"), try tx.tasks(.all).count) }
      #expect(orders == tasks, "\(image)")
      let attempts = try await Self.run(next)
      #expect(attempts == (tasks == 1 ? ["a 1 0"] : []), "\(image)")
      outcomes.insert(tasks)
    }
    #expect(outcomes == [0, 1])
    try await Self.end(first)
  }

  @Test(arguments: [CrashPolicy.processKill, .loseAllUnsynced])
  func `crash b: a task whose enqueueing was acknowledged runs once`(policy: CrashPolicy) async throws {
    let disk = CrashFileSystem(seed: 2)
    let first = try Self.fixture(disk)
    let id = try Self.enqueue("a", first, policy == .processKill ? .process : .power)
    let next = try Self.fixture(disk.crashImage(seed: 2, policy: policy))
    try await Self.end(first)
    #expect(try next.state(id) == .ready)
    #expect(try await Self.run(next) == ["a 1 0"])
    #expect(try next.rowCount() == 0)
    try await next.close()
  }

  // MARK: - Claims

  @Test func `crash c: a task whose claim has not reached the log is ready, and its attempt does not count`()
    async throws
  {
    let disk = CrashFileSystem(seed: 3)
    let first = try Self.fixture(disk)
    let (isBegun, mayEnd) = (Flag(), AsyncFlag())
    try first.handle { _, _ in
      isBegun.set()
      await mayEnd.wait()
      return .done
    }
    try await first.scheduler.start()
    try first.write { tx in try tx.pause("default") }
    let id = try Self.enqueue("a", first)
    await first.scheduler.waitUntilIdle()
    // The claim is in memory, and its commit has not ended.
    let dispatcher = first.scheduler.dispatcher
    let points = try await Self.points(of: disk, while: { dispatcher.run(id) != nil && !isBegun.isSet }) {
      try first.write { tx in try tx.resume("default") }
      await first.poll { isBegun.isSet }
    }
    var claimCounts: Set<Int> = []
    for (index, point) in points.enumerated() {
      for seed in 1...4 as ClosedRange<UInt64> {
        let next = try Self.fixture(point.image(seed: seed, policy: .processKill))
        let claims = try next.claimCount()
        claimCounts.insert(claims)
        if claims == 0 {
          let task = try next.read { tx in try tx.task(id) }
          #expect(task?.progress.state == .ready && task?.progress.attempt == 0, "image \(index), \(seed)")
        }
        // A claim that has reached the log counts as a crash.
        #expect(try await Self.run(next) == [claims == 0 ? "a 1 0" : "a 2 1"], "image \(index), \(seed)")
        #expect(try next.rowCount() == 0)
        try await next.close()
      }
    }
    #expect(claimCounts == [0, 1])
    mayEnd.set()
    try await Self.end(first)
  }

  /// Returns what the next process finds if one dies while the handler of a task runs.
  private static func dieWhileRunning(_ policy: CrashPolicy) async throws -> (next: TaskFixture, id: TaskID) {
    let disk = CrashFileSystem(seed: 4)
    let first = try fixture(disk)
    let (begun, mayEnd) = (AsyncFlag(), AsyncFlag())
    try first.handle { _, _ in
      begun.set()
      await mayEnd.wait()
      return .done
    }
    try await first.scheduler.start()
    let id = try enqueue("a", first) { $0.retention = .keep(.seconds(1_000)) }
    await begun.wait()
    let image = disk.crashImage(seed: 4, policy: policy)
    first.scheduler.die()
    mayEnd.set()
    try await first.database.close()
    return (try fixture(image), id)
  }

  @Test func `crash d: a task that ran when the process died runs again at once, and its attempt and crash count`()
    async throws
  {
    let (next, id) = try await Self.dieWhileRunning(.processKill)
    #expect(try next.claimCount() == 1)
    // No time passes.
    #expect(try await Self.run(next) == ["a 2 1"])
    let progress = try next.read { tx in try tx.task(id) }?.progress
    #expect(progress?.state == .done && progress?.attempt == 2 && progress?.crashes == 1 && progress?.failures == 0)
    #expect(try next.rowCount() == 0)
    try await next.close()
  }

  @Test func `crash d': a task whose claim was lost with the power runs again, and its first attempt does not count`()
    async throws
  {
    let (next, id) = try await Self.dieWhileRunning(.loseAllUnsynced)
    #expect(try next.claimCount() == 0)
    #expect(try await Self.run(next) == ["a 1 0"])
    let progress = try next.read { tx in try tx.task(id) }?.progress
    #expect(progress?.state == .done && progress?.attempt == 1 && progress?.crashes == 0)
    #expect(try next.rowCount() == 0)
    try await next.close()
  }

  // MARK: - Effects and ends

  @Test func `crash e: an outside effect is repeated with the same key and a higher number of the attempt`()
    async throws
  {
    let disk = CrashFileSystem(seed: 5)
    let effects = Mutex<[(key: String, attempt: Int)]>([])
    let (begun, mayEnd) = (AsyncFlag(), AsyncFlag())
    let first = try Self.fixture(disk)
    try first.handle { _, context in
      effects.withLock { $0.append((context.idempotencyKey, context.attempt)) }
      begun.set()
      await mayEnd.wait()
      return .done
    }
    try await first.scheduler.start()
    let id = try Self.enqueue("a", first)
    await begun.wait()
    let image = disk.crashImage(seed: 5, policy: .processKill)
    first.scheduler.die()
    mayEnd.set()
    try await first.database.close()
    let next = try Self.fixture(image)
    try next.handle { _, context in
      effects.withLock { $0.append((context.idempotencyKey, context.attempt)) }
      return .done
    }
    try await next.scheduler.start()
    await next.scheduler.waitUntilIdle()
    let found = effects.withLock { $0 }
    #expect(found.map { $0.attempt } == [1, 2])
    #expect(Set(found.map { $0.key }).count == 1 && found.first?.key.hasSuffix("-\(id)") == true)
    #expect(try next.state(id) == nil)
    try await next.close()
  }

  /// Registers a handler that counts each task by `complete`.
  private static func handleEffects(_ fixture: TaskFixture, begins: Flag = Flag(), ends: Flag = Flag()) throws {
    try fixture.handle { note, context in
      begins.set()
      try await context.complete(counting: note.text)
      ends.set()
      return .done
    }
  }

  @Test func `crash f: the writes of complete and the end of the task are on disk together, and happen exactly once`()
    async throws
  {
    let disk = CrashFileSystem(seed: 6)
    let first = try Self.fixture(disk)
    let (begins, ends) = (Flag(), Flag())
    try Self.handleEffects(first, begins: begins, ends: ends)
    try await first.scheduler.start()
    try first.write { tx in try tx.pause("default") }
    let id = try Self.enqueue("a", first)
    let points = try await Self.points(of: disk, while: { begins.isSet && !ends.isSet }) {
      try first.write { tx in try tx.resume("default") }
      await first.scheduler.waitUntilIdle()
    }
    var outcomes: Set<Int> = []
    try await Self.forEachImage(points, first.clock) { next, image in
      let (effects, isLeft) = try next.read { tx in (try tx.count(in: "effects"), try tx.task(id) != nil) }
      #expect((effects == 0) == isLeft, "\(image)")
      outcomes.insert(effects)
      try Self.handleEffects(next)
      // The queue is paused if the power was lost before the resumption was synced.
      try next.write { tx in try tx.resume("default") }
      try await next.scheduler.start()
      await next.scheduler.waitUntilIdle()
      #expect(try next.read { tx in try tx.object(Int.self, key: "a", in: "effects") } == 1, "\(image)")
      #expect(try next.rowCount() == 0, "\(image)")
    }
    #expect(outcomes == [0, 1])
    try await Self.end(first)
  }

  @Test func `crash g: a task whose end is on disk does not run again, even if its event was not delivered`()
    async throws
  {
    let (disk, gate) = (CrashFileSystem(seed: 7), Gate())
    let held = HeldBackend(try TaskDisk.backend(disk), gate, holding: .process)
    let first = try TaskFixture(Self.open(held))
    let (begun, mayEnd) = (AsyncFlag(), AsyncFlag())
    try first.handle { _, _ in
      begun.set()
      await mayEnd.wait()
      return .done
    }
    let (events, delivered) = (first.scheduler.events, TaskFixture.Lines())
    let listener = Task {
      for await event in events { delivered.add("\(event.kind)") }
    }
    try await first.scheduler.start()
    let id = try Self.enqueue("a", first)
    await begun.wait()
    // The commit of the end is in the log, and is not acknowledged.
    gate.shut()
    mayEnd.set()
    await first.poll { gate.waitingCount >= 1 }
    #expect(!delivered.take().contains("done"))
    let image = disk.crashImage(seed: 7, policy: .processKill)
    first.scheduler.die()
    gate.open()
    listener.cancel()
    try await first.database.close()

    let next = try Self.fixture(image)
    #expect(try next.state(id) == nil)
    #expect(try await Self.run(next) == [])
    #expect(try next.rowCount() == 0)
    try await next.close()
  }

  @Test func `crash h: a parent that is done has no child that is blocked, and each child runs once`() async throws {
    let disk = CrashFileSystem(seed: 8)
    let first = try Self.fixture(disk)
    let (begun, mayEnd, isEnding) = (AsyncFlag(), AsyncFlag(), Flag())
    try first.handle { _, _ in
      begun.set()
      await mayEnd.wait()
      isEnding.set()
      return .done
    }
    try await first.scheduler.start()
    let (parent, children) = try first.write { tx in
      try tx.pause("children")
      let parent = try tx.enqueue(Note("parent")).id
      var options = TaskOptions(queue: "children")
      options.dependsOn = [parent]
      return (parent, try (0..<3).map { try tx.enqueue(Note("\($0)"), options).id })
    }
    await begun.wait()
    try Self.makeDurable(first)
    let points = try await Self.points(of: disk, while: { isEnding.isSet }) {
      mayEnd.set()
      await first.scheduler.waitUntilIdle()
    }
    var outcomes: Set<Bool> = []
    try await Self.forEachImage(points, first.clock) { next, image in
      let isDone = try next.state(parent) == nil
      outcomes.insert(isDone)
      for child in children { #expect(try next.state(child) == (isDone ? .ready : .blocked), "\(image)") }
      try next.write { tx in try tx.resume("children") }
      let attempts = try await Self.run(next)
      #expect(attempts == (isDone ? [] : ["parent 2 1"]) + (0..<3).map { "\($0) 1 0" }, "\(image)")
      #expect(try next.rowCount() == 0, "\(image)")
    }
    #expect(outcomes == [false, true])
    try await Self.end(first)
  }

  // MARK: - Schedules and unique keys

  @Test func `crash i: the task of a slot and the last slot are on disk together, and each slot has one task`()
    async throws
  {
    func schedule(_ fixture: TaskFixture) throws {
      try fixture.scheduler.schedule("ten", "*/10 * * * *") { slot in Note("\(Int(slot.date.timeIntervalSince1970))") }
    }
    let disk = CrashFileSystem(seed: 9)
    let first = try Self.fixture(disk)
    try first.handle()
    try schedule(first)
    try first.write { tx in try tx.pause("default") }
    try await first.scheduler.start()
    await first.scheduler.waitUntilIdle()
    try Self.makeDurable(first)
    let before = first.clock.wallNow
    let points = try await Self.points(of: disk) {
      await first.scheduler.advance(first.clock, by: .seconds(600))
    }
    let slot = first.clock.wallNow
    var outcomes: Set<Int> = []
    try await Self.forEachImage(points, first.clock) { next, image in
      let (count, last) = try next.read { tx in (try tx.tasks(.all).count, try tx.taskSchedules().first?.lastSlot) }
      #expect(last == (count == 0 ? before : slot) && count <= 1, "\(image)")
      outcomes.insert(count)
      try next.write { tx in try tx.resume("default") }
      try schedule(next)
      #expect(try await Self.run(next) == ["\(Int(slot.timeIntervalSince1970)) 1 0"], "\(image)")
      #expect(try next.read { tx in try tx.taskSchedules().first?.lastSlot } == slot, "\(image)")
      #expect(try next.rowCount() == 0, "\(image)")
    }
    #expect(outcomes == [0, 1])
    try await Self.end(first)
  }

  @Test func `crash j: a unique key and its task are on disk together, and no key is taken without a task`()
    async throws
  {
    let disk = CrashFileSystem(seed: 10)
    let first = try Self.fixture(disk)
    try Self.makeDurable(first)
    let points = try await Self.points(of: disk) {
      try Self.enqueue("a", first) { $0.unique = Uniqueness(key: "k") }
    }
    var outcomes: Set<Int> = []
    try await Self.forEachImage(points, first.clock) { next, image in
      let (ids, keys) = try next.read { tx in
        (try tx.tasks(.all).map(\.id), try tx.tasks.config.count(StorageRange(prefix: [0x55])))
      }
      #expect(ids.count == keys, "\(image)")
      outcomes.insert(keys)
      var options = TaskOptions()
      options.unique = Uniqueness(key: "k")
      let result = try next.write { tx in try tx.enqueue(Note("b"), options) }
      let expected = ids.first.map { EnqueueResult.duplicate(of: $0, .ready) } ?? .inserted(result.id)
      #expect(result == expected, "\(image)")
      #expect(try await Self.run(next) == [ids.isEmpty ? "b 1 0" : "a 1 0"], "\(image)")
      #expect(try next.configCount(0x55) == 0, "\(image)")
    }
    #expect(outcomes == [0, 1])
    try await Self.end(first)
  }

  // MARK: - Pruning, and commits that are not synced

  /// The numbers of done tasks whose retention will end, and of those that are kept for longer.
  private static let expiringCount = 1_000
  private static let keptCount = 20

  /// Returns tasks in states that pruning must leave, and their states, in a database that also has many done tasks.
  private static func prepareToPrune(_ first: TaskFixture) async throws -> [(id: TaskID, state: TaskState)] {
    try first.handle { note, _ in note.text == "bad" ? .discard("no") : .done }
    try await first.scheduler.start()
    try first.write { tx in
      for number in 0..<(expiringCount + keptCount) {
        var options = TaskOptions()
        options.retention = .keep(.seconds(number < expiringCount ? 100 : 10_000))
        try tx.enqueue(Note("\(number)"), options)
      }
      try tx.pause("paused")
    }
    let dead = try first.enqueue("bad")
    await first.scheduler.waitUntilIdle()
    let ready = try first.enqueue("ready") { $0.queue = "paused" }
    let parked = try first.enqueue("parked") { $0.start = .parked() }
    let later = try first.enqueue("later") { $0.start = .after(.seconds(5_000)) }
    try makeDurable(first)
    return [(dead, .dead), (ready, .ready), (parked, .parked), (later, .scheduled)]
  }

  /// The numbers of operations of the disk, by the number of the commits before them.
  private final class OperationCounts: Sendable {
    private let counts = Mutex<[UInt64: Int]>([:])

    /// Counts an operation after a number of commits, and returns how many there were.
    func count(_ commits: UInt64) -> Int {
      counts.withLock { counts in
        counts[commits, default: 0] += 1
        return counts[commits] ?? 0
      }
    }
  }

  /// Returns the number of done tasks, and that by the counts of states.
  private static func doneCount(_ fixture: TaskFixture) throws -> (found: Int, counted: Int) {
    try fixture.read { tx in (try tx.tasks(.state(.done)).count, try tx.taskCount(in: "default", .done)) }
  }

  @Test func `crash k: pruning that was cut off touches nothing else, and continues at the next start`() async throws {
    let disk = CrashFileSystem(seed: 11)
    let first = try Self.fixture(disk, workers: 8)
    let left = try await Self.prepareToPrune(first)
    #expect(try Self.doneCount(first).found == Self.expiringCount + Self.keptCount)
    // Tasks are pruned in two commits. The first operations of each commit are among the points.
    let (database, operations) = (first.database, OperationCounts())
    let points = try await Self.points(
      of: disk, while: { operations.count(database.statistics.independentCommits) <= 4 }
    ) {
      await first.scheduler.advance(first.clock, by: .seconds(200))
    }
    var found: Set<Int> = []
    try await Self.forEachImage(points, first.clock) { next, image in
      let before = try Self.doneCount(next)
      #expect(before.found == before.counted && before.found >= Self.keptCount, "\(image)")
      found.insert(before.found)
      for task in left { #expect(try next.state(task.id) == task.state, "\(image)") }
      try await next.scheduler.start()
      let after = try Self.doneCount(next)
      #expect(after.found == Self.keptCount && after.counted == Self.keptCount, "\(image)")
      for task in left { #expect(try next.state(task.id) == task.state, "\(image)") }
    }
    let whole = Self.expiringCount + Self.keptCount
    #expect(found.contains(whole) && found.contains(Self.keptCount))
    if TestScale.isWhole { #expect(found.contains(whole - TurnWork.batchMaximum), "\(found)") }
    try await Self.end(first)
  }

  @Test func `crash l: a power loss undoes a task with its row, or the end of a task, if they were not synced`()
    async throws
  {
    let disk = CrashFileSystem(seed: 12)
    let first = try Self.fixture(disk)
    try Self.makeDurable(first)
    // The enqueueing is lost with the row of the same transaction.
    try Self.enqueue("a", first, .process)
    for (policy, count) in [(CrashPolicy.loseAllUnsynced, 0), (.processKill, 1)] {
      let next = try Self.fixture(disk.crashImage(seed: 12, policy: policy))
      let found = try next.read { tx in [try tx.count(in: "orders"), try tx.tasks(.all).count] }
      #expect(found == [count, count], "\(policy)")
      try await next.close()
    }
    // The end of a task is lost, and the task runs again.
    try Self.makeDurable(first)
    #expect(try await Self.run(first) == ["a 1 0"])
    for (policy, attempts) in [(CrashPolicy.loseAllUnsynced, ["a 1 0"]), (.processKill, [])] {
      let next = try Self.fixture(disk.crashImage(seed: 13, policy: policy))
      #expect(try await Self.run(next) == attempts, "\(policy)")
      #expect(try next.rowCount() == 0, "\(policy)")
      try await next.close()
    }
    try await Self.end(first)
  }
}
