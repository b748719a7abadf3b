/// Collects the hashes of a table's keys and writes their filter once, when it is known how many
/// there are: 8 bytes of memory a key until then.
///
/// A hash equal to the one before (the versions of one key follow each other) is added once.
///
/// One builder belongs to one thread at a time.
struct BloomFilterBuilder {
  private let bitsPerKey: Int
  private var hashes: [UInt64] = []

  /// `bitsPerKey` is 1 to 64; 10 gives one false answer in a hundred.
  init(bitsPerKey: Int) {
    precondition(bitsPerKey >= 1 && bitsPerKey <= 64, "bits a key: 1 to 64")
    self.bitsPerKey = bitsPerKey
  }

  var count: Int { hashes.count }
  /// The bytes of the hashes.
  var byteCount: Int { hashes.count * 8 }
  /// The memory that the hashes take.
  var memorySize: Int { hashes.capacity * 8 }
  /// The bytes that `finish` would append now.
  var estimatedSize: Int { lineCount * BloomFilter.lineSize + BloomFilter.footerSize }

  @inline(__always)
  mutating func add(_ hash: UInt64) {
    if hash == hashes.last { return }
    hashes.append(hash)
  }

  /// Appends the filter and forgets the keys; the memory is kept for the next table.
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

  /// How many probes give the fewest false answers where all lie in one line of 512 bits: fewer than
  /// the bits a key times ln 2 of an unbounded filter, because lines fill unevenly.
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
