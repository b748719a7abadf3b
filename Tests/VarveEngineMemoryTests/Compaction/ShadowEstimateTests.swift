import EngineTestSupport
import Testing

@testable import EngineFixtures
@testable import VarveEngine

/// Tests the estimate of what tombstones hide against the entries themselves.
struct ShadowEstimateTests {
  /// Tables in memory, with counts of how often each is asked for.
  private final class Tables: TableReaders, @unchecked Sendable {
    // Sendable: used by one test.
    private(set) var tables: [FileNumber: TestTable] = [:]
    private(set) var asked: [FileNumber: Int] = [:]

    func reader(_ table: TableMetadata) throws(EngineError) -> TableReader {
      guard let known = tables[table.number] else { throw EngineError(.notFound, "no table \(table.number)") }
      asked[table.number, default: 0] += 1
      return known.reader
    }

    func forgetAsked() { asked = [:] }

    /// Adds a run with at most `count` entries in each table.
    func add(_ entries: [Entry], by count: Int) throws -> SortedRun {
      var run: [TableMetadata] = []
      for start in stride(from: 0, to: entries.count, by: count) {
        let number = FileNumber(UInt64(tables.count + 1))
        let table = try TestTable(
          Array(entries[start..<min(start + count, entries.count)]), ShadowEstimateTests.options,
          tableID: number.value &* 0x9e37_79b9_7f4a_7c15)
        tables[number] = table
        run.append(TableMetadata(number: number, table.summary))
      }
      return SortedRun(run)
    }

    /// Damages each byte of data, so that a read of it fails.
    func damageData() {
      for table in tables.values {
        for byte in 0..<Int(table.reader.footer.dataSize) { table.file.flip(bit: byte * 8) }
      }
    }
  }

  private static var options: TableOptions {
    var options = TableOptions()
    options.blockSize = 512
    options.indexPartitionSize = 256
    options.compression = .none
    return options
  }

  private static func key(_ number: Int) -> [UInt8] { ObservedEngine.key(number) }

  private static func sample(_ keys: some Sequence<Int>) -> TombstoneSample {
    var sample = TombstoneSample()
    for number in keys { key(number).withByteView { sample.add($0) } }
    return sample
  }

  /// Returns entries with a value of the size that `size` returns, and none for which that is nil.
  private static func rows(_ count: Int, sequence: UInt64 = 1, _ size: (Int) -> Int?) -> [Entry] {
    (0..<count).compactMap { number in
      size(number).map {
        Entry(key: key(number), sequence: sequence, value: [UInt8](repeating: 7, count: $0))
      }
    }
  }

  private static func list(_ ranges: [(Int, Int)]) -> RangeTombstoneList {
    var builder = RangeTombstoneListBuilder()
    for (first, end) in ranges {
      key(first).withByteView { start in
        key(end).withByteView { end in builder.append(start, end, CollectionOfOne(9)) }
      }
    }
    return RangeTombstoneList(builder)
  }

  private static func estimate(
    _ runs: [SortedRun], _ tables: Tables, countsCovered: Bool = false
  ) -> ShadowEstimate {
    ShadowEstimate(over: runs, tables, openTableMaximum: 4_096, countsCovered: countsCovered)
  }

