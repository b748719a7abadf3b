/// The sequence of key numbers that one thread of a row uses.
///
/// It is a value type, so that the same sequence can be run against the engine and, outside the measured time, against
/// the bitmap that counts live keys.
struct KeySequence {
  enum Order {
    /// The numbers `start`, `start + stride`, ..., which are those of one of `stride` threads.
    case ascending
    /// Uniform in `0..<range`. Some numbers may occur repeatedly and others never, as in db_bench.
    case uniform
    /// `groups` ascending runs, used in turn: run r begins at `r * (range / groups)`.
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

/// Writes key numbers as zero-padded decimal digits, as db_bench's `%016d` does.
///
/// It owns the buffer that it writes to, with one spare byte at its end for `readmissing`.
final class KeyWriter {
  let keySize: Int
  private let buffer: UnsafeMutableRawBufferPointer

  /// The digits "00" to "99", so that one division yields two digits.
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

  /// Returns the key of a number, which is valid until the next call.
  @inline(__always)
  func key(_ number: UInt64) -> UnsafeRawBufferPointer {
    write(number)
    return UnsafeRawBufferPointer(rebasing: buffer[0..<keySize])
  }

  /// Returns a key between that of `number` and the next one, which no workload ever puts.
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
