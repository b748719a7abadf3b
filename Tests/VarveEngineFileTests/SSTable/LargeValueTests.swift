import EngineTestSupport
import Testing

@testable import EngineFixtures
@testable import VarveEngine

/// Tests of values that a table's builder compresses and writes piece by piece.
struct LargeValueTests {
  /// What a value consists of, from its start.
  enum Content: String, CaseIterable, Sendable {
    case noise, words, zeros
    /// Noise and then words, the reverse, and stretches of both in turn.
    case noiseFirst, noiseLast, mixed
    /// So little repetition that compression saves nearly an eighth, or slightly more.
    case nearlyEnough, barelyEnough

    func bytes(_ count: Int, seed: UInt64) -> [UInt8] {
      var random = SeededRandom(seed: seed)
      var bytes: [UInt8] = []
      bytes.reserveCapacity(count)
      while bytes.count < count {
        let isFirstHalf = bytes.count < count / 2
        switch self {
        case .noise: addNoise(1_000, to: &bytes, &random)
        case .words: addWords(1_000, to: &bytes, &random)
        case .zeros: bytes += [UInt8](repeating: 0, count: 1_000)
        case .noiseFirst, .noiseLast:
          if isFirstHalf == (self == .noiseFirst) {
            addNoise(1_000, to: &bytes, &random)
          } else {
            addWords(1_000, to: &bytes, &random)
          }
        case .mixed:
          addNoise(random.below(600_000), to: &bytes, &random)
          addWords(random.below(600_000), to: &bytes, &random)
        case .nearlyEnough:
          addNoise(900, to: &bytes, &random)
          bytes += [UInt8](repeating: 1, count: 100)
        case .barelyEnough:
          addNoise(850, to: &bytes, &random)
          bytes += [UInt8](repeating: 1, count: 150)
        }
      }
      bytes.removeLast(bytes.count - count)
      return bytes
    }

    private func addNoise(_ count: Int, to bytes: inout [UInt8], _ random: inout SeededRandom) {
      for _ in 0..<count { bytes.append(UInt8(truncatingIfNeeded: random.next())) }
    }

    private func addWords(_ count: Int, to bytes: inout [UInt8], _ random: inout SeededRandom) {
      let end = bytes.count + count
      while bytes.count < end { bytes += "word \(random.below(500)) ".utf8 }
    }
  }

  private static let pieceSize = 256 << 10

