import EngineTestSupport
import Testing

@testable import EngineFixtures
@testable import VarveEngine

/// Tests of the estimated sizes of ranges against their content.
struct ApproximateSizeTests {
  /// Returns the bytes of a range according to its entries: each has an equal share of its block, and each block its
  /// share of the file.
  private static func exactSize(_ engine: Engine, _ range: CursorBounds) throws -> Double {
    var total = 0.0
    let version = engine.defaultFamily.state.version
    for table in (0..<Limits.levelCount).flatMap({ version.tables(level: $0) }) {
      let reader = try engine.core.tree.reader(table)
      let share = Double(table.fileSize) / Double(reader.footer.dataSize)
      try forEachDataBlock(reader) { handle, rows in
        // Returns the number of rows before a key, whose own entries all follow.
        func rank(_ key: [UInt8]) -> Int { key.withByteView { rows.lowerBound($0, Trailer(word: .max)) } }
        let inside = max((range.upper.map(rank) ?? rows.rowCount) - (range.lower.map(rank) ?? 0), 0)
        total += share * Double(handle.fileSize) * Double(inside) / Double(max(rows.rowCount, 1))
      }
    }
    return total
  }

  private static func forEachDataBlock(_ reader: TableReader, _ body: (BlockHandle, Block) throws -> Void) throws {
    let root = try reader.root()
    for row in 0..<root.rowCount {
      let handle = root.entries.handle(row)
      guard reader.footer.indexLevelCount == 2 else {
        let pin = try reader.block(handle, .data)
        try body(handle, Block(validated: pin.content))
        continue
      }
      let pin = try reader.block(handle, .index)
      let partition = IndexBlock(validated: pin.content)
      for inner in 0..<partition.rowCount {
        let handle = partition.entries.handle(inner)
        let pin = try reader.block(handle, .data)
        try body(handle, Block(validated: pin.content))
      }
    }
  }

  private static func filled(_ count: Int, seed: UInt64, flushes: Bool = true) throws -> Engine {
    var options = EngineTests.options(memtableSize: 256 << 10)
    options.blockSize = 1 << 10
    let engine = try Engine.open(at: "/db", options: options, environment: .inMemory())
    var random = SeededRandom(seed: seed)
    for _ in 0..<count {
      let value = (0..<random.below(200)).map { _ in UInt8(random.below(256)) }
      try engine.put(ObservedEngine.key(random.below(count)), value)
    }
    if flushes {
      try engine.flush()
      // Otherwise tables could change between an estimate and the size that it is compared with.
      try engine.waitForCompaction()
    }
    return engine
  }

  @Test(arguments: [1, 2, 3] as [UInt64])
  func `the estimate of any range is within its bound of the exact size`(seed: UInt64) throws {
    let count = 20_000
    let engine = try Self.filled(count, seed: seed)
    var random = SeededRandom(seed: seed + 100)
    for round in 0..<60 {
      let ends = [random.below(count + 50), random.below(count + 50)].sorted()
      // The ranges include some of few keys, and some with one open end.
      let upper = round % 3 == 0 ? ends[0] + random.below(20) : ends[1]
      let range = CursorBounds(
        lower: round % 7 == 0 ? nil : ObservedEngine.key(ends[0]),
        upper: round % 11 == 0 ? nil : ObservedEngine.key(upper))
      let estimate = try engine.approximateSize(of: range)
      let exact = try Self.exactSize(engine, range)
      let error = abs(Double(estimate.tableBytes) - exact)
      #expect(error <= Double(estimate.tableBytesError) + 16, "\(range) of seed \(seed): \(estimate), exact \(exact)")
      let tables = engine.statistics.levels.reduce(0) { $0 + $1.fileCount }
      #expect(estimate.tableBytesError <= UInt64(tables * 2 * 4_096), "a block at each end of each table")
    }
    try engine.close()
  }

  @Test func `the size of all keys is that of the tables, and the parts of a range add up`() throws {
    let engine = try Self.filled(10_000, seed: 4)
    let all = try engine.approximateSize()
    #expect(all.tableBytes == engine.statistics.tableBytes && all.tableBytesError == 0 && all.memTableBytes == 0)
    let (low, middle, high) = (ObservedEngine.key(1_000), ObservedEngine.key(4_000), ObservedEngine.key(9_000))
    let whole = try engine.approximateSize(of: CursorBounds(lower: low, upper: high)).tableBytes
    let left = try engine.approximateSize(of: CursorBounds(lower: low, upper: middle)).tableBytes
    let right = try engine.approximateSize(of: CursorBounds(lower: middle, upper: high)).tableBytes
    #expect(abs(Int(left + right) - Int(whole)) < 200, "but for rounding")
    #expect(try engine.approximateSize(of: CursorBounds(lower: high, upper: low)) == ApproximateSize())
    #expect(try engine.approximateSize(of: CursorBounds(lower: low, upper: low)) == ApproximateSize())
    #expect(try engine.approximateSize(of: CursorBounds(lower: [0xff])).total == 0)
    try engine.close()
  }

  @Test func `entries in memtables count, by their share`() throws {
    let engine = try Engine.open(
      at: "/db", options: EngineTests.options(memtableSize: 4 << 20), environment: .inMemory())
    for index in 0..<10_000 {
      try engine.put(ObservedEngine.key(index * 7_919 % 10_000), [UInt8](repeating: 1, count: 50))
    }
    let all = try engine.approximateSize()
    let used = UInt64(engine.defaultFamily.state.active(.beforeOpen).usedBytes)
    #expect(all.memTableBytes == used && all.tableBytes == 0)
    for (from, to) in [(0, 1), (0, 10_000), (100, 164), (2_500, 7_500), (9_990, 20_000)] {
      let range = CursorBounds(lower: ObservedEngine.key(from), upper: ObservedEngine.key(to))
      let expected = Double(used) * Double(min(to, 10_000) - from) / 10_000
      let found = Double(try engine.approximateSize(of: range).memTableBytes)
      #expect(abs(found - expected) <= 1, "\(from)..<\(to)")
    }
    try engine.close()
  }

  @Test func `no data block is read`() throws {
    let engine = try Self.filled(20_000, seed: 5)
    func estimate(_ offset: Int) throws {
      for start in stride(from: offset, to: 20_000, by: 100) {
        _ = try engine.approximateSize(of: CursorBounds(lower: ObservedEngine.key(start)))
      }
    }
    // The bounds of each table are crossed by one of these ranges, so that its index is read.
    try estimate(0)
    let warm = engine.statistics.cache
    try estimate(50)
    let after = engine.statistics.cache
    #expect(after.missCount == warm.missCount, "all indexes are in the cache by now, and nothing else was asked for")
    try engine.close()
  }

  @Test func `a dropped family has no size`() throws {
    let engine = try Engine.open(at: "/db", options: EngineTests.options(), environment: .inMemory())
    let family = try engine.createFamily("f")
    try engine.put([1], [1], in: family)
    #expect(try engine.approximateSize(in: family).total > 0)
    #expect(try engine.approximateSize().total == 0)
    try engine.dropFamily(family)
    let error = #expect(throws: EngineError.self) { try engine.approximateSize(in: family) }
    #expect(error?.code == .familyDropped)
    try engine.close()
  }
}
