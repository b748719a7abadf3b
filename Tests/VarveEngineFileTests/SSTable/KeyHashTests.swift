import EngineTestSupport
import Testing

@testable import VarveEngine

struct KeyHashTests {
  /// Returns the bytes 1, 8, 15, … of the given count.
  private static func pattern(_ count: Int) -> [UInt8] { (0..<count).map { UInt8(truncatingIfNeeded: $0 * 7 + 1) } }
  private func hash(_ key: [UInt8]) -> UInt64 { key.withByteView { KeyHash.hash($0) } }

  /// The hashes are on disk, so these numbers must never change. They were computed from the header comment by a
  /// program in another language.
  @Test(
    arguments: [
      (0, 0xe173_3d87_a258_503e), (1, 0x8a9e_336b_a51c_1b8f), (2, 0x59f0_6807_ae90_75de),
      (3, 0x0a73_8580_f6c5_6fcc), (4, 0xefdb_17ce_6235_640c), (7, 0x210b_eb7c_51f2_3a03),
      (8, 0x376d_96ae_22a1_1b45), (9, 0xb4c7_b64e_351c_4beb), (15, 0x88aa_86fd_f8ed_1c9c),
      (16, 0x85d4_57be_be54_b559), (17, 0x09de_c802_443d_8f25), (24, 0x1c0a_447f_eb94_6160),
      (31, 0xa06f_6e96_b477_2876), (32, 0x72bc_f9f2_0379_b326), (33, 0xaa43_5b97_cb99_a91b),
      (48, 0xc412_cd1f_2cac_4d14), (64, 0x21d3_7a95_abce_0cb8), (65, 0xe264_d561_bdf0_0f0f),
      (96, 0xffd8_6f84_cd60_a721), (97, 0x01bd_b0e7_0fdb_929c), (128, 0xd94e_8f7f_7769_0061),
      (1000, 0x7284_de0f_9d8b_d475),
    ] as [(Int, UInt64)])
  func `the hash function keeps its values on disk`(count: Int, expected: UInt64) {
    #expect(hash(Self.pattern(count)) == expected, "\(count) bytes")
  }

  @Test func `the hash equals that of a plain implementation of the documented steps`() {
    var random = SeededRandom(seed: 11)
    for count in 0...300 {
      let key = (0..<count).map { _ in UInt8(truncatingIfNeeded: random.next()) }
      #expect(hash(key) == plainHash(key), "\(count) bytes")
    }
  }

  /// A direct and slow implementation of the header comment of `KeyHash`.
  private func plainHash(_ key: [UInt8]) -> UInt64 {
    func load(_ offset: Int, _ size: Int) -> UInt64 {
      (0..<size).reduce(0) { $0 | UInt64(key[offset + $1]) << UInt64(8 * $1) }
    }
    func fold(_ left: UInt64, _ right: UInt64) -> UInt64 {
      let product = left.multipliedFullWidth(by: right)
      return product.high ^ product.low
    }
    let k0: UInt64 = 0x6a09_e667_f3bc_c909
    let k1: UInt64 = 0xbb67_ae85_84ca_a73b
    let k2: UInt64 = 0x3c6e_f372_fe94_f82b
    let k3: UInt64 = 0xa54f_f53a_5f1d_36f1
    let k4: UInt64 = 0x510e_527f_ade6_82d1
    let n = key.count
    var seed = k0 ^ UInt64(n) &* k4
    var p = 0
    if n > 64 {
      var other = seed
      while n - p > 64 {
        seed = fold(load(p, 8) ^ k1, load(p + 8, 8) ^ seed)
        other = fold(load(p + 16, 8) ^ k2, load(p + 24, 8) ^ other)
        p += 32
      }
      seed ^= other &* k4
    }
    var a: UInt64 = 0
    var b: UInt64 = 0
    switch n {
    case 0: break
    case 1...3: a = load(0, 1) << 16 | load(n / 2, 1) << 8 | load(n - 1, 1)
    case 4...7: (a, b) = (load(0, 4), load(n - 4, 4))
    case 8...16: (a, b) = (load(0, 8), load(n - 8, 8))
    default:
      while n - p > 16 {
        seed = fold(load(p, 8) ^ k1, load(p + 8, 8) ^ seed)
        p += 16
      }
      (a, b) = (load(n - 16, 8), load(n - 8, 8))
    }
    let x = a ^ k1
    let y = b ^ seed
    let product = x.multipliedFullWidth(by: y)
    return fold(product.low ^ x ^ k2, product.high ^ y ^ k3)
  }

