import EngineTestSupport
import Testing

@testable import EngineFixtures
@testable import VarveEngine

struct TableCopyTests {
  /// Merges two tables, and copies whole blocks if that is allowed. Returns the merged table and the number of copied
  /// blocks.
  static func merge(
    _ left: TestTable, _ right: TestTable, copies: Bool, _ options: TableOptions
  ) throws -> (ArrayFile, TableSummary) {
    let file = ArrayFile()
    let builder = TableBuilder(file: file, number: FileNumber(3), tableID: 0xfeed, options: options)
    let first = left.reader.makeIterator(.compaction)
    let second = right.reader.makeIterator(.compaction)
    try first.seekToFirst()
    try second.seekToFirst()
    while first.isValid || second.isValid {
      let isFirst =
        first.isValid
        && (!second.isValid
          || InternalKey(first.userKey, first.trailer).compare(InternalKey(second.userKey, second.trailer)) < 0)
      let winner = isFirst ? first : second
      let other = isFirst ? second : first
      if copies, winner.isAtBlockStart, builder.canCopyBlock(winner),
        !other.isValid || winner.blockEnds(before: InternalKey(other.userKey, other.trailer))
      {
        try builder.copyBlock(from: winner)
        try winner.nextBlock()
      } else {
        try builder.add(winner.userKey, winner.trailer, winner.value)
        try winner.next()
      }
    }
    return (file, try builder.finish())
  }

  @Test(arguments: [Compression.none, .lz4], KeyShape.allCases)
  func `a merge that copies blocks makes the same entries as one that does not`(
    compression: Compression, shape: KeyShape
  ) throws {
    let seed: UInt64 = 40
    var random = SeededRandom(seed: seed)
    var options = TableOptions.small
    options.compression = compression
    let all = shape.entries(600, &random)
    // Runs of entries go to one of the two tables, so that some blocks do not overlap others.
    var parts: [[Entry]] = [[], []]
    var side = 0
    for entry in all {
      if random.oneIn(25) { side = 1 - side }
      parts[side].append(entry)
    }
    let left = try TestTable(parts[0], options, tableID: 1)
    let right = try TestTable(parts[1], options, tableID: 2)
    let (file, summary) = try Self.merge(left, right, copies: true, options)
    #expect(summary.properties.copiedBlockCount > 0, "seed \(seed)")
    #expect(summary.entryCount == UInt64(all.count))
    let reader = try TableReader.open(
      file: file, number: FileNumber(3), fileSize: summary.fileSize, cache: BlockCache(capacity: 1 << 20))
    try reader.verify()
    let iterator = reader.makeIterator(.user)
    try iterator.seekToFirst()
    for entry in all {
      #expect(iterator.entry == entry, "seed \(seed)")
      try iterator.next()
      #expect(try reader.entry(entry.key, at: entry.sequence) == entry)
    }
    let (_, plain) = try Self.merge(left, right, copies: false, options)
    #expect(plain.properties.keyCount == summary.properties.keyCount)
    #expect(plain.rawSize == summary.rawSize)
    #expect(plain.tombstoneCount == summary.tombstoneCount)
  }

  @Test func `the checksum of a copied block is valid only at its new offset`() throws {
    var random = SeededRandom(seed: 6)
    let content = (0..<500).map { _ in UInt8(truncatingIfNeeded: random.next()) }
    var block = ByteWriter()
    block.append(content)
    BlockTrailer.seal(.lz4, content: block.view, tableID: 7, offset: 4096, to: &block)
    #expect(BlockTrailer.verifies(block.view, tableID: 7, offset: 4096))
    #expect(!BlockTrailer.verifies(block.view, tableID: 7, offset: 4097))
    #expect(!BlockTrailer.verifies(block.view, tableID: 8, offset: 4096))
    let checksum = block.view.load(block.count - 4, as: UInt32.self)
    block.patch(integer: BlockTrailer.rebased(checksum, from: (7, 4096), to: (9, 12)), at: block.count - 4)
    #expect(BlockTrailer.verifies(block.view, tableID: 9, offset: 12))
    #expect(!BlockTrailer.verifies(block.view, tableID: 7, offset: 4096))
  }
}
