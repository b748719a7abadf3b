/// A Bloom filter in its disk format, in which all probes of one key are in one cache line.
///
/// # Format
///
///     offset        bytes
///     0             64 * n   the lines: bit p of a line is bit p % 8 of its byte p / 8
///     64 * n        4        n, the count of lines, little-endian
///     64 * n + 4    1        probes a key, 1...30
///     64 * n + 5    1        kind: 1. On disk: never change; another number is another filter
///     64 * n + 6    2        zero
///
/// The lines are first, so that they are aligned to cache lines if the filter is.
///
/// # Arithmetic
/// The computation uses the 64-bit hash of a key (`KeyHash`). `high` and `low` are its halves, and all operations
/// wrap at 32 bits:
///
///     line    = (high * n) >> 32                    in 64 bits: 0 ..< n without a division
///     probe 0 = low >> 23                           9 bits: 0 ..< 512
///     probe i = (low * 0x9e3779b9^i) >> 23
///
/// A filter of n = 0 lines has no keys and contains nothing.
///
/// # Precision
/// With 10 bits for each key and 6 probes, 0.95 % of the absent keys give a false positive (theory for lines of 512
/// bits; an unbounded filter would give 0.84 %). `BloomFilterTests` measures it.
///
/// # Safety
/// `mayContain` computes the number of lines from the size of the view, never from the bytes, so no content makes it
/// read outside, validated or not.
enum BloomFilter {
  /// The kind of this filter. On disk: never change.
  static let kind: UInt8 = 1
  static let lineSize = 64
  static let footerSize = 8
  static let probeCountMaximum = 30
  /// 2^32 divided by the golden ratio, made odd. On disk: never change.
  static let multiplier: UInt32 = 0x9e37_79b9

  /// Returns whether a key with this hash may be among the added keys. If it returns false, the key is certainly
  /// absent.
  @inline(__always)
  static func mayContain(_ filter: ByteView, _ hash: UInt64) -> Bool {
    let lineCount = (filter.count &- footerSize) >> 6
    // A view that is too short to be a filter excludes nothing. A view of only a footer has no keys.
    guard lineCount > 0 else { return filter.count < footerSize }
    let start = lineOffset(hash, lineCount)
    return mayContain(
      line: filter.slice(start, start &+ lineSize), probeCount: Int(filter[(lineCount << 6) &+ 4]), hash)
  }

  /// Returns whether a key with this hash may be among the added keys, given the line of the hash (`lineSize` bytes),
  /// for a filter that is stored in pieces.
  ///
  /// All probes are made whatever their results: it is not predictable which probe ends a search, but the result
  /// mostly is.
  @inline(__always)
  static func mayContain(line: ByteView, probeCount: Int, _ hash: UInt64) -> Bool {
    var mixed = UInt32(truncatingIfNeeded: hash)
    var found: UInt32 = 1
    for _ in 0..<probeCount {
      let probe = mixed >> 23
      found &= line.load(Int(probe >> 5) &* 4, as: UInt32.self) &>> (probe & 31)
      mixed = mixed &* multiplier
    }
    return found != 0
  }

  /// Returns the offset of the line of a hash. `lineCount` must be below 2^32.
  @inline(__always)
  static func lineOffset(_ hash: UInt64, _ lineCount: Int) -> Int {
    Int(truncatingIfNeeded: ((hash >> 32) &* UInt64(truncatingIfNeeded: lineCount)) >> 32) << 6
  }

  /// Validates the footer against the size. Throws `.corruption` if they contradict each other, and
  /// `.unsupportedFormat` for a kind that this version does not know.
  static func validate(_ filter: ByteView) throws(EngineError) {
    guard filter.count >= footerSize else {
      throw .corruption("filter has \(filter.count) bytes; expected at least \(footerSize)")
    }
    var footer = ByteReader(filter.dropFirst(filter.count - footerSize))
    let lineCount = try footer.integer(UInt32.self)
    let probeCount = try footer.integer(UInt8.self)
    let kind = try footer.integer(UInt8.self)
    let reserved = try footer.integer(UInt16.self)
    guard kind == BloomFilter.kind, reserved == 0 else {
      throw EngineError(
        .unsupportedFormat, "filter has kind \(kind) and features \(reserved), which this version does not know")
    }
    guard Int(lineCount) * lineSize + footerSize == filter.count else {
      throw .corruption(
        "filter of \(lineCount) lines has \(filter.count) bytes; expected \(Int(lineCount) * lineSize + footerSize)")
    }
    guard probeCount >= 1, probeCount <= probeCountMaximum else {
      throw .corruption("filter has \(probeCount) probes a key; expected 1 to \(probeCountMaximum)")
    }
  }
}
