import EngineTestSupport
import Testing

@testable import EngineFixtures
@testable import VarveEngine

/// Tests of the filter pages of small tables, which stay in the cache as long as the table is open.
struct PinnedFilterTests {
  private static func entries(_ count: Int) -> [Entry] {
    (0..<count).map { number in
      let digits = String(number)
      let key = Array((String(repeating: "0", count: 8 - digits.count) + digits).utf8)
      return Entry(key: key, sequence: 9, value: [1])
    }
  }

  private static func options(bits: Int) -> TableOptions {
    var options = TableOptions()
    options.bloomBitsPerKey = bits
    return options
  }

  /// Returns how many keys that are in no table the filters let pass.
  private static func askInVain(_ reader: TableReader, _ count: Int = 3_000) throws -> Int {
    try (0..<count).count { number in
      try Array("none \(number)".utf8).withByteView { (key) throws(EngineError) in
        try reader.mayContain(KeyHash.hash(key))
      }
    }
  }

  @Test func `a filter page is pinned by its first use, and later lookups do not access the cache`() throws {
    let entries = Self.entries(8_000)
    let cache: BlockCache
    do {
      let table = try TestTable(entries, Self.options(bits: 10))
      cache = table.cache
      let pages = TableFilter.pageCount(table.reader.footer)
      #expect(pages == 3)
      #expect(cache.pinnedBytes == 0)
      let wrong = try Self.askInVain(table.reader)
      let size = Int(table.reader.footer.filterLineCount) * BloomFilter.lineSize
      #expect(cache.pinnedBytes == size + pages * (BlockTrailer.size + CacheSlot.overhead))
      let before = cache.statistics
      #expect(try Self.askInVain(table.reader) == wrong)
      let after = cache.statistics
      #expect(after.hitCount == before.hitCount && after.missCount == before.missCount)
      for entry in entries { #expect(try table.get(entry.key) == entry) }
    }
    #expect(cache.pinnedBytes == 0, "the table is closed")
    cache.setCapacity(0)
    #expect(cache.usedBytes == 0)
  }

  @Test func `pins take no more than their share of a small cache, and change no answer`() throws {
    let entries = Self.entries(8_000)
    let table = try TestTable(entries, Self.options(bits: 10), cacheSize: 40 << 10)
    let whole = try TestTable(entries, Self.options(bits: 10))
    #expect(try Self.askInVain(table.reader) == Self.askInVain(whole.reader))
    #expect(table.cache.pinnedBytes > 0 && table.cache.pinnedBytes <= (40 << 10) / BlockCache.pinnedShare)
    for entry in entries { #expect(try table.get(entry.key) == entry) }
    // Even with pinned pages, other pages can still be evicted, so the cache stays within its size.
    #expect(table.cache.usedBytes <= 40 << 10)
  }

  @Test func `pages of a large filter are not pinned`() throws {
    let table = try TestTable(Self.entries(40_000), Self.options(bits: 64), cacheSize: 8 << 20)
    #expect(TableFilter.pageCount(table.reader.footer) > PinnedFilter.pageCountMaximum)
    _ = try Self.askInVain(table.reader)
    #expect(table.cache.pinnedBytes == 0)
  }

  @Test func `threads that ask for the same pages at once pin each once`() async throws {
    for _ in 0..<TestScale.count(20) {
      let table = try TestTable(Self.entries(8_000), Self.options(bits: 10))
      let reader = table.reader
      let answers = try await withThrowingTaskGroup(of: Int.self) { group in
        for _ in 0..<4 { group.addTask { try Self.askInVain(reader) } }
        return try await group.reduce(into: Set<Int>()) { $0.insert($1) }
      }
      #expect(answers.count == 1)
      let size = Int(reader.footer.filterLineCount) * BloomFilter.lineSize
      let pages = TableFilter.pageCount(reader.footer)
      #expect(table.cache.pinnedBytes == size + pages * (BlockTrailer.size + CacheSlot.overhead))
    }
  }
}
