import EngineTestSupport
import Testing

@testable import EngineFixtures
@testable import VarveEngine

struct IndexColumnsTests {
  /// Returns entries of consecutive blocks that begin at `offset`.
  private static func entries(_ random: inout SeededRandom, _ count: Int, offset: UInt64) -> [IndexEntry] {
    // The values of a column are all the same, or differ by up to its spread.
    let spread = (0..<7).map { _ in [0, 1, 200, 40_000, 3_000_000][random.below(5)] }
    func value(_ column: Int, _ least: Int) -> Int { least + (spread[column] == 0 ? 0 : random.below(spread[column])) }
    var offset = offset
    return (0..<count).map { _ in
      let stored = value(0, 1)
      defer { offset += UInt64(stored + BlockTrailer.size) }
      let smallest = UInt64(value(4, 7))
      return IndexEntry(
        handle: BlockHandle(offset: offset, storedSize: UInt32(stored), contentSize: UInt32(stored + value(1, 0))),
        rowCount: UInt32(value(2, 1)), tombstoneCount: UInt32(value(3, 0)),
        smallestSequence: SequenceNumber(smallest), largestSequence: SequenceNumber(smallest + UInt64(value(5, 0))),
        flags: UInt8(value(6, 0) & 7))
    }
  }

  /// Returns the encoded columns of the entries, followed by as many bytes as a block header has.
  private static func content(_ entries: [IndexEntry], firstOffset: UInt64) -> ByteWriter {
    var builder = IndexColumnsBuilder()
    for entry in entries { builder.add(entry) }
    var content = ByteWriter()
    builder.append(firstOffset: firstOffset, to: &content)
    content.append(repeating: 0xee, count: Block.headerSize)
    return content
  }

  @Test(arguments: 0..<200) func `every index entry is read back as it was added`(seed: Int) throws {
    var random = SeededRandom(seed: UInt64(seed))
    let count = random.below(300)
    let first = [0, 4_711, 1 << 40][random.below(3)] as UInt64
    let entries = Self.entries(&random, count, offset: first)
    let content = Self.content(entries, firstOffset: first)
    try IndexColumns.validate(content.view, rowCount: count)
    let columns = IndexColumns(content.view, rowCount: count)
    #expect(columns.size == content.count - Block.headerSize)
    for row in 0..<count {
      #expect(columns.entry(row) == entries[row], "seed \(seed), row \(row)")
      #expect(columns.handle(row) == entries[row].handle, "seed \(seed), row \(row)")
      #expect(columns.smallestSequence(row) == entries[row].smallestSequence, "seed \(seed), row \(row)")
    }
  }

  @Test func `index entries that differ only in their offsets take no bytes each`() {
    let entries = (0..<100).map { row in
      IndexEntry(
        handle: BlockHandle(offset: UInt64(row) * 1_005, storedSize: 1_000, contentSize: 4_000), rowCount: 40,
        tombstoneCount: 0, smallestSequence: .zero, largestSequence: .zero, flags: 0)
    }
    let content = Self.content(entries, firstOffset: 0)
    #expect(content.count - Block.headerSize == IndexColumns.headerSize)
  }

  @Test func `damaged columns are refused, or are read within their bounds`() throws {
    var random = SeededRandom(seed: 5)
    let entries = Self.entries(&random, 40, offset: 0)
    var refused = 0
    for seed in 0..<20_000 {
      var random = SeededRandom(seed: UInt64(seed))
      var content = Self.content(entries, firstOffset: 0)
      content.patch(integer: UInt8(random.below(256)), at: random.below(content.count))
      content.truncate(to: content.count - (random.below(2) == 0 ? 0 : random.below(content.count)))
      do throws(EngineError) {
        try IndexColumns.validate(content.view, rowCount: entries.count)
        // Content that passes the validation can be read up to the last row without an access outside of it.
        let columns = IndexColumns(content.view, rowCount: entries.count)
        for row in 0..<entries.count { #expect(columns.entry(row).handle.offset >= columns.handle(0).offset) }
      } catch {
        #expect(error.code == .corruption, "seed \(seed)")
        refused += 1
      }
    }
    #expect(refused > 10_000)
  }

  @Test func `an invalid width of a column is refused`() throws {
    var random = SeededRandom(seed: 9)
    let entries = Self.entries(&random, 10, offset: 0)
    for (column, width) in [(0, 8), (1, 5), (2, 5), (3, 5), (4, 8), (5, 8), (6, 2), (7, 1)] {
      var content = Self.content(entries, firstOffset: 0)
      content.patch(integer: UInt8(width), at: column)
      content.append(repeating: 0, count: 4_096)
      #expect(throws: EngineError.self, "column \(column)") {
        try IndexColumns.validate(content.view, rowCount: entries.count)
      }
    }
  }
}
