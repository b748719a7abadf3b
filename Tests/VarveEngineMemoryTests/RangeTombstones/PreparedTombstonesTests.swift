import EngineTestSupport
import Testing

@testable import EngineFixtures
@testable import VarveEngine

/// Tests of the range deletes of one batch, inserted as one edit or prepared before the commit.
struct PreparedTombstonesTests {
  /// Returns a batch of range deletes with other entries between them, and adds the same to a list, the first at
  /// `first`.
  private static func batch(
    _ random: inout SeededRandom, count: Int, first: UInt64, into naive: inout NaiveTombstones
  ) throws -> WriteBatch {
    var batch = WriteBatch()
    while batch.rangeDeleteCount < count {
      if random.oneIn(4) {
        try batch.put(NaiveTombstones.key(&random), [1])
      } else {
        let range = NaiveTombstones.range(&random)
        naive.tombstones.append(.init(start: range.0, end: range.1, sequence: first + UInt64(batch.count)))
        try batch.deleteRange(from: range.0, to: range.1)
      }
    }
    return batch
  }

  private static func expectEqual(
    _ tree: borrowing RangeTombstoneTree, _ naive: NaiveTombstones, at sequence: UInt64, seed: UInt64
  ) {
    // An expectation for each key would take most of the time.
    for key in NaiveTombstones.allKeys {
      let found = key.withByteView { tree.sequence(covering: $0, at: SequenceNumber(sequence)) }
      if found.value == naive.covering(key, at: sequence) { continue }
      Issue.record("seed \(seed), key \(key) at \(sequence): \(found.value)")
    }
  }

  @Test func `prepared tombstones cover what a list of them covers, and later tombstones can be added`()
    throws
  {
    for seed in UInt64(1)...UInt64(TestScale.count(20)) {
      var random = SeededRandom(seed: seed)
      var naive = NaiveTombstones()
      let count = 1 + random.below(80)
      let batch = try Self.batch(&random, count: count, first: 100, into: &naive)
      let prepared = try PreparedTombstones(batch.payload.view)
      let tree = RangeTombstoneTree()
      let part = try #require(prepared.part(of: .default))
      #expect(part.count == count)
      tree.adopt(part, first: SequenceNumber(100))
      #expect(tree.count == count && tree.memorySize > 0)
      let end = 100 + UInt64(batch.count)
      Self.expectEqual(tree, naive, at: end, seed: seed)
      var listed: [UInt64] = []
      tree.forEachTombstone(above: .zero) { _, _, sequence in listed.append(sequence.value) }
      #expect(listed == naive.tombstones.map(\.sequence), "seed \(seed)")
      var edits: [[UInt64]] = []
      tree.forEachEdit(above: .zero) { edits.append($0.map(\.sequence.value)) }
      #expect(edits == [listed], "seed \(seed)")
      listed.removeAll()
      let bound = naive.tombstones[count / 2].sequence
      tree.forEachChange(above: SequenceNumber(bound)) { _, _, sequence in listed.append(sequence.value) }
      #expect(listed == naive.tombstones.map(\.sequence).filter { $0 > bound }, "seed \(seed)")
      // The leader encounters each of them again as an entry of the batch.
      for tombstone in naive.tombstones {
        let isNew = tombstone.start.withByteView { start in
          tombstone.end.withByteView { tree.insert(start, $0, SequenceNumber(tombstone.sequence)) }
        }
        #expect(!isNew, "seed \(seed)")
      }
      for key in NaiveTombstones.allKeys {
        #expect(key.withByteView { tree.sequence(covering: $0, at: SequenceNumber(99)) } == .zero, "seed \(seed)")
      }
      for offset in 0..<UInt64(10) {
        let isThere = tree.contains(SequenceNumber(naive.tombstones[0].sequence))
        let isNextThere = tree.contains(SequenceNumber(end + offset))
        #expect(isThere && !isNextThere)
        let range = NaiveTombstones.range(&random)
        naive.tombstones.append(.init(start: range.0, end: range.1, sequence: end + offset))
        let isNew = range.0.withByteView { start in
          range.1.withByteView { tree.insert(start, $0, SequenceNumber(end + offset)) }
        }
        #expect(isNew)
        Self.expectEqual(tree, naive, at: end + offset, seed: seed)
      }
      Self.expectEqual(tree, naive, at: end - 1, seed: seed)
    }
  }

