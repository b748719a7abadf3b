/// The rows of a list that are loaded: so many at one end, counted through all sections.
///
/// A window at its end stays there when rows are inserted at it. A jump to rows elsewhere leaves the end: the window
/// then keeps its rows, also if those between them and the end are deleted, until a jump or `grow` reaches the end
/// again.
public struct ListWindow: Hashable, Sendable {
  /// The end of the list at which the window is at first.
  public let edge: ListEdge
  /// The number of rows, at least 1.
  public let count: Int

  private init(_ edge: ListEdge, _ count: Int) {
    self.edge = edge
    self.count = max(1, count)
  }

  /// Returns a window of the first rows.
  public static func first(_ count: Int) -> ListWindow { ListWindow(.start, count) }
  /// Returns a window of the last rows, as for a chat.
  public static func last(_ count: Int) -> ListWindow { ListWindow(.end, count) }
  /// All rows, for lists that are short.
  public static var all: ListWindow { ListWindow(.start, .max) }
}

/// The present place of a window in a list.
struct ListWindowPlace {
  let edge: ListEdge
  /// The number of rows that are wanted.
  private(set) var size: Int
  /// The loaded rows, counted through all sections.
  private(set) var rows = 0..<0
  /// Whether a jump has left the end of the list at which the window begins.
  private(set) var isAway = false
  private let base: Int

  init(_ window: ListWindow) { (edge, size, base) = (window.edge, window.count, window.count) }

  private static func sum(_ left: Int, _ right: Int) -> Int {
    let (sum, overflow) = left.addingReportingOverflow(right)
    return overflow ? .max : sum
  }

  /// Moves to the end of a list at which the window begins.
  mutating func begin(_ total: Int) {
    let count = min(size, total)
    rows = edge == .start ? 0..<count : (total - count)..<total
    isAway = false
  }

  /// Moves so that the first row is `lower`, if there are enough rows after it.
  mutating func place(at lower: Int, _ total: Int) {
    let count = min(size, total)
    let lower = min(max(0, lower), total - count)
    rows = lower..<(lower + count)
  }

  /// Moves so that a row is in the middle, with the first size again.
  mutating func center(_ row: Int, _ total: Int) {
    size = base
    place(at: row - min(size, total) / 2, total)
    isAway = !isAtEdge(total)
  }

  private func isAtEdge(_ total: Int) -> Bool { edge == .start ? rows.lowerBound == 0 : rows.upperBound == total }

  /// Adds rows at an edge of the window, as far as there are any.
  mutating func grow(_ edge: ListEdge, by count: Int, _ total: Int) {
    let count = max(0, count)
    defer { if edge == self.edge, isAtEdge(total) { isAway = false } }
    switch edge {
    case .start:
      let added = min(count, rows.lowerBound)
      if added == 0 { return }
      size = Self.sum(rows.count, added)
      rows = (rows.lowerBound - added)..<rows.upperBound
    case .end:
      let added = min(count, total - rows.upperBound)
      if added == 0 { return }
      size = Self.sum(rows.count, added)
      rows = rows.lowerBound..<(rows.upperBound + added)
    }
  }
}