  private static func expect(
    _ size: UInt64?, near actual: Int, _ comment: Comment, sourceLocation: SourceLocation = #_sourceLocation
  ) {
    let size = Double(size ?? 0)
    #expect(
      size >= Double(actual) / 2 && size <= Double(actual) * 2, "\(comment): \(size) instead of \(actual)",
      sourceLocation: sourceLocation)
  }

  @Test func `what random deletes hide in several runs is estimated within a factor of two`() throws {
    for seed in UInt64(1)...UInt64(TestScale.count(40)) {
      var random = SeededRandom(seed: seed)
      let tables = Tables()
      let count = 2_000 + random.below(4_000)
      let small = 10 + random.below(200)
      let large = [0, 0, 2_000, 20_000][random.below(4)]
      let largeEvery = 5 + random.below(20)
      var runs: [SortedRun] = []
      var sizes = [Int](repeating: 0, count: count)
      for run in 0..<(1 + random.below(3)) {
        let every = 1 + random.below(4)
        let entries = Self.rows(count, sequence: UInt64(9 - run)) { number in
          guard number % every == 0 else { return nil }
          return large > 0 && number % largeEvery == 0 ? large : small
        }
        for number in stride(from: 0, to: count, by: every) {
          sizes[number] += Self.key(number).count + (large > 0 && number % largeEvery == 0 ? large : small)
        }
        runs.append(try tables.add(entries, by: 200 + random.below(2_000)))
      }
      // Some of the deleted keys never existed.
      let deletesLarge = random.oneIn(3)
      let every = 1 + random.below(6)
      let deleted = (0..<(count + count / 4)).filter { deletesLarge ? $0 % largeEvery == 0 : $0 % every == 0 }
      let actual = deleted.reduce(0) { $0 + ($1 < count ? sizes[$1] : 0) }
      let found = Self.estimate(runs, tables).size(Self.sample(deleted), .empty)
      Self.expect(found, near: actual, "seed \(seed)")
    }
  }

  @Test func `keys that never existed, and those that newer tombstones hide, count for little`() throws {
    let tables = Tables()
    let rows = try tables.add(Self.rows(4_000) { $0 % 2 == 0 ? 500 : nil }, by: 1_000)
    let total = rows.totalSize
    let absent = Self.estimate([rows], tables).size(Self.sample(stride(from: 1, to: 4_000, by: 2)), .empty)
    #expect(absent ?? total < total / 20)
    let deletes = (0..<2_000).map { Entry(key: Self.key($0 * 2), sequence: 2, kind: .delete) }
    let tombstones = try tables.add(deletes, by: 1_000)
    let again = Self.estimate([tombstones, rows], tables).size(
      Self.sample(stride(from: 0, to: 4_000, by: 2)), .empty)
    #expect(again ?? total < total / 10)
  }

  @Test func `ranges hide the data between their bounds, and whole tables only on request`() throws {
    let tables = Tables()
    let run = try tables.add(Self.rows(4_000) { _ in 200 }, by: 500)
    let row = Int(run.totalSize) / 4_000
    let none = Self.sample([])
    func size(_ ranges: [(Int, Int)], countsCovered: Bool = false) -> UInt64? {
      Self.estimate([run], tables, countsCovered: countsCovered).size(none, Self.list(ranges))
    }
    Self.expect(size([(100, 400)]), near: 300 * row, "inside one table")
    Self.expect(size([(250, 3_750)]), near: 500 * row, "the ends of a long range")
    Self.expect(size([(250, 3_750)], countsCovered: true), near: 3_500 * row, "a long range")
    Self.expect(size([(250, 400), (400, 2_000), (2_000, 3_750)], countsCovered: true), near: 3_500 * row, "adjacent")
    #expect(size([(0, 4_000)]) == 0)
    #expect(size([(5_000, 6_000)], countsCovered: true) == 0)
    Self.expect(size((0..<400).map { ($0 * 10, $0 * 10 + 5) }), near: 2_000 * row, "many short ranges")
    let both = Self.estimate([run], tables).size(Self.sample(0..<100), Self.list([(1_100, 1_400)]))
    Self.expect(both, near: 400 * row, "keys and ranges")
  }

  @Test func `an estimate asks a bounded number of tables, and reads no data`() throws {
    let tables = Tables()
    let runs = try (0..<3).map { run in try tables.add(Self.rows(4_000) { _ in 30 + 10 * run }, by: 10) }
    let total = runs.reduce(0) { $0 + Int($1.totalSize) }
    tables.damageData()
    let points = Self.estimate(runs, tables).size(Self.sample(0..<4_000), .empty)
    Self.expect(points, near: total, "keys")
    #expect(tables.asked.count <= ShadowEstimate.tableMaximum)
    #expect(tables.asked.values.allSatisfy { $0 == 1 })
    tables.forgetAsked()
    let ranges = Self.estimate(runs, tables).size(
      Self.sample([]), Self.list((0..<800).map { ($0 * 5, $0 * 5 + 2) }))
    #expect(ranges != nil)
    #expect(tables.asked.count <= ShadowEstimate.tableMaximum)
    // Few tables may be open.
    tables.forgetAsked()
    let few = ShadowEstimate(over: runs, tables, openTableMaximum: 16)
    Self.expect(few.size(Self.sample(0..<4_000), .empty), near: total, "few tables")
    #expect(tables.asked.count <= 4)
  }

  @Test func `of very many runs the largest are asked`() throws {
    let tables = Tables()
    var runs: [SortedRun] = []
    for run in 0..<60 { runs.append(try tables.add(Self.rows(20) { _ in run == 59 ? 5_000 : 10 }, by: 20)) }
    let size = Self.estimate(runs, tables).size(Self.sample(0..<20), .empty)
    Self.expect(size, near: 20 * 5_000, "sixty runs")
    #expect(tables.asked.count <= 32)
  }

  @Test func `a table that can't be read leaves no estimate`() throws {
    let tables = Tables()
    let run = try tables.add(Self.rows(100) { _ in 50 }, by: 50)
    let missing = SortedRun([Make.table(99, "a", "z")])
    #expect(Self.estimate([run, missing], tables).size(Self.sample(0..<100), .empty) == nil)
    #expect(Self.estimate([missing], tables).size(Self.sample([]), .empty) == 0)
    #expect(Self.estimate([], tables).size(Self.sample(0..<100), .empty) == 0)
  }

  @Test func `a memtable's deletes count once for each key, and not under a newer put`() throws {
    let tables = Tables()
    let run = try tables.add(Self.rows(1_000) { _ in 400 }, by: 250)
    let memtable = MemTable(capacity: 1 << 20)
    func insert(_ number: Int, _ sequence: UInt64, _ kind: EntryKind) {
      _ = Self.key(number).withByteView { memtable.insert($0, Trailer(SequenceNumber(sequence), kind), ByteView()) }
    }
    for number in 0..<300 {
      insert(number, 10, .delete)
      insert(number, 20, number < 100 ? .put : .delete)
    }
    let actual = 200 * Int(run.totalSize) / 1_000
    Self.expect(Self.estimate([run], tables).size(of: memtable), near: actual, "a memtable")
    Self.key(500).withByteView { start in
      Self.key(1_000).withByteView { end in
        _ = memtable.insert(start, Trailer(SequenceNumber(30), .rangeDelete), end)
      }
    }
    memtable.rangeTombstones.endEdit()
    let all = Self.estimate([run], tables, countsCovered: true).size(of: memtable)
    Self.expect(all, near: actual + Int(run.totalSize) / 2, "with a range")
  }

  @Test func `a sample is bounded in keys and bytes, keeps their order, and does not depend on patterns`() {
    var many = TombstoneSample()
    for number in 0..<100_000 { Self.key(number).withByteView { many.add($0) } }
    #expect(many.tombstoneCount == 100_000)
    #expect(many.count > TombstoneSample.countMaximum / 4 && many.count <= TombstoneSample.countMaximum)
    var last: [UInt8] = []
    var even = 0
    for index in 0..<many.count {
      let key = many[index].bytes
      #expect(last.lexicographicallyPrecedes(key))
      #expect(many.hash(index) == key.withByteView { KeyHash.hash($0) })
      if key[key.count - 1] % 2 == 0 { even += 1 }
      last = key
    }
    #expect(even > many.count / 3 && even < many.count * 2 / 3)
    var long = TombstoneSample()
    for number in 0..<200 {
      (Self.key(number) + [UInt8](repeating: 1, count: 60_000)).withByteView { long.add($0) }
    }
    #expect(long.count > 0 && long.memorySize < 3 << 20)
    #expect(long.tombstoneCount == 200)
  }
}
