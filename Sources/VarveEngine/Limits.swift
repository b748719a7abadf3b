/// Every bound of the engine, with its reason.
enum Limits {
  /// A key's length fits in 16 bits.
  static let keySizeMaximum = 65_535
  /// One value, and one batch, at most: larger ones belong in files.
  static let valueSizeMaximum = 1 << 30
  static let batchSizeMaximum = 1 << 30
  /// Family ids fit in 32 bits; this many families can exist at once.
  static let familyCountMaximum = 10_000
  static let familyNameSizeMaximum = 255
  /// Levels of the tree: 0 to 6.
  static let levelCount = 7
}