  @Test(arguments: [3, 4, 7, 8, 12, 16, 17, 24, 32, 36, 64, 65, 100])
  func `each bit of the key changes each bit of the hash about half of the time`(count: Int) {
    var random = SeededRandom(seed: UInt64(count))
    let trials = 400
    var flips = [[Int]](repeating: [Int](repeating: 0, count: 64), count: count * 8)
    for _ in 0..<trials {
      var key = (0..<count).map { _ in UInt8(truncatingIfNeeded: random.next()) }
      let before = hash(key)
      for bit in 0..<(count * 8) {
        key[bit / 8] ^= 1 << UInt8(bit % 8)
        var difference = before ^ hash(key)
        key[bit / 8] ^= 1 << UInt8(bit % 8)
        while difference != 0 {
          flips[bit][difference.trailingZeroBitCount] += 1
          difference &= difference - 1
        }
      }
    }
    // For 400 fair throws, the standard deviation is 10: 64 is more than six of them.
    for bit in 0..<(count * 8) {
      for (output, flipped) in flips[bit].enumerated() where abs(flipped - trials / 2) > 64 {
        Issue.record(
          "\(count) bytes: bit \(bit) of the key flips bit \(output) of the hash \(flipped) of \(trials) times")
      }
    }
  }

  /// Each half of the hash is used alone by the filter, so each must behave as random by itself.
  @Test(arguments: [
    "decimal", "little-endian counter", "big-endian counter in 24 bytes", "one bit set", "two bits set in 32 bytes",
    "zeros of every length",
  ])
  func `structured keys collide no more than random ones`(shape: String) {
    let keys = structuredKeys(shape)
    let hashes = keys.map { hash($0) }
    #expect(Set(hashes).count == keys.count)
    let expected = Double(keys.count) * Double(keys.count) / 2 / 4_294_967_296
    for shift in [UInt64(0), 16, 32] {
      let distinct = Set(hashes.map { UInt32(truncatingIfNeeded: $0 >> shift) }).count
      let collisions = Double(keys.count - distinct)
      #expect(collisions <= expected + 6 * expected.squareRoot() + 3, "\(shape), bits from \(shift)")
    }
  }

  private func structuredKeys(_ shape: String) -> [[UInt8]] {
    func bytes(_ number: Int, _ count: Int) -> [UInt8] {
      (0..<count).map { UInt8(truncatingIfNeeded: number >> min(63, (count - 1 - $0) * 8)) }
    }
    switch shape {
    case "decimal":
      return (0..<60_000).map { number in
        let digits = Array(String(number).utf8)
        return [UInt8](repeating: 0x30, count: 16 - digits.count) + digits
      }
    case "little-endian counter": return (0..<60_000).map { bytes($0, 8).reversed() }
    case "big-endian counter in 24 bytes": return (0..<60_000).map { Array("collection/user/".utf8) + bytes($0, 8) }
    case "one bit set":
      return (1...64).flatMap { count in
        (0..<(count * 8)).map { bit in
          var key = [UInt8](repeating: 0, count: count)
          key[bit / 8] = 1 << UInt8(bit % 8)
          return key
        }
      }
    case "two bits set in 32 bytes":
      return (0..<256).flatMap { first in
        (0..<first).map { second in
          var key = [UInt8](repeating: 0, count: 32)
          key[first / 8] |= 1 << UInt8(first % 8)
          key[second / 8] |= 1 << UInt8(second % 8)
          return key
        }
      }
    default: return (0..<2_000).map { [UInt8](repeating: 0, count: $0) }
    }
  }
}
