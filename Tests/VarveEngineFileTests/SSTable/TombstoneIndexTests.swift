import EngineTestSupport
import Testing

@testable import EngineFixtures
@testable import VarveEngine

/// Tests of range tombstones in several blocks with an index, from which a read takes one block through the cache.
struct TombstoneIndexTests {
  /// A table with `count` range tombstones, and the list of them.
  private struct Tombstones {
    let file = ArrayFile()
    let list: RangeTombstoneList
    let reader: TableReader
    let summary: TableSummary

    init(count: Int, keySize: Int = 12, seed: UInt64 = 1, cacheSize: Int = 1 << 20) throws {
      var random = SeededRandom(seed: seed)
      let builder = TableBuilder(file: file, number: FileNumber(1), tableID: 77, options: .small)
      var expected = RangeTombstoneListBuilder()
      var number = 0
      for _ in 0..<count {
        number += 1 + random.below(3)
        let start = Self.key(number, keySize)
        number += 1 + random.below(3)
        let end = Self.key(number, keySize)
        let newest = UInt64(100 + random.below(900))
        let sequences = random.oneIn(3) ? [newest, newest / 2] : [newest]
        start.withByteView { start in
          end.withByteView { end in
            builder.addRangeTombstone(start, end, sequences)
            expected.append(start, end, sequences)
          }
        }
      }
      list = RangeTombstoneList(expected)
      summary = try builder.finish()
      reader = try TableReader.open(
        file: file, number: FileNumber(1), fileSize: summary.fileSize, cache: BlockCache(capacity: cacheSize))
    }

    static func key(_ number: Int, _ size: Int = 12) -> [UInt8] {
      let digits = (0..<4).map { UInt8(truncatingIfNeeded: number >> (24 - $0 * 8)) }
      return [UInt8](repeating: 0x6b, count: max(size - 4, 0)) + digits
    }
  }

  /// Returns the code of the error that `body` throws, or `nil` if it throws none.
  private static func code(_ body: () throws -> Void) -> EngineError.Code? {
    do { try body() } catch { return (error as? EngineError)?.code }
    return nil
  }

  private static func newest(_ key: [UInt8], _ reader: TableReader) throws -> SequenceNumber {
    try key.withByteView { (key) throws(EngineError) in try reader.tombstone(covering: key, at: .maximum) }
  }

  @Test func `a short list is in one block, and a long one in several`() throws {
    #expect(try !Tombstones(count: 0).reader.footer.hasTombstoneIndex)
    #expect(try !Tombstones(count: 100).reader.footer.hasTombstoneIndex)
    for (count, keySize) in [(2_000, 12), (3, 40_000), (2, 60_000), (20_000, 8)] {
      let table = try Tombstones(count: count, keySize: keySize)
      #expect(table.reader.footer.hasTombstoneIndex)
      #expect(try table.reader.readTombstoneIndex().count >= 2)
      try table.reader.verify()
      let read = try table.reader.rangeTombstones()
      #expect(read.count == table.list.count)
      #expect(UInt64(read.tombstoneCount) == table.summary.rangeTombstoneCount)
      for index in 0..<read.count {
        #expect(read.start(index) == table.list.start(index) && read.end(index) == table.list.end(index))
        #expect(read.sequences(index).elementsEqual(table.list.sequences(index)))
      }
    }
  }

