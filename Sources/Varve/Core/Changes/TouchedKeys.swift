/// A set of keys and ranges of one family, or all of the family if there are too many.
struct TouchedKeys: Sendable {
  private(set) var keys: Set<[UInt8]> = []
  private(set) var ranges: [StorageRange] = []
  /// Whether all of the family counts, because there were too many keys and ranges.
  private(set) var isAll = false

  /// The maximum number of keys and ranges. With more, all of the family counts.
  static var countMaximum: Int { 1_000 }

  var isEmpty: Bool { !isAll && keys.isEmpty && ranges.isEmpty }

  /// The approximate memory in bytes of the keys and ranges.
  var byteCount: Int {
    keys.reduce(0) { $0 + 32 + $1.count } + ranges.reduce(0) { $0 + 64 + $1.lower.count + ($1.upper?.count ?? 0) }
  }

  mutating func add(_ key: [UInt8]) {
    if isAll { return }
    keys.insert(key)
    bound()
  }

  mutating func add(_ range: StorageRange) {
    if isAll || range.isEmpty { return }
    ranges.append(range)
    bound()
  }

  mutating func merge(_ other: TouchedKeys) {
    isAll = isAll || other.isAll
    keys.formUnion(other.keys)
    ranges += other.ranges
    bound()
  }

  private mutating func bound() {
    guard isAll || keys.count + ranges.count > Self.countMaximum else { return }
    isAll = true
    keys = []
    ranges = []
  }

  /// Returns whether the set contains a key. Complexity: O(n) of the ranges.
  func contains(_ key: [UInt8]) -> Bool {
    isAll || keys.contains(key)
      || ranges.contains { range in
        !ByteOrder.precedes(key, range.lower) && range.upper.map { ByteOrder.precedes(key, $0) } ?? true
      }
  }

  /// Returns whether the sets have a key in common. Complexity: O(n · m) of the ranges, and O(n) of the keys.
  func intersects(_ other: TouchedKeys) -> Bool {
    if isEmpty || other.isEmpty { return false }
    if isAll || other.isAll { return true }
    if other.keys.contains(where: contains) || keys.contains(where: other.contains) { return true }
    return ranges.contains { one in other.ranges.contains { one.overlaps($0) } }
  }
}

extension StorageRange {
  /// Returns whether two ranges that are not empty can have a key in common.
  fileprivate func overlaps(_ other: StorageRange) -> Bool {
    (upper.map { ByteOrder.precedes(other.lower, $0) } ?? true)
      && (other.upper.map { ByteOrder.precedes(lower, $0) } ?? true)
  }
}
