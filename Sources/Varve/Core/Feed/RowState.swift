/// What a transaction has done to one row, all of it taken together.
struct RowState: Hashable, Sendable {
  /// Whether it was not there before the transaction.
  private(set) var isInserted = false
  /// Whether it is not there behind it.
  private(set) var isRemoved = false
  /// Whether the object was set or touched.
  private(set) var hasObjectChange = false
  /// Whether the metadata was set or touched.
  private(set) var hasMetadataChange = false

  init(_ change: RowChange.Event, before: RowState?) {
    // What was inserted by the transaction and removed again is new when it is set once more.
    isInserted = before.map { $0.isInserted } ?? (change == .inserted)
    isRemoved = change == .removed
    guard !isRemoved else { return }
    let kept = before?.isRemoved == true ? nil : before
    hasObjectChange = change.concernsObject || kept?.hasObjectChange == true
    hasMetadataChange = change.concernsMetadata || kept?.hasMetadataChange == true
  }

  /// As it was stored; nil for bits that no transaction leaves.
  init?(bits: UInt8) {
    guard bits < 16, Self.states & (1 << UInt16(bits)) != 0 else { return nil }
    isInserted = bits & 1 != 0
    isRemoved = bits & 2 != 0
    hasObjectChange = bits & 4 != 0
    hasMetadataChange = bits & 8 != 0
  }

  /// For the feed. On disk: never change.
  var bits: UInt8 {
    (isInserted ? 1 : 0) | (isRemoved ? 2 : 0) | (hasObjectChange ? 4 : 0) | (hasMetadataChange ? 8 : 0)
  }

  /// The bits that there are, as a set: removed, inserted and removed, one or both parts changed, inserted (which
  /// sets both parts).
  private static let states: UInt16 = 1 << 2 | 1 << 3 | 1 << 4 | 1 << 8 | 1 << 12 | 1 << 13

  /// Whether the object is not what it was.
  var concernsObject: Bool { hasObjectChange || isRemoved }
  /// Whether the metadata is not what it was.
  var concernsMetadata: Bool { hasMetadataChange || isRemoved }
}
