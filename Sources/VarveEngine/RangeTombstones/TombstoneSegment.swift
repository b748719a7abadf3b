/// A range of keys over which a reader sees one newest range tombstone, or none.
///
/// A caller that looks up tombstones for keys that come in order asks once for each range, not for each key.
///
/// # Safety
/// The bounds are views: valid as long as what was asked (a memtable, a list) lives.
struct TombstoneSegment {
  /// The sequence of the newest tombstone over it; zero where there is none.
  var sequence: SequenceNumber
  /// Where the range begins, included; nil: at the first key.
  var lower: ByteView?
  /// Where it ends, excluded; nil: it has no end.
  var upper: ByteView?
  /// No entry of the same source inside the range is newer than the tombstone: all of them can be passed.
  var coversAll = false

  /// All keys, none of them deleted.
  static let uncovered = TombstoneSegment(sequence: .zero, lower: nil, upper: nil)

  @inline(__always)
  func contains(_ key: ByteView) -> Bool {
    if let upper, key.compare(upper) >= 0 { return false }
    if let lower, key.compare(lower) < 0 { return false }
    return true
  }

  /// Shrinks the range to what it shares with `other`.
  mutating func narrow(to other: TombstoneSegment) {
    if let end = other.upper, upper.map({ end.compare($0) < 0 }) ?? true { upper = end }
    if let start = other.lower, lower.map({ start.compare($0) > 0 }) ?? true { lower = start }
  }
}
