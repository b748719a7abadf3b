import EngineTestSupport
import Testing

@testable import EngineFixtures
@testable import VarveEngine

struct TableDamageTests {
  /// Returns a table of a few KB that has every section: two index levels, filter, versions, tombstones.
  static func table(_ compression: Compression) throws -> TestTable {
    var random = SeededRandom(seed: 5)
    var options = TableOptions.small
    options.compression = compression
    options.indexPartitionSize = 110
    options.blockSize = 160
    var entries = KeyShape.decimal.entries(22, &random)
    entries += (0..<8).map { Entry(key: Array("a hot key".utf8), sequence: UInt64(100 - $0), value: [7, 7, 7, 7, 7]) }
    return try TestTable(entries.sorted(by: Entry.isBefore), options)
  }

  /// Reads all entries in every way. Returns whether a read failed, and a description of the first wrong result.
  static func read(_ table: TestTable, _ file: ArrayFile, size: UInt64) -> (failed: Bool, wrong: String?) {
    var failed = false
    let cache = BlockCache(capacity: 1 << 20)
    guard let reader = try? TableReader.open(file: file, number: FileNumber(1), fileSize: size, cache: cache) else {
      return (true, nil)
    }
    var previous: [UInt8]?
    for entry in table.entries where entry.key != previous {
      previous = entry.key
      do {
        if try reader.entry(entry.key) != entry { return (failed, "get \(entry)") }
        let absent = entry.key + [1]
        if try reader.entry(absent) != table.expected(absent) { return (failed, "get of an absent key") }
      } catch { failed = true }
    }
    for purpose in [ReadPurpose.user, .compaction] {
      let iterator = reader.makeIterator(purpose)
      var index = 0
      do {
        try iterator.seekToFirst()
        while let entry = iterator.entry {
          if entry != table.entries[index] { return (failed, "row \(index)") }
          index += 1
          try iterator.next()
        }
        if index != table.entries.count { return (failed, "\(index) rows") }
      } catch { failed = true }
      do {
        index = table.entries.count
        try iterator.seekToLast()
        while let entry = iterator.entry {
          index -= 1
          if entry != table.entries[index] { return (failed, "row \(index) backwards") }
          try iterator.previous()
        }
        if index != 0 { return (failed, "\(index) rows backwards") }
      } catch { failed = true }
    }
    return (failed, nil)
  }

