/// What a transaction has done to one row, all of it taken together.
struct RowState: Hashable, Sendable {
  /// One byte, because a transaction keeps one for each row. For the feed, too. On disk: never change.
  let bits: UInt8

  /// Whether it was not there before the transaction.
  var isInserted: Bool { bits & 1 != 0 }
  /// Whether it is not there after it.
  var isRemoved: Bool { bits & 2 != 0 }
  /// Whether the object was set or touched.
  private var hasObjectChange: Bool { bits & 4 != 0 }
  /// Whether the metadata was set or touched.
  private var hasMetadataChange: Bool { bits & 8 != 0 }

  init(_ change: RowChange.Event, before: RowState?) {
    // What was inserted by the transaction and removed again is new when it is set once more.
    let inserted: UInt8 = before.map { $0.isInserted } ?? (change == .inserted) ? 1 : 0
    guard change != .removed else {
      bits = inserted | 2
      return
    }
    // Of a row that was removed before, nothing else counts.
    let kept = before.map { $0.isRemoved ? 0 : $0.bits & 12 } ?? 0
    bits = inserted | kept | (change.concernsObject ? 4 : 0) | (change.concernsMetadata ? 8 : 0)
  }

  /// As it was stored; nil for bits that no transaction leaves.
  init?(bits: UInt8) {
    guard bits < 16, Self.states & (1 << UInt16(bits)) != 0 else { return nil }
    self.bits = bits
  }

  /// The bits that there are, as a set: removed, inserted and removed, one or both parts changed, inserted (which
  /// sets both parts).
  private static let states: UInt16 = 1 << 2 | 1 << 3 | 1 << 4 | 1 << 8 | 1 << 12 | 1 << 13

  /// Whether the object is not what it was.
  var concernsObject: Bool { hasObjectChange || isRemoved }
  /// Whether the metadata is not what it was.
  var concernsMetadata: Bool { hasMetadataChange || isRemoved }
}
