/// A Hangul syllable, which decomposes arithmetically (The Unicode Standard, 3.12).
struct Hangul {
  private static let syllables: Range<UInt32> = 0xac00..<0xd7a4
  static let leading: Range<UInt32> = 0x1100..<0x1113
  static let vowels: Range<UInt32> = 0x1161..<0x1176
  /// The base of trailing consonants; the base itself stands for none.
  private static let trailingBase: UInt32 = 0x11a7
  static let trailing: Range<UInt32> = 0x11a8..<0x11c3
  private static let trailingCount: UInt32 = 28
  private static let vowelCount: UInt32 = 21

  private let index: UInt32

  /// Creates a syllable, or returns nil if the scalar is not one.
  @inline(__always)
  init?(_ scalar: UInt32) {
    guard Self.syllables.contains(scalar) else { return nil }
    index = scalar - Self.syllables.lowerBound
  }

  func forEachJamo(_ body: (UInt32) -> Void) {
    let trailing = index % Self.trailingCount
    let pair = index / Self.trailingCount
    body(Self.leading.lowerBound + pair / Self.vowelCount)
    body(Self.vowels.lowerBound + pair % Self.vowelCount)
    if trailing != 0 { body(Self.trailingBase + trailing) }
  }

  /// Returns the composition of a leading consonant with a vowel, or of such a syllable with a trailing consonant; nil
  /// for all other pairs.
  static func composite(_ first: UInt32, _ second: UInt32) -> UInt32? {
    if leading.contains(first), vowels.contains(second) {
      let pair = (first - leading.lowerBound) * vowelCount + second - vowels.lowerBound
      return syllables.lowerBound + pair * trailingCount
    }
    guard let syllable = Hangul(first), syllable.index % trailingCount == 0, trailing.contains(second) else {
      return nil
    }
    return first + second - trailingBase
  }
}
