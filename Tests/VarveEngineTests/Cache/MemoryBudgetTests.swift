import Testing

@testable import VarveEngine

struct MemoryBudgetTests {
  private let mebibyte = 1 << 20

  @Test func `the cache gets what the others leave`() {
    let cache = BlockCache(capacity: 0)
    let budget = MemoryBudget(limit: 100 * mebibyte, cacheFloor: 8 * mebibyte, cache: cache)
    #expect(cache.capacity == 100 * mebibyte)
    budget.charge(.memTables, 40 * mebibyte)
    #expect(cache.capacity == 60 * mebibyte)
    budget.charge(.log, 16 * mebibyte)
    budget.charge(.compaction, 4 * mebibyte)
    #expect(cache.capacity == 40 * mebibyte)
    budget.charge(.memTables, -30 * mebibyte)
    #expect(cache.capacity == 70 * mebibyte)
    #expect(budget.used(.memTables) == 10 * mebibyte)
    #expect(budget.used(.log) == 16 * mebibyte)
    #expect(budget.used == 30 * mebibyte)
  }

  @Test func `the cache keeps its floor`() {
    let cache = BlockCache(capacity: 0)
    let budget = MemoryBudget(limit: 100 * mebibyte, cacheFloor: 8 * mebibyte, cache: cache)
    budget.charge(.memTables, 300 * mebibyte)
    #expect(cache.capacity == 8 * mebibyte)
    budget.charge(.memTables, -250 * mebibyte)
    #expect(cache.capacity == 50 * mebibyte)
  }

  @Test func `small charges resize the cache once a mebibyte`() {
    let cache = BlockCache(capacity: 0)
    let budget = MemoryBudget(limit: 100 * mebibyte, cacheFloor: 0, cache: cache)
    for _ in 0..<1_023 { budget.charge(.openTables, 1_024) }
    #expect(cache.capacity == 100 * mebibyte)
    budget.charge(.openTables, 1_024)
    #expect(cache.capacity == 99 * mebibyte)
    for _ in 0..<1_024 { budget.charge(.openTables, -1_024) }
    #expect(cache.capacity == 100 * mebibyte)
  }

  @Test func `charges evict blocks`() {
    let cache = BlockCache(capacity: 0)
    let budget = MemoryBudget(limit: 10 * mebibyte, cacheFloor: mebibyte, cache: cache)
    for number in 0..<100 {
      _ = cache.insert(BlockKey(tableID: 1, offset: UInt64(number)), BlockMemory.allocate(64 << 10))
    }
    #expect(cache.usedBytes > 6 * mebibyte)
    budget.charge(.memTables, 8 * mebibyte)
    #expect(cache.usedBytes <= 2 * mebibyte)
    #expect(budget.used <= budget.limit)
  }

  @Test func `the limit changes while everything is open`() {
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
          block cache: 0 of 2000000, at least 1000

        """)
  }
}
