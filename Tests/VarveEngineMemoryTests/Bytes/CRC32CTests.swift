import CVarve
import EngineTestSupport
import Testing

@testable import VarveEngine

@Suite struct CRC32CTests {
  private func portable(_ view: ByteView, _ crc: UInt32 = 0) -> UInt32 {
    unsafe cvarve_crc32c_extend_portable(crc, view.base, view.count)
  }

  /// Computes the checksum bit by bit, from the definition.
  private func trivial(_ bytes: [UInt8]) -> UInt32 {
    var crc: UInt32 = .max
    for byte in bytes {
      crc ^= UInt32(byte)
      for _ in 0..<8 { crc = crc & 1 == 1 ? (crc >> 1) ^ 0x82f6_3b78 : crc >> 1 }
    }
    return ~crc
  }

  /// The vectors of RFC 3720, B.4, and the check value of the CRC catalog.
  static let vectors: [(bytes: [UInt8], expected: UInt32)] = [
    ([UInt8](repeating: 0, count: 32), 0x8a91_36aa),
    ([UInt8](repeating: 0xff, count: 32), 0x62a8_ab43),
    ([UInt8](0..<32), 0x46dd_794e),
    ([UInt8]((0..<32).reversed()), 0x113f_db5c),
    ([UInt8]("123456789".utf8), 0xe306_9283),
    ([], 0),
  ]

  @Test(arguments: vectors)
  func `known vectors have the expected checksums`(bytes: [UInt8], expected: UInt32) {
    #expect(bytes.withByteView { CRC32C.checksum($0) } == expected)
    #expect(bytes.withByteView { portable($0) } == expected)
    #expect(trivial(bytes) == expected)
  }

  @Test func `both implementations agree at every length up to 1,000 and every alignment`() {
    var random = SeededRandom(seed: 1)
    let bytes = (0..<1_016).map { _ in UInt8.random(in: 0...255, using: &random) }
    bytes.withByteView { view in
      for start in 0..<16 {
        for count in 0...1_000 {
          let slice = view.slice(start, start + count)
          let seed = UInt32(truncatingIfNeeded: count &* 0x9e37_79b9)
          let agree = CRC32C.extend(seed, slice) == portable(slice, seed)
          if !agree { Issue.record("start \(start) count \(count)") }
        }
      }
      #expect(CRC32C.checksum(view) == trivial(view.bytes))
    }
  }

  @Test func `both implementations agree on long inputs, whole and in pieces`() {
    var random = SeededRandom(seed: 2)
    let bytes = (0..<100_003).map { _ in UInt8.random(in: 0...255, using: &random) }
    let expected = trivial(bytes)
    bytes.withByteView { view in
      #expect(CRC32C.checksum(view) == expected)
      #expect(portable(view) == expected)
      for seed in UInt64(0)..<30 {
        var random = SeededRandom(seed: seed)
        var crc: UInt32 = 0
        var position = 0
        while position < view.count {
          let end = min(view.count, position + 1 + random.below(20_000))
          crc = CRC32C.extend(crc, view.slice(position, end))
          position = end
        }
        #expect(crc == expected, "seed \(seed)")
      }
      for count in [6_143, 6_144, 6_145, 12_288, 6_528, 50_000] {
        let slice = view.slice(1, 1 + count)
        #expect(CRC32C.checksum(slice) == portable(slice), "\(count) bytes")
      }
    }
  }

  @Test func `seeds of near locations differ`() {
    var seeds: Set<UInt32> = []
    for identity in UInt64(0)..<50 { for offset in UInt64(0)..<50 { seeds.insert(CRC32C.seed(identity, offset)) } }
    #expect(seeds.count > 2_495)
  }

  @Test func `this build has chosen an implementation that exists`() {
    #expect(["sse4.2", "armv8-crc", "portable"].contains(unsafe String(cString: cvarve_crc32c_implementation())))
  }
}
