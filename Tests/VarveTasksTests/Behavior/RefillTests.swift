import EngineTestSupport
import Synchronization
import Testing
import Varve
import VarveTestSupport
import VarveTesting

@_spi(Extensions) @testable import VarveTasks

/// Tests of the entries that the refills of a subqueue pass on disk, including those of tasks that have ended. A refill
/// begins at the floor of the subqueue, so that it meets none of them.
///
///     VARVE_TEST_SCALE=50 ./tools/test --filter RefillTests   # 200,000 tasks that have ended
struct RefillTests {
  /// A range of a subqueue that was read, up to the last row that was returned.
  private struct ReadRange {
    let lower: [UInt8]
    /// The last row that was returned, or the end of the range if there was none after it.
    let last: [UInt8]
    let count: Int
  }

  /// A storage that records the ranges of subqueues which are read.
  private final class RangeBackend: ObservedBackend, @unchecked Sendable {
    // Sendable: the list is guarded by its mutex.

    private let ranges = Mutex<[ReadRange]>([])

    func takeRanges() -> [ReadRange] {
      ranges.withLock { ranges in
        defer { ranges = [] }
        return ranges
      }
    }

    override func didRead(_ page: StoragePage, of range: StorageRange, in family: StorageFamily, isReverse: Bool) {
      guard range.lower.first == TaskPosition.Kind.queued.rawValue, !isReverse else { return }
      let end = page.isLast || page.count == 0 ? range.upper ?? [0xFF] : page.key(page.count - 1)
      let read = ReadRange(lower: range.lower, last: end, count: page.count)
      ranges.withLock { $0.append(read) }
    }
  }

  /// Returns the keys of all queued tasks.
  private static func keys(_ fixture: TaskFixture) throws -> [[UInt8]] {
    try fixture.read { tx in
      var keys: [[UInt8]] = []
      var cursor = try tx.tasks.parts.live.cursor(
        StorageRange(prefix: [TaskPosition.Kind.queued.rawValue]), keysOnly: true)
      while let (key, _) = try cursor.next() { keys.append(key) }
      return keys
    }
  }

  /// Returns for each range the number of tasks in it that have ended. `keys` are those of all tasks, in order.
  private static func deadCounts(_ ranges: [ReadRange], _ keys: [[UInt8]]) -> [Int] {
    /// Returns the number of keys before a key.
    func count(before key: [UInt8]) -> Int {
      var (low, high) = (0, keys.count)
      while low < high {
        let middle = (low + high) / 2
        if QueuedTask.precedes(keys[middle], key) { low = middle + 1 } else { high = middle }
      }
      return low
    }
    return ranges.map { range in count(before: range.last + [0]) - count(before: range.lower) - range.count }
  }

  private static func enqueue(_ count: Int, _ fixture: TaskFixture) throws {
    try fixture.write { tx in for number in 0..<count { try tx.enqueue(Note("\(number)")) } }
  }

  /// Runs tasks in two rounds, between which the subqueue is drained. Returns the number of tasks that had ended in
  /// each range which was read.
  private static func refills(of count: Int, isSerial: Bool) async throws -> [Int] {
    let backend = RangeBackend(try EngineBackend.inMemory())
    let fixture = try TaskFixture(over: backend, rules: .all(isSerial: isSerial), workers: 4)
    try fixture.handle()
    try await fixture.scheduler.start()
    var dead: [Int] = []
    var keys: [[UInt8]] = []
    for _ in 0..<2 {
      try fixture.write { tx in try tx.pause("default") }
      try enqueue(count, fixture)
      keys += try Self.keys(fixture)
      _ = backend.takeRanges()
      try fixture.write { tx in try tx.resume("default") }
      await fixture.scheduler.waitUntilIdle()
      #expect(fixture.lines.take().count == count)
      dead += deadCounts(backend.takeRanges(), keys)
      #expect(try fixture.rowCount() == 0)
    }
    try await fixture.close()
    return dead
  }

  @Test(arguments: [false, true])
  func `layout 2, 3 and 8: a refill passes few tasks that have ended, however many there are, also after draining`(
    isSerial: Bool
  ) async throws {
    let count = TestScale.count(4_000)
    let (few, many) = (
      try await Self.refills(of: count, isSerial: isSerial), try await Self.refills(of: 2 * count, isSerial: isSerial)
    )
    print(
      "\(few.count) reads have passed \(few.max() ?? 0) ended tasks at most, "
        + "and \(many.count) with twice as many tasks \(many.max() ?? 0)")
    // The first tasks of a commit are in memory, and the others are read in portions.
    let rest = max(0, count - Subqueue.entryMaximum)
    #expect(few.count >= 2 * rest / Subqueue.entryMaximum)
    #expect(few.allSatisfy { $0 <= Subqueue.entryMaximum })
    #expect(many.allSatisfy { $0 <= Subqueue.entryMaximum })
  }
}
