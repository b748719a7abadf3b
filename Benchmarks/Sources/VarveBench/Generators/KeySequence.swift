/// Which key numbers a row asks for, in order, for one thread.
///
/// A value type, so that the same sequence can be run against the engine and, outside the measured
/// time, against the bitmap that counts live keys.
struct KeySequence {
  enum Order {
    /// `start`, `start + stride`, ...: the numbers of one of `stride` threads.
    case ascending
    /// Uniform in `0..<range`; a number may come again and some never come, as in db_bench.
    case uniform
    /// `groups` ascending runs, taken in turn: run r holds `r * (range / groups)` and up.
    case clustered(groups: UInt64)
  }

  private let order: Order
  private let range: UInt64
  private let stride: UInt64
  private var position: UInt64
  private var random: SplitMix64

  init(_ order: Order, range: Int, thread: Int, threads: Int, random: SplitMix64) {
    self.order = order
    self.range = UInt64(max(range, 1))
    stride = UInt64(threads)
    position = UInt64(thread)
    self.random = random
  }

  @inline(__always)
  mutating func next() -> UInt64 {
    switch order {
    case .uniform:
      return random.next(below: range)
    case .ascending:
      let number = position
      position &+= stride
      return number % range
    case .clustered(let groups):
      let number = position
      position &+= stride
      return (number % groups) &* (range / groups) &+ (number / groups) % max(range / groups, 1)
    }
  }
}

/// Spells key numbers as zero-padded decimal digits, db_bench's `%016d`.
///
/// Owns the buffer that it writes to, with one spare byte after it for `readmissing`.
final class KeyWriter {
  let keySize: Int
  private let buffer: UnsafeMutableRawBufferPointer

  /// "00" to "99", so that one division yields two digits.
  private let pairs: UnsafeMutablePointer<UInt16>

  init(keySize: Int) {
    self.keySize = keySize
    buffer = .allocate(byteCount: keySize + 1, alignment: 8)
    buffer.initializeMemory(as: UInt8.self, repeating: 48)
    pairs = .allocate(capacity: 100)
    for number in UInt16(0)..<100 {
      let tens = 48 + number / 10
      let ones = 48 + number % 10
      pairs[Int(number)] = UInt16(littleEndian: tens | ones << 8)
    }
  }

  deinit {
    buffer.deallocate()
    pairs.deallocate()
  }

  /// The key of a number; valid until the next call.
  @inline(__always)
  func key(_ number: UInt64) -> UnsafeRawBufferPointer {
    write(number)
    return UnsafeRawBufferPointer(rebasing: buffer[0..<keySize])
  }

  /// A key between that of `number` and the next: no workload ever puts one.
  @inline(__always)
  func missingKey(_ number: UInt64) -> UnsafeRawBufferPointer {
    write(number)
    buffer[keySize] = 46  // "."
    return UnsafeRawBufferPointer(buffer)
  }

  @inline(__always)
  private func write(_ number: UInt64) {
    var rest = number
    var end = keySize
    while end >= 2 {
      let (quotient, remainder) = rest.quotientAndRemainder(dividingBy: 100)
      end &-= 2
      buffer.storeBytes(of: pairs[Int(truncatingIfNeeded: remainder)], toByteOffset: end, as: UInt16.self)
      rest = quotient
    }
    if end == 1 { buffer[0] = UInt8(48 + rest % 10) }
  }
}
