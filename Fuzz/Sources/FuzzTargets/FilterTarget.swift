@testable import VarveEngine

/// The target for Bloom filters. The input is a filter, and the same bytes are also used as keys of a new filter.
enum FilterTarget {
  static func read(_ input: ByteView) throws {
    // A search must be safe in any bytes, even before they are validated.
    var hash: UInt64 = 0x9e37_79b9_7f4a_7c15
    var isEverythingThere = true
    for _ in 0..<16 {
      isEverythingThere = BloomFilter.mayContain(input, hash) && isEverythingThere
      hash = hash &* 0xff51_afd7_ed55_8ccd ^ (hash >> 33)
    }
    if input.count < BloomFilter.footerSize {
      try require(isEverythingThere, "what is too short to be a filter excludes something")
    }
    try build(input)
    try BloomFilter.validate(input)
  }

  /// Checks that every key of a filter is found in it.
  private static func build(_ input: ByteView) throws {
    guard let first = input.isEmpty ? nil : input[0] else { return }
    let keySize = 1 + Int(first & 31)
    var builder = BloomFilterBuilder(bitsPerKey: 1 + Int(first) % 64)
    var keys: [ByteView] = []
    var start = 0
    while start < input.count, keys.count < 256 {
      keys.append(input.slice(start, min(start + keySize, input.count)))
      start += keySize
    }
    for key in keys { builder.add(KeyHash.hash(key)) }
    var filter = ByteWriter()
    builder.finish(appendingTo: &filter)
    do throws(EngineError) {
      try BloomFilter.validate(filter.view)
    } catch {
      throw FuzzFailure("a filter that was built is not valid: \(error)")
    }
    for key in keys {
      try require(BloomFilter.mayContain(filter.view, KeyHash.hash(key)), "the filter does not know \(key.printable)")
    }
  }
}
