import EngineTestSupport
import Testing

@testable import EngineFixtures
@testable import VarveEngine

struct TableTests {
  @Test(arguments: KeyShape.allCases, [1, 2, 15, 16, 17, 33, 400])
  func `the entries of a table are read back in both directions`(shape: KeyShape, count: Int) throws {
    let seed = UInt64(count) &* 31
    var random = SeededRandom(seed: seed)
    let table = try TestTable(shape.entries(count, &random))
    for purpose in [ReadPurpose.user, .compaction] {
      let iterator = table.reader.makeIterator(purpose)
      #expect(!iterator.isValid)
      var forward: [Entry] = []
      try iterator.seekToFirst()
      while let entry = iterator.entry {
        forward.append(entry)
        try iterator.next()
      }
      #expect(forward == table.entries, "seed \(seed)")
      var backward: [Entry] = []
      try iterator.seekToLast()
      while let entry = iterator.entry {
        backward.append(entry)
        try iterator.previous()
      }
      #expect(backward == table.entries.reversed(), "seed \(seed)")
    }
  }

  @Test(arguments: KeyShape.allCases)
  func `every seek ends at the position that a sorted array gives`(shape: KeyShape) throws {
    let seed: UInt64 = 77
    var random = SeededRandom(seed: seed)
    let table = try TestTable(shape.entries(300, &random))
    let iterator = table.reader.makeIterator(.user)
    for target in Self.targets(table.entries, shape, &random) {
      let index = table.entries.firstIndex { !Entry.isBefore($0, target) } ?? table.entries.count
      try target.key.withByteView { key throws(EngineError) in
        try iterator.seek(InternalKey(key, target.trailer))
      }
      #expect(iterator.entry == (index < table.entries.count ? table.entries[index] : nil), "seed \(seed): \(target)")
      if iterator.isValid {
        try iterator.next()
        #expect(iterator.entry == (index + 1 < table.entries.count ? table.entries[index + 1] : nil))
      }
      try target.key.withByteView { key throws(EngineError) in
        try iterator.seekBefore(InternalKey(key, target.trailer))
      }
      #expect(iterator.entry == (index > 0 ? table.entries[index - 1] : nil), "seed \(seed): before \(target)")
      if iterator.isValid {
        try iterator.previous()
        #expect(iterator.entry == (index > 1 ? table.entries[index - 2] : nil))
      }
    }
  }

  /// Returns every entry, its neighbors by sequence, and keys that are not in the table.
  static func targets(_ entries: [Entry], _ shape: KeyShape, _ random: inout SeededRandom) -> [Entry] {
    var targets = entries
    for entry in entries {
      var newer = entry
      newer.sequence += 1
      targets.append(newer)
      var older = entry
      older.sequence = entry.sequence == 0 ? 0 : entry.sequence - 1
      targets.append(older)
      targets.append(Entry(key: entry.key + [0], sequence: 5))
      targets.append(Entry(key: Array(entry.key.dropLast()), sequence: 5))
    }
    for _ in 0..<100 { targets.append(Entry(key: shape.key(&random), sequence: UInt64(random.below(400)))) }
    return targets + [Entry(key: [], sequence: 0), Entry(key: [0xff, 0xff], sequence: 0)]
  }

