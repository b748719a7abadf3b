/// A range of keys over which a reader sees one newest range tombstone, or none.
///
/// A caller that looks up tombstones for keys in ascending or descending order needs one lookup for each range
/// instead of one for each key.
///
/// # Safety
/// The bounds are views, valid as long as the source of the segment (a memtable or a list) lives.
struct TombstoneSegment {
  /// The sequence number of the newest tombstone over the range, or zero if there is none.
  var sequence: SequenceNumber
  /// The start of the range, included, or nil if it begins at the first key.
  var lower: ByteView?
  /// The end of the range, excluded, or nil if it has no end.
  var upper: ByteView?
  /// Whether no entry of the same source inside the range is newer than the tombstone, so that all of them can be
  /// skipped.
  var coversAll = false

  /// The range of all keys, without a tombstone.
  static let uncovered = TombstoneSegment(sequence: .zero, lower: nil, upper: nil)

  @inline(__always)
  func contains(_ key: ByteView) -> Bool {
    if let upper, key.compare(upper) >= 0 { return false }
    if let lower, key.compare(lower) < 0 { return false }
    return true
  }

  /// Narrows the range to its intersection with `other`.
  mutating func narrow(to other: TombstoneSegment) {
    if let end = other.upper, upper.map({ end.compare($0) < 0 }) ?? true { upper = end }
    if let start = other.lower, lower.map({ start.compare($0) > 0 }) ?? true { lower = start }
  }
}
