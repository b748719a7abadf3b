@_spi(Extensions) public import Varve

/// A cursor over the rows of a group of a view. It returns the rows that the group had when the cursor was made.
///
/// It belongs to the thread and the lifetime of its transaction.
public struct ViewCursor<Group: KeyCodable> {
  private let content: ViewContent<Group>
  private var cursor: PartCursor
  private var offset: Int
  private let step: Int
  /// The number of rows that are left, unless the group ends before.
  private var left: Int

  init(
    _ content: ViewContent<Group>, _ range: StorageRange, _ offsets: Range<Int>?, isReverse: Bool
  ) throws {
    self.content = content
    var offsets = max(0, offsets?.lowerBound ?? 0)..<max(0, offsets?.upperBound ?? .max)
    if isReverse {
      let count = try content.rows.count(range)
      offsets = offsets.clamped(to: 0..<count)
      cursor = try content.rows.cursor(from: count - offsets.upperBound, in: range, isReverse: true)
      offset = offsets.upperBound - 1
    } else {
      cursor = try content.rows.cursor(from: offsets.lowerBound, in: range)
      offset = offsets.lowerBound
    }
    left = offsets.count
    step = isReverse ? -1 : 1
  }

  /// Returns the next row with its offset in the group, or `nil` after the last.
  ///
  /// Complexity: one step. Nothing is allocated beside the key.
  public mutating func next() throws -> (offset: Int, row: RowKey)? {
    guard left > 0 else { return nil }
    let content = content
    let transaction = try content.context.transaction
    guard let row = try cursor.withNext({ _, value in try content.rowKey(value, transaction) }) else {
      left = 0
      return nil
    }
    defer {
      left -= 1
      // The offset before the first row is never returned.
      offset &+= step
    }
    return (offset, row)
  }
}

@available(*, unavailable)
extension ViewCursor: Sendable {}
