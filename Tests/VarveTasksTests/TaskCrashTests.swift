import EngineTestSupport
import Foundation
import Synchronization
import Testing
import VarveEngine
import VarveTestSupport
import VarveTesting

@testable import Varve
@_spi(Extensions) @testable import VarveTasks

/// Tests of a power loss, or the death of the process, at operations of the disk while tasks are enqueued, claimed and
/// settled concurrently with the writer.
///
/// Each transaction writes an order and enqueues its task, whose effect is counted by `complete`. On each image, a
/// scheduler runs the tasks that are there: then every order has been counted exactly once, and no state of any task
/// is left.
///
///     VARVE_TEST_SCALE=5 ./tools/test --filter TaskCrashTests
struct TaskCrashTests {
  private static let orderCount = 60
  /// The number of operations of which the images are tried: at larger scales, all of them.
  private static let pointLimit = TestScale.count(60)
  private static let rules: [QueueSelector: QueueRules] = [.prefix("serial"): QueueRules(order: .serial())]

  private struct Point: Sendable {
    let crash: CrashPoint
    /// The number of orders that were acknowledged such that they survive the death of the process; below, a loss of
    /// power.
    let process: Int
    let power: Int
    /// The wall-clock time.
    let wall: Date
  }

  /// The task that a schedule enqueues each minute.
  private struct Slot: TaskPayload {
    static let kind = "slot"
    var minute: Int
  }

  private static func open(_ disk: any FileSystem, seed: UInt64) throws -> Database {
    try TaskDisk.open(
      disk, seed: seed,
      DatabaseDefinition {
        CollectionDefinition("orders", Int.self, key: String.self)
        CollectionDefinition("effects", Int.self, key: String.self)
        CollectionDefinition("slots", Int.self, key: Int.self)
        TaskStorage.handle
      })
  }

  /// Returns a scheduler whose handler counts the order of each note; some fail first, or are postponed.
  private static func scheduler(_ database: Database, _ clock: ManualSchedulerClock = ManualSchedulerClock()) throws
    -> TaskFixture
  {
    let fixture = try TaskFixture(database, rules: rules, workers: 4, clock: clock, maxCrashes: 0)
    try fixture.scheduler.register(Slot.self) { slot, context in
      try await context.complete(counting: slot.minute, in: "slots")
      return .done
    }
    try fixture.scheduler.schedule("minutes", "* * * * *", rules: ScheduleRules(missed: .all(max: 1_000))) { slot in
      Slot(minute: Int(slot.date.timeIntervalSince1970) / 60)
    }
    try fixture.handle { note, context in
      let number = Int(note.text) ?? 0
      if number % 5 == 1, context.failures == 0 { throw Broken() }
      if number % 7 == 2, context.attempt == 1, context.failures == 0, fixture.clock.continuousNow < .seconds(60) {
        return .snooze(for: .seconds(5))
      }
      try await context.complete(counting: note.text)
      return .done
    }
    return fixture
  }

  private static func queue(_ number: Int) -> QueueName { ["standard", "serial-1", "serial-2"][number % 3] }

  /// Runs the script, and returns an image of the disk before each of its operations.
  private static func record(seed: UInt64) async throws -> [Point] {
    let disk = CrashFileSystem(seed: seed)
    let database = try open(disk, seed: seed)
    let fixture = try scheduler(database)
    try await fixture.scheduler.start()
    let points = Mutex<[Point]>([])
    let guarantee = Mutex((process: 0, power: 0))
    let before = disk.operationCount
    disk.observe { _, capture in
      let (process, power) = guarantee.withLock { $0 }
      let wall = fixture.clock.wallNow
      points.withLock { $0.append(Point(crash: capture(), process: process, power: power, wall: wall)) }
    }
    var last: TaskID?
    for number in 1...orderCount {
      let isPower = number % 4 == 0
      last = try order(number, after: last, in: database, isPower ? .power : .process)
      guarantee.withLock { guarantee in
        guarantee.process = number
        if isPower { guarantee.power = number }
      }
      if number % 3 == 0 { await fixture.scheduler.advance(fixture.clock, by: .seconds(15)) }
    }
    for _ in 0..<20 { await fixture.scheduler.advance(fixture.clock, by: .seconds(10)) }
    disk.observe(nil)
    let count = disk.operationCount - before
    await fixture.scheduler.stop()
    try check(database, atLeast: orderCount)
    try Self.close(database)
    let images = points.withLock { $0 }
    #expect(images.count == count)
    return images
  }

