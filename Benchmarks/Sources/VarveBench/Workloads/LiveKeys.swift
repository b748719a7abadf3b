/// The set of key numbers in the database, so that the space amplification has an exact denominator.
///
/// The sequences of a row are applied to it after the row, outside of the measured time.
final class LiveKeys {
  private var words: [UInt64]
  private(set) var count = 0
  /// Whether the set is exact; false once a row has run whose effect is not followed.
  var isKnown: Bool

  init(range: Int, isKnown: Bool) {
    words = Array(repeating: 0, count: range / 64 + 1)
    self.isKnown = isKnown
  }

  func insert(_ number: UInt64) {
    let bit: UInt64 = 1 << (number & 63)
    if words[Int(number >> 6)] & bit == 0 { count += 1 }
    words[Int(number >> 6)] |= bit
  }

  func remove(_ number: UInt64) {
    let bit: UInt64 = 1 << (number & 63)
    if words[Int(number >> 6)] & bit != 0 { count -= 1 }
    words[Int(number >> 6)] &= ~bit
  }
}
