/// The part of a group that a list shows.
///
/// Lengths and offsets are those of the rows as they are shown: in a reversed group, an offset from the start counts
/// from the group's last element. A negative length or offset is zero.
public struct ListRange: Hashable, Sendable {
  /// Which rows that are inserted exactly at an edge of a flexible range are taken into it.
  public enum Growth: Hashable, Sendable {
    /// None.
    case inside
    /// Those at the edge at which the range is pinned.
    case pinned
    /// Those at the other edge.
    case other
    /// Those at both edges.
    case both
  }

  /// The edge of the group from which the offset counts.
  public let edge: ListEdge
  /// The number of rows that are shown at first.
  public let length: Int
  /// The number of rows between the edge and the range at first.
  public let offset: Int
  /// Whether the range has the same number of rows at all times, rather than following its rows.
  public let isFixed: Bool
  /// The number of rows below which a flexible range is filled, first at the edge where it is not pinned.
  public let minimum: Int
  /// The number of rows above which a flexible range is cut at the edge where it is not pinned.
  public let maximum: Int
  /// Which rows at its edges a flexible range takes in.
  public let growth: Growth

  /// Returns a range of a fixed number of rows at a fixed offset: changes before it push rows in and out at its edges.
  public static func fixed(_ length: Int, offset: Int = 0, from edge: ListEdge = .start) -> ListRange {
    ListRange(edge, length, offset, isFixed: true, minimum: 0, maximum: .max, .inside)
  }

  /// Returns a range that follows its rows: it grows with rows that are inserted between them, and shrinks with rows
  /// that leave.
  public static func flexible(
    _ length: Int, offset: Int = 0, from edge: ListEdge = .start, minimum: Int = 0, maximum: Int = .max,
    growth: Growth = .pinned
  ) -> ListRange {
    ListRange(edge, length, offset, isFixed: false, minimum: minimum, maximum: maximum, growth)
  }

  private init(
    _ edge: ListEdge, _ length: Int, _ offset: Int, isFixed: Bool, minimum: Int, maximum: Int, _ growth: Growth
  ) {
    self.edge = edge
    self.length = max(0, length)
    self.offset = max(0, offset)
    self.isFixed = isFixed
    self.minimum = max(0, minimum)
    self.maximum = max(self.minimum, maximum)
    self.growth = growth
  }

  /// Returns whether the range is pinned at the first element of the group rather than at the last one.
  func isPinnedLow(isReversed: Bool) -> Bool { (edge == .start) != isReversed }

  /// Returns the range of offsets of a group of `count` elements that is shown at first.
  func initial(_ count: Int, isReversed: Bool) -> Range<Int> {
    let offset = min(offset, count)
    let length = min(isFixed ? length : min(max(length, minimum), maximum), count - offset)
    let range =
      isPinnedLow(isReversed: isReversed)
      ? offset..<(offset + length) : (count - offset - length)..<(count - offset)
    return isFixed ? range : bounded(range, count, isReversed: isReversed)
  }

  /// Returns a flexible range within its bounds, and within a group of `count` elements.
  func bounded(_ range: Range<Int>, _ count: Int, isReversed: Bool) -> Range<Int> {
    let isLow = isPinnedLow(isReversed: isReversed)
    var range = range.clamped(to: 0..<count)
    if range.count > maximum {
      range =
        isLow
        ? range.lowerBound..<(range.lowerBound + maximum) : (range.upperBound - maximum)..<range.upperBound
    }
    let wanted = min(minimum, count)
    if range.count >= wanted { return range }
    // First at the edge where the range is not pinned, and then at the other one.
    if isLow {
      let upper = min(count, range.lowerBound + wanted)
      return (upper - wanted)..<upper
    }
    let lower = max(0, range.upperBound - wanted)
    return lower..<(lower + wanted)
  }
}