  @Test(arguments: KeyShape.allCases)
  func `get finds the newest visible version of a key and nothing else`(shape: KeyShape) throws {
    let seed: UInt64 = 99
    var random = SeededRandom(seed: seed)
    let table = try TestTable(shape.entries(400, &random))
    for target in Self.targets(table.entries, shape, &random) {
      #expect(try table.get(target.key) == table.expected(target.key), "seed \(seed): \(target)")
      #expect(
        try table.get(target.key, at: target.sequence) == table.expected(target.key, at: target.sequence),
        "seed \(seed): \(target)")
    }
  }

  @Test func `a key with versions in many blocks is found at every sequence`() throws {
    let entries = (0..<300).map { Entry(key: Array("hot".utf8), sequence: UInt64(600 - 2 * $0), value: [1, 2]) }
    let table = try TestTable(
      [Entry(key: Array("cold".utf8), sequence: 1)] + entries + [Entry(key: Array("hotter".utf8), sequence: 1)])
    #expect(table.summary.properties.dataBlockCount > 10)
    #expect(table.summary.properties.keyCount == 3)
    for sequence in 0...601 {
      #expect(
        try table.get(Array("hot".utf8), at: UInt64(sequence))
          == table.expected(Array("hot".utf8), at: UInt64(sequence)))
    }
  }

  @Test func `a table of no entries can be read`() throws {
    let table = try TestTable([])
    let iterator = table.reader.makeIterator(.user)
    try iterator.seekToFirst()
    #expect(!iterator.isValid)
    try iterator.seekToLast()
    #expect(!iterator.isValid)
    #expect(try table.get([1]) == nil)
    #expect(table.summary.entryCount == 0)
  }

  @Test func `a compaction reads without filling the block cache`() throws {
    var random = SeededRandom(seed: 2)
    let table = try TestTable(KeyShape.random.entries(300, &random))
    #expect(table.reader.footer.indexLevelCount == 2)
    let iterator = table.reader.makeIterator(.compaction, buffers: ReadAhead.Options(dropsPages: true))
    try iterator.seekToFirst()
    var count = 0
    while iterator.isValid {
      count += 1
      #expect(iterator.storedBlock != nil && iterator.blockEntry != nil)
      try iterator.next()
    }
    #expect(count == table.entries.count)
    try table.reader.verify()
    // Only the root index block is cached, which the reader keeps pinned.
    #expect(table.cache.contents.blockCount == 1)
  }

  @Test func `reads work with a cache that keeps no block`() throws {
    var random = SeededRandom(seed: 14)
    let table = try TestTable(KeyShape.decimal.entries(200, &random), cacheSize: 0)
    for entry in table.entries { #expect(try table.get(entry.key, at: entry.sequence) == entry) }
    let iterator = table.reader.makeIterator(.user)
    try iterator.seekToFirst()
    for entry in table.entries {
      #expect(iterator.entry == entry)
      try iterator.next()
    }
  }

  /// Returns a table with blocks of about thirty rows, which is large enough for an iteration to read ahead.
  private func tableOfLongBlocks(cacheSize: Int) throws -> TestTable {
    var options = TableOptions.small
    options.blockSize = 1024
    let entries = (0..<3_000).map { number in
      Entry(key: Array("key/\(100_000 + 2 * number)".utf8), sequence: 7, value: Array("value \(number)".utf8))
    }
    return try TestTable(entries, options, cacheSize: cacheSize)
  }

  @Test func `an iteration looks up each block in the cache once`() throws {
    let table = try tableOfLongBlocks(cacheSize: 1 << 20)
    var hits: [UInt64] = []
    for _ in 0..<2 {
      let before = table.cache.statistics.hitCount
      let iterator = table.reader.makeIterator(.user)
      try iterator.seekToFirst()
      for entry in table.entries {
        #expect(iterator.entry == entry)
        try iterator.next()
      }
      #expect(!iterator.isValid)
      hits.append(table.cache.statistics.hitCount - before)
    }
    let statistics = table.cache.statistics
    let blockCount = UInt64(table.summary.properties.dataBlockCount)
    #expect(blockCount < 150 && blockCount > 50)
    #expect(statistics.insertedCount > blockCount)
    #expect(statistics.missCount == statistics.insertedCount)
    // All blocks except for the root, which is pinned.
    #expect(hits[1] == statistics.insertedCount - 1)
    // No other pin may remain.
    table.cache.setCapacity(0)
    #expect(table.cache.contents.blockCount == 1)
  }

  @Test(arguments: [0, 4_000, 1 << 20])
  func `iterators that change direction and seek agree with the model`(cacheSize: Int) throws {
    let table = try tableOfLongBlocks(cacheSize: cacheSize)
    let iterator = table.reader.makeIterator(.user)
    var random = SeededRandom(seed: 21)
    var location = 0
    try iterator.seekToFirst()
    for step in 0..<300 {
      switch random.below(6) {
      case 0:
        location = random.below(table.entries.count)
        try table.entries[location].key.withByteView { key throws(EngineError) in
          try iterator.seek(InternalKey(key, Trailer(word: .max)))
        }
      case 1:
        for _ in 0..<random.below(40) where location > 0 {
          try iterator.previous()
          location -= 1
        }
      default:
        for _ in 0..<random.below(60) where location + 1 < table.entries.count {
          try iterator.next()
          location += 1
        }
      }
      #expect(iterator.entry == table.entries[location], "step \(step)")
    }
  }

  @Test func `blocks without visible entries are skipped in both directions`() throws {
    // Sequences ascend with the keys and descend again: of the blocks in the middle, no entry is visible.
    let entries = (0..<200).map { number in
      Entry(key: Array("key\(1000 + number)".utf8), sequence: UInt64(min(number, 199 - number)), value: [1, 2, 3])
    }
    let table = try TestTable(entries)
    let iterator = table.reader.makeIterator(.user, visible: SequenceNumber(20))
    var forward: [Entry] = []
    try iterator.seekToFirst()
    while let entry = iterator.entry {
      forward.append(entry)
      try iterator.next()
    }
    #expect(forward.filter { $0.sequence <= 20 } == entries.filter { $0.sequence <= 20 })
    #expect(forward.count < 150)
    var backward: [Entry] = []
    try iterator.seekToLast()
    while let entry = iterator.entry {
      backward.append(entry)
      try iterator.previous()
    }
    #expect(backward == forward.reversed())
    // A seek into the skipped blocks ends after them.
    try entries[100].key.withByteView { key throws(EngineError) in
      try iterator.seek(InternalKey(key, Trailer(seek: .maximum)))
    }
    #expect(iterator.entry == forward.first { !Entry.isBefore($0, entries[100]) })
    try entries[100].key.withByteView { key throws(EngineError) in
      try iterator.seekBefore(InternalKey(key, Trailer(seek: .maximum)))
    }
    #expect(iterator.entry == forward.last { Entry.isBefore($0, entries[100]) })
  }
}
