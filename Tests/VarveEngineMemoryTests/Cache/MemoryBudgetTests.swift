import Synchronization
import Testing

@testable import VarveEngine

struct MemoryBudgetTests {
  private let mebibyte = 1 << 20

  private final class Requests: Sendable {
    let number = Atomic<Int>(0)
  }

  @Test func `the cache gets seven eighths of what the others leave`() {
    let cache = BlockCache(capacity: 0)
    let budget = MemoryBudget(limit: 160 * mebibyte, cacheFloor: 8 * mebibyte, cache: cache)
    #expect(cache.capacity == 140 * mebibyte)
    budget.charge(.memTables, 48 * mebibyte)
    #expect(cache.capacity == 98 * mebibyte)
    budget.charge(.log, 16 * mebibyte)
    budget.charge(.compaction, 8 * mebibyte)
    #expect(cache.capacity == 77 * mebibyte)
    budget.charge(.memTables, -32 * mebibyte)
    #expect(cache.capacity == 105 * mebibyte)
    #expect(budget.used(.memTables) == 16 * mebibyte)
    #expect(budget.used(.log) == 16 * mebibyte)
    #expect(budget.used == 40 * mebibyte)
  }

  @Test func `with a handler that lets it grow, the cache shrinks at once and grows in steps`() {
    let cache = BlockCache(capacity: 0)
    let budget = MemoryBudget(limit: 160 * mebibyte, cacheFloor: 8 * mebibyte, cache: cache)
    let requests = Requests()
    budget.onRoom { requests.number.add(1, ordering: .relaxed) }
    budget.charge(.memTables, 96 * mebibyte)
    #expect(cache.capacity == 56 * mebibyte)
    #expect(requests.number.load(ordering: .relaxed) == 0)
    budget.charge(.memTables, -64 * mebibyte)
    #expect(cache.capacity == 56 * mebibyte)
    #expect(requests.number.load(ordering: .relaxed) == 1)
    // The cache does not take the bytes that the other users needed recently: they may need them again.
    for _ in 0..<16 {
      #expect(budget.growCache())
      #expect(cache.capacity == 56 * mebibyte)
    }
    #expect(budget.growCache())
    #expect(cache.capacity == 63 * mebibyte)
    budget.charge(.memTables, 16 * mebibyte)
    #expect(cache.capacity == 63 * mebibyte)
    budget.charge(.memTables, 48 * mebibyte)
    #expect(cache.capacity == 56 * mebibyte)
    budget.charge(.memTables, -96 * mebibyte)
    var steps = 0
    while budget.growCache() { steps += 1 }
    #expect(cache.capacity == 140 * mebibyte)
    #expect((31..<56).contains(steps), "\(steps)")
    // A new limit takes effect at once.
    budget.charge(.memTables, 80 * mebibyte)
    budget.charge(.memTables, -80 * mebibyte)
    #expect(cache.capacity == 70 * mebibyte)
    budget.setLimit(80 * mebibyte, cacheFloor: 0)
    #expect(cache.capacity == 70 * mebibyte)
    budget.setLimit(96 * mebibyte, cacheFloor: 0)
    #expect(cache.capacity == 84 * mebibyte)
  }

  @Test func `the cache keeps its floor`() {
    let cache = BlockCache(capacity: 0)
    let budget = MemoryBudget(limit: 100 * mebibyte, cacheFloor: 8 * mebibyte, cache: cache)
    budget.charge(.memTables, 300 * mebibyte)
    #expect(cache.capacity == 8 * mebibyte)
    budget.charge(.memTables, -240 * mebibyte)
    #expect(cache.capacity == 35 * mebibyte)
  }

  @Test func `small charges resize the cache once a mebibyte`() {
    let cache = BlockCache(capacity: 0)
    let budget = MemoryBudget(limit: 80 * mebibyte, cacheFloor: 0, cache: cache)
    for _ in 0..<1_023 { budget.charge(.openTables, 1_024) }
    #expect(cache.capacity == 70 * mebibyte)
    budget.charge(.openTables, 1_024)
    #expect(cache.capacity == 79 * mebibyte / 8 * 7)
    for _ in 0..<1_024 { budget.charge(.openTables, -1_024) }
    #expect(cache.capacity == 70 * mebibyte)
  }

  @Test func `charges evict blocks`() throws {
    let cache = BlockCache(capacity: 0)
    let budget = MemoryBudget(limit: 10 * mebibyte, cacheFloor: mebibyte, cache: cache)
    for number in 0..<100 {
      _ = try cache.insert(BlockKey(tableID: 1, offset: UInt64(number)), BlockMemory.allocate(64 << 10))
    }
    #expect(cache.usedBytes > 6 * mebibyte)
    budget.charge(.memTables, 8 * mebibyte)
    #expect(cache.usedBytes <= 2 * mebibyte)
    #expect(budget.used <= budget.limit)
  }

  @Test func `a new limit and floor resize the cache at once`() {
    let cache = BlockCache(capacity: 0)
    let budget = MemoryBudget(limit: 100 * mebibyte, cacheFloor: 0, cache: cache)
    budget.charge(.log, 10 * mebibyte)
    budget.setLimit(50 * mebibyte, cacheFloor: 45 * mebibyte)
    #expect(cache.capacity == 45 * mebibyte)
    #expect(budget.limit == 50 * mebibyte)
    #expect(budget.cacheFloor == 45 * mebibyte)
  }

  @Test func `the overview names every category`() {
    let cache = BlockCache(capacity: 0)
    let budget = MemoryBudget(limit: 4_000_000, cacheFloor: 1_000, cache: cache)
    budget.charge(.log, 2_000_000)
    budget.charge(.compaction, 5)
    #expect(
      budget.overview == """
        memory budget: 2000005 of 4000000 bytes
          memtables: 0
          log: 2000000
          open tables: 0
          compaction: 5
          other: 0
          block cache: 0 of 1750000, at least 1000

        """)
  }
}
