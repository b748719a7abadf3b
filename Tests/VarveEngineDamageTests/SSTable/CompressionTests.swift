import EngineTestSupport
import Testing

@testable import VarveEngine

struct CompressionTests {
  /// Returns bytes that can be compressed to about half of their size.
  private func text(_ count: Int, _ random: inout SeededRandom) -> [UInt8] {
    var bytes: [UInt8] = []
    while bytes.count < count {
      if random.oneIn(3), bytes.count > 20 {
        // Repeats recent bytes, so that a part of the text compresses as well as the whole.
        let start = bytes.count - 16 - random.below(min(bytes.count - 16, 500))
        bytes += bytes[start..<(start + 16)]
      } else {
        bytes += (0..<8).map { _ in UInt8(0x61 + random.below(16)) }
      }
    }
    return Array(bytes.prefix(count))
  }

  private func noise(_ count: Int, _ random: inout SeededRandom) -> [UInt8] {
    (0..<count).map { _ in UInt8(truncatingIfNeeded: random.next()) }
  }

  private func packed(_ codec: Compression, _ bytes: [UInt8], level: Int32 = 1) -> [UInt8]? {
    var output = ByteWriter()
    output.append(integer: UInt32(0xfeed_beef))
    let isPacked = bytes.withByteView { codec.compress($0, appendingTo: &output, level: level) }
    #expect(Array(output.bytes.prefix(4)) == [0xef, 0xbe, 0xed, 0xfe])
    if !isPacked { #expect(output.count == 4) }
    return isPacked ? Array(output.bytes.dropFirst(4)) : nil
  }

  private func unpacked(_ codec: Compression, _ bytes: [UInt8], _ count: Int) throws(EngineError) -> [UInt8] {
    let memory = try BlockMemory.allocate(count)
    try bytes.withByteView { (view) throws(EngineError) in
      try unsafe codec.decompress(view, into: memory.buffer)
    }
    return memory.view.bytes
  }

  @Test func `the codecs keep their numbers on disk`() {
    #expect(Compression.none.rawValue == 0)
    #expect(Compression.lz4.rawValue == 1)
    #expect(Compression.zstd.rawValue == 2)
    #expect(Compression(rawValue: 3) == nil)
  }

  @Test(arguments: [Compression.lz4, .zstd])
  func `a compressed block of any size is decompressed to the original bytes`(codec: Compression) throws {
    var random = SeededRandom(seed: 1)
    var packedCount = 0
    let source = text(1 << 20, &random)
    for count in Array(0...5_000) + [16_384, 65_535, 65_536, 65_547, 1 << 20] {
      let start = random.below(source.count - count + 1)
      let bytes = Array(source[start..<(start + count)])
      guard let small = packed(codec, bytes) else { continue }
      packedCount += 1
      #expect(small.count <= count - (count + 7) / 8, "\(count) bytes")
      #expect(try unpacked(codec, small, count) == bytes, "\(count) bytes")
    }
    #expect(packedCount > 4_500, "of text nearly every size gets smaller")
  }

  @Test(arguments: [-5, 1, 3, 9, 19, 100] as [Int32])
  func `a block of every Zstandard level is decompressed to the original bytes`(level: Int32) throws {
    var random = SeededRandom(seed: 2)
    let bytes = text(16_384, &random)
    let small = try #require(packed(.zstd, bytes, level: level))
    #expect(try unpacked(.zstd, small, bytes.count) == bytes)
  }

  @Test(arguments: Compression.allCases)
  func `incompressible bytes are stored raw`(codec: Compression) {
    var random = SeededRandom(seed: 3)
    for count in [0, 1, 7, 8, 100, 16_384, 1 << 20] { #expect(packed(codec, noise(count, &random)) == nil) }
  }

  @Test(arguments: [Compression.lz4, .zstd])
  func `a block is compressed only if that saves an eighth of its size`(codec: Compression) throws {
    var random = SeededRandom(seed: 4)
    var largest = 0
    var refused = 0
    for zeros in stride(from: 0, through: 1_024, by: 8) {
      let bytes = noise(4_096 - zeros, &random) + [UInt8](repeating: 0, count: zeros)
      if let small = packed(codec, bytes) {
        largest = max(largest, small.count)
        #expect(try unpacked(codec, small, 4_096) == bytes)
      } else {
        refused += 1
      }
    }
    #expect(largest <= 3_584 && largest > 3_500, "\(largest)")
    #expect(refused > 60)
  }

  @Test func `raw bytes of another size than expected are corruption`() throws {
    #expect(try unpacked(.none, [1, 2, 3], 3) == [1, 2, 3])
    #expect(try unpacked(.none, [], 0) == [])
    for (bytes, count) in [([1, 2], 3), ([1, 2, 3, 4], 3), ([], 1), ([1], 0)] as [([UInt8], Int)] {
      let error = #expect(throws: EngineError.self) { try unpacked(.none, bytes, count) }
      #expect(error?.code == .corruption)
    }
  }

  @Test(arguments: [Compression.lz4, .zstd])
  func `a compressed block of another size than expected is corruption`(codec: Compression) throws {
    var random = SeededRandom(seed: 5)
    let bytes = text(3_000, &random)
    let small = try #require(packed(codec, bytes))
    for count in [0, 1, 2_999, 3_001, 6_000, 100_000] {
      let error = #expect(throws: EngineError.self, "\(count)") { try unpacked(codec, small, count) }
      #expect(error?.code == .corruption)
    }
    for cut in 0..<small.count {
      let error = #expect(throws: EngineError.self, "cut to \(cut)") {
        try unpacked(codec, Array(small.prefix(cut)), 3_000)
      }
      #expect(error?.code == .corruption)
    }
  }

  @Test func `a Zstandard block that is not exactly one frame is corruption`() throws {
    var random = SeededRandom(seed: 6)
    let bytes = text(1_000, &random)
    let small = try #require(packed(.zstd, bytes))
    let skippable: [UInt8] = [0x50, 0x2a, 0x4d, 0x18, 4, 0, 0, 0, 1, 2, 3, 4]
    for odd in [small + [0], small + skippable, skippable + small, small + small] {
      let error = #expect(throws: EngineError.self) { try unpacked(.zstd, odd, 1_000) }
      #expect(error?.code == .corruption)
    }
  }

  @Test(arguments: [Compression.lz4, .zstd], 0..<4 as Range<UInt64>)
  func `decompressing a damaged block never traps`(codec: Compression, seed: UInt64) throws {
    var random = SeededRandom(seed: seed)
    for _ in 0..<2_000 {
      let count = 64 + random.below(4_000)
      guard var bytes = packed(codec, text(count, &random)) else { continue }
      for _ in 0..<(1 + random.below(4)) { bytes[random.below(bytes.count)] = UInt8(truncatingIfNeeded: random.next()) }
      if random.oneIn(4) { bytes.removeLast(random.below(bytes.count)) }
      if random.oneIn(8) { bytes += noise(random.below(40), &random) }
      do throws(EngineError) {
        // Damage that happens to decompress to the right size is found by the block's checksum instead.
        #expect(try unpacked(codec, bytes, count).count == count)
      } catch {
        #expect(error.code == .corruption, "seed \(seed)")
      }
    }
  }
}
