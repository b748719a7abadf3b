import EngineTestSupport
import Synchronization
import Testing

@testable import EngineFixtures
@testable import VarveEngine

/// Tests of the cache under many real threads: run this suite with the thread sanitizer, too.
struct BlockCacheThreadTests {
  private func runThreads(_ count: Int, _ body: @escaping @Sendable (Int) -> Void) {
    let threads = (0..<count).map { number in EngineThread(name: "cache \(number)") { body(number) } }
    for thread in threads { thread.join() }
  }

  @Test(arguments: [(60_000, 300), (400_000, 300), (3_000, 40)])
  func `pinned blocks stay as they are under eight threads`(capacity: Int, keyCount: Int) {
    let cache = BlockCache(capacity: capacity)
    let operations = TestScale.atMost(20_000)
    let counts = Counts()
    runThreads(8) { thread in
      var random = SeededRandom(seed: UInt64(thread) &* 977 &+ UInt64(capacity))
      var held: BlockPin?
      var heldKey = BlockKey(tableID: 0, offset: 0)
      for _ in 0..<operations {
        let key = BlockKey(tableID: UInt64(random.below(2)), offset: UInt64(random.below(keyCount)))
        if let pin = cache.lookup(key) {
          counts.hits.add(1, ordering: .relaxed)
          if !TestBlock.isIntact(pin.view, key) { counts.faults.add(1, ordering: .relaxed) }
        } else {
          let size = 100 + Int(key.offset)
          let pin = cache.insert(key, TestBlock.memory(key, size), priority: random.oneIn(20) ? .high : .normal)
          if pin.view.count != size || !TestBlock.isIntact(pin.view, key) {
            counts.faults.add(1, ordering: .relaxed)
          }
          if random.oneIn(4) {
            if let view = held?.view, !TestBlock.isIntact(view, heldKey) {
              counts.faults.add(1, ordering: .relaxed)
            }
            held = .some(consume pin)
            heldKey = key
          }
        }
        if thread == 0, random.oneIn(500) { cache.setCapacity(random.below(2 * capacity)) }
        if thread == 1, random.oneIn(500) { cache.erase(tableID: 0) }
      }
      if let view = held?.view, !TestBlock.isIntact(view, heldKey) { counts.faults.add(1, ordering: .relaxed) }
    }
    #expect(counts.faults.load(ordering: .relaxed) == 0)
    #expect(counts.hits.load(ordering: .relaxed) > operations / 20)
    cache.setCapacity(capacity)
    #expect(cache.usedBytes <= capacity)
    let contents = cache.contents
    #expect(contents.bytes == cache.usedBytes, "all pins are gone: nothing stands alone")
    cache.setCapacity(0)
    #expect(cache.usedBytes == 0)
  }

  @Test func `charges from many threads leave the cache its share of the remaining budget`() {
    let cache = BlockCache(capacity: 0)
    let budget = MemoryBudget(limit: 1 << 30, cacheFloor: 1 << 20, cache: cache)
    runThreads(4) { thread in
      var random = SeededRandom(seed: UInt64(thread))
      let category = MemoryBudget.Category.allCases[thread]
      var charged = 0
      for _ in 0..<TestScale.atMost(20_000) {
        let bytes = random.oneIn(2) || charged == 0 ? random.below(200_000) : -random.below(charged + 1)
        budget.charge(category, bytes)
        charged += bytes
      }
      budget.charge(category, (thread + 1) * 10_000_000 - charged)
    }
    #expect(abs(cache.capacity - ((1 << 30) - 100_000_000) / 8 * 7) < MemoryBudget.stepSize(limit: 1 << 30))
    #expect(budget.used(.log) == 20_000_000)
  }

  private final class Counts: Sendable {
    let faults = Atomic<Int>(0)
    let hits = Atomic<Int>(0)
  }
}
