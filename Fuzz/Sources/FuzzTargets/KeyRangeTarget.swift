@testable import VarveEngine

/// The target for ranges of keys.
///
/// The input is: flags (1), then up to six keys, each a size (1, of which five bits count) and its bytes. Missing keys
/// are empty.
///
/// Ranges are compared with the set of keys that they contain, of a small set of keys.
enum KeyRangeTarget {
  static func read(_ input: ByteView) throws {
    var reader = ByteReader(input)
    let flags = try reader.integer(UInt8.self)
    var keys: [[UInt8]] = []
    while keys.count < 6 {
      let size = reader.isAtEnd ? 0 : Int(try reader.integer(UInt8.self) & 31)
      keys.append(try reader.bytes(min(size, reader.remaining)).bytes)
    }
    // The candidates are each key and its successor.
    let candidates = keys + keys.map { $0 + [0] }
    try checkPrefix(keys[0], candidates + keys.map { keys[0] + $0 })
    let left = range(keys[0], keys[1], flags & 1 != 0, flags & 2 != 0)
    let right = range(keys[2], keys[3], flags & 4 != 0, false)
    try checkOverlap(left, right, candidates)
    try checkTable(left, keys[4], keys[5], isExcluded: flags & 8 != 0, candidates)
  }

  private static func range(_ a: [UInt8], _ b: [UInt8], _ isExcluded: Bool, _ isOpen: Bool) -> UserKeyRange {
    let isOrdered = !b.lexicographicallyPrecedes(a)
    let (lower, upper) = isOrdered ? (a, b) : (b, a)
    if isOpen { return UserKeyRange(lower: lower, upper: nil) }
    return UserKeyRange(lower: lower, upper: upper, upperIsExcluded: isExcluded && lower != upper)
  }

  private static func holds(_ range: UserKeyRange, _ key: [UInt8]) -> Bool {
    if key.lexicographicallyPrecedes(range.lower) { return false }
    guard let upper = range.upper else { return true }
    return key.lexicographicallyPrecedes(upper) || (key == upper && !range.upperIsExcluded)
  }

  private static func checkPrefix(_ prefix: [UInt8], _ keys: [[UInt8]]) throws {
    let bounds = CursorBounds.prefix(prefix)
    for key in keys {
      let isBelow = bounds.lower.map { key.lexicographicallyPrecedes($0) } ?? false
      let isAbove = bounds.upper.map { !key.lexicographicallyPrecedes($0) } ?? false
      try require(
        (!isBelow && !isAbove) == key.starts(with: prefix), "the bounds \(bounds) of \(prefix) are wrong for \(key)")
    }
  }

  private static func checkOverlap(_ left: UserKeyRange, _ right: UserKeyRange, _ keys: [[UInt8]]) throws {
    // If two ranges share a key, they share the larger of their lower ends.
    let shared = keys.contains { holds(left, $0) && holds(right, $0) }
    try require(left.overlaps(right) == shared, "\(left) overlaps \(right): \(!shared)")
    try require(right.overlaps(left) == shared, "\(right) overlaps \(left): \(!shared)")
    var hull = left
    hull.extend(by: right)
    for key in keys where holds(left, key) || holds(right, key) {
      try require(holds(hull, key), "\(hull) around \(left) and \(right) leaves out \(key)")
    }
  }

  private static func checkTable(
    _ other: UserKeyRange, _ a: [UInt8], _ b: [UInt8], isExcluded: Bool, _ keys: [[UInt8]]
  ) throws {
    let isExcluded = isExcluded && a != b
    let (smallest, largest) = b.lexicographicallyPrecedes(a) ? (b, a) : (a, b)
    let put = Trailer(SequenceNumber(1), .put)
    let table = smallest.withByteView { smallest in
      largest.withByteView { largest in
        TableMetadata(
          number: FileNumber(1), fileSize: 1, tableID: 1, smallestKey: smallest, smallestTrailer: put,
          largestKey: largest, largestTrailer: isExcluded ? TableMetadata.excludedTrailer : put,
          smallestSequence: SequenceNumber(1), largestSequence: SequenceNumber(1), entryCount: 1, rawSize: 1)
      }
    }
    let range = UserKeyRange(table)
    for key in keys {
      let covers = key.withByteView { table.covers($0) }
      try require(covers == holds(range, key), "table \(ManifestDump.table(table)) covers \(key): \(covers)")
    }
    let shared = keys.contains { holds(range, $0) && holds(other, $0) }
    try require(other.overlaps(table) == shared, "\(other) overlaps \(ManifestDump.table(table)): \(!shared)")
    try require(!(other.endsBefore(table) && shared), "\(other) ends before \(ManifestDump.table(table))")
    var hull = other
    hull.extend(by: table)
    for key in keys where holds(other, key) || holds(range, key) {
      try require(holds(hull, key), "\(hull) around \(other) and \(range) leaves out \(key)")
    }
  }
}