  @Test(arguments: [Compression.lz4, .zstd], Content.allCases)
  func `what is compressed in pieces decompresses to the value and its end`(
    compression: Compression, content: Content
  ) throws {
    let end = Content.noise.bytes(100, seed: 3)
    var packedCount = 0
    for size in [1, 12, 5_000, Self.pieceSize - 1, Self.pieceSize, Self.pieceSize + 1, Self.pieceSize + 13]
      + [2 * Self.pieceSize - 4, 3 * Self.pieceSize + 70_000]
    {
      let value = content.bytes(size, seed: UInt64(size))
      var packed: [UInt8] = []
      let isPacked = try value.withByteView { (view) throws(EngineError) in
        try end.withByteView { (end) throws(EngineError) in
          try compression.compress(view, then: end) { (part) throws(EngineError) in packed += part.bytes }
        }
      }
      guard isPacked else { continue }
      packedCount += 1
      let total = value.count + end.count
      #expect(packed.count <= total - (total + 7) / 8)
      var found = [UInt8](repeating: 0, count: total)
      var failure: EngineError?
      unsafe found.withUnsafeMutableBytes { buffer in
        packed.withByteView { packed in
          do throws(EngineError) { try unsafe compression.decompress(packed, into: buffer) } catch { failure = error }
        }
      }
      #expect(failure == nil)
      #expect(found == value + end, "\(compression), \(content), \(size) bytes")
    }
    if content == .words || content == .zeros || content == .barelyEnough { #expect(packedCount >= 6) }
    if content == .noise || content == .nearlyEnough { #expect(packedCount == 0) }
  }

  @Test(arguments: [Compression.none, .lz4, .zstd], Content.allCases)
  func `a table returns large values between small ones`(compression: Compression, content: Content) throws {
    var options = TableOptions.small
    options.compression = compression
    let large = Limits.largeSize
    var entries: [Entry] = [
      Entry(key: [1], sequence: 9, value: content.bytes(large + 1, seed: 1)),
      Entry(key: [1, 2], sequence: 8, value: [7]),
      Entry(key: [2], sequence: 7, value: content.bytes(2 * large + 17, seed: 2)),
      Entry(key: [2], sequence: 6, value: [8]),
      Entry(key: [2], sequence: 5, value: content.bytes(large + 5, seed: 3)),
      Entry(key: [2], sequence: 3, kind: .delete),
      Entry(key: [3], sequence: 4, value: content.bytes(large, seed: 4)),
      Entry(key: [4], sequence: 4, value: content.bytes(large - 1, seed: 5)),
    ]
    entries += (0..<50 as Range<UInt8>).map {
      Entry(key: [5, $0], sequence: 2, value: [UInt8](repeating: $0, count: 40))
    }
    entries.append(Entry(key: [6], sequence: 1, value: content.bytes(large + 2, seed: 6)))
    let table = try TestTable(entries, options, cacheSize: 16 << 20)
    for _ in 0..<2 {
      for entry in entries {
        #expect(try table.get(entry.key, at: entry.sequence) == entry, "\(entry)")
      }
    }
    for purpose in [ReadPurpose.user, .compaction] {
      let iterator = table.reader.makeIterator(purpose)
      try iterator.seekToFirst()
      for entry in entries {
        #expect(iterator.entry == entry)
        try iterator.next()
      }
      #expect(!iterator.isValid)
    }
    #expect(table.summary.entryCount == UInt64(entries.count))
    // The block of the small values is compressed.
    let rawSize = entries.reduce(0) { $0 + ($1.value.count >= large - 1 ? $1.value.count : 0) }
    if compression == .none || content == .noise || content == .nearlyEnough {
      #expect(table.summary.fileSize >= UInt64(rawSize))
    } else if content != .mixed {
      #expect(table.summary.fileSize <= UInt64(rawSize - rawSize / 8 + (64 << 10)))
    }
    // What was written of a block that was then not compressed is overwritten.
    #expect(table.file.bytes.count == Int(table.summary.fileSize))
  }

  @Test(arguments: [Compression.lz4, .zstd])
  func `a wrong byte of a large compressed value is found`(compression: Compression) throws {
    var options = TableOptions.small
    options.compression = compression
    let value = Content.words.bytes(Limits.largeSize + 100, seed: 1)
    let table = try TestTable([Entry(key: [1], sequence: 1, value: value)], options, cacheSize: 16 << 20)
    for bit in [0, 77, 8 * 20_000] {
      table.file.flip(bit: bit)
      let cache = BlockCache(capacity: 16 << 20)
      let reader = try TableReader.open(
        file: table.file, number: FileNumber(1), fileSize: table.summary.fileSize, cache: cache,
        tableID: 0x1234_5678_9abc_def0)
      let error = #expect(throws: EngineError.self) { try reader.entry([1]) }
      #expect(error?.code == .corruption)
      table.file.flip(bit: bit)
    }
    #expect(try table.get([1])?.value == value)
  }

  @Test func `a builder keeps no memory for a large value`() throws {
    let builder = TableBuilder(file: ArrayFile(), number: FileNumber(1), tableID: 1, options: .small)
    let before = builder.memorySize
    let value = Content.noise.bytes(4 << 20, seed: 1)
    try ([1] as [UInt8]).withByteView { key throws(EngineError) in
      try value.withByteView { value throws(EngineError) in
        try builder.add(key, Trailer(SequenceNumber(1), .put), value)
      }
    }
    #expect(builder.memorySize <= before + (64 << 10))
    #expect(builder.estimatedFileSize >= 4 << 20)
    #expect(builder.entryCount == 1)
  }
}
