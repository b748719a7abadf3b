/// A range of user keys, such as that of a table, a compaction or a manual compaction.
///
/// The lower bound is always included; the empty key is the smallest, so "from the beginning" needs no special case.
/// The upper bound is included, excluded (a table whose last entry is the end of a range tombstone) or missing.
struct UserKeyRange: Sendable, Hashable {
  var lower: [UInt8]
  var upper: [UInt8]?
  var upperIsExcluded: Bool

  init(lower: [UInt8], upper: [UInt8]?, upperIsExcluded: Bool = false) {
    self.lower = lower
    self.upper = upper
    self.upperIsExcluded = upperIsExcluded
  }

  /// The range of every key.
  static let all = UserKeyRange(lower: [], upper: nil)

  /// Creates the range that one table covers.
  init(_ table: TableMetadata) {
    self.init(lower: table.smallestKey, upper: table.largestKey, upperIsExcluded: table.largestIsExcluded)
  }

  /// Creates the smallest range around `tables`, or returns nil if there are none.
  init?(around tables: some Sequence<TableMetadata>) {
    var hull: UserKeyRange?
    for table in tables {
      if hull == nil { hull = UserKeyRange(table) } else { hull?.extend(by: table) }
    }
    guard let hull else { return nil }
    self = hull
  }

  /// Extends the range so that it covers `table`.
  mutating func extend(by table: TableMetadata) {
    if KeyBytes.compare(table.smallest, lower) < 0 { lower = table.smallestKey }
    guard let upper else { return }
    let order = KeyBytes.compare(table.largest, upper)
    if order > 0 || (order == 0 && upperIsExcluded) {
      self.upper = table.largestKey
      upperIsExcluded = table.largestIsExcluded
    }
  }

  /// Extends the range so that it covers `other`.
  mutating func extend(by other: UserKeyRange) {
    if KeyBytes.compare(other.lower, lower) < 0 { lower = other.lower }
    guard let upper else { return }
    guard let otherUpper = other.upper else {
      self.upper = nil
      return
    }
    let order = KeyBytes.compare(otherUpper, upper)
    if order > 0 || (order == 0 && upperIsExcluded) {
      self.upper = otherUpper
      upperIsExcluded = other.upperIsExcluded
    }
  }

  /// Returns whether every key of the range is before every key of `table`.
  func endsBefore(_ table: TableMetadata) -> Bool {
    guard let upper else { return false }
    let order = KeyBytes.compare(table.smallest, upper)
    return order > 0 || (order == 0 && upperIsExcluded)
  }

  func overlaps(_ table: TableMetadata) -> Bool {
    !endsBefore(table) && !lower.withByteView { table.endsBefore($0) }
  }

  func overlaps(_ other: UserKeyRange) -> Bool { !endsBefore(other) && !other.endsBefore(self) }

  private func endsBefore(_ other: UserKeyRange) -> Bool {
    guard let upper else { return false }
    let order = KeyBytes.compare(other.lower, upper)
    return order > 0 || (order == 0 && upperIsExcluded)
  }

  /// Returns whether `table` is completely inside.
  func contains(_ table: TableMetadata) -> Bool {
    guard KeyBytes.compare(table.smallest, lower) >= 0 else { return false }
    guard let upper else { return true }
    let order = KeyBytes.compare(table.largest, upper)
    return order < 0 || (order == 0 && (!upperIsExcluded || table.largestIsExcluded))
  }
}

/// Comparisons of keys stored as arrays with keys that are views.
enum KeyBytes {
  static func compare(_ left: [UInt8], _ right: [UInt8]) -> Int {
    left.withByteView { view in right.withByteView { view.compare($0) } }
  }

  static func compare(_ left: ByteView, _ right: [UInt8]) -> Int { right.withByteView { left.compare($0) } }
}