  /// Enqueues an order. Some depend on the previous order, some share a limit key, and some are unique.
  private static func order(
    _ number: Int, after last: TaskID?, in database: Database, _ durability: StorageDurability
  ) throws -> TaskID {
    try database.write(durability: durability) { tx in
      try tx.set(number, key: "\(number)", in: "orders")
      var options = TaskOptions(queue: queue(number))
      if number % 11 == 0 { options.start = .after(.seconds(20)) }
      if number % 4 == 1, let last { options.dependsOn = [last] }
      if number % 5 == 2 { options.limitKey = "key \(number % 3)" }
      if number % 6 == 3 { options.unique = Uniqueness(key: "\(number)") }
      return try tx.enqueue(Note("\(number)"), options).id
    }
  }

  private static func close(_ database: Database) throws { try database.close() }

  private static func check(_ database: Database, atLeast count: Int) throws {
    try database.read { tx in
      let orders = try tx.keys(String.self, in: "orders")
      guard orders.count >= count else {
        throw ContractBroken("\(orders.count) orders are there, \(count) were promised")
      }
      for key in orders {
        let effect = try tx.object(Int.self, key: key, in: "effects") ?? 0
        guard effect == 1 else { throw ContractBroken("order \(key) was counted \(effect) times") }
      }
      let others = Set(try tx.keys(String.self, in: "effects")).subtracting(orders)
      guard others.isEmpty else { throw ContractBroken("effects of no order: \(others)") }
      let left = try tx.tasks.parts.live.count()
      guard left == 0 else { throw ContractBroken("\(left) rows of tasks are left") }
      for tag: UInt8 in [0x46, 0x55] {
        let rest = try tx.tasks.config.count(StorageRange(prefix: [tag]))
        guard rest == 0 else { throw ContractBroken("\(rest) rows 0x\(String(tag, radix: 16)) of config are left") }
      }
      let minutes = try tx.keys(Int.self, in: "slots")
      for minute in minutes {
        let effect = try tx.object(Int.self, key: minute, in: "slots") ?? 0
        guard effect == 1 else { throw ContractBroken("minute \(minute) was counted \(effect) times") }
      }
      if let first = minutes.min(), let last = minutes.max(), last - first + 1 != minutes.count {
        throw ContractBroken("minutes are missing: \(minutes)")
      }
      for name in try tx.taskQueues() {
        for state in TaskState.allCases where try tx.taskCount(in: name, state) != 0 {
          throw ContractBroken("\(name) counts \(try tx.taskCount(in: name, state)) tasks that are \(state)")
        }
      }
    }
  }

  @Test func `crash a to l: after a crash each committed task has its effect once, and leaves no rows`() async throws {
    var found: Set<Int> = []
    var foundMinutes: Set<Int> = []
    var crashes = 0
    for seed in 17..<17 + UInt64(TestScale.count(1)) {
      let points = try await Self.record(seed: seed)
      let stride = max(1, points.count / Self.pointLimit)
      for (index, point) in points.enumerated() where index.isMultiple(of: stride) {
        for policy in CrashPolicy.allCases {
          do {
            let (orders, minutes) = try await Self.trial(point, policy, seed: 31 &+ UInt64(index / stride))
            found.insert(orders)
            foundMinutes.insert(minutes)
            crashes += 1
          } catch {
            Issue.record(
              error, "seed \(seed), image \(index), \(point.crash.operation.map { "\($0)" } ?? ""), \(policy)")
            return
          }
        }
      }
    }
    print("crashes of tasks: \(crashes), \(found.count) numbers of orders")
    guard TestScale.isWhole else { return }
    #expect(crashes >= 200)
    #expect(found.count > 15 && foundMinutes.count > 3)
  }

  private static func trial(_ point: Point, _ policy: CrashPolicy, seed: UInt64) async throws
    -> (orders: Int, minutes: Int)
  {
    let disk = point.crash.image(seed: seed, policy: policy)
    let database = try open(disk, seed: seed)
    let clock = ManualSchedulerClock()
    // The wall clock continues, or begins again: no task waits longer than its delay, and no slot is enqueued twice.
    let continues = !seed.isMultiple(of: 2)
    if continues { clock.setWall(point.wall) }
    let fixture = try scheduler(database, clock)
    let (orders, minutes) = try fixture.read { (try $0.count(in: "orders"), try $0.count(in: "slots")) }
    try await fixture.scheduler.start()
    for _ in 0..<12 { await fixture.scheduler.advance(fixture.clock, by: .seconds(10)) }
    try check(database, atLeast: policy == .processKill ? point.process : point.power)
    // Identifiers must not be reused, and tasks continue to run.
    _ = try order(1_000, after: nil, in: database, .process)
    for _ in 0..<3 { await fixture.scheduler.advance(fixture.clock, by: .seconds(10)) }
    await fixture.scheduler.stop()
    try check(database, atLeast: orders + 1)
    let later = try fixture.read { try $0.count(in: "slots") }
    if continues, later < minutes + 2 { throw ContractBroken("\(later) minutes after \(minutes): two passed") }
    try close(database)
    return (orders, minutes)
  }
}