  @Test(arguments: [Compression.none, .lz4])
  func `no flipped bit of a table goes unnoticed or gives a wrong answer`(compression: Compression) throws {
    let table = try Self.table(compression)
    #expect(table.reader.footer.indexLevelCount == 2)
    try table.reader.verify()
    let bytes = table.file.bytes
    for bit in 0..<bytes.count * 8 {
      let file = ArrayFile(bytes)
      file.flip(bit: bit)
      let outcome = Self.read(table, file, size: UInt64(bytes.count))
      #expect(outcome.wrong == nil, "bit \(bit)")
      #expect(throws: EngineError.self, "bit \(bit)") {
        try TableReader.open(
          file: file, number: FileNumber(1), fileSize: UInt64(bytes.count), cache: table.cache
        ).verify()
      }
    }
  }

  @Test func `a table cut anywhere is refused`() throws {
    let table = try Self.table(.lz4)
    let bytes = table.file.bytes
    for size in 0..<bytes.count {
      let file = ArrayFile(Array(bytes[..<size]))
      // The file is opened with its actual size, and with the size that it should have.
      let cut = Self.read(table, file, size: UInt64(size))
      #expect(cut.failed && cut.wrong == nil, "cut to \(size)")
      let short = Self.read(table, file, size: UInt64(bytes.count))
      #expect(short.failed && short.wrong == nil, "short by \(bytes.count - size)")
    }
  }

  @Test func `a fault names the file and the offset of the block`() throws {
    let table = try Self.table(.lz4)
    var bytes = table.file.bytes
    bytes[3] ^= 1
    let file = ArrayFile(bytes, path: "/db/000007.sst")
    let reader = try TableReader.open(
      file: file, number: FileNumber(7), fileSize: UInt64(bytes.count), cache: BlockCache(capacity: 1 << 20))
    let error = #expect(throws: EngineError.self) { try reader.verify() }
    #expect(error?.code == .corruption)
    #expect(error?.file == "/db/000007.sst")
    #expect(error?.offset == 0)
  }

  @Test func `damage of any byte of a block never leads to an access outside of the block`() throws {
    // Content with wrong bytes but a right checksum is not caused by disks, but by other programs.
    let seed: UInt64 = 21
    var random = SeededRandom(seed: seed)
    for shape in KeyShape.allCases {
      let builder = Self.content(shape.entries(40, &random))
      var refused = 0
      for index in builder.indices {
        for _ in 0..<6 {
          var bytes = builder
          bytes[index] = UInt8(random.below(256))
          if random.oneIn(3) { bytes[random.below(bytes.count)] = UInt8(random.below(256)) }
          // The allocation has exactly the content's size, so that a sanitizer detects an access outside of it.
          let memory = try BlockMemory.allocate(bytes.count)
          unsafe memory.buffer.copyBytes(from: bytes)
          do throws(EngineError) { try Block.validate(memory.view) } catch {
            refused += 1
            continue
          }
          Self.touch(Block(validated: memory.view), limit: memory.view)
        }
      }
      #expect(refused > 0, "seed \(seed)")
    }
  }

  static func content(_ entries: [Entry]) -> [UInt8] {
    var builder = BlockBuilder(capacity: 4096)
    for entry in entries {
      entry.key.withByteView { key in
        entry.value.withByteView { builder.add(key, entry.trailer, $0) }
      }
    }
    return builder.finish().bytes
  }

  /// Reads every row in every way.
  static func touch(_ block: Block, limit: ByteView) {
    for row in 0..<block.rowCount {
      var key = ByteWriter()
      block.appendKey(row, to: &key)
      #expect(key.count <= block.keySizeMaximum)
      let value = block.value(row)
      #expect(unsafe value.base >= limit.base && value.base + value.count <= limit.base + limit.count)
      let found = block.lowerBound(key.view, block.trailer(row))
      #expect(found >= 0 && found <= block.rowCount)
      _ = block.hasKey(row, key.view)
    }
  }

  @Test func `a footer of a later version or with unknown features is refused by name`() throws {
    let table = try Self.table(.none)
    let location = table.file.bytes.count - TableFormat.footerSize
    func code(_ change: (inout TableFooter) -> Void) -> EngineError.Code? {
      var footer = table.reader.footer
      change(&footer)
      var end = ByteWriter()
      footer.append(to: &end)
      let bytes = Array(table.file.bytes[..<location]) + end.bytes
      do throws(EngineError) {
        _ = try TableReader.open(
          file: ArrayFile(bytes), number: FileNumber(1), fileSize: UInt64(bytes.count), cache: table.cache)
      } catch { return error.code }
      return nil
    }
    #expect(code { _ in } == nil)
    #expect(code { $0.requiredFeatures = 4 } == .unsupportedFormat)
    // A section that is announced and missing, and one that exists and is not announced.
    #expect(code { $0.requiredFeatures = TableFormat.rangeTombstoneFeature } == .corruption)
    #expect(code { $0.rangeTombstones = BlockHandle(offset: 0, storedSize: 1, contentSize: 1) } == .corruption)
    #expect(code { $0.transformID = 1 } == .unsupportedFormat)
    #expect(code { $0.indexLevelCount = 3 } == .unsupportedFormat)
    #expect(code { $0.fileSize += 1 } == .corruption)
    #expect(code { $0.dataSize = 1 << 40 } == .corruption)
    #expect(code { $0.filterOffset = .max } == .corruption)
    #expect(code { $0.rootIndex = BlockHandle(offset: .max, storedSize: 1, contentSize: 1) } == .corruption)
  }
}
