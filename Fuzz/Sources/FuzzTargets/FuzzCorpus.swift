@testable import VarveEngine

/// Builds valid inputs of each target with the writers of the engine and the object database.
///
/// The same seed yields the same bytes.
enum FuzzCorpus {
  static func build(_ target: FuzzTarget, count: Int, seed: UInt64) -> [[UInt8]] {
    var random = SeededRandom(seed: seed)
    return (0..<count).map { _ in build(target, &random) }
  }

  private static func build(_ target: FuzzTarget, _ random: inout SeededRandom) -> [UInt8] {
    switch target {
    case .batch: batch(&random)
    case .block: block(&random)
    case .catalog: ObjectInputs.catalog(&random)
    case .compression: compression(&random)
    case .feed: ObjectInputs.feed(&random)
    case .filter: filter(&random)
    case .footer: Array(table(&random).suffix(TableFormat.footerSize))
    case .index: index(&random)
    case .jsonValue: ObjectInputs.json(&random)
    case .key: ObjectInputs.key(&random)
    case .keyRange: keyRange(&random)
    case .log: LogInputs.build(&random)
    case .manifest: ManifestInputs.build(&random)
    case .properties: properties(&random)
    case .propertyList: ObjectInputs.propertyList(&random)
    case .rangeTombstones: rangeTombstones(&random)
    case .rowHeader: ObjectInputs.rowHeader(&random)
    case .table: table(&random)
    case .value: ObjectInputs.value(&random)
    case .versionEdit: ManifestInputs.edit(&random)
    }
  }

  // MARK: - Parts that several inputs have

  static func key(_ random: inout SeededRandom) -> [UInt8] {
    switch random.below(4) {
    case 0: [UInt8](repeating: 0x61, count: random.below(24)) + [UInt8(random.below(3))]
    case 1: Array(("user/" + String(100_000 + random.below(1_000))).utf8)
    default: bytes(random.below(12), &random)
    }
  }

  static func bytes(_ count: Int, _ random: inout SeededRandom) -> [UInt8] {
    let isText = random.oneIn(2)
    return (0..<count).map { _ in UInt8(isText ? 0x61 + random.below(4) : random.below(256)) }
  }

  struct Row {
    var key: [UInt8]
    var trailer: Trailer
    var value: [UInt8]
  }

  /// Returns sorted rows, no two of which have the same internal key.
  static func rows(_ count: Int, _ random: inout SeededRandom) -> [Row] {
    let isUniform = random.oneIn(3)
    let kinds: [EntryKind] = [.put, .put, .put, .delete, .singleDelete, .merge]
    var rows: [Row] = []
    for number in 0..<count {
      let key = !rows.isEmpty && random.oneIn(5) ? rows[random.below(rows.count)].key : key(&random)
      let kind = isUniform ? EntryKind.put : kinds[random.below(kinds.count)]
      let sequence = SequenceNumber(isUniform ? 9 : UInt64(number) << UInt64(random.below(40)))
      let size = isUniform ? 8 : kind == .put || kind == .merge ? random.below(40) : 0
      rows.append(Row(key: key, trailer: Trailer(sequence, kind), value: bytes(size, &random)))
    }
    rows.sort { left, right in
      left.key == right.key
        ? left.trailer.word > right.trailer.word : left.key.lexicographicallyPrecedes(right.key)
    }
    var unique: [Row] = []
    for row in rows {
      if let last = unique.last, last.key == row.key, last.trailer == row.trailer { continue }
      unique.append(row)
    }
    return unique
  }

  // MARK: - Inputs

  static func block(_ random: inout SeededRandom) -> [UInt8] {
    var builder = BlockBuilder(capacity: 256)
    for row in rows(random.below(50), &random) {
      row.key.withByteView { key in row.value.withByteView { builder.add(key, row.trailer, $0) } }
    }
    return builder.finish().bytes
  }

  private static func index(_ random: inout SeededRandom) -> [UInt8] {
    var columns = IndexColumnsBuilder()
    var separators = BlockBuilder(capacity: 256)
    var offset = UInt64(random.below(1 << 20))
    let firstOffset = offset
    for row in rows(random.below(40), &random) {
      let storedSize = UInt32(100 + random.below(4_000))
      let sequence = UInt64(random.below(1 << 30))
      let entry = IndexEntry(
        handle: BlockHandle(
          offset: offset, storedSize: storedSize, contentSize: storedSize + UInt32(random.below(300))),
        rowCount: UInt32(random.below(100)), tombstoneCount: UInt32(random.below(3)),
        smallestSequence: SequenceNumber(sequence), largestSequence: SequenceNumber(sequence + 50),
        flags: UInt8(random.below(8)))
      offset += UInt64(entry.handle.fileSize)
      columns.add(entry)
      row.key.withByteView { separators.add($0, row.trailer, ByteView()) }
    }
    var writer = ByteWriter()
    columns.append(firstOffset: firstOffset, to: &writer)
    writer.append(separators.finish())
    return writer.bytes
  }

  private static func filter(_ random: inout SeededRandom) -> [UInt8] {
    var builder = BloomFilterBuilder(bitsPerKey: 1 + random.below(24))
    for _ in 0..<random.below(400) { builder.add(random.next()) }
    var writer = ByteWriter()
    builder.finish(appendingTo: &writer)
    return writer.bytes
  }

