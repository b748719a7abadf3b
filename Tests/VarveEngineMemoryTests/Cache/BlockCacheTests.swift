import EngineTestSupport
import Testing

@testable import EngineFixtures
@testable import VarveEngine

struct BlockCacheTests {
  private func key(_ number: Int, table: UInt64 = 7) -> BlockKey {
    BlockKey(tableID: table, offset: UInt64(number) * 4_096)
  }

  /// Looks a block up, and inserts it on a miss. Returns true on a hit.
  @discardableResult
  private func touch(_ cache: BlockCache, _ key: BlockKey, size: Int, priority: BlockPriority = .normal) -> Bool {
    if let pin = cache.lookup(key) {
      #expect(TestBlock.isIntact(pin.view, key))
      return true
    }
    let pin = cache.insert(key, TestBlock.memory(key, size), priority: priority)
    #expect(TestBlock.isIntact(pin.view, key))
    return false
  }

  /// Checks a pin, because `#expect` cannot decompose an expression of a noncopyable value.
  private func expect(_ pin: borrowing BlockPin, isCached: Bool, at location: SourceLocation = #_sourceLocation) {
    let found = pin.isCached
    #expect(found == isCached, sourceLocation: location)
  }

  private func contains(_ cache: BlockCache, _ key: BlockKey) -> Bool { cache.lookup(key) != nil }

  @Test func `a slot fills one cache line`() {
    #expect(MemoryLayout<CacheSlot.Record>.stride == CacheSlot.size)
  }

