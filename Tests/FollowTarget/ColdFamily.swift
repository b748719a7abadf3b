/// The content of a database with a family whose memtable is logged again and again, because all others are flushed
/// before it.
///
/// Batch `n` replaces the value of the key `n % groupCount` in the default family by one of `n` and up to 30 KB, and in
/// the family "cold" by `n` alone. Every twentieth batch also puts a key into "cold" that is never written again. So
/// the number of the last batch determines the whole content.
enum ColdFamily {
  static let name = "cold"
  static let groupCount: UInt64 = 150
  static let onceInterval: UInt64 = 20
  private static let paddingMaximum = 30_000

  static func key(_ number: UInt64) -> [UInt8] { Numbers.key(number % groupCount) }

  /// The key of a row that is written once.
  static func onceKey(_ number: UInt64) -> [UInt8] { Array("once".utf8) + Numbers.key(number) }

  /// The value of a batch in the default family. It can't be compressed.
  static func value(_ number: UInt64) -> [UInt8] {
    let start = Int(number % 251)
    return Numbers.key(number) + noise[start..<(noise.count - Int(number % 5) * 4_000)]
  }

  private static let noise: [UInt8] = {
    var state: UInt64 = 1
    return (0..<paddingMaximum).map { _ in
      state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
      return UInt8(truncatingIfNeeded: state >> 56)
    }
  }()

  /// The number of the last batch that wrote to the key of a group, or `nil`.
  static func newest(ofGroup group: UInt64, last: UInt64) -> UInt64? {
    let difference = (last + groupCount - group) % groupCount
    // Batches are counted from 1.
    return last > difference ? last - difference : nil
  }
}
