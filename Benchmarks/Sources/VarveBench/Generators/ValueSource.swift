/// Generates values that compress to a given fraction, as db_bench's `RandomGenerator` does.
///
/// A pool of 1 MiB is filled with pieces of 100 bytes; a piece repeats `ratio * 100` random printable bytes until it is
/// full. A value is a slice of the pool at an offset that advances by its size, so a value costs almost no time and
/// neighbors differ.
final class ValueSource {
  private static let poolSize = 1 << 20
  private static let pieceSize = 100

  private let pool: UnsafeMutableRawBufferPointer
  private var offset = 0
  let valueSize: Int

  init(valueSize: Int, compressionRatio: Double, seed: UInt64) {
    self.valueSize = valueSize
    let count = max(Self.poolSize, valueSize) + Self.pieceSize
    pool = .allocate(byteCount: count, alignment: 64)
    var random = SplitMix64(seed: seed, stream: "values", thread: 0)
    let rawSize = min(max(Int(Double(Self.pieceSize) * compressionRatio), 1), Self.pieceSize)
    var filled = 0
    while filled < count {
      for index in 0..<rawSize where filled + index < count {
        pool[filled + index] = UInt8(32 + random.next(below: 95))
      }
      for index in rawSize..<max(Self.pieceSize, rawSize) where filled + index < count {
        pool[filled + index] = pool[filled + index - rawSize]
      }
      filled += Self.pieceSize
    }
  }

  deinit { pool.deallocate() }

  /// Returns another value, which is valid as long as the source exists.
  @inline(__always)
  func next() -> UnsafeRawBufferPointer {
    if offset &+ valueSize > pool.count { offset = 0 }
    let start = offset
    offset &+= valueSize
    return UnsafeRawBufferPointer(rebasing: pool[start..<start &+ valueSize])
  }

  /// Returns the value of a number, always the same for the same number.
  @inline(__always)
  func value(_ number: UInt64) -> UnsafeRawBufferPointer {
    let start = Int(truncatingIfNeeded: number.multipliedFullWidth(by: UInt64(pool.count &- valueSize)).high)
    return UnsafeRawBufferPointer(rebasing: pool[start..<start &+ valueSize])
  }
}