  @Test func `the tombstones of an edit become visible together, and earlier sequences read as before`() {
    for seed in UInt64(1)...UInt64(TestScale.count(15)) {
      var random = SeededRandom(seed: seed)
      var naive = NaiveTombstones()
      let tree = RangeTombstoneTree()
      var sequence: UInt64 = 1
      var ends: [UInt64] = [0]
      for _ in 0..<8 {
        tree.beginEdit()
        for _ in 0..<(1 + random.below(20)) {
          let range = NaiveTombstones.range(&random)
          naive.tombstones.append(.init(start: range.0, end: range.1, sequence: sequence))
          _ = range.0.withByteView { start in
            range.1.withByteView { tree.insert(start, $0, SequenceNumber(sequence)) }
          }
          sequence += 1
          Self.expectEqual(tree, naive, at: ends[ends.count - 1], seed: seed)
        }
        // The prepared edit is not yet visible: readers see the earlier edits.
        let visible = NaiveTombstones(tombstones: naive.tombstones.filter { $0.sequence <= ends[ends.count - 1] })
        for key in NaiveTombstones.allKeys {
          let found = key.withByteView { tree.sequence(covering: $0, at: .maximum) }
          #expect(found.value == visible.covering(key, at: sequence), "seed \(seed)")
        }
        tree.endEdit()
        ends.append(sequence - 1)
        for end in ends { Self.expectEqual(tree, naive, at: end, seed: seed) }
      }
      var edits: [[UInt64]] = []
      tree.forEachEdit(above: .zero) { edits.append($0.map(\.sequence.value)) }
      #expect(edits.map(\.last) == ends.dropFirst().map(Optional.some), "seed \(seed)")
    }
  }

  @Test func `a cursor does not skip a range with a point after a tombstone of the same batch`() throws {
    let engine = try Engine.open(at: "/db", options: Self.options(64 << 10), environment: .inMemory())
    var batch = WriteBatch()
    for index in 0..<PreparedTombstones.countMinimum {
      try batch.deleteRange(from: Self.key(index), to: Self.key(index + 3))
      if index % 64 == 5 { try batch.put(Self.key(index + 1), [1]) }
    }
    try engine.put(Self.key(40), [0])
    try engine.write(batch)
    // Each earlier put is covered by a tombstone after it.
    try engine.put(Self.key(2_000), [2])
    #expect(try Self.keys(engine) == [Self.key(2_000)])
    var second = WriteBatch()
    try second.deleteRange(from: Self.key(0), to: Self.key(9_000))
    try second.put(Self.key(7), [7])
    try second.deleteRange(from: Self.key(100), to: Self.key(9_000))
    try second.put(Self.key(8_000), [8])
    try engine.write(second)
    #expect(try Self.keys(engine) == [Self.key(7), Self.key(8_000)])
    try engine.close()
  }

  @Test func `a large batch of range deletes alone is seen by cursors, flushed, and kept when entries follow`()
    throws
  {
    let environment = EngineEnvironment.inMemory()
    var options = Self.options(1 << 20)
    options.compactsInBackground = false
    // Without this setting, a cursor's range delete might be merged with those of the batch, depending on the
    // flushes.
    options.deadRunMinimum = 0
    var engine = try Engine.open(at: "/db", options: options, environment: environment)
    for index in 0..<50 { try engine.put(Self.key(10 * index + 1), [1]) }
    try engine.put(Self.key(5), [5])
    try engine.flush()
    var batch = WriteBatch()
    for index in 0..<20_000 { try batch.deleteRange(from: Self.key(10 * index), to: Self.key(10 * index + 3)) }
    let last = try engine.write(batch)
    #expect(try Self.keys(engine) == [Self.key(5)])
    let table = engine.defaultFamily.state.active(.beforeOpen)
    #expect(table.entryCount == 20_000 && table.largestSequence == last)
    #expect(table.smallestSequence.value == last.value - 19_999)
    // This put goes to another memtable, while the tombstones are being flushed to a table.
    try engine.put(Self.key(7), [7])
    #expect(try Self.keys(engine) == [Self.key(5), Self.key(7)])
    try engine.flush()
    #expect(try Self.keys(engine) == [Self.key(5), Self.key(7)])
    let tables = engine.core.state(of: nil).version.levelZero.tables
    #expect(tables.reduce(0) { $0 + $1.rangeTombstoneCount } == 20_000)
    try engine.close()
    engine = try Engine.open(at: "/db", options: options, environment: environment)
    #expect(try Self.keys(engine) == [Self.key(5), Self.key(7)])
    try engine.close()
  }

