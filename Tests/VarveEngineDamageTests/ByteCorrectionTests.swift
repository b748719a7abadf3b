import EngineTestSupport
import Testing

@testable import VarveEngine

/// Tests of the correction of one wrong byte by a checksum.
struct ByteCorrectionTests {
  private static let seed: UInt64 = 31

  /// A message and the checksum that it had.
  private struct Message {
    var bytes: [UInt8]
    let seed: UInt32
    let stored: UInt32

    init(_ random: inout SeededRandom, size: Int) {
      bytes = random.bytes(size)
      let seed = UInt32(truncatingIfNeeded: random.next())
      self.seed = seed
      stored = bytes.withByteView { CRC32C.extend(seed, $0) }
    }

    func locate() -> ByteCorrection.Fix? {
      bytes.withByteView { ByteCorrection.locate($0, seed: seed, stored: stored) }
    }
  }

  @Test func `a wrong byte is found, with the bits that differ, at every offset of a message`() {
    var random = SeededRandom(seed: Self.seed)
    for size in [1, 2, 3, 12, 60, 1_000] {
      for offset in 0..<size {
        var message = Message(&random, size: size)
        let bits = UInt8(1 + random.below(255))
        message.bytes[offset] ^= bits
        #expect(message.locate() == ByteCorrection.Fix(offset: offset, bits: bits), "byte \(offset) of \(size)")
      }
    }
  }

  @Test func `a sound message has no wrong byte, and neither has an empty one`() {
    var random = SeededRandom(seed: Self.seed)
    for size in [0, 1, 64] { #expect(Message(&random, size: size).locate() == nil) }
  }

  @Test func `of two wrong bytes in a short message, no single one explains the checksum`() {
    var random = SeededRandom(seed: Self.seed)
    for _ in 0..<2_000 {
      var message = Message(&random, size: 100)
      let first = random.below(100)
      message.bytes[first] ^= UInt8(1 + random.below(255))
      message.bytes[(first + 1 + random.below(99)) % 100] ^= UInt8(1 + random.below(255))
      #expect(message.locate() == nil, "seed \(Self.seed)")
    }
  }

  @Test func `a wrong byte of the longest message is found, and a longer message is not searched`() {
    var random = SeededRandom(seed: Self.seed)
    var longest = Message(&random, size: ByteCorrection.sizeMaximum)
    longest.bytes[7] ^= 0x40
    #expect(longest.locate() == ByteCorrection.Fix(offset: 7, bits: 0x40))
    var longer = Message(&random, size: ByteCorrection.sizeMaximum + 1)
    longer.bytes[7] ^= 0x40
    #expect(longer.locate() == nil)
  }
}
