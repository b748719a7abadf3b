/// Entries of a counted index that are exactly the rows of a query.
struct CountedAccess: Sendable {
  /// The position of the index among those of the format.
  let slot: Int
  /// The ranges of the entries, in order and without overlaps.
  let ranges: [StorageRange]
  /// Whether the entries are in the order of the query when they are read from the end.
  var isReverse = false
}

/// Entries of a counted index that are exactly the rows of a query, and that a field divides into sections.
struct SectionAccess: Sendable {
  /// The position of the index among those of the format.
  let slot: Int
  /// The bytes that all entries begin with, before the value of the section.
  let fixed: [UInt8]
  /// The ranges of the entries, in order and without overlaps. Each has whole sections.
  let ranges: [StorageRange]
  /// Whether the index has the values of sections in descending order.
  let isDescending: Bool
  /// Whether the entries of a section are in the order of the query when they are read from the end.
  let isReverse: Bool

  /// Returns the entries of the section whose value has these bytes in the index, which may be none.
  func section(_ value: some Collection<UInt8>) -> StorageRange {
    let lower = fixed + value
    return StorageRange(lower: lower, upper: KeyRange.end(ofParts: lower))
  }
}

extension StorageRange {
  /// Returns whether a key is in the range.
  func holds(_ key: [UInt8]) -> Bool {
    !ByteOrder.precedes(key, lower) && (upper.map { ByteOrder.precedes(key, $0) } ?? true)
  }

  /// Whether the range has exactly the keys that begin with one value.
  var isPoint: Bool { KeySet.Range(lower: lower, upper: upper).isPoint }

  /// The range of its keys that come after one of them.
  func following(_ key: [UInt8]) -> StorageRange { StorageRange(lower: key + [0], upper: upper) }
}

extension Range<Int> {
  /// The numbers of the range that are from 0 to `maximum` - 1.
  func clamped(to maximum: Int?) -> Range<Int> {
    let lower = Swift.max(lowerBound, 0)
    return lower..<Swift.max(lower, Swift.min(upperBound, maximum ?? .max))
  }
}
