import Testing

@testable import EngineFixtures
@testable import VarveEngine

struct ArenaTests {
  private func fill(_ memTable: MemTable, _ count: Int) {
    for index in 0..<count {
      memTable.insert(
        MemTableModel.Entry(key: KeyFamily.digits(index), trailer: UInt64(index) << 8 | 1, value: [1, 2, 3]))
    }
  }

  @Test func `a memtable with one record takes one page, whatever its capacity`() {
    for capacity in [65_536, 64 << 20] {
      let memTable = MemTable(capacity: capacity)
      #expect(memTable.memoryUsage == 0)
      fill(memTable, 1)
      #expect(memTable.memoryUsage == 4096)
    }
  }

  @Test func `memory grows by pages at both ends`() {
    let memTable = MemTable(capacity: 1 << 20)
    fill(memTable, 2_000)
    #expect(memTable.memoryUsage >= memTable.usedBytes)
    #expect(memTable.memoryUsage <= memTable.usedBytes + 3 * 4096)
  }

  @Test func `a retired arena serves the next memtable, which begins empty`() {
    let pool = ArenaPool(limit: 10 << 20)
    var base: UInt = 0
    var touched = 0
    do {
      let memTable = MemTable(capacity: 1 << 20, pool: pool)
      fill(memTable, 3_000)
      base = memTable.arenaAddress
      touched = memTable.memoryUsage
      #expect(pool.retainedBytes == 0)
    }
    #expect(pool.retainedBytes == touched)
    let next = MemTable(capacity: 1 << 20, pool: pool)
    #expect(next.arenaAddress == base)
    #expect(pool.retainedBytes == 0)
    #expect(next.memoryUsage == touched)
    #expect(next.isEmpty && next.usedBytes == 0 && next.get(KeyFamily.digits(5), at: 1_000) == nil)
    fill(next, 100)
    next.checkInvariants()
    #expect(next.entryCount == 100 && next.memoryUsage == touched)
    #expect(next.get(KeyFamily.digits(100), at: 1_000_000) == nil)
  }

  @Test func `an arena of another size is not reused`() {
    let pool = ArenaPool(limit: 10 << 20)
    do { fill(MemTable(capacity: 1 << 20, pool: pool), 10) }
    let retained = pool.retainedBytes
    let other = MemTable(capacity: 2 << 20, pool: pool)
    #expect(pool.retainedBytes == retained && other.memoryUsage == 0)
  }

  @Test func `the pool keeps no more than its limit`() {
    let pool = ArenaPool(limit: 20_000)
    do {
      let first = MemTable(capacity: 1 << 20, pool: pool)
      let second = MemTable(capacity: 1 << 20, pool: pool)
      fill(first, 200)
      fill(second, 200)
    }
    #expect(pool.retainedBytes > 0 && pool.retainedBytes <= 20_000)
    pool.setLimit(0)
    #expect(pool.retainedBytes == 0)
  }

  @Test func `memory that is populated while a writer inserts is counted, and loses no entry`() {
    let memTable = MemTable(capacity: 16 << 20)
    fill(memTable, 20_000)
    let used = memTable.usedBytes
    let wanted = 4 * used
    let thread = EngineThread(name: "populate") { memTable.populate(upTo: wanted) }
    for index in 20_000..<30_000 {
      memTable.insert(
        MemTableModel.Entry(key: KeyFamily.digits(index), trailer: UInt64(index) << 8 | 1, value: [1, 2, 3]))
    }
    thread.join()
    #expect(memTable.memoryUsage >= 4 * used - 8192)
    memTable.checkInvariants()
    for index in 0..<30_000 where memTable.get(KeyFamily.digits(index), at: 1_000_000) == nil {
      Issue.record("key \(index) is gone")
    }
    #expect(memTable.entryCount == 30_000)
    memTable.populate(upTo: .max)
    #expect(memTable.memoryUsage <= MemTable.reservedSize(capacity: 16 << 20))
  }
}