  private static func batch(_ random: inout SeededRandom) -> [UInt8] {
    var writer = ByteWriter()
    appendEntries(random.below(20), to: &writer, &random)
    return writer.bytes
  }

  static func appendEntries(_ count: Int, to writer: inout ByteWriter, _ random: inout SeededRandom) {
    let kinds: [EntryKind] = [.put, .put, .delete, .singleDelete, .rangeDelete, .merge]
    for _ in 0..<count {
      let kind = kinds[random.below(kinds.count)]
      let family = FamilyID(UInt32(random.oneIn(4) ? random.below(1 << 30) : random.below(4)))
      let value = bytes(random.below(random.oneIn(8) ? 300 : 30), &random)
      key(&random).withByteView { key in
        value.withByteView { BatchFormat.append(kind, family, key, $0, to: &writer) }
      }
    }
  }

  private static func compression(_ random: inout SeededRandom) -> [UInt8] {
    let codec = Compression.allCases[random.below(3)]
    let words = (0..<4).map { _ in bytes(random.below(20), &random) }
    let content = (0..<random.below(60)).flatMap { _ in words[random.below(4)] }
    var packed = ByteWriter()
    let isPacked = content.withByteView { codec.compress($0, appendingTo: &packed) }
    let head = [isPacked ? codec.rawValue : 0, UInt8(content.count & 0xff), UInt8(content.count >> 8)]
    return head + (isPacked ? packed.bytes : content)
  }

  private static func properties(_ random: inout SeededRandom) -> [UInt8] {
    var properties = TableProperties()
    properties.entryCount = random.next() >> UInt64(random.below(64))
    properties.keyCount = random.next() >> UInt64(random.below(64))
    properties.valuesSize = random.next() >> UInt64(random.below(64))
    properties.smallestKey = key(&random)
    properties.largestKey = key(&random)
    properties.smallestTrailer = Trailer(word: random.next())
    properties.smallestSequence = SequenceNumber(random.next() >> 8)
    properties.largestSequence = SequenceNumber(random.next() >> 8)
    properties.compression = UInt8(random.below(3))
    properties.level = UInt64(random.below(7))
    var writer = ByteWriter()
    properties.append(to: &writer)
    return writer.bytes
  }

  private struct Fragment {
    var start: [UInt8]
    var end: [UInt8]
    var sequences: [UInt64]
  }

  /// Returns ascending ranges, each with descending sequence numbers.
  private static func fragments(_ random: inout SeededRandom) -> [Fragment] {
    let keys = Set((0..<random.below(20)).map { _ in key(&random) }).sorted { $0.lexicographicallyPrecedes($1) }
    return zip(keys, keys.dropFirst()).compactMap { start, end in
      if random.oneIn(3) { return nil }
      let sequences = Set((0...random.below(4)).map { _ in 1 + random.next() >> UInt64(8 + random.below(48)) })
      return Fragment(start: start, end: end, sequences: sequences.sorted(by: >))
    }
  }

  private static func rangeTombstones(_ random: inout SeededRandom) -> [UInt8] {
    var builder = RangeTombstoneListBuilder()
    for fragment in fragments(&random) {
      fragment.start.withByteView { start in
        fragment.end.withByteView { builder.append(start, $0, fragment.sequences) }
      }
    }
    var writer = ByteWriter()
    RangeTombstoneBlock.append(RangeTombstoneList(builder), to: &writer)
    return writer.bytes
  }

  private static func keyRange(_ random: inout SeededRandom) -> [UInt8] {
    var input = [UInt8(random.below(16))]
    for _ in 0..<6 {
      let key = (0..<random.below(4)).map { _ in [0, 1, 0x61, 0xfe, 0xff][random.below(5)] as UInt8 }
      input.append(UInt8(key.count))
      input += key
    }
    return input
  }

  static func table(_ random: inout SeededRandom) -> [UInt8] {
    var options = TableOptions()
    options.blockSize = 64 + random.below(512)
    options.indexPartitionSize = 64 + random.below(600)
    options.compression = Compression.allCases[random.below(3)]
    options.bloomBitsPerKey = [0, 6, 10][random.below(3)]
    options.bufferSize = 1024
    let fileSystem = MemoryFileSystem()
    do throws(EngineError) {
      let file = try fileSystem.createFile("table")
      let builder = TableBuilder(file: file, number: FileNumber(1), tableID: random.next(), options: options)
      for row in rows(random.below(120), &random) {
        try row.key.withByteView { (key) throws(EngineError) in
          try row.value.withByteView { (value) throws(EngineError) in try builder.add(key, row.trailer, value) }
        }
      }
      for fragment in random.oneIn(2) ? fragments(&random) : [] {
        fragment.start.withByteView { start in
          fragment.end.withByteView { builder.addRangeTombstone(start, $0, fragment.sequences) }
        }
      }
      _ = try builder.finish()
      return try FileContents(reading: file, size: Int(try file.size())).view.bytes
    } catch {
      fatalError("a table in memory can't be built: \(error)")
    }
  }
}