  @Test func `an inserted block is found`() {
    let cache = BlockCache(capacity: 1 << 20)
    for number in 0..<100 { #expect(!touch(cache, key(number), size: number)) }
    for number in 0..<100 {
      let count = cache.lookup(key(number))?.view.count
      #expect(count == number)
    }
    #expect(!contains(cache, key(100)))
    #expect(!contains(cache, key(1, table: 8)))
    #expect(cache.usedBytes == (0..<100).reduce(0) { $0 + $1 + CacheSlot.overhead })
    let statistics = cache.statistics
    #expect(statistics.hitCount == 100)
    #expect(statistics.missCount == 102)
    #expect(statistics.insertedCount == 100)
    #expect(statistics.insertedBytes == 4_950)
    #expect(statistics.evictedCount == 0)
  }

  @Test func `the second block of a key is freed and the first one pinned`() {
    let cache = BlockCache(capacity: 1 << 20)
    let first = cache.insert(key(1), TestBlock.memory(key(1), 100))
    let second = cache.insert(key(1), TestBlock.memory(key(1), 200))
    #expect(second.view.count == 100)
    #expect(unsafe first.view.base == second.view.base)
    #expect(cache.contents.blockCount == 1)
    #expect(cache.usedBytes == 100 + CacheSlot.overhead)
  }

  @Test func `a pinned block outlives its eviction by pressure`() {
    let cache = BlockCache(capacity: 100_000)
    let pin = cache.insert(key(0), TestBlock.memory(key(0), 5_000))
    for number in 1..<1_000 { touch(cache, key(number), size: 5_000) }
    #expect(TestBlock.isIntact(pin.view, key(0)))
    expect(pin, isCached: true)
    #expect(contains(cache, key(0)))
    #expect(cache.usedBytes <= 100_000)
    #expect(cache.usedBytes > 80_000)
  }

  @Test func `a block that the cache can't keep belongs to its pin alone`() {
    let cache = BlockCache(capacity: 10_000)
    do {
      let large = cache.insert(key(0), TestBlock.memory(key(0), 6_000))
      expect(large, isCached: false)
      #expect(TestBlock.isIntact(large.view, key(0)))
      #expect(cache.usedBytes == 6_000 + CacheSlot.overhead)
      #expect(!contains(cache, key(0)))
    }
    #expect(cache.usedBytes == 0)
    // An index block may take the whole cache.
    do {
      let index = cache.insert(key(1), TestBlock.memory(key(1), 9_000), priority: .high)
      expect(index, isCached: true)
      // While it is pinned, there is no room for any other block.
      let other = cache.insert(key(2), TestBlock.memory(key(2), 3_000))
      expect(other, isCached: false)
      #expect(TestBlock.isIntact(other.view, key(2)))
      #expect(TestBlock.isIntact(index.view, key(1)))
    }
    #expect(cache.usedBytes == 9_000 + CacheSlot.overhead)
    #expect(cache.statistics.refusedCount == 2)
  }

  @Test func `a cache of no bytes keeps nothing`() {
    let cache = BlockCache(capacity: 0)
    for number in 0..<10 { #expect(!touch(cache, key(0), size: number)) }
    #expect(cache.usedBytes == 0)
  }

  @Test func `a pin that owns its block alone keeps the cache alive`() {
    weak var weakCache: BlockCache?
    var pin: BlockPin?
    do {
      let cache = BlockCache(capacity: 0)
      weakCache = cache
      pin = cache.insert(key(3), TestBlock.memory(key(3), 777))
    }
    #expect(weakCache != nil)
    if let view = pin?.view { #expect(TestBlock.isIntact(view, key(3))) }
    pin = nil
    #expect(weakCache == nil)
  }

  @Test func `a pin can own memory that was never in a cache`() {
    let pin = BlockPin(owning: TestBlock.memory(key(5), 1_000))
    #expect(TestBlock.isIntact(pin.view, key(5)))
    expect(pin, isCached: false)
  }

  @Test func `pins live in properties of structs and classes`() {
    struct Holder: ~Copyable { var pin: BlockPin }
    final class Reader {
      var pin: BlockPin?
      init(_ pin: consuming BlockPin) { self.pin = consume pin }
    }
    let cache = BlockCache(capacity: 1 << 20)
    var holder = Holder(pin: cache.insert(key(1), TestBlock.memory(key(1), 10)))
    holder.pin = cache.insert(key(2), TestBlock.memory(key(2), 20))
    #expect(holder.pin.view.count == 20)
    let reader = Reader(cache.insert(key(3), TestBlock.memory(key(3), 30)))
    let count = reader.pin?.view.count
    #expect(count == 30)
    reader.pin = nil
    // Only the second block is still pinned, by the holder.
    cache.setCapacity(0)
    #expect(cache.contents.blockCount == 1)
    #expect(contains(cache, key(2)))
  }

  @Test func `memory is aligned as asked`() throws {
    for alignment in [16, 64, 4_096] {
      for count in [0, 1, 100, 5_000, 1 << 20] {
        let memory = try BlockMemory.allocate(count, alignment: alignment)
        #expect(unsafe UInt(bitPattern: memory.base) % UInt(alignment) == 0)
        #expect(memory.count == count)
      }
    }
  }

  @Test func `a smaller capacity takes effect at once`() {
    let cache = BlockCache(capacity: 1 << 20)
    for number in 0..<300 { touch(cache, key(number), size: 3_000) }
    for number in 0..<300 { touch(cache, key(number), size: 3_000) }
    #expect(cache.contents.blockCount == 300)
    for capacity in [500_000, 100_000, 4_000, 0] {
      cache.setCapacity(capacity)
      #expect(cache.usedBytes <= capacity)
      #expect(cache.usedBytes > capacity - 2 * (3_000 + CacheSlot.overhead))
      #expect(cache.contents.bytes == cache.usedBytes)
    }
    cache.trimIfShrunk()
    cache.setCapacity(1 << 20)
    for number in 0..<300 { touch(cache, key(number), size: 3_000) }
    #expect(cache.contents.blockCount == 300)
  }

  @Test func `large blocks are kept and freed like small ones`() {
    let cache = BlockCache(capacity: 20 << 20)
    for number in 0..<300 {
      touch(cache, key(number), size: BlockMemory.mappedSizeMinimum - 2 + number % 5)
      if number == 200 { cache.setCapacity(4 << 20) }
    }
    cache.setCapacity(0)
    cache.trimIfShrunk()
    #expect(cache.usedBytes == 0)
    #expect(cache.statistics.evictedCount == 300)
  }

  @Test func `the blocks of an erased table are not found and their bytes are given back`() {
    let cache = BlockCache(capacity: 1 << 20)
    for number in 0..<100 {
      touch(cache, key(number, table: 1), size: 1_000)
      touch(cache, key(number, table: 2), size: 1_000)
    }
    do {
      let pin = cache.lookup(key(50, table: 1))
      cache.erase(tableID: 1)
      let view = pin?.view
      #expect(view.map { TestBlock.isIntact($0, key(50, table: 1)) } == true)
      #expect(!contains(cache, key(50, table: 1)))
      #expect(cache.contents.blockCount == 101)
      // The key can be used for a new block while the old one is still pinned.
      touch(cache, key(50, table: 1), size: 10)
      #expect(contains(cache, key(50, table: 1)))
    }
    for number in 0..<100 where number != 50 { #expect(!contains(cache, key(number, table: 1))) }
    for number in 0..<100 { #expect(contains(cache, key(number, table: 2))) }
    cache.erase(tableID: 1)
    #expect(cache.usedBytes == 100 * (1_000 + CacheSlot.overhead))
  }

  @Test func `a scan does not empty the cache`() {
    let cache = BlockCache(capacity: 4_000 * (1_000 + CacheSlot.overhead))
    for _ in 0..<3 { for number in 0..<3_000 { touch(cache, key(number), size: 1_000) } }
    for number in 100_000..<140_000 { touch(cache, key(number), size: 1_000) }
    let kept = (0..<3_000).count { contains(cache, key($0)) }
    #expect(kept > 2_900, "\(kept) of 3000 after a scan of ten times the cache")
  }

  @Test func `index blocks stay cached while many data blocks are read once`() {
    let cache = BlockCache(capacity: 1_000 * (1_000 + CacheSlot.overhead))
    for number in 0..<100 { touch(cache, key(number), size: 1_000, priority: .high) }
    for number in 1_000..<20_000 { touch(cache, key(number), size: 1_000) }
    #expect((0..<100).count { contains(cache, key($0)) } == 100)
  }

  @Test func `random reads of far more data than fits keep index and filter blocks cached`() {
    // The sizes are those of a database of 120,000 blocks of 4 KB, with an index and filters of 5 MB, and a cache of
    // 6 MB.
    var random = SeededRandom(seed: 11)
    let cache = BlockCache(capacity: 6_000_000)
    var lookups = 0
    var hits = 0
    for round in 0..<60_000 {
      let hit = touch(cache, key(random.below(1_200), table: 1), size: 4_096, priority: .high)
      if round >= 30_000 {
        lookups += 1
        if hit { hits += 1 }
      }
      touch(cache, key(random.below(120_000), table: 2), size: 4_096)
    }
    #expect(hits > lookups * 9 / 10, "\(hits) of \(lookups)")
  }

  @Test func `a shard of the cache that is filled late gets its fair share`() {
    let blockCount = 4_000
    let cache = BlockCache(capacity: blockCount * (1_000 + CacheSlot.overhead))
    // Blocks of the other shards take all the bytes.
    let lateShard = BlockCache.shardNumber(key(0).cacheHash)
    func isInLateShard(_ key: BlockKey) -> Bool { BlockCache.shardNumber(key.cacheHash) == lateShard }
    for number in 0..<2 * blockCount where !isInLateShard(key(number, table: 1)) {
      touch(cache, key(number, table: 1), size: 1_000)
    }
    // From here on, every shard is accessed equally often.
    var random = SeededRandom(seed: 13)
    for _ in 0..<40 * blockCount { touch(cache, key(random.below(20 * blockCount), table: 2), size: 1_000) }
    let kept = (0..<20 * blockCount).count { isInLateShard(key($0, table: 2)) && contains(cache, key($0, table: 2)) }
    let share = blockCount / 16
    #expect(kept > share * 3 / 4, "\(kept) blocks where \(share) are a fair share")
  }

  @Test func `index blocks that are no longer read are evicted eventually`() {
    var random = SeededRandom(seed: 12)
    let cache = BlockCache(capacity: 1_000 * (1_000 + CacheSlot.overhead))
    for number in 0..<800 { touch(cache, key(number, table: 1), size: 1_000, priority: .high) }
    for _ in 0..<400_000 { touch(cache, key(random.below(5_000), table: 2), size: 1_000) }
    let kept = (0..<800).count { contains(cache, key($0, table: 1)) }
    #expect(kept < 100, "\(kept) of 800")
  }

  @Test func `blocks that are no longer read make room for a new working set`() {
    let cache = BlockCache(capacity: 1_000 * (1_000 + CacheSlot.overhead))
    for _ in 0..<3 { for number in 0..<1_000 { touch(cache, key(number), size: 1_000) } }
    // A new working set of nearly the same size follows.
    for _ in 0..<8 { for number in 10_000..<10_900 { touch(cache, key(number), size: 1_000) } }
    let kept = (10_000..<10_900).count { contains(cache, key($0)) }
    #expect(kept > 850, "\(kept) of 900")
  }

  @Test func `skewed keys hit at least as often as with least recently used`() {
    for seed in [1, 2] as [UInt64] {
      var random = SeededRandom(seed: seed)
      let blocks = 10_000
      let cache = BlockCache(capacity: 1_000 * (1_000 + CacheSlot.overhead))
      var model = LeastRecentlyUsed(capacity: 1_000)
      var hits = 0
      var modelHits = 0
      for _ in 0..<60_000 {
        // The product of two uniform numbers: small numbers are much more frequent.
        let number = random.below(blocks) * random.below(blocks) / blocks
        if touch(cache, key(number), size: 1_000) { hits += 1 }
        if model.touch(number) { modelHits += 1 }
      }
      #expect(Double(hits) >= 0.99 * Double(modelHits), "seed \(seed): \(hits) and \(modelHits)")
    }
  }

  private struct LeastRecentlyUsed {
    let capacity: Int
    private var stamps: [Int: Int] = [:]
    private var order: [(number: Int, stamp: Int)] = []
    private var first = 0

    init(capacity: Int) { self.capacity = capacity }

    mutating func touch(_ number: Int) -> Bool {
      let isHit = stamps[number] != nil
      stamps[number] = order.count
      order.append((number, order.count))
      while stamps.count > capacity {
        let oldest = order[first]
        first += 1
        if stamps[oldest.number] == oldest.stamp { stamps[oldest.number] = nil }
      }
      return isHit
    }
  }

  /// The model is a dictionary that may lose entries: a block that is found must be the one that was inserted last.
  @Test(arguments: 0..<6 as Range<UInt64>)
  func `a cache answers like a dictionary that may lose entries`(seed: UInt64) {
    var random = SeededRandom(seed: seed)
    let cache = BlockCache(capacity: 50_000)
    var sizes: [BlockKey: Int] = [:]
    var pins: [PinBox] = []
    var capacity = 50_000
    for step in 0..<10_000 {
      let key = key(random.below(400), table: UInt64(random.below(3)))
      switch random.below(100) {
      case 0:
        capacity = random.below(100_000)
        cache.setCapacity(capacity)
      case 1:
        cache.erase(tableID: key.tableID)
        for other in sizes.keys where other.tableID == key.tableID { sizes[other] = nil }
      case 2..<50:
        if let pin = cache.lookup(key) {
          #expect(pin.view.count == sizes[key], "seed \(seed), step \(step)")
          #expect(TestBlock.isIntact(pin.view, key), "seed \(seed), step \(step)")
        }
      default:
        let size = random.oneIn(50) ? random.below(20_000) : random.below(600)
        let pin = cache.insert(key, TestBlock.memory(key, size), priority: random.oneIn(10) ? .high : .normal)
        // A different size must be that of the block that was there, which is the size inserted last.
        #expect(pin.view.count == size || pin.view.count == sizes[key], "seed \(seed), step \(step)")
        if pin.isCached { sizes[key] = pin.view.count }
        if random.oneIn(4) { pins.append(PinBox(key, pin)) }
      }
      if pins.count > 20 || (random.oneIn(10) && !pins.isEmpty) {
        let box = pins.remove(at: random.below(pins.count))
        #expect(box.isIntact, "seed \(seed), step \(step)")
      }
      if pins.isEmpty { #expect(cache.usedBytes <= capacity, "seed \(seed), step \(step)") }
    }
    #expect(pins.allSatisfy { $0.isIntact })
    pins = []
    cache.setCapacity(0)
    #expect(cache.usedBytes == 0)
    #expect(cache.contents.blockCount == 0)
  }

  private final class PinBox {
    private let key: BlockKey
    private let pin: BlockPin

    init(_ key: BlockKey, _ pin: consuming BlockPin) {
      self.key = key
      self.pin = pin
    }

    var isIntact: Bool { TestBlock.isIntact(pin.view, key) }
  }

  @Test func `a pin may outlive its cache`() {
    weak var weakCache: BlockCache?
    var first: BlockPin?
    var second: BlockPin?
    var third: BlockPin?
    do {
      let cache = BlockCache(capacity: 1 << 20)
      weakCache = cache
      for number in 0..<200 { touch(cache, key(number), size: 1_000) }
      first = cache.lookup(key(1))
      second = cache.lookup(key(1))
      third = cache.lookup(key(2))
    }
    #expect(weakCache == nil)
    for _ in 0..<3 {
      if let view = first?.view { #expect(TestBlock.isIntact(view, key(1))) }
      if let view = second?.view { #expect(TestBlock.isIntact(view, key(1))) }
      if let view = third?.view { #expect(TestBlock.isIntact(view, key(2))) }
      if second == nil { third = nil }
      if first == nil { second = nil }
      first = nil
    }
  }
}