  /// Entries of volatile families have the lower sequences of a batch.
  @Test func `range deletes of large batches with volatile families are prepared too, and hide the right keys`() throws
  {
    let engine = try Engine.open(at: "/db", options: Self.options(1 << 20), environment: .inMemory())
    let families = [
      try engine.createFamily("durable"), try engine.createFamily("volatile", options: FamilyOptions(isVolatile: true)),
    ]
    var random = SeededRandom(seed: 12)
    var content: [[UInt8]: [UInt8]] = [:]
    func put(_ batch: inout WriteBatch, _ family: Int, _ index: Int, _ byte: UInt8) throws {
      try batch.put(Self.key(index), [byte], in: families[family])
      content[[UInt8(family)] + Self.key(index)] = [byte]
    }
    var first = WriteBatch()
    for family in 0..<2 { for index in 0..<2_000 { try put(&first, family, index, 1) } }
    try engine.write(first)
    var batch = WriteBatch()
    while batch.rangeDeleteCount < 3 * PreparedTombstones.countMinimum {
      let (family, index) = (random.below(2), random.below(2_000))
      if random.oneIn(5) {
        try put(&batch, family, index, 2)
      } else {
        try batch.deleteRange(from: Self.key(index), to: Self.key(index + 2), in: families[family])
        for other in index..<index + 2 { content[[UInt8(family)] + Self.key(other)] = nil }
      }
    }
    try engine.write(batch)
    for family in 0..<2 {
      #expect(families[family].state.active(.beforeOpen).rangeTombstones.count >= PreparedTombstones.countMinimum)
      // All of them have one edit, so they were prepared.
      var edits = 0
      families[family].state.active(.beforeOpen).rangeTombstones.forEachEdit(above: .zero) { _ in edits += 1 }
      #expect(edits == 1)
      for index in 0..<2_000 {
        let found = try engine.get(Self.key(index), in: families[family])
        #expect(found == content[[UInt8(family)] + Self.key(index)], "family \(family), key \(index)")
      }
    }
    try engine.close()
  }

  private static func keys(_ engine: Engine) throws -> [[UInt8]] {
    var found: [[UInt8]] = []
    var cursor = try engine.cursor()
    try cursor.seekToFirst()
    while cursor.isValid {
      found.append(cursor.keyBytes)
      try cursor.next()
    }
    return found
  }

  private static func options(_ memtableSize: Int) -> EngineOptions {
    var options = EngineOptions()
    options.memtableSize = memtableSize
    options.cacheSize = 1 << 20
    options.logSegmentSize = 256 << 10
    return options
  }

  // MARK: - Costs

  private static func key(_ index: Int) -> [UInt8] {
    (0..<8).map { UInt8(truncatingIfNeeded: index >> (56 - $0 * 8)) }
  }

  private static func insert(_ tree: borrowing RangeTombstoneTree, _ location: Int, _ sequence: Int) {
    let isNew = key(location).withByteView { start in
      key(location + 3).withByteView { tree.insert(start, $0, SequenceNumber(UInt64(sequence))) }
    }
    #expect(isNew)
  }

  @Test func `16,000 range deletes one by one take at most 48 MiB, and in one edit 256 bytes each`() {
    var random = SeededRandom(seed: 3)
    let single = RangeTombstoneTree()
    for sequence in 1...16_000 { Self.insert(single, random.below(1 << 40), sequence) }
    #expect(single.memorySize <= 48 << 20, "\(single.memorySize) bytes")
    let edit = RangeTombstoneTree()
    edit.beginEdit()
    for sequence in 1...16_000 { Self.insert(edit, random.below(1 << 40), sequence) }
    edit.endEdit()
    #expect(edit.count == 16_000 && edit.memorySize <= 16_000 * 256, "\(edit.memorySize) bytes")
  }

