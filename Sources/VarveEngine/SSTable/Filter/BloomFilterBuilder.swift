/// Builds the filter of a table.
///
/// The builder collects the hashes of the keys, in 8 bytes of memory for each key, and writes the filter once their
/// number is known. A hash equal to the previous one (the versions of one key are adjacent) is added once. A builder
/// belongs to one thread at a time.
struct BloomFilterBuilder {
  private let bitsPerKey: Int
  private var hashes: [UInt64] = []

  /// Creates an empty builder. `bitsPerKey` is 1 to 64; 10 gives one false positive in a hundred.
  init(bitsPerKey: Int) {
    precondition(bitsPerKey >= 1 && bitsPerKey <= 64, "bits a key: 1 to 64")
    self.bitsPerKey = bitsPerKey
  }

  var count: Int { hashes.count }
  /// The size of the hashes, in bytes.
  var byteCount: Int { hashes.count * 8 }
  /// The memory that the hashes take, in bytes.
  var memorySize: Int { hashes.capacity * 8 }
  /// The number of bytes that `finish` would append now.
  var estimatedSize: Int { lineCount * BloomFilter.lineSize + BloomFilter.footerSize }

  @inline(__always)
  mutating func add(_ hash: UInt64) {
    if hash == hashes.last { return }
    hashes.append(hash)
  }

  /// Appends the filter and removes the keys. The memory is kept for the next table.
  mutating func finish(appendingTo output: inout ByteWriter) {
    let lineCount = lineCount
    let probeCount = BloomFilterBuilder.probeCount(bitsPerKey: bitsPerKey)
    output.reserve(estimatedSize)
    let size = lineCount * BloomFilter.lineSize
    unsafe output.appendUninitialized(size) { lines in
      unsafe lines.initializeMemory(as: UInt8.self, repeating: 0)
      if let base = lines.baseAddress { unsafe setBits(base, lineCount, probeCount) }
      return size
    }
    output.append(integer: UInt32(lineCount))
    output.append(integer: UInt8(probeCount))
    output.append(integer: BloomFilter.kind)
    output.append(integer: UInt16(0))
    hashes.removeAll(keepingCapacity: true)
  }

  /// Returns the number of probes with the fewest false positives if all are in one line of 512 bits. It is below the
  /// bits for each key times ln 2 of an unbounded filter, because lines fill unevenly.
  static func probeCount(bitsPerKey: Int) -> Int {
    switch bitsPerKey {
    case ...2: 1
    case 3: 2
    case 4...5: 3
    case 6...7: 4
    case 8...9: 5
    case 10...11: 6
    case 12...13: 7
    case 14...15: 8
    case 16...19: 9
    default: min(bitsPerKey / 2, 16)
    }
  }

  private var lineCount: Int {
    let count = (hashes.count * bitsPerKey + 511) / 512
    precondition(count <= UInt32.max, "more keys than one filter takes: cut the table before")
    return count
  }

  private func setBits(_ base: UnsafeMutableRawPointer, _ lineCount: Int, _ probeCount: Int) {
    for hash in hashes {
      let line = unsafe base + BloomFilter.lineOffset(hash, lineCount)
      var mixed = UInt32(truncatingIfNeeded: hash)
      for _ in 0..<probeCount {
        let probe = mixed >> 23
        let word = unsafe line + Int(probe >> 5) &* 4
        let bit = (UInt32(1) &<< (probe & 31)).littleEndian
        unsafe word.storeBytes(of: word.loadUnaligned(as: UInt32.self) | bit, as: UInt32.self)
        mixed = mixed &* BloomFilter.multiplier
      }
    }
  }
}
