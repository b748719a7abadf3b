/// The generated writes, a pure function of the seed and the number of the write.
///
/// So the writing process and the model agree without communication, and a run can begin at any batch.
///
/// Batches have 1 to 500 writes. One write in ten deletes. Half of the writes are distributed over all keys, a quarter
/// over a thousand hot keys, and a quarter ascends, so that a key is overwritten after few or after many other writes.
struct Workload {
  /// One generated write; it is a deletion if it has no value.
  struct Write {
    let keyIndex: Int
    let key: [UInt8]
    let value: [UInt8]?
  }

  private static let batchSizes = [1, 7, 100, 32, 250, 2, 64, 500]
  private static let batchStarts = batchSizes.reduce(into: [0]) { $0.append(($0.last ?? 0) + $1) }
  private static let cycleSize = batchSizes.reduce(0, +)
  private static let hotCount = 1_000
  private static let text = Array(
    "the quick brown fox jumps over the lazy dog while the log is appended and the tables are merged; ".utf8)

  let seed: UInt64
  let writeCount: Int

  /// The number of keys, which is smaller than the number of writes: each key is written about four times.
  var keyCount: Int { max(Self.hotCount, writeCount / 4) }

  /// The number of batches for all writes. The last batch may be shorter.
  var batchCount: Int {
    let cycles = writeCount / Self.cycleSize
    let rest = writeCount % Self.cycleSize
    return cycles * Self.batchSizes.count + Self.batchStarts.prefix { $0 < rest }.count
  }

  /// Returns the numbers of the writes of a batch.
  func batch(_ number: Int) -> Range<Int> {
    let start = start(number)
    return start..<min(writeCount, start + Self.batchSizes[number % Self.batchSizes.count])
  }

  /// Returns the number of the first write of a batch, which is the number of writes before it.
  func start(_ number: Int) -> Int {
    let count = Self.batchSizes.count
    return min(writeCount, number / count * Self.cycleSize + Self.batchStarts[number % count])
  }

  /// Returns the key that a write changes, and whether it deletes it. The model needs no more than this.
  func effect(_ index: Int) -> (keyIndex: Int, deletes: Bool) {
    let random = Self.mix(seed &+ UInt64(index) &* 0x9e37_79b9_7f4a_7c15)
    let choice = Int(truncatingIfNeeded: random >> 33)
    let keyIndex =
      switch random & 3 {
      case 0: choice % Self.hotCount
      case 1: index % keyCount
      default: choice % keyCount
      }
    return (keyIndex, (random >> 8) % 10 == 0)
  }

  func write(_ index: Int) -> Write {
    let effect = effect(index)
    return Write(
      keyIndex: effect.keyIndex, key: Self.key(effect.keyIndex), value: effect.deletes ? nil : value(index))
  }

  /// Returns the key with a number. Keys sort as their numbers do.
  static func key(_ index: Int) -> [UInt8] {
    var key = Array("user000000000000".utf8)
    var rest = index
    var location = key.count - 1
    while rest > 0 {
      key[location] = 0x30 + UInt8(rest % 10)
      rest /= 10
      location -= 1
    }
    return key
  }

  /// Returns the value that a write sets: 16 to 271 bytes, half of them compressible.
  ///
  /// The value contains the number of the write, so that an older value can't be mistaken for a newer one.
  func value(_ index: Int) -> [UInt8] {
    var random = Self.mix(seed ^ (UInt64(index) &* 0xbf58_476d_1ce4_e5b9))
    let count = 16 + Int(random & 0xff)
    var value = Array(String(index).utf8)
    value.append(0x20)
    value.reserveCapacity(count)
    while value.count < count / 2 {
      random = Self.mix(random)
      value.append(UInt8(truncatingIfNeeded: random))
    }
    var location = Int(random >> 40) % Self.text.count
    while value.count < count {
      value.append(Self.text[location])
      location = location + 1 == Self.text.count ? 0 : location + 1
    }
    return value
  }

  /// SplitMix64's finalizer: every bit of the result depends on every bit of the input.
  private static func mix(_ input: UInt64) -> UInt64 {
    var value = input &+ 0x9e37_79b9_7f4a_7c15
    value = (value ^ (value >> 30)) &* 0xbf58_476d_1ce4_e5b9
    value = (value ^ (value >> 27)) &* 0x94d0_49bb_1331_11eb
    return value ^ (value >> 31)
  }
}
