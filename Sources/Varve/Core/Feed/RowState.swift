/// The combined changes of a transaction to one row.
struct RowState: Hashable, Sendable {
  /// The state as one byte, because a transaction keeps one for each row. It is also on disk, in the feed, and must
  /// never change.
  let bits: UInt8

  /// Whether the row did not exist before the transaction.
  var isInserted: Bool { bits & 1 != 0 }
  /// Whether the row does not exist after the transaction.
  var isRemoved: Bool { bits & 2 != 0 }
  /// Whether the object was set or touched.
  private var hasObjectChange: Bool { bits & 4 != 0 }
  /// Whether the metadata were set or touched.
  private var hasMetadataChange: Bool { bits & 8 != 0 }

  /// Creates the state from stored bits. Returns `nil` for bits that no transaction produces.
  init?(bits: UInt8) {
    guard bits < 16, Self.states & (1 << UInt16(bits)) != 0 else { return nil }
    self.bits = bits
  }

  /// The valid bits, as a set: removed, inserted and removed, one or both of object and metadata changed, inserted
  /// (which sets both).
  private static let states: UInt16 = 1 << 2 | 1 << 3 | 1 << 4 | 1 << 8 | 1 << 12 | 1 << 13

  /// Whether the object may have changed.
  var concernsObject: Bool { hasObjectChange || isRemoved }
  /// Whether the metadata may have changed.
  var concernsMetadata: Bool { hasMetadataChange || isRemoved }
}
