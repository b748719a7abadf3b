import EngineTestSupport
import Testing

@testable import EngineFixtures
@testable import VarveEngine

/// Tests of tables whose checksums are right, and whose indexes name blocks at wrong positions: only a crafted file
/// can be so, and it must not be read outside its memory.
struct TablePlaceDamageTests {
  /// Returns a table with two index levels and no compression, so that bytes of its content can be changed in the
  /// file.
  private static func table() throws -> TestTable {
    var random = SeededRandom(seed: 8)
    var options = TableOptions.small
    options.compression = .none
    return try TestTable(KeyShape.decimal.entries(400, &random), options)
  }

  /// Returns the file with another first offset in an index block, whose checksum is right.
  private static func bytes(_ table: TestTable, _ index: BlockHandle, firstOffset: UInt64) -> ArrayFile {
    var bytes = table.file.bytes
    let start = Int(index.offset)
    let end = start + Int(index.storedSize)
    for byte in 0..<8 { bytes[start + 8 + byte] = UInt8(truncatingIfNeeded: firstOffset >> UInt64(8 * byte)) }
    let checksum = bytes.withByteView { CRC32C.extend(0, $0.slice(start, end + 1)) }
    let stored = checksum ^ CRC32C.seed(table.reader.footer.tableID, index.offset)
    for byte in 0..<4 { bytes[end + 1 + byte] = UInt8(truncatingIfNeeded: stored >> UInt32(8 * byte)) }
    return ArrayFile(bytes)
  }

  private static func open(_ table: TestTable, _ file: ArrayFile) throws -> TableReader {
    try TableReader.open(
      file: file, number: FileNumber(1), fileSize: table.reader.fileSize, cache: BlockCache(capacity: 1 << 20))
  }

  @Test func `a cached block is read with its own size where a damaged index names another`() throws {
    let table = try Self.table()
    #expect(table.reader.footer.indexLevelCount == 2)
    let root = try table.reader.root()
    #expect(root.rowCount >= 3)
    var differs = false
    for row in 1..<root.rowCount {
      // The partition claims that its first block is at the position of the table's first block.
      let partition = root.entries.handle(row)
      let memory = try table.reader.read(partition, .index)
      let index = IndexBlock(validated: memory.view.slice(0, Int(partition.contentSize)))
      let first = try table.reader.read(root.entries.handle(0), .index)
      let firstSize = IndexBlock(validated: first.view.slice(0, Int(root.entries.handle(0).contentSize)))
        .entries.handle(0).contentSize
      differs = differs || firstSize != index.entries.handle(0).contentSize
      let reader = try Self.open(table, Self.bytes(table, partition, firstOffset: 0))
      // The first block is in the cache from here on.
      #expect(try reader.entry(table.entries[0].key) == table.entries[0])
      for entry in table.entries {
        let found = try? reader.entry(entry.key)
        #expect(found == nil || found?.key == entry.key)
      }
    }
    #expect(differs, "all blocks have one size: nothing was tried")
  }

  @Test(arguments: [true, false])
  func `an index that names blocks of another section is damage`(isRoot: Bool) throws {
    let table = try Self.table()
    let footer = table.reader.footer
    let root = try table.reader.root()
    let index = isRoot ? footer.rootIndex : root.entries.handle(1)
    // Data blocks would be among the filter's pages, or partitions among the data.
    for offset in isRoot ? [0, footer.filterOffset] : [footer.filterOffset, footer.rootIndex.offset, 1 << 62] {
      let file = Self.bytes(table, index, firstOffset: offset)
      let error = #expect(throws: EngineError.self, "first offset \(offset)") {
        let reader = try Self.open(table, file)
        for entry in table.entries { _ = try reader.entry(entry.key) }
      }
      #expect(error?.code == .corruption && error?.offset == index.offset, "\(String(describing: error))")
    }
  }
}
