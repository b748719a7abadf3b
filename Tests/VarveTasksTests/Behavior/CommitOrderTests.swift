import EngineTestSupport
import Foundation
import Synchronization
import Testing
import Varve
import VarveTestSupport
import VarveTesting

@_spi(Extensions) @testable import VarveTasks

/// Tests of tasks whose transactions commit in another order than the one in which they enqueued them. The order of
/// tasks is that of the stamps, which tasks receive at their commits.
///
///     VARVE_TEST_SCALE=20 ./tools/test --filter CommitOrderTests
struct CommitOrderTests {
  /// Returns the stamps of some queued tasks.
  private static func stamps(_ ids: [TaskID], _ fixture: TaskFixture) throws -> [UInt64] {
    try fixture.read { tx in
      try ids.map { id in try #require(try tx.tasks.parts.position(of: id)).position.stamp }
    }
  }

  @Test(arguments: [false, true])
  func `a task that was enqueued first still runs if it is committed after a later one has run`(
    isSerial: Bool
  ) async throws {
    let fixture = try TaskFixture(rules: .all(isSerial: isSerial))
    try fixture.handle()
    try await fixture.scheduler.start()
    // The queue exists from now on, so neither transaction reads anything that the other one changes.
    try fixture.enqueue("known")
    await fixture.scheduler.waitUntilIdle()
    let ids = Mutex<[TaskID]>([])
    let open = await OpenTransaction(fixture, isConcurrent: true) { tx in
      let id = try tx.enqueue(Note("first")).id
      ids.withLock { $0.append(id) }
    }
    let second = try fixture.enqueue("second")
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take() == ["known", "second"])
    try await open.finish()
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take() == ["first"])
    // The transaction has run once, so the task that ran last has the smaller id.
    let first = ids.withLock { $0 }
    #expect(first.count == 1 && first.allSatisfy { $0 < second })
    #expect(try fixture.rowCount() == 0)
    await fixture.scheduler.stop()
  }

  /// The ids of tasks, by the transactions that enqueue them.
  private final class EnqueuedTasks: Sendable {
    private let ids = Mutex<[Int: [TaskID]]>([:])

    subscript(number: Int) -> [TaskID] { ids.withLock { $0[number] ?? [] } }
    func set(_ own: [TaskID], of number: Int) { ids.withLock { $0[number] = own } }
  }

  /// Enqueues tasks in several transactions that are all open before the first of them commits, and lets them commit in
  /// a given order. Returns the ids of the tasks by transaction.
  private static func enqueueInterleaved(_ order: [Int], _ fixture: TaskFixture) async throws -> [[TaskID]] {
    let ids = EnqueuedTasks()
    var open: [OpenTransaction] = []
    for number in order.indices {
      let next = await OpenTransaction(fixture, isConcurrent: true) { tx in
        let own = try (0..<3).map { try tx.enqueue(Note("\(number) \($0)")).id }
        ids.set(own, of: number)
      }
      open.append(next)
    }
    for number in order { try await open[number].finish() }
    return order.indices.map { ids[$0] }
  }

  @Test(arguments: [false, true], [false, true])
  func `the tasks of interleaved transactions run in the order of their stamps, and each runs once`(
    isSerial: Bool, isStartedLater: Bool
  ) async throws {
    let order = [4, 1, 5, 0, 3, 2]
    let fixture = try TaskFixture(rules: .all(isSerial: isSerial))
    try fixture.handle()
    try fixture.write { tx in try tx.pause("default") }
    if !isStartedLater { try await fixture.scheduler.start() }
    let ids = try await Self.enqueueInterleaved(order, fixture)
    // The transactions have enqueued in the order of their numbers, and have committed in another one.
    #expect(ids.flatMap { $0 } == ids.flatMap { $0 }.sorted() && ids.allSatisfy { $0.count == 3 })
    let stamps = try ids.map { own in try Self.stamps(own, fixture) }
    #expect(stamps.allSatisfy { Set($0).count == 1 })
    let heads = stamps.map { $0[0] }
    #expect(order == heads.indices.sorted { heads[$0] < heads[$1] })
    if isStartedLater { try await fixture.scheduler.start() }
    try fixture.write { tx in try tx.resume("default") }
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take() == order.flatMap { number in (0..<3).map { "\(number) \($0)" } })
    #expect(try fixture.rowCount() == 0)
    await fixture.scheduler.stop()
  }

  @Test(arguments: [false, true])
  func `tasks that commit while another one runs come after it, in the order of their stamps`(
    isSerial: Bool
  ) async throws {
    let order = [2, 0, 1]
    let fixture = try TaskFixture(rules: .all(isSerial: isSerial))
    let (begun, mayEnd) = (AsyncFlag(), AsyncFlag())
    try fixture.handle { note, _ in
      if note.text == "runs" {
        begun.set()
        await mayEnd.wait()
      }
      return .done
    }
    try await fixture.scheduler.start()
    try fixture.enqueue("runs")
    await begun.wait()
    _ = try await Self.enqueueInterleaved(order, fixture)
    mayEnd.set()
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take() == ["runs"] + order.flatMap { number in (0..<3).map { "\(number) \($0)" } })
    await fixture.scheduler.stop()
  }

  @Test(arguments: [false, true])
  func `tasks of many concurrent writers run in the order of their stamps while the writers continue`(
    isSerial: Bool
  ) async throws {
    for seed in 0..<UInt64(TestScale.count(3)) {
      let fixture = try TaskFixture(rules: .all(isSerial: isSerial))
      let ran = Mutex<[(stamp: UInt64, ordinal: UInt32)]>([])
      try fixture.handle { _, context in
        let position = context.run.record.position
        ran.withLock { $0.append((position.stamp, position.ordinal)) }
        return .done
      }
      try await fixture.scheduler.start()
      let writers = 4
      let counts = (0..<writers).map { writer in
        var random = SeededRandom(seed: seed << 8 | UInt64(writer))
        return (0..<40).map { _ in 1 + random.below(4) }
      }
      try await withThrowingTaskGroup(of: Void.self) { group in
        for own in counts {
          group.addTask {
            for count in own {
              try await fixture.database.writeConcurrently { tx in
                for number in 0..<count {
                  try tx.enqueue(Note("\(number)"))
                  // Other transactions enqueue and commit meanwhile.
                  sched_yield()
                }
              }
            }
          }
        }
        try await group.waitForAll()
      }
      await fixture.scheduler.waitUntilIdle()
      let found = ran.withLock { $0 }
      #expect(found.count == counts.joined().reduce(0, +), "seed \(seed)")
      let isOrdered = zip(found, found.dropFirst()).allSatisfy { $0 < $1 }
      #expect(isOrdered, "seed \(seed)")
      #expect(try fixture.rowCount() == 0, "seed \(seed)")
      await fixture.scheduler.stop()
    }
  }
}
