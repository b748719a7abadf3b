/// A range of keys that a cursor has visited.
///
/// Both bounds are included, unless the upper one is marked as excluded; a missing bound means the first or last key.
/// The range grows as the cursor moves, without allocating.
final class ReadRange {
  private var lowerBytes = ByteWriter(capacity: 0)
  private var upperBytes = ByteWriter(capacity: 0)
  private var hasLower = false
  private var hasUpper = false
  private var upperIsExcluded = false

  /// The lower bound, or `nil` for the first key.
  var lower: ByteView? { hasLower ? lowerBytes.view : nil }
  /// The upper bound, or `nil` for the last key.
  var upper: ByteView? { hasUpper ? upperBytes.view : nil }

  func setLower(_ key: ByteView?) {
    hasLower = key != nil
    lowerBytes.removeAll()
    if let key { lowerBytes.append(key) }
  }

  func setUpper(_ key: ByteView?, isExcluded: Bool = false) {
    hasUpper = key != nil
    upperIsExcluded = isExcluded
    upperBytes.removeAll()
    if let key { upperBytes.append(key) }
  }

  /// Returns whether a key is in the range.
  func contains(_ key: ByteView) -> Bool {
    if let lower, key < lower { return false }
    return !endsBefore(key)
  }

  /// Returns whether a key is after the range.
  func endsBefore(_ key: ByteView) -> Bool {
    guard let upper else { return false }
    return upperIsExcluded ? key >= upper : key > upper
  }

  /// Returns whether keys from `start` up to `end` (excluded) are in the range.
  func overlaps(_ start: ByteView, _ end: ByteView) -> Bool {
    if let lower, end <= lower { return false }
    return !endsBefore(start)
  }
}
