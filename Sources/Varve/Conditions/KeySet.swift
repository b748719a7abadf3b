/// A set of a field's values, as ranges of their keys that can be looked up in an index.
///
/// Keys sort as their values do, so each comparison is a range, and `&&`, `||` and `!` of conditions on one field are
/// the intersection, the union and the complement of their sets. The order of the field's type, including the position
/// of nil, is that of its keys.
///
/// Ranges are in ascending order and separate, and none is empty. A range from `p` to `p` and 0xff has the value whose
/// key is `p`, and in an index of several parts all keys that begin with it.
struct KeySet: Hashable, Sendable {
  /// The keys from `lower` (included) to `upper` (excluded), or to the end if `upper` is nil.
  struct Range: Hashable, Sendable {
    let lower: [UInt8]
    let upper: [UInt8]?

    /// Returns whether this range begins at or before the end of another.
    fileprivate func begins(upTo end: [UInt8]?) -> Bool { end.map { !ByteOrder.precedes($0, lower) } ?? true }
  }

  private(set) var ranges: [Range]
  /// Whether the set contains the values without a key, such as a NaN, for which every comparison except `!=` is false.
  private(set) var hasUnkeyed: Bool

  static let none = KeySet(ranges: [], hasUnkeyed: false)
  static let all = KeySet(ranges: [Range(lower: [], upper: nil)], hasUnkeyed: true)

  private init(ranges: [Range], hasUnkeyed: Bool) {
    self.ranges = ranges
    self.hasUnkeyed = hasUnkeyed
  }

  /// Creates a set of one range. It is empty if `upper` is not after `lower`.
  init(from lower: [UInt8] = [], to upper: [UInt8]? = nil) {
    let isEmpty = upper.map { !ByteOrder.precedes(lower, $0) } ?? false
    self.init(ranges: isEmpty ? [] : [Range(lower: lower, upper: upper)], hasUnkeyed: false)
  }

  /// Creates a set of some keys. Complexity: O(n log n).
  init(keys: some Sequence<[UInt8]>) {
    var ranges: [Range] = []
    for key in keys.sorted(by: ByteOrder.precedes) where ranges.last?.lower != key {
      ranges.append(Range(lower: key, upper: KeyRange.end(ofParts: key)))
    }
    self.init(ranges: ranges, hasUnkeyed: false)
  }

  /// Whether the set has no values.
  var isEmpty: Bool { ranges.isEmpty && !hasUnkeyed }

  /// Returns whether the value with a key is in the set. Complexity: O(log n).
  func contains(_ key: [UInt8]) -> Bool {
    var low = 0
    var high = ranges.count
    while low < high {
      let middle = (low + high) / 2
      if ByteOrder.precedes(key, ranges[middle].lower) { high = middle } else { low = middle + 1 }
    }
    guard low > 0 else { return false }
    return ranges[low - 1].upper.map { ByteOrder.precedes(key, $0) } ?? true
  }

  /// Returns the set of the keys that consist of `parts` followed by a key of this set. Complexity: O(n).
  func following(_ parts: [UInt8]) -> KeySet {
    KeySet(
      ranges: ranges.map {
        Range(lower: parts + $0.lower, upper: $0.upper.map { parts + $0 } ?? KeyRange.end(ofParts: parts))
      },
      hasUnkeyed: hasUnkeyed)
  }

  /// The set without the range of keys before nil, because no key sorts before nil: `!= nil` is then one range.
  var withoutKeysBeforeNil: KeySet {
    guard let first = ranges.first, first.lower.isEmpty, first.upper == [KeyTag.null] else { return self }
    return KeySet(ranges: Array(ranges.dropFirst()), hasUnkeyed: hasUnkeyed)
  }

  /// The set of all values that are not in this set. Complexity: O(n).
  var complement: KeySet {
    var others: [Range] = []
    var begin: [UInt8]? = []
    for range in ranges {
      if let lower = begin, ByteOrder.precedes(lower, range.lower) {
        others.append(Range(lower: lower, upper: range.lower))
      }
      begin = range.upper
    }
    if let lower = begin { others.append(Range(lower: lower, upper: nil)) }
    return KeySet(ranges: others, hasUnkeyed: !hasUnkeyed)
  }

  /// Returns the values that are in both sets. Complexity: O(n + m).
  func intersection(_ other: KeySet) -> KeySet {
    var common: [Range] = []
    var (index, otherIndex) = (0, 0)
    while index < ranges.count, otherIndex < other.ranges.count {
      let (left, right) = (ranges[index], other.ranges[otherIndex])
      let lower = ByteOrder.precedes(left.lower, right.lower) ? right.lower : left.lower
      let leftEndsFirst = Self.ends(left.upper, before: right.upper)
      let upper = leftEndsFirst ? left.upper : right.upper
      if upper.map({ ByteOrder.precedes(lower, $0) }) ?? true { common.append(Range(lower: lower, upper: upper)) }
      if leftEndsFirst { index += 1 } else { otherIndex += 1 }
    }
    return KeySet(ranges: common, hasUnkeyed: hasUnkeyed && other.hasUnkeyed)
  }

  /// Returns the values that are in at least one of both sets. Complexity: O(n + m).
  func union(_ other: KeySet) -> KeySet {
    var merged: [Range] = []
    var (index, otherIndex) = (0, 0)
    while index < ranges.count || otherIndex < other.ranges.count {
      let takesOther =
        index == ranges.count
        || (otherIndex < other.ranges.count && ByteOrder.precedes(other.ranges[otherIndex].lower, ranges[index].lower))
      let next = takesOther ? other.ranges[otherIndex] : ranges[index]
      if takesOther { otherIndex += 1 } else { index += 1 }
      if let last = merged.last, next.begins(upTo: last.upper) {
        let upper = Self.ends(last.upper, before: next.upper) ? next.upper : last.upper
        merged[merged.count - 1] = Range(lower: last.lower, upper: upper)
      } else {
        merged.append(next)
      }
    }
    return KeySet(ranges: merged, hasUnkeyed: hasUnkeyed || other.hasUnkeyed)
  }

  /// Returns whether one end is before another. Nil is after all others.
  private static func ends(_ first: [UInt8]?, before second: [UInt8]?) -> Bool {
    guard let first else { return false }
    return second.map { ByteOrder.precedes(first, $0) } ?? true
  }
}