  @Test func `each key has the tombstone, and the range around it, of the whole list`() throws {
    let table = try Tombstones(count: 3_000, seed: TestScale.seed ?? 11)
    for number in stride(from: 0, to: 16_000, by: 3) {
      for at in [50, 300, 2_000] as [UInt64] {
        let sequence = SequenceNumber(at)
        try Tombstones.key(number).withByteView { (key) throws(EngineError) in
          let expected = table.list.segment(around: key, at: sequence)
          let covering = try table.reader.tombstone(covering: key, at: sequence)
          #expect(covering == expected.sequence)
          let part = try table.reader.tombstones(around: key)
          #expect(part.contains(key))
          let found = part.list.segment(around: key, at: sequence)
          #expect(found.sequence == expected.sequence)
          if let lower = found.lower ?? part.lower { #expect(expected.lower.map { $0 <= lower } ?? true) }
          if let upper = found.upper ?? part.upper { #expect(expected.upper.map { upper <= $0 } ?? true) }
        }
      }
    }
  }

  @Test func `an open table keeps the index, and a key costs one small block of the cache`() throws {
    let table = try Tombstones(count: 50_000, keySize: 16)
    let content = table.list.memorySize
    #expect(table.reader.footprint < content / 10, "\(table.reader.footprint) of \(content) bytes")
    _ = try Self.newest(Tombstones.key(5, 16), table.reader)
    let before = table.reader.cache.usedBytes
    _ = try Self.newest(Tombstones.key(90_000, 16), table.reader)
    #expect(table.reader.cache.usedBytes - before < 2 * RangeTombstoneBlock.partSize)
  }

  @Test func `damage in a part or in the index is reported, and the other parts are salvaged`() throws {
    let table = try Tombstones(count: 2_000)
    let index = try table.reader.readTombstoneIndex()
    let parts = (0..<index.count).map { index.handle($0) }
    var bytes = table.file.bytes
    bytes[Int(parts[3].offset) + 5] ^= 0x10
    let damaged = ArrayFile(bytes)
    let reader = try TableReader.open(
      file: damaged, number: FileNumber(1), fileSize: table.summary.fileSize, cache: BlockCache(capacity: 1 << 20))
    #expect(Self.code { try reader.verify() } == .corruption)
    #expect(Self.code { _ = try reader.rangeTombstones() } == .corruption)
    let bad = index.start(3).bytes
    #expect(Self.code { _ = try Self.newest(bad, reader) } == .corruption)
    let good = index.start(4).bytes
    #expect(try Self.newest(good, reader) != .zero)
    let salvage = try TableSalvage(damaged, number: FileNumber(1), tableID: 77)
    try salvage.run { _, _, _ in }
    #expect(salvage.parts.count == 1)
    #expect(salvage.rangeTombstones.count > table.list.count * 8 / 10)
    #expect(salvage.rangeTombstones.count < table.list.count)

    // Without a footer, parts are found by their checksums.
    let footless = Array(table.file.bytes.dropLast(TableFormat.footerSize)) + [UInt8](repeating: 1, count: 128)
    let file = ArrayFile(footless)
    let scan = try TableSalvage(file, number: FileNumber(1), tableID: 77)
    try scan.run { _, _, _ in }
    #expect(scan.rangeTombstones.count == table.list.count)
  }

  @Test func `an index with any flipped bit is damage or names the same blocks`() throws {
    let table = try Tombstones(count: 600)
    let footer = table.reader.footer
    let memory = try table.reader.read(footer.rangeTombstones, .rangeTombstones)
    let good = memory.view.slice(0, Int(footer.rangeTombstones.contentSize)).bytes
    let section = try #require(footer.rootIndex.end)..<footer.rangeTombstones.offset
    func read(_ bytes: [UInt8]) throws -> RangeTombstoneIndex {
      try bytes.withByteView { view throws(EngineError) in
        try RangeTombstoneIndex(view, section: section, path: "t", offset: 0)
      }
    }
    let count = try read(good).count
    for bit in 0..<good.count * 8 {
      var bytes = good
      bytes[bit / 8] ^= 1 << UInt8(bit % 8)
      guard let index = try? read(bytes) else { continue }
      #expect(index.count == count)
      for part in 0..<count {
        #expect(section.contains(index.handle(part).offset))
        #expect(index.start(part) < index.end(part))
      }
    }
    for size in 0..<good.count { #expect(Self.code { _ = try read(Array(good.prefix(size))) } == .corruption) }
  }
}