  @Test func `a prepared range delete takes its record and two boundaries, and its fragment in a flush 64 bytes`()
    throws
  {
    var random = SeededRandom(seed: 5)
    let count = 50_000
    var batch = WriteBatch()
    for _ in 0..<count {
      let location = random.below(1 << 50)
      try batch.deleteRange(from: Self.key(location), to: Self.key(location + 3))
    }
    let part = try #require(try PreparedTombstones(batch.payload.view).part(of: .default))
    let size = 24 + 2 * TombstoneNode.size
    #expect(part.count == count && part.nodeCount == 2 * count)
    #expect(part.memorySize <= count * size + 1024, "\(part.memorySize) bytes")

    let table = MemTable(capacity: 1 << 20)
    table.adopt(part, first: SequenceNumber(1))
    #expect(table.tombstoneBytes >= count * size)
    #expect(table.tombstoneBytes <= count * size + 2 * TombstoneMemory.chunkSize, "\(table.tombstoneBytes) bytes")
    let kept = CompactionTombstones([table], snapshots: [SequenceNumber(UInt64(count))]).kept
    #expect(kept.count == count)
    #expect(kept.memorySize <= count * 64, "\(kept.memorySize) bytes")
  }

  @Test func `a large batch of range deletes is counted in the budget, and gets a memtable of its own`() throws {
    let environment = EngineEnvironment.inMemory()
    var options = Self.options(1 << 20)
    options.compactsInBackground = false
    var engine = try Engine.open(at: "/db", options: options, environment: environment)
    var random = SeededRandom(seed: 11)
    var batch = WriteBatch()
    for _ in 0..<20_000 {
      let location = random.below(1 << 40)
      try batch.deleteRange(from: Self.key(location), to: Self.key(location + 3))
    }
    try engine.put(Self.key(1), [1])
    try engine.write(batch)
    let tree = engine.defaultFamily.state.active(.beforeOpen)
    #expect(tree.rangeTombstones.count == 20_000)
    #expect(tree.tombstoneBytes <= 20_000 * 128, "\(tree.tombstoneBytes) bytes")
    #expect(tree.chargedBytes >= tree.tombstoneBytes)
    #expect(engine.statistics.memory.memTables >= tree.tombstoneBytes)
    // The memtable has no room for other entries: later writes are not added next to four megabytes of tombstones.
    try engine.put(Self.key(2), [2])
    let next = engine.defaultFamily.state.active(.beforeOpen)
    #expect(next !== tree && next.entryCount == 1)
    try engine.close()
    engine = try Engine.open(at: "/db", options: options, environment: environment)
    #expect(try engine.get(Self.key(1)) == [1])
    try engine.write(batch)
    let image = engine.defaultFamily.state.active(.beforeOpen).tombstoneBytes
    #expect(image > 0)
    try engine.close()
    #expect(engine.core.tree.budget.used(.memTables) == 0)
  }

  @Test func `a memtable's charge for range deletes ends with the memtable`() throws {
    let account = MemoryAccount()
    let pool = ArenaPool(limit: 0, account: account)
    do {
      let table = try MemTable(growingTo: 1 << 20, pool: pool, touchedMaximum: 0)
      var counted = table.countedBytes
      for sequence in 1...2_000 {
        let need = MemTableRequirement(tombstoneCount: 1, tombstoneKeyBytes: 16)
        if !table.hasRoom(for: need) {
          #expect(table.couldHaveRoom(for: need))
          counted += table.grow(for: need)
        }
        #expect(counted == table.countedBytes && account.used == table.chargedBytes)
        Self.key(7 * sequence).withByteView { start in
          Self.key(7 * sequence + 3).withByteView { end in
            _ = table.insert(start, Trailer(SequenceNumber(UInt64(sequence)), .rangeDelete), end)
          }
        }
        #expect(table.chargedBytes >= table.tombstoneBytes)
        if table.tombstoneBytes > 900_000 { break }
      }
      let charge = table.settleCharge()
      #expect(charge == account.used && charge >= table.tombstoneBytes)
    }
    #expect(account.used == 0)
  }
}
