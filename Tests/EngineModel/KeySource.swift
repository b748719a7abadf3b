import EngineTestSupport

/// A generator of keys and values that collide often and reach the limits of their sizes.
struct KeySource {
  /// Keys are numbers below this bound, after one of a few prefixes.
  private let spread: Int
  private let valueSizeUsual: Int
  private static let prefixes: [[UInt8]] = [
    [], [0], [0, 0], Array("user/".utf8), Array("user/long common part of a key/".utf8), [0x7f, 0xff], [0xff],
    [0xff, 0xff],
  ]
  private static let hot: [[UInt8]] = [[], Array("hot".utf8), [0xff, 0xff, 0xff], Array("user/".utf8)]
  static let keySizeMaximum = 65_535

  init(_ random: inout SeededRandom) {
    spread = [8, 60, 150][random.below(3)]
    valueSizeUsual = [8, 60, 200][random.below(3)]
  }

  func prefix(_ random: inout SeededRandom) -> [UInt8] { Self.prefixes[random.below(Self.prefixes.count)] }

  func key(_ random: inout SeededRandom) -> [UInt8] {
    if random.oneIn(3_000) { return Self.longest(random.below(3)) }
    // A few keys get many versions.
    if random.oneIn(12) { return Self.hot[random.below(Self.hot.count)] }
    let number = random.below(spread)
    var key = prefix(&random) + [UInt8(number >> 8), UInt8(number & 0xff)]
    // Some keys are prefixes of each other.
    if random.oneIn(8) { key.append(UInt8(random.below(2)) &* 0xff) }
    return key
  }

  /// Returns one of three keys of the greatest size, which differ only in their last bytes.
  static func longest(_ index: Int) -> [UInt8] {
    var key = [UInt8](repeating: 0x61, count: keySizeMaximum)
    key[keySizeMaximum - 1] = UInt8(index)
    return key
  }

  func value(_ random: inout SeededRandom) -> [UInt8] {
    let size: Int
    switch random.below(2_000) {
    case 0: size = 16_000 + random.below(40_000)
    case 1..<20: size = 1_000 + random.below(8_000)
    case 20..<200: size = 0
    default: size = random.below(valueSizeUsual)
    }
    // Partly compressible: one random word, repeated.
    let word = random.next()
    return (0..<size).map { index in
      UInt8(truncatingIfNeeded: (word &+ UInt64(index >> 6)) >> (UInt64(index & 7) * 8))
    }
  }
}
