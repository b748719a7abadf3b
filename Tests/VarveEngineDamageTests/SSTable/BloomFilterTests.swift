import EngineTestSupport
import Testing

@testable import VarveEngine

struct BloomFilterTests {
  private func filter(_ hashes: [UInt64], bitsPerKey: Int = 10) -> [UInt8] {
    var builder = BloomFilterBuilder(bitsPerKey: bitsPerKey)
    for hash in hashes { builder.add(hash) }
    var output = ByteWriter()
    builder.finish(appendingTo: &output)
    return output.bytes
  }

  private func mayContain(_ filter: [UInt8], _ hash: UInt64) -> Bool {
    filter.withByteView { BloomFilter.mayContain($0, hash) }
  }

  private func validate(_ filter: [UInt8]) throws(EngineError) {
    try filter.withByteView { (view) throws(EngineError) in try BloomFilter.validate(view) }
  }

  private func keyHash(_ number: Int) -> UInt64 {
    let digits = Array(String(number).utf8)
    return ([UInt8](repeating: 0x30, count: 16 - digits.count) + digits).withByteView { KeyHash.hash($0) }
  }

  @Test func `a filter has the documented bytes`() throws {
    let hash: UInt64 = 0x8000_0000_0123_4567
    // There are two lines: 60 keys of 10 bits are 600 bits. The keys differ only in the lower half.
    var hashes = (0..<59).map { _ in UInt64(0) }
    for index in hashes.indices { hashes[index] = UInt64(index) * 0x0000_0001_0000_0001 }
    let bytes = filter(hashes + [hash])
    #expect(bytes.count == 2 * 64 + 8)
    #expect(Array(bytes.suffix(8)) == [2, 0, 0, 0, 6, 1, 0, 0])
    // The upper half is 2^31 of 2^32, which selects the second of two lines.
    var mixed: UInt32 = 0x0123_4567
    for probe in 0..<6 {
      let bit = Int(mixed >> 23)
      #expect(bytes[64 + bit / 8] & (1 << UInt8(bit % 8)) != 0, "probe \(probe)")
      mixed = mixed &* 0x9e37_79b9
    }
    try validate(bytes)
  }

  @Test func `a filter without keys contains no key`() throws {
    let bytes = filter([])
    #expect(bytes == [0, 0, 0, 0, 6, 1, 0, 0])
    try validate(bytes)
    #expect(!mayContain(bytes, 0))
    #expect(!mayContain(bytes, .max))
  }

  @Test(arguments: [1, 2, 5, 10, 16, 64])
  func `a key that was added is found`(bitsPerKey: Int) throws {
    for count in [1, 2, 7, 51, 52, 1_000, 20_000] {
      let hashes = (0..<count).map(keyHash)
      let bytes = filter(hashes, bitsPerKey: bitsPerKey)
      try validate(bytes)
      for (number, hash) in hashes.enumerated() where !mayContain(bytes, hash) {
        Issue.record("key \(number) of \(count) is missing at \(bitsPerKey) bits")
      }
    }
  }

  @Test(arguments: [(6, 0.075), (8, 0.03), (10, 0.0115), (12, 0.0055), (16, 0.0017), (20, 0.0006)])
  func `the rate of false positives is one in a hundred at ten bits a key`(bitsPerKey: Int, bound: Double) {
    let count = 60_000
    let bytes = filter((0..<count).map(keyHash), bitsPerKey: bitsPerKey)
    let falseCount = (count..<(3 * count)).count { mayContain(bytes, keyHash($0)) }
    let rate = Double(falseCount) / Double(2 * count)
    #expect(rate < bound, "\(rate) at \(bitsPerKey) bits")
    // A rate of zero would mean that the bits are not set as the size allows.
    #expect(rate > bound / 4, "\(rate) at \(bitsPerKey) bits")
  }

  @Test func `versions of one key count once`() {
    let once = filter((0..<1_000).map(keyHash))
    let twelve = filter((0..<12_000).map { keyHash($0 / 12) })
    #expect(once == twelve)
  }

  @Test func `a builder is used again for the next table`() {
    var builder = BloomFilterBuilder(bitsPerKey: 10)
    var output = ByteWriter()
    for number in 0..<100 { builder.add(keyHash(number)) }
    builder.finish(appendingTo: &output)
    output.removeAll()
    for number in 0..<300 { builder.add(keyHash(number)) }
    #expect(builder.count == 300)
    #expect(builder.estimatedSize == 6 * 64 + 8)
    builder.finish(appendingTo: &output)
    #expect(output.bytes == filter((0..<300).map(keyHash)))
  }

  @Test func `a footer that does not fit the size is corruption`() throws {
    let bytes = filter((0..<1_000).map(keyHash))
    for count in 0..<bytes.count {
      let error = #expect(throws: EngineError.self, "\(count) bytes") { try validate(Array(bytes.prefix(count))) }
      #expect([.corruption, .unsupportedFormat].contains(error?.code))
    }
    let offset = bytes.count - 8
    for (byte, value, code) in [
      (0, 1, .corruption), (3, 0xff, .corruption), (4, 0, .corruption), (4, 31, .corruption),
      (5, 2, .unsupportedFormat), (6, 1, .unsupportedFormat), (7, 0x80, .unsupportedFormat),
    ] as [(Int, UInt8, EngineError.Code)] {
      var damaged = bytes
      damaged[offset + byte] = value
      let error = #expect(throws: EngineError.self) { try validate(damaged) }
      #expect(error?.code == code, "byte \(byte) of the footer")
    }
  }

  /// The filter is at the end of a separate heap block, so that the address sanitizer detects a read past it; without
  /// the sanitizer, the test shows that no query traps.
  @Test(arguments: 0..<4 as Range<UInt64>)
  func `no damage makes a query trap`(seed: UInt64) {
    var random = SeededRandom(seed: seed)
    let whole = filter((0..<500).map(keyHash))
    for _ in 0..<3_000 {
      var bytes = Array(whole.prefix(random.oneIn(2) ? whole.count : random.below(whole.count + 1)))
      for _ in 0..<random.below(4) where !bytes.isEmpty {
        // Half of the damage hits the footer.
        let index = random.oneIn(2) ? random.below(bytes.count) : bytes.count - 1 - random.below(min(8, bytes.count))
        bytes[index] = UInt8(truncatingIfNeeded: random.next())
      }
      for _ in 0..<8 { _ = mayContain(bytes, random.next()) }
      do throws(EngineError) { try validate(bytes) } catch {
        #expect([.corruption, .unsupportedFormat].contains(error.code), "seed \(seed)")
      }
    }
  }
}
